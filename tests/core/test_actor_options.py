from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import actorlib
from actorlib._options.actor_options import ActorKeywords, ActorOptions
from actorlib._options.call_options import CallKeywords, CallOptions
from actorlib._options.function_options import FunctionOptions
from actorlib._options.runtime_options import RuntimeKeywords, RuntimeOptions
from actorlib.exceptions import UnknownOptionError

Options = ActorOptions | CallOptions | RuntimeOptions
Check = Callable[[Mapping[str, object]], Options]


def actor(given: Mapping[str, object]) -> ActorOptions:
    return ActorOptions.of(given)


def runtime(given: Mapping[str, object]) -> RuntimeOptions:
    return RuntimeOptions.of(given)


def call(given: Mapping[str, object]) -> CallOptions:
    return CallOptions.of(given)


def keywords_of(kind: type[Options]) -> set[str]:
    return {option.name for option in dataclasses.fields(kind) if option.init}


async def _async_function(_: object) -> None:
    """Nothing that can be called back."""


WRITTEN: dict[Check, Callable[..., object]] = {
    actor: actorlib.remote,
    call: actorlib.method,
    runtime: actorlib.init,
}
WRONG_SECONDS = (-1, math.nan, math.inf, 10**400)
TIMES = ("max_restarts", "max_task_retries")
NUMBERS = ("num_cpus", "num_gpus", "memory")
ACTORS = ("near", "apart_from")
WHOLE = ("neuron_cores", "HPU", "RBLN", "FURIOSA", "MBLT", "TTNPU")

WRONG_TYPES: list[tuple[Check, str, object]] = [
    *((check, name, "1") for check in (actor, runtime) for name in NUMBERS[:2]),
    *((check, "memory", b"1GB") for check in (actor, runtime)),
    *((check, name, True) for check in (actor, runtime) for name in NUMBERS),
    (actor, "torch", 1),
    (actor, "torch", ""),
    (actor, "gpu_memory", b"1GB"),
    (actor, "gpu_memory", True),
    (actor, "gpu_memory", {"GPU": 1}),
    (runtime, "device_memory", "24GiB"),
    (runtime, "device_memory", {0: "24GiB"}),
    (runtime, "device_memory", {"GPU": None}),
    (actor, "resources", ["lane"]),
    (actor, "resources", {1: 1}),
    (actor, "resources", {"lane": "1"}),
    (actor, "accelerators", True),
    (actor, "accelerators", 0),
    (actor, "accelerator_type", 100),
    (actor, "accelerator_type", ["H100"]),
    (actor, "accelerator_type", b"H100"),
    (actor, "placement", True),
    (actor, "placement", ["spread"]),
    (actor, "device", 0.5),
    (actor, "device", [b"0"]),
    (actor, "device", ["0", None]),
    (actor, "device", b"0"),
    (actor, "device", {"0"}),
    *((actor, name, "Actor(A, 01)") for name in ACTORS),
    *((actor, name, 1) for name in ACTORS),
    *((actor, name, ["A"]) for name in ACTORS),
    *((actor, name, object) for name in ACTORS),
    (actor, "max_concurrency", "2"),
    (actor, "max_concurrency", 2.0),
    (actor, "max_concurrency", True),
    (actor, "concurrency_groups", ["io"]),
    (actor, "concurrency_groups", {1: 2}),
    (actor, "concurrency_groups", {"io": "2"}),
    (actor, "concurrency_groups", {"io": True}),
    (actor, "max_pending_calls", "10"),
    (actor, "max_pending_calls", True),
    (actor, "allow_out_of_order_execution", 1),
    (actor, "allow_out_of_order_execution", "yes"),
    (call, "concurrency_group", 1),
    *((actor, name, 1) for name in ("name", "namespace", "lifetime")),
    (actor, "name", b"a"),
    (actor, "get_if_exists", 1),
    (actor, "get_if_exists", None),
    (actor, "runtime_env", "A=1"),
    (runtime, "namespace", None),
    (runtime, "namespace", 1),
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
    (runtime, "preload", {"torch"}),
    (runtime, "preload", ["torch", 1]),
    (runtime, "start_method", 1),
    (runtime, "log_to_driver", 1),
    (runtime, "log_to_driver", None),
    (runtime, "log_to_driver", "yes"),
    (runtime, "grace", "1"),
    (runtime, "grace", None),
    (runtime, "grace", True),
    (runtime, "actor_history", None),
    (runtime, "control", 0),
    (runtime, "control", None),
    (runtime, "actor_history", True),
    (runtime, "infeasible", None),
    (runtime, "infeasible", False),
    (runtime, "mask_form", 1),
    (runtime, "device_memory_overuse", None),
    (runtime, "device_memory_overuse", 1),
    (runtime, "device_memory_overuse", _async_function),
    (actor, "device_memory_overuse", 1),
    (actor, "device_memory_overuse", _async_function),
    *((actor, "mps_thread_percentage", value) for value in (0.5, "50", True)),
    (runtime, "mask_form", False),
]

