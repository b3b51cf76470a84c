from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping

import numpy as np
import pytest

import actorlib
from actorlib._options import (
    ActorKeywords,
    ActorOptions,
    RestartPolicy,
    RuntimeKeywords,
    RuntimeOptions,
    checked,
)

Options = ActorOptions | RuntimeOptions
Check = Callable[[Mapping[str, object]], Options]


def actor(given: Mapping[str, object]) -> ActorOptions:
    return checked(ActorOptions, "an actor", given)


def runtime(given: Mapping[str, object]) -> RuntimeOptions:
    return checked(RuntimeOptions, "init()", given)


def keywords_of(kind: type[Options]) -> set[str]:
    return {option.name for option in dataclasses.fields(kind) if option.init}


TIMES = ("max_restarts", "max_task_retries")
NUMBERS = ("num_cpus", "num_gpus", "memory")

WRONG_TYPES: list[tuple[Check, str, object]] = [
    *((check, name, "1") for check in (actor, runtime) for name in NUMBERS),
    *((check, name, True) for check in (actor, runtime) for name in NUMBERS),
    (actor, "resources", ["lane"]),
    (actor, "resources", {1: 1}),
    (actor, "resources", {"lane": "1"}),
    (actor, "accelerators", True),
    (actor, "accelerators", 0),
    *((actor, name, value) for name in TIMES for value in (None, True, 1.0, "1")),
    (actor, "restart_window", "1"),
    (actor, "restart_window", False),
    (actor, "restart_backoff", None),
    (actor, "restart_backoff", "1"),
    (actor, "retry_exceptions", None),
    (actor, "retry_exceptions", 1),
    (actor, "retry_exceptions", "KeyError"),
    (actor, "retry_exceptions", KeyError),
    (actor, "retry_exceptions", ["KeyError"]),
    (actor, "retry_exceptions", [KeyError, int]),
    (actor, "retry_exceptions", [KeyboardInterrupt]),
    (runtime, "resources", "lane"),
    (runtime, "preload", "torch"),
    (runtime, "preload", 1),
    (runtime, "preload", None),
    (runtime, "preload", {"torch"}),
    (runtime, "preload", ["torch", 1]),
    (runtime, "start_method", 1),
    (runtime, "log_to_driver", 1),
    (runtime, "log_to_driver", None),
    (runtime, "log_to_driver", "yes"),
    (runtime, "grace", "1"),
    (runtime, "grace", None),
    (runtime, "grace", True),
    (runtime, "infeasible", None),
    (runtime, "infeasible", False),
]

WRONG_VALUES: list[tuple[Check, str, object]] = [
    *((check, name, -1) for check in (actor, runtime) for name in NUMBERS),
    *((check, name, math.nan) for check in (actor, runtime) for name in NUMBERS),
    *((check, name, math.inf) for check in (actor, runtime) for name in NUMBERS),
    (actor, "num_gpus", 1.5),
    (actor, "resources", {"lane": -1}),
    (actor, "resources", {"CPU": 1}),
    (actor, "resources", {"GPU": 1}),
    (actor, "resources", {"memory": 1}),
    (actor, "accelerators", "show"),
    (actor, "accelerators", ""),
    *((actor, name, -2) for name in TIMES),
    *((actor, "restart_window", value) for value in (-1, math.nan, math.inf)),
    *((actor, "restart_backoff", value) for value in (-1, math.nan, math.inf)),
    (runtime, "num_cpus", 0.5),
    (runtime, "num_gpus", 0.5),
    (runtime, "resources", {"lane": 0.5}),
    (runtime, "resources", {"lane": -1}),
    (runtime, "resources", {"GPU": 1}),
    (runtime, "preload", ["a-b"]),
    (runtime, "preload", [""]),
    (runtime, "preload", ["a..b"]),
    (runtime, "start_method", "fork"),
    (runtime, "grace", -1),
    (runtime, "grace", math.nan),
    (runtime, "grace", math.inf),
    (runtime, "infeasible", "hang"),
]

