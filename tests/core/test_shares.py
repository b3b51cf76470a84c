"""What is told of shares: one entry a device, and what all of them have in common."""

from __future__ import annotations

import pickle

import pytest

from actorlib import ActorShare, DeviceShare
from actorlib._options.actor_options import ActorOptions
from actorlib._options.function_options import FunctionOptions
from actorlib._options.runtime_options import RuntimeOptions


def share(
    units: float = 0.5, nbytes: int | None = 5, enforced_by: str = "frameworks"
) -> DeviceShare:
    return DeviceShare(
        device="0",
        kind="GPU",
        units=units,
        nbytes=nbytes,
        enforced_by=enforced_by,
        not_stronger_because=f"{enforced_by} is what there is",
    )


def test_share_when_of_no_device_then_it_is_false_and_empty() -> None:
    none = ActorShare()

    assert not none
    assert (none.units, none.nbytes, none.enforced_by) == (0.0, 0, "off")
    assert none.not_stronger_because == ""


def test_share_when_of_several_devices_then_the_weakest_is_named() -> None:
    several = ActorShare(devices=(share(enforced_by="mps"), share(), share(0.25, 7)))

    assert several
    assert (several.units, several.nbytes) == (1.25, 17)
    assert several.enforced_by == "frameworks"
    assert several.not_stronger_because == "frameworks is what there is"


def test_bytes_when_those_of_a_device_are_unknown_then_so_are_all() -> None:
    assert ActorShare(devices=(share(), share(nbytes=None))).nbytes is None


def test_share_when_pickled_then_it_is_the_same() -> None:
    told = ActorShare(devices=(share(),))

    assert pickle.loads(pickle.dumps(told)) == told


@pytest.mark.parametrize("options", [RuntimeOptions, ActorOptions, FunctionOptions])
def test_word_when_unknown_then_the_words_are_listed(options: type) -> None:
    with pytest.raises(
        ValueError,
        match="enforcement takes one of 'auto', 'off', 'frameworks', 'watchdog', 'mps',"
        " 'cgroup', not 'hard'",
    ):
        options(enforcement="hard")


@pytest.mark.parametrize("options", [RuntimeOptions, ActorOptions, FunctionOptions])
def test_word_when_of_another_type_then_it_is_refused(options: type) -> None:
    with pytest.raises(TypeError, match="enforcement takes one of"):
        options(enforcement=1)


def test_functions_when_they_ask_for_other_enforcements_then_no_worker_is_shared() -> (
    None
):
    half, other = (
        FunctionOptions(num_gpus=0.5, enforcement=word) for word in ("off", None)
    )

    assert half.worker_key != other.worker_key
    assert half.worker.enforcement == "off"