WRONG_VALUES: list[tuple[Check, str, object]] = [
    *((check, name, -1) for check in (actor, runtime) for name in NUMBERS),
    *((check, "memory", "1") for check in (actor, runtime)),
    (runtime, "object_store_memory", "ten"),
    *((actor, "gpu_memory", value) for value in (0, 0.5, -1, math.nan, math.inf)),
    *((actor, "gpu_memory", words) for words in ("10GB ", "ten", "10", "0GiB", "")),
    (actor, "resources", {"gpu_memory": 1}),
    (runtime, "resources", {"gpu_memory": 1}),
    (runtime, "device_memory", {"GPU": 0}),
    (runtime, "device_memory", {"GPU": "24 gigs"}),
    (runtime, "device_memory", {"memory": "24GiB"}),
    (runtime, "device_memory", {"CPU": "24GiB"}),
    *((check, name, math.nan) for check in (actor, runtime) for name in NUMBERS),
    *((check, name, math.inf) for check in (actor, runtime) for name in NUMBERS),
    (actor, "num_gpus", 1.5),
    (actor, "resources", {"lane": -1}),
    (actor, "resources", {"CPU": 1}),
    (actor, "resources", {"GPU": 1}),
    (actor, "resources", {"memory": 1}),
    (actor, "accelerators", "show"),
    (actor, "accelerators", ""),
    (actor, "accelerator_type", ""),
    (actor, "accelerator_type", "  "),
    (actor, "placement", "PACK"),
    (actor, "placement", "strict_spread"),
    (actor, "placement", ""),
    (actor, "device", ""),
    (actor, "device", ["0", ""]),
    (actor, "device", ["0", "0"]),
    (actor, "device", "0"),  # of which it asks none
    *((actor, "resources", {kind: 0.5}) for kind in WHOLE),
    *((actor, "resources", {"TPU": count}) for count in (0.5, 2.5, 3, 5, 16)),
    (actor, "resources", {"NPU": 1.5}),
    (actor, "max_concurrency", -1),
    (actor, "concurrency_groups", {"io": 0}),
    (actor, "concurrency_groups", {"": 1}),
    (actor, "max_pending_calls", -2),
    (call, "concurrency_group", " "),
    *((actor, name, "") for name in ("name", "namespace", "lifetime")),
    (actor, "name", " "),
    (actor, "lifetime", "forever"),
    (actor, "get_if_exists", True),
    (actor, "runtime_env", {"pip": []}),
    (runtime, "namespace", ""),
    *((actor, name, -2) for name in TIMES),
    *((actor, "restart_window", value) for value in WRONG_SECONDS),
    *((actor, "restart_backoff", value) for value in WRONG_SECONDS),
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
    (runtime, "actor_history", -1),
    (runtime, "infeasible", "hang"),
    (runtime, "mask_form", "UUID"),
    (runtime, "device_memory_overuse", "end"),
    (actor, "device_memory_overuse", "end"),
    *((actor, "mps_thread_percentage", value) for value in (0, -1, 101, 50)),
    (runtime, "mask_form", "pci"),
    (runtime, "mask_form", ""),
]