GOOD: list[tuple[Check, str, object]] = [
    *((check, name, None) for check in (actor, runtime) for name in NUMBERS),
    *((check, name, 0) for check in (actor, runtime) for name in NUMBERS),
    (actor, "num_cpus", 0.5),
    (actor, "num_gpus", np.float32(0.5)),
    (actor, "resources", None),
    (actor, "resources", {}),
    (actor, "accelerators", None),
    (actor, "accelerators", "hide"),
    (actor, "accelerators", "inherit"),
    *((actor, name, value) for name in TIMES for value in (-1, 0, 5, np.int64(3))),
    (actor, "restart_window", None),
    (actor, "restart_window", 60),
    (actor, "restart_backoff", 0),
    (actor, "restart_backoff", 2.5),
    (actor, "retry_exceptions", True),
    (actor, "retry_exceptions", False),
    (actor, "retry_exceptions", (KeyError, OSError)),
    (runtime, "resources", {"lane": 3}),
    (runtime, "preload", ()),
    (runtime, "start_method", None),
    (runtime, "start_method", "template"),
    (runtime, "start_method", "spawn"),
    (runtime, "log_to_driver", False),
    (runtime, "grace", 0),
    (runtime, "grace", 2.5),
    (runtime, "infeasible", "wait"),
]


def told(case: object) -> str | None:
    return case.__name__ if callable(case) else None


# The two ways of writing them down.


@pytest.mark.parametrize(
    ("keywords", "kind"),
    [(ActorKeywords, ActorOptions), (RuntimeKeywords, RuntimeOptions)],
    ids=["actor", "runtime"],
)
def test_keywords_when_compared_with_the_options_then_names_and_types_are_equal(
    keywords: type, kind: type[Options]
) -> None:
    hints = typing.get_type_hints(kind)
    options = {name: hints[name] for name in keywords_of(kind)}

    assert typing.get_type_hints(keywords) == options


@pytest.mark.parametrize("kind", [ActorOptions, RuntimeOptions])
def test_options_when_documented_then_every_one_is_in_the_docstring(
    kind: type[Options],
) -> None:
    text = kind.__doc__ or ""

    undocumented = [
        option.name
        for option in dataclasses.fields(kind)
        if f"    {option.name}:" not in text
    ]

    assert undocumented == []


# What is taken and what is refused.


@pytest.mark.parametrize(("check", "name", "value"), GOOD, ids=told)
def test_options_when_a_value_is_good_then_it_is_kept(
    check: Check, name: str, value: object
) -> None:
    assert getattr(check({name: value}), name) == value


@pytest.mark.parametrize(("check", "name", "value"), WRONG_TYPES, ids=told)
def test_options_when_a_value_has_the_wrong_type_then_type_error_names_the_option(
    check: Check, name: str, value: object
) -> None:
    with pytest.raises(TypeError, match=name):
        check({name: value})


@pytest.mark.parametrize(("check", "name", "value"), WRONG_VALUES, ids=told)
def test_options_when_a_value_is_wrong_then_value_error_names_the_option(
    check: Check, name: str, value: object
) -> None:
    named = "of GPU" if (name, value) == ("num_gpus", 1.5) else f"{name}|init"

    with pytest.raises(ValueError, match=named):
        check({name: value})


@pytest.mark.parametrize(
    ("check", "wrong", "meant"),
    [
        (actor, "num_gpu", "num_gpus"),
        (actor, "cpus", "num_cpus"),
        (actor, "resource", "resources"),
        (actor, "accelerator", "accelerators"),
        (runtime, "num_cpu", "num_cpus"),
        (runtime, "preloads", "preload"),
        (runtime, "start_methods", "start_method"),
        (runtime, "log_to_drivers", "log_to_driver"),
    ],
    ids=told,
)
def test_options_when_a_name_is_misspelt_then_value_error_offers_the_right_one(
    check: Check, wrong: str, meant: str
) -> None:
    with pytest.raises(ValueError, match=f"Did you mean {meant}="):
        check({wrong: 1})


@pytest.mark.parametrize("check", [actor, runtime])
@pytest.mark.parametrize(
    "name", ["num_returns", "max_retries", "request", "capacity", "zzz"]
)
def test_options_when_a_name_is_unknown_then_value_error_lists_the_known_ones(
    check: Check, name: str
) -> None:
    kind = ActorOptions if check is actor else RuntimeOptions

    with pytest.raises(ValueError, match=rf"{name}=1 is no option") as caught:
        check({name: 1})

    assert all(known in str(caught.value) for known in keywords_of(kind))


def test_options_when_a_name_is_nowhere_near_then_nothing_is_offered() -> None:
    with pytest.raises(ValueError, match="is no option") as caught:
        actor({"zzz": 1})

    assert "Did you mean" not in str(caught.value)


