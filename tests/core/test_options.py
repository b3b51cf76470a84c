"""The options of actors, calls, functions and runtimes: which values are taken."""

from __future__ import annotations

import dataclasses
import math
import typing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import actorlib
from actorlib._options.actor_options import ActorKeywords, ActorOptions
from actorlib._options.call_options import CallKeywords, CallOptions
from actorlib._options.function_options import FunctionKeywords, FunctionOptions
from actorlib._options.runtime_options import (
    LONGEST_RUNTIME_NAME,
    RuntimeKeywords,
    RuntimeOptions,
)
from actorlib.exceptions import UnknownOptionError, UnsupportedOptionError

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Options = ActorOptions | CallOptions | FunctionOptions | RuntimeOptions


def actor(given: Mapping[str, object]) -> ActorOptions:
    return ActorOptions.of(given)


async def _async_function(_: object) -> None:
    """Nothing that can be called back."""


KEYWORDS: dict[type[Options], type] = {
    ActorOptions: ActorKeywords,
    CallOptions: CallKeywords,
    FunctionOptions: FunctionKeywords,
    RuntimeOptions: RuntimeKeywords,
}
WRITTEN: dict[type[Options], Callable[..., object]] = {
    ActorOptions: actorlib.remote,
    CallOptions: actorlib.method,
    FunctionOptions: lambda **given: actorlib.remote(**{"max_retries": 1, **given}),
    RuntimeOptions: actorlib.init,
}
"""Where users write the options."""
KINDS = {
    "actor": ActorOptions,
    "call": CallOptions,
    "function": FunctionOptions,
    "runtime": RuntimeOptions,
}
NAMES: dict[str, object] = {
    "WHOLE": ("neuron_cores", "HPU", "RBLN", "FURIOSA", "MBLT", "TTNPU"),
    "LONGEST_RUNTIME_NAME": LONGEST_RUNTIME_NAME,
    "_async_function": _async_function,
    "inf": math.inf,
    "nan": math.nan,
    "np": np,
}
"""What the values in the data may name."""


class Option(NamedTuple):
    """An option with values that are kept, and values that are refused.

    Attributes:
        kinds: Whose option it is, by the names of KINDS.
        name: The option.
        good: Values that are kept.
        wrong_types: Values that raise TypeError.
        wrong_values: Values that raise ValueError.
    """

    kinds: list[str]
    name: str
    good: tuple[object, ...]
    wrong_types: tuple[object, ...]
    wrong_values: tuple[object, ...]


def read_option(line: str) -> Option:
    head, _, rest = line.partition(":")
    *kinds, name = head.split()
    values = [eval(f"[{part.strip()}]", dict(NAMES)) for part in rest.split("|")]
    good, wrong_types, wrong_values = map(tuple, values)
    return Option(kinds, name, good, wrong_types, wrong_values)


DATA = Path(__file__).parent / "data" / "option_values.txt"
OPTIONS = [
    read_option(line)
    for line in DATA.read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
CASES = [
    pytest.param(KINDS[kind], option, id=f"{kind}-{option.name}")
    for option in OPTIONS
    for kind in option.kinds
]


def refusal(
    write: Callable[..., object], name: str, value: object
) -> tuple[type | None, str]:
    """The built-in class and the text of the error that a value raises."""
    try:
        write(**{name: value})
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        return kind, str(error)
    return None, ""


# The two ways of writing them down.


@pytest.mark.parametrize("kind", KEYWORDS)
def test_keywords_when_compared_with_the_options_then_names_and_types_are_equal(
    kind: type[Options],
) -> None:
    hints = typing.get_type_hints(kind)
    names = [option.name for option in dataclasses.fields(kind) if option.init]

    assert typing.get_type_hints(KEYWORDS[kind]) == {n: hints[n] for n in names}


# What is taken and what is refused.


@pytest.mark.parametrize(("kind", "option"), CASES)
def test_option_when_values_are_good_then_they_are_kept(
    kind: type[Options], option: Option
) -> None:
    kept = [getattr(kind(**{option.name: v}), option.name) for v in option.good]

    assert kept == [*option.good]


@pytest.mark.parametrize(("kind", "option"), CASES)
def test_option_when_values_are_wrong_then_the_error_names_it_where_it_is_written(
    kind: type[Options], option: Option
) -> None:
    expected = [(value, TypeError) for value in option.wrong_types]
    expected += [(value, ValueError) for value in option.wrong_values]

    for write in (kind, WRITTEN[kind]):
        for value, error in expected:
            raised, text = refusal(write, option.name, value)
            asked = next(iter(value), "GPU") if isinstance(value, dict) else "GPU"
            named = [option.name, option.name.replace("_", " "), "init"]
            named.append(f"of {asked} can never be granted")
            assert raised is error, f"{option.name}={value!r}: {text}"
            assert any(name in text for name in named), text


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [
        (
            ActorOptions,
            "num_gpu=num_gpus cpus=num_cpus resource=resources devices=device "
            "accelerator=accelerators accelerators_type=accelerator_type "
            "apart=apart_from placment=placement",
        ),
        (
            RuntimeOptions,
            "num_cpu=num_cpus preloads=preload mask_from=mask_form "
            "start_methods=start_method log_to_drivers=log_to_driver",
        ),
    ],
)
def test_options_when_a_name_is_misspelt_then_value_error_offers_the_right_one(
    kind: type[Options], pairs: str
) -> None:
    for pair in pairs.split():
        wrong, meant = pair.split("=")
        with pytest.raises(ValueError, match=f"Did you mean {meant}="):
            kind.of({wrong: 1})