GOOD: list[tuple[Check, str, object]] = [
    *((check, name, None) for check in (actor, runtime) for name in NUMBERS),
    *((check, name, 0) for check in (actor, runtime) for name in NUMBERS),
    *((check, "memory", "2GiB") for check in (actor, runtime)),
    (runtime, "object_store_memory", "2GiB"),
    *((actor, "gpu_memory", value) for value in (None, 1, 1e9, "500MB", "10 GiB")),
    (runtime, "device_memory", None),
    (runtime, "device_memory", {}),
    (runtime, "device_memory", {"GPU": "24GiB", "TPU": 16 * 2**30}),
    (actor, "num_cpus", 0.5),
    (actor, "num_gpus", np.float32(0.5)),
    (actor, "resources", None),
    (actor, "resources", {}),
    *((actor, name, None) for name in ("name", "namespace", "lifetime")),
    (actor, "name", "a b/c"),
    (actor, "lifetime", "detached"),
    (actor, "lifetime", "non_detached"),
    (actor, "get_if_exists", False),
    (actor, "runtime_env", {"env_vars": {"A": ""}, "working_dir": "."}),
    (runtime, "namespace", "mine"),
    (actor, "accelerators", None),
    (actor, "accelerators", "hide"),
    (actor, "accelerators", "inherit"),
    (actor, "accelerator_type", None),
    (actor, "accelerator_type", "H100"),
    (actor, "placement", None),
    (actor, "placement", "pack"),
    (actor, "placement", "spread"),
    *((actor, "resources", {kind: 2}) for kind in WHOLE),
    *((actor, "resources", {"TPU": count}) for count in (0, 1, 2, 4, 8)),
    (actor, "resources", {"NPU": 0.5}),
    *((actor, name, value) for name in TIMES for value in (-1, 0, 5, np.int64(3))),
    (actor, "restart_window", None),
    (actor, "restart_window", 60),
    (actor, "restart_backoff", 0),
    (actor, "restart_backoff", 2.5),
    (actor, "retry_exceptions", True),
    (actor, "retry_exceptions", False),
    (actor, "retry_exceptions", (KeyError, OSError)),
    (runtime, "resources", {"lane": 3}),
    (runtime, "preload", None),
    (runtime, "preload", ()),
    (runtime, "start_method", None),
    (runtime, "start_method", "template"),
    (runtime, "start_method", "spawn"),
    (runtime, "log_to_driver", False),
    (runtime, "grace", 0),
    (runtime, "grace", 2.5),
    (runtime, "actor_history", 0),
    (runtime, "control", False),
    (runtime, "infeasible", "wait"),
    (runtime, "mask_form", None),
    (runtime, "device_memory_overuse", "kill"),
    (runtime, "device_memory_overuse", print),
    (actor, "device_memory_overuse", "warn"),
    (actor, "device_memory_overuse", print),
    (runtime, "mask_form", "index"),
    (runtime, "mask_form", "uuid"),
    (runtime, "resources", {"TPU": 3}),
]


def told(case: object) -> str | None:
    return case.__name__ if callable(case) else None


# The two ways of writing them down.


@pytest.mark.parametrize(
    ("keywords", "kind"),
    [
        (ActorKeywords, ActorOptions),
        (CallKeywords, CallOptions),
        (RuntimeKeywords, RuntimeOptions),
    ],
    ids=["actor", "call", "runtime"],
)
def test_keywords_when_compared_with_the_options_then_names_and_types_are_equal(
    keywords: type, kind: type[Options]
) -> None:
    hints = typing.get_type_hints(kind)
    options = {name: hints[name] for name in keywords_of(kind)}

    assert typing.get_type_hints(keywords) == options


@pytest.mark.parametrize("kind", [ActorOptions, CallOptions, RuntimeOptions])
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
    asked = [*value] if isinstance(value, dict) else ["GPU"]
    named = rf"{name}|init|of {asked[0]} can never be granted"

    with pytest.raises(ValueError, match=named):
        check({name: value})