# What they come to.


def test_actor_options_when_made_then_the_request_is_exact() -> None:
    options = ActorOptions(num_cpus=1, num_gpus=0.5, memory=7, resources={"lane": 2})

    assert options.request.amounts == {
        "CPU": 10_000,
        "GPU": 5_000,
        "memory": 7,
        "lane": 20_000,
    }


def test_actor_options_when_made_then_the_restart_policy_is_what_was_written() -> None:
    options = ActorOptions(max_restarts=3, restart_window=60, restart_backoff=2)

    assert options.restart_policy == RestartPolicy(max_restarts=3, window=60, backoff=2)
    assert ActorOptions().restart_policy == RestartPolicy()


def test_actor_options_when_exceptions_are_a_list_then_it_is_frozen() -> None:
    listed: list[type[Exception]] = [KeyError]
    options = ActorOptions(retry_exceptions=listed)

    listed.append(OSError)

    assert options.retried == (KeyError,)
    assert options.updated({"max_restarts": 1}).retried == (KeyError,)


def test_runtime_options_when_made_then_the_capacity_is_what_was_declared() -> None:
    options = RuntimeOptions(num_cpus=2, resources={"lane": 3})

    assert options.capacity.amounts == {"CPU": 20_000, "lane": 30_000}


def test_runtime_options_when_preload_is_a_list_then_it_is_frozen() -> None:
    modules = ["json", "email.mime"]
    options = RuntimeOptions(preload=modules)

    modules.append("torch")

    assert options.preload == ("json", "email.mime")


@pytest.mark.parametrize("options", [ActorOptions(), RuntimeOptions()])
def test_options_when_written_to_then_they_refuse(options: Options) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.num_cpus = 1  # type: ignore[misc]


# Some of them replaced.


def test_updated_when_some_are_given_then_the_others_stay() -> None:
    options = ActorOptions(num_cpus=1, num_gpus=0.5, accelerators="inherit")

    updated = options.updated({"num_cpus": 2})

    assert updated == ActorOptions(num_cpus=2, num_gpus=0.5, accelerators="inherit")


def test_updated_when_an_amount_changes_then_so_does_the_request() -> None:
    assert ActorOptions(num_gpus=1).updated({"num_gpus": 0.5}).request.amounts == {
        "GPU": 5_000
    }


def test_updated_when_none_is_given_then_the_option_is_as_if_never_given() -> None:
    assert ActorOptions(num_gpus=1).updated({"num_gpus": None}) == ActorOptions()


def test_updated_when_nothing_is_given_then_equal() -> None:
    options = ActorOptions(num_gpus=1, resources={"lane": 1})

    assert options.updated({}) == options


def test_updated_when_a_name_is_unknown_then_value_error() -> None:
    with pytest.raises(ValueError, match="Did you mean num_gpus="):
        ActorOptions().updated({"num_gpu": 1})


def test_updated_when_a_value_is_wrong_then_the_first_options_are_as_before() -> None:
    options = ActorOptions(num_gpus=1)

    with pytest.raises(ValueError, match="num_gpus"):
        options.updated({"num_gpus": -1})

    assert options == ActorOptions(num_gpus=1)


def test_updated_when_the_given_dict_has_changed_then_the_amounts_have_not() -> None:
    resources = {"lane": 1.0}
    options = ActorOptions(resources=resources)
    resources["lane"] = 5

    assert options.updated({"num_cpus": 1}).request.amounts == {
        "CPU": 10_000,
        "lane": 10_000,
    }


# Where users write them.


@pytest.mark.parametrize(("check", "name", "value"), WRONG_TYPES, ids=told)
def test_options_when_written_with_the_wrong_type_then_refused_at_once(
    check: Check, name: str, value: object
) -> None:
    write: Callable[..., object] = actorlib.remote if check is actor else actorlib.init

    with pytest.raises(TypeError):
        write(**{name: value})


@pytest.mark.parametrize(("check", "name", "value"), WRONG_VALUES, ids=told)
def test_options_when_written_with_a_wrong_value_then_refused_at_once(
    check: Check, name: str, value: object
) -> None:
    write: Callable[..., object] = actorlib.remote if check is actor else actorlib.init

    with pytest.raises(ValueError, match=r"."):
        write(**{name: value})
