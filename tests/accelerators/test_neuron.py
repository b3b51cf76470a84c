"""AWS's cores: counted across devices, and never left for one process to take all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers.host import RecordedHost

from actorlib.accelerators.neuron import Neuron

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib.accelerators.base import Detection

MASK = "NEURON_RT_VISIBLE_CORES"
NUMBER = "NEURON_RT_NUM_CORES"
FUSED = "NEURON_LOGICAL_NC_CONFIG"


def detect(name: str, environ: Mapping[str, str] | None = None) -> Detection:
    return Neuron().detect(RecordedHost.load(name, environ=environ))


def ids(found: Detection) -> list[int]:
    return [int(core.id) for core in found.devices]


def test_detect_when_there_is_no_trace_then_there_is_nothing_to_say() -> None:
    found = Neuron().detect(RecordedHost())
    assert (found.devices, found.rejected, found.reason) == ((), (), "")


def test_detect_when_there_are_devices_then_their_cores_count_on() -> None:
    found = detect("neuron_trn1")

    assert ids(found) == list(range(32))
    assert [core.source for core in found.devices[19:23]] == [
        "/dev/neuron9",
        "/dev/neuron10",
        "/dev/neuron10",
        "/dev/neuron11",
    ]
    assert {(core.model, core.type) for core in found.devices} == {
        ("Trainium1", "aws-neuron-core")
    }


def test_detect_when_a_device_has_several_cores_then_they_are_peers() -> None:
    peers = [core.peers for core in detect("neuron_trn1").devices[:4]]
    assert peers == [{"1"}, {"0"}, {"3"}, {"2"}]


@pytest.mark.parametrize(
    ("environ", "count"),
    [({}, 8), ({FUSED: "1"}, 16), ({FUSED: "2"}, 8), ({FUSED: "all"}, 8)],
)
def test_detect_when_cores_are_fused_then_logical_ones_count(
    environ: Mapping[str, str], count: int
) -> None:
    found = detect("neuron_trn2", environ)
    assert ids(found) == list(range(count))
    assert len(found.devices[0].peers) == count // 2 - 1


def test_detect_when_a_device_may_not_be_opened_then_its_numbers_stay_unused() -> None:
    found = detect("neuron_inf2")

    assert ids(found) == [0, 1, *range(4, 12)]
    (lost,) = found.rejected
    assert lost.name == "/dev/neuron1"
    assert "permission" in lost.why


def test_detect_when_a_container_has_some_devices_then_cores_count_from_zero() -> None:
    found = detect("neuron_container")

    assert ids(found) == [0, 1, 2, 3]
    assert found.devices[0].source == "/dev/neuron2"
    assert len(found.rejected) == 2


def test_detect_when_cores_are_not_counted_then_the_listed_ones_are() -> None:
    assert ids(detect("neuron_cores_listed")) == [0, 1]


@pytest.mark.parametrize("count", ["99999999", "65", "two", ""])
def test_detect_when_a_count_is_nonsense_then_the_device_has_as_many_as_the_others(
    count: str,
) -> None:
    sysfs = "/sys/devices/virtual/neuron_device/neuron{}/core_count"
    host = RecordedHost(
        devices={"/dev/neuron0": True, "/dev/neuron1": True},
        files={sysfs.format(0): count, sysfs.format(1): "2"},
    )
    assert ids(Neuron().detect(host)) == [0, 1, 2, 3]


def test_detect_when_nothing_tells_the_cores_then_says_so() -> None:
    found = detect("neuron_silent")

    assert found.devices == ()
    assert found.reason.startswith("/dev/neuron0: ")
    assert "how many cores" in found.reason


@pytest.mark.parametrize(
    ("value", "expected", "reason"),
    [
        ("4-7", [4, 5, 6, 7], ""),
        ("0,2-3", [0, 2, 3], ""),
        (" 3 - 4 , 1 ", [3, 4, 1], ""),
        ("1,1-2", [1, 2], "names '1' twice, which counts once"),
        ("0,7-4", [0], "ends before '7-4', which is no core or range of cores"),
        ("0,1-", [0], "ends before '1-', which is no core or range of cores"),
        ("30-40", [30, 31], "ends before '32': there is no such device"),
        ("0-99999999", [], "hides every device"),
        ("", [], "hides every device"),
        ("NoDevFiles", [], "hides every device"),
        ("-1", [], "hides every device"),
    ],
)
def test_detect_when_the_owner_has_a_mask_then_ranges_are_spelled_out(
    value: str, expected: list[int], reason: str
) -> None:
    found = detect("neuron_trn1", {MASK: value})
    assert ids(found) == expected
    assert found.reason == (f"{MASK}={value!r} {reason}" if reason else "")


def test_environment_when_cores_are_held_then_they_are_listed_and_nothing_else() -> (
    None
):
    every = detect("neuron_trn1").devices
    changes = Neuron().environment(every[2:6], {NUMBER: "32"}, every)
    assert changes == {MASK: "2,3,4,5", NUMBER: None}


def test_environment_when_there_are_no_cores_then_the_list_is_set_all_the_same() -> (
    None
):
    every = detect("neuron_trn1").devices
    assert Neuron().environment((), {}, every) == {MASK: "", NUMBER: None}