@pytest.mark.parametrize(
    ("check", "wrong", "meant"),
    [
        (actor, "num_gpu", "num_gpus"),
        (actor, "cpus", "num_cpus"),
        (actor, "resource", "resources"),
        (actor, "accelerator", "accelerators"),
        (actor, "accelerators_type", "accelerator_type"),
        (actor, "devices", "device"),
        (actor, "apart", "apart_from"),
        (actor, "placment", "placement"),
        (runtime, "num_cpu", "num_cpus"),
        (runtime, "preloads", "preload"),
        (runtime, "mask_from", "mask_form"),
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
def test_options_when_a_name_is_unknown_then_it_says_where_all_are_described(
    check: Check, name: str
) -> None:
    kind = ActorOptions if check is actor else RuntimeOptions

    with pytest.raises(UnknownOptionError, match=rf"{name}=1 is not an option") as seen:
        check({name: 1})

    assert f"help(actorlib.{kind.__name__})" in str(seen.value)


def test_options_when_a_name_is_nowhere_near_then_nothing_is_offered() -> None:
    with pytest.raises(UnknownOptionError, match="is not an option") as caught:
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


# Wishes for devices.


@pytest.mark.parametrize(
    ("device", "kept"),
    [("1", ("1",)), (["1"], ("1",)), (("1",), ("1",)), (None, ()), ([], ())],
    ids=repr,
)
def test_device_when_given_in_any_way_then_it_is_a_tuple(
    device: object, kept: tuple[str, ...]
) -> None:
    assert actor({"num_gpus": 0.5, "device": device}).devices == kept


@pytest.mark.parametrize(
    ("asked", "devices"),
    [
        ({"num_gpus": 1}, ["0", "1"]),
        ({"num_gpus": 0.5}, ["0", "1"]),
        ({"num_gpus": 2}, "0"),
        ({"num_gpus": 3}, ["0", "1"]),
        ({"resources": {"TPU": 2}}, ["0"]),
        ({"num_gpus": 1, "resources": {"TPU": 1}}, ["0"]),
    ],
    ids=repr,
)
def test_device_when_there_are_not_as_many_as_asked_then_value_error_says_how_many(
    asked: dict[str, object], devices: object
) -> None:
    with pytest.raises(ValueError, match=r"device names \d device.*name as many"):
        actor({**asked, "device": devices})


@pytest.mark.parametrize(
    "asked", [{}, {"num_cpus": 2}, {"num_gpus": 0}, {"memory": 7}], ids=repr
)
@pytest.mark.parametrize(
    "wish", [{"device": "0"}, {"near": (b"1",)}, {"apart_from": (b"1",)}], ids=repr
)
def test_wish_when_no_device_is_asked_then_value_error_names_it(
    asked: dict[str, object], wish: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(wish))} is about devices"):
        actor({**asked, **wish})


def test_wishes_when_near_and_apart_name_one_actor_then_value_error() -> None:
    wishes = {"num_gpus": 1, "near": (b"1",), "apart_from": (b"2", b"1")}

    with pytest.raises(ValueError, match="near and apart_from"):
        actor(wishes)


@pytest.mark.parametrize(
    ("wish", "has"),
    [
        ({}, False),
        ({"placement": "pack"}, False),
        ({"accelerators": "inherit"}, False),
        ({"device": []}, False),
        ({"placement": "spread"}, True),
        ({"device": "0"}, True),
        ({"near": (b"1",)}, True),
        ({"apart_from": (b"1",)}, True),
        ({"accelerator_type": "H100"}, True),
    ],
    ids=repr,
)
def test_has_device_constraints_when_it_matters_which_device_then_true(
    wish: dict[str, object], *, has: bool
) -> None:
    assert actor({"num_gpus": 1, **wish}).has_device_constraints is has


def test_options_when_gpus_and_neuron_cores_are_asked_then_value_error() -> None:
    with pytest.raises(ValueError, match=r"num_gpus and .*neuron_cores.* exclude"):
        actor({"num_gpus": 0.5, "resources": {"neuron_cores": 1}})


def test_updated_when_wishes_were_given_then_they_stay() -> None:
    wishes = {"device": ["0"], "near": (b"1",), "apart_from": (b"2",)}
    options = actor({"num_gpus": 1, "accelerator_type": "H100", **wishes})

    updated = options.updated({"num_cpus": 1})

    assert updated == actor(
        {"num_cpus": 1, "num_gpus": 1, "accelerator_type": "H100", **wishes}
    )
    assert options.updated({"near": None, "device": None}).near_to == ()


def test_updated_when_less_is_asked_than_wished_then_value_error() -> None:
    options = actor({"num_gpus": 2, "device": ["0", "1"]})

    with pytest.raises(ValueError, match="device names 2"):
        options.updated({"num_gpus": 1})


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
    write = WRITTEN[check]

    with pytest.raises(TypeError):
        write(**{name: value})


@pytest.mark.parametrize(("check", "name", "value"), WRONG_VALUES, ids=told)
def test_options_when_written_with_a_wrong_value_then_refused_at_once(
    check: Check, name: str, value: object
) -> None:
    write = WRITTEN[check]

    with pytest.raises(ValueError, match=r"."):
        write(**{name: value})


def test_get_if_exists_when_there_is_no_name_then_refused_at_once() -> None:
    with pytest.raises(ValueError, match="name"):
        actorlib.remote(get_if_exists=True)
    named = actor({"name": "a", "get_if_exists": True})
    with pytest.raises(ValueError, match="name"):
        named.updated({"name": None})
    assert named.updated({"name": "b"}).get_if_exists


def test_lifetime_when_non_detached_then_as_if_nothing_was_said() -> None:
    assert not actor({"lifetime": "non_detached"}).is_detached
    assert not actor({}).is_detached
    assert actor({"lifetime": "detached"}).is_detached


@pytest.mark.parametrize(
    ("name", "offered"),
    [("num_returns", "num_returns"), ("max_retries", "max_task_retries")],
)
def test_options_of_calls_and_functions_are_none_of_an_actor(
    name: str, offered: str
) -> None:
    class Actor: ...

    with pytest.raises(ValueError, match=f"{name}.*") as refused:
        actorlib.remote(**{name: 1})(Actor)
    assert offered in str(refused.value)


@pytest.mark.parametrize(
    ("value", "error"),
    [("KeyError", TypeError), (["KeyError"], TypeError), (KeyError, TypeError)],
)
def test_exceptions_are_a_bool_or_a_list_of_classes(
    value: object, error: type[Exception]
) -> None:
    for write in (actorlib.remote, actorlib.method):
        with pytest.raises(error, match="retry_exceptions"):
            write(retry_exceptions=value)
    for write in (actorlib.remote, actorlib.method):
        with pytest.raises(TypeError, match=r"retry_exceptions.*int"):
            write(retry_exceptions=[int])
        write(retry_exceptions=(KeyError, OSError))
        write(retry_exceptions=True)


def test_memory_is_rounded_down_and_names_no_other_resource() -> None:
    assert actor({"memory": 1000.9}).request.amounts == {"memory": 1000}


def test_gpu_memory_when_asked_then_bytes_beside_the_units() -> None:
    assert actor({"gpu_memory": "10GiB"}).request.amounts == {"gpu_memory": 10 * 2**30}
    both = actor({"gpu_memory": 1000.9, "num_gpus": 0.5})
    assert both.request.amounts == {"GPU": 5_000, "gpu_memory": 1000}
    assert str(both.request) == "GPU=0.5, gpu_memory=1000 B"
    assert both.has_device_constraints


def test_gpu_memory_when_a_device_is_named_then_it_is_of_one() -> None:
    assert actor({"gpu_memory": "10GiB", "device": 0}).devices == ("0",)
    with pytest.raises(
        ValueError, match="names 2 devices, and gpu_memory=10 GiB is on"
    ):
        actor({"gpu_memory": "10GiB", "device": [0, 1]})


def test_gpu_memory_when_of_several_gpus_then_refused_with_what_to_do() -> None:
    with pytest.raises(
        ValueError, match=r"gpu_memory='10GiB' .*num_gpus=2 .*whole"
    ) as e:
        actor({"gpu_memory": "10GiB", "num_gpus": 2})
    assert "Leave gpu_memory out" in str(e.value)


def test_gpu_memory_when_of_another_kind_then_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"memory of a GPU.*'TPU'.*by number alone"):
        actor({"gpu_memory": "10GiB", "resources": {"TPU": 1}})