@pytest.mark.parametrize("kind", KINDS.values())
def test_options_when_a_name_is_unknown_then_it_says_where_all_are_described(
    kind: type[Options],
) -> None:
    for name in ("request", "capacity", "zzz"):
        with pytest.raises(
            UnknownOptionError, match=rf"{name}=1 is not an option"
        ) as seen:
            kind.of({name: 1})

        assert f"help(actorlib.{kind.__name__})" in str(seen.value)
        assert name != "zzz" or "Did you mean" not in str(seen.value)


def test_runtime_name_when_it_may_be_none_then_attach_and_inline_refuse_it() -> None:
    (option,) = (o for o in OPTIONS if o[:2] == (["runtime"], "name"))

    for name in option.wrong_values:
        with pytest.raises(ValueError, match=r"^attach\(name\) "):
            actorlib.attach(str(name))
    with pytest.raises(UnsupportedOptionError, match="engine='inline'"):
        actorlib.init(name="service", engine="inline")


# What they come to.


def test_actor_options_when_made_then_the_request_is_exact() -> None:
    options = ActorOptions(num_cpus=1, num_gpus=0.5, memory=7.9, resources={"lane": 2})

    assert options.request.amounts == {
        "CPU": 10_000,
        "GPU": 5_000,
        "memory": 7,
        "lane": 20_000,
    }


def test_runtime_options_when_made_then_the_capacity_is_what_was_declared() -> None:
    options = RuntimeOptions(num_cpus=2, resources={"lane": 3})

    assert options.capacity.amounts == {"CPU": 20_000, "lane": 30_000}


def test_options_when_what_was_given_changes_then_they_do_not() -> None:
    listed: list[type[Exception]] = [KeyError]
    modules, resources = ["json", "email.mime"], {"lane": 1.0}
    options = ActorOptions(retry_exceptions=listed, resources=resources)
    runtime = RuntimeOptions(preload=modules)

    listed.append(OSError)
    modules.append("torch")
    resources["lane"] = 5

    updated = options.updated({"num_cpus": 1})
    assert (options.retried, updated.retried) == ((KeyError,), (KeyError,))
    assert runtime.preload == ("json", "email.mime")
    assert updated.request.amounts == {"CPU": 10_000, "lane": 10_000}


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