def test_device_memory_when_declared_then_exact_by_kind() -> None:
    options = RuntimeOptions(device_memory={"GPU": "24GiB"})

    assert options.memory_of_devices == {"GPU": 24 * 2**30}
    assert RuntimeOptions().memory_of_devices == {}
    with pytest.raises(ValueError, match=r"device_memory=\{'GPU': '24GiB'\}"):
        RuntimeOptions(resources={"gpu_memory": 4})


PERCENTAGE = {"mps_thread_percentage": 50}


@pytest.mark.parametrize(
    "asked",
    [
        {"num_gpus": 0.5},
        {"num_gpus": 0.5, "enforcement": "mps"},
        {"gpu_memory": "10GiB"},
    ],
)
def test_percentage_when_a_part_of_a_gpu_is_asked_then_taken(
    asked: dict[str, Any],
) -> None:
    assert ActorOptions(**asked, **PERCENTAGE).mps_thread_percentage == 50
    worker = FunctionOptions(**asked, **PERCENTAGE).worker
    assert worker.mps_thread_percentage == 50


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "a part of a GPU, and none is asked for"),
        ({"num_gpus": 1}, "GPU=1 is asked for: ask for num_gpus below 1"),
        (
            {"num_gpus": 0.5, "enforcement": "watchdog"},
            "there is enforcement='watchdog': write enforcement='mps'",
        ),
    ],
)
def test_percentage_when_mps_cannot_hold_then_refused_at_once(
    asked: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        ActorOptions(**asked, **PERCENTAGE)


def test_callback_when_it_has_no_hash_then_functions_have_a_key_all_the_same() -> None:
    class Told(list[object]):
        def __call__(self, error: object) -> None:
            self.append(error)

    told, other = Told(), Told()
    keys = [
        FunctionOptions(num_gpus=0.5, device_memory_overuse=each).worker_key
        for each in (told, told, other, "warn")
    ]

    assert len(set(keys)) == 3