HALF = {"num_gpus": 0.5}
PERCENTAGE = {"mps_thread_percentage": 50}
NEAR_AND_APART = {"near": (b"1",), "apart_from": (b"2", b"1")}
TOGETHER: list[tuple[dict[str, object], str]] = [
    # As many devices are named as are asked for.
    ({"num_gpus": 1, "device": ["0", "1"]}, r"device names 2 device.*name as many"),
    ({**HALF, "device": ["0", "1"]}, r"device names 2 device.*name as many"),
    ({"num_gpus": 2, "device": "0"}, r"device names 1 device.*name as many"),
    ({"num_gpus": 3, "device": ["0", "1"]}, r"device names 2 device.*name as many"),
    ({"resources": {"TPU": 2}, "device": ["0"]}, r"device names 1 .*name as many"),
    (
        {"num_gpus": 1, "resources": {"TPU": 1}, "device": ["0"]},
        r"device names 1 device.*name as many",
    ),
    # A wish is about devices that are asked for.
    *(
        ({**asked, name: value}, f"{name} is about devices")
        for asked in ({}, {"num_cpus": 2}, {"num_gpus": 0}, {"memory": 7})
        for name, value in (("device", "0"), ("near", (b"1",)), ("apart_from", (b"1",)))
    ),
    ({"num_gpus": 1, **NEAR_AND_APART}, "near and apart_from"),
    ({**HALF, "resources": {"neuron_cores": 1}}, r"num_gpus and .*neuron_cores.* excl"),
    # Memory of a device is that of one GPU.
    (
        {"gpu_memory": "10GiB", "device": [0, 1]},
        "names 2 devices, and gpu_memory=10 GiB is on",
    ),
    (
        {"gpu_memory": "10GiB", "num_gpus": 2},
        r"gpu_memory='10GiB' .*num_gpus=2 .*whole.*Leave gpu_memory out",
    ),
    (
        {"gpu_memory": "10GiB", "resources": {"TPU": 1}},
        r"memory of a GPU.*'TPU'.*by number alone",
    ),
    # MPS holds a part of a GPU.
    (PERCENTAGE, "a part of a GPU, and none is asked for"),
    ({"num_gpus": 1, **PERCENTAGE}, "GPU=1 is asked for: ask for num_gpus below 1"),
    (
        {**HALF, "enforcement": "watchdog", **PERCENTAGE},
        "there is enforcement='watchdog': write enforcement='mps'",
    ),
    ({"get_if_exists": True}, "name"),
]
"""Options that do not go together, and what the error says."""


@pytest.mark.parametrize(("given", "said"), TOGETHER, ids=repr)
def test_options_when_they_do_not_go_together_then_refused_also_if_updated(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        actor(given)
    with pytest.raises(ValueError, match=said):
        ActorOptions().updated(given)


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


def test_updated_when_wishes_were_given_then_they_stay() -> None:
    wishes = {"device": ["0"], "near": (b"1",), "apart_from": (b"2",)}
    options = actor({"num_gpus": 1, "accelerator_type": "H100", **wishes})

    updated = options.updated({"num_cpus": 1})

    assert updated == actor(
        {"num_cpus": 1, "num_gpus": 1, "accelerator_type": "H100", **wishes}
    )
    assert options.updated({"near": None, "device": None}).near_to == ()


# Some of them replaced.


def test_updated_when_some_are_given_then_the_others_stay() -> None:
    options = ActorOptions(num_cpus=1, num_gpus=1, accelerators="inherit")

    updated = options.updated({"num_cpus": None, "num_gpus": 0.5})

    assert updated == ActorOptions(num_gpus=0.5, accelerators="inherit")
    assert updated.request.amounts == {"GPU": 5_000}
    assert options.updated({}) == options


def test_updated_when_an_option_is_wrong_then_refused_and_the_first_are_as_before() -> (
    None
):
    options = ActorOptions(num_gpus=1)

    with pytest.raises(ValueError, match="Did you mean num_gpus="):
        options.updated({"num_gpu": 1})
    with pytest.raises(ValueError, match="num_gpus"):
        options.updated({"num_gpus": -1})

    assert options == ActorOptions(num_gpus=1)


# Names and lifetimes.


def test_get_if_exists_when_the_name_is_taken_away_then_refused() -> None:
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


# Memory of devices, and MPS.


def test_gpu_memory_when_asked_then_bytes_beside_the_units() -> None:
    assert actor({"gpu_memory": "10GiB"}).request.amounts == {"gpu_memory": 10 * 2**30}
    both = actor({"gpu_memory": 1000.9, "num_gpus": 0.5})
    assert both.request.amounts == {"GPU": 5_000, "gpu_memory": 1000}
    assert str(both.request) == "GPU=0.5, gpu_memory=1000 B"
    assert both.has_device_constraints
    assert actor({"gpu_memory": "10GiB", "device": 0}).devices == ("0",)


def test_device_memory_when_declared_then_exact_by_kind() -> None:
    options = RuntimeOptions(device_memory={"GPU": "24GiB"})

    assert options.memory_of_devices == {"GPU": 24 * 2**30}
    assert RuntimeOptions().memory_of_devices == {}
    with pytest.raises(ValueError, match=r"device_memory=\{'GPU': '24GiB'\}"):
        RuntimeOptions(resources={"gpu_memory": 4})


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
