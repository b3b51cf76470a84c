"""Huawei's NPUs: listed in ascending order, by the numbers that CANN counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers.host import RecordedHost
from hypothesis import given
from hypothesis import strategies as st

from actorlib.accelerators.ascend import Ascend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib.accelerators.base import Detection

MASK = "ASCEND_RT_VISIBLE_DEVICES"


def detect(name: str, environ: Mapping[str, str] | None = None) -> Detection:
    return Ascend().detect(RecordedHost.load(name, environ=environ))


def ids(found: Detection) -> list[str]:
    return [npu.id for npu in found.devices]


def test_detect_when_there_is_no_trace_then_there_is_nothing_to_say() -> None:
    found = Ascend().detect(RecordedHost())
    assert (found.devices, found.rejected, found.reason) == ((), (), "")


def test_detect_when_there_are_npus_then_the_manager_is_none_of_them() -> None:
    found = detect("ascend_910b")

    assert ids(found) == [str(n) for n in range(8)]
    assert {(npu.model, npu.type) for npu in found.devices} == {
        ("Ascend 910B", "Ascend910B")
    }


def test_detect_when_there_are_several_series_then_which_is_which_is_unknown() -> None:
    found = detect("ascend_mixed")
    assert [(npu.model, npu.type) for npu in found.devices] == [(None, None)] * 2


def test_detect_when_a_container_has_some_npus_then_they_count_from_zero() -> None:
    found = detect("ascend_container")

    assert [(npu.id, npu.source) for npu in found.devices] == [
        ("0", "/dev/davinci3"),
        ("2", "/dev/davinci5"),
        ("3", "/dev/davinci6"),
        ("4", "/dev/davinci7"),
    ]
    (lost,) = found.rejected
    assert (lost.name, lost.model) == ("/dev/davinci4", "Ascend 910B")


def test_detect_when_there_is_a_driver_and_no_npu_then_says_so() -> None:
    found = detect("ascend_no_devices")
    assert found.devices == ()
    assert "/dev/davinci_manager" in found.reason


@pytest.mark.parametrize(
    ("value", "expected", "reason"),
    [
        ("1,3", ["1", "3"], ""),
        ("1, 2,3", ["1"], "ends before ' 2'"),
        ("3,2,1", ["3"], "ends before '2'"),
        ("0,1,1,2", ["0", "1"], "ends before '1'"),
        ("0,2a", ["0"], "ends before '2a'"),
        ("2,8", ["2"], "ends before '8': there is no such device"),
        ("", [], "hides every device"),
        ("NoDevFiles", [], "hides every device"),
        ("-1", [], "hides every device"),
    ],
)
def test_detect_when_the_owner_has_a_mask_then_it_ends_where_canns_does(
    value: str, expected: list[str], reason: str
) -> None:
    found = detect("ascend_910b", {MASK: value})

    assert ids(found) == expected
    assert found.outer == tuple(expected)
    assert found.reason.startswith(f"{MASK}={value!r} {reason}" if reason else "")
    assert bool(found.reason) == bool(reason)


def test_detect_when_a_number_does_not_ascend_then_the_reason_says_that() -> None:
    found = detect("ascend_910b", {MASK: "1,0"})
    assert found.reason == (
        f"{MASK}='1,0' ends before '0', which is no higher number without blanks"
    )


@given(st.lists(st.integers(0, 9), max_size=6))
def test_mask_when_it_is_read_then_it_is_the_part_that_ascends(
    numbers: list[int],
) -> None:
    mask = Ascend().mask({MASK: ",".join(map(str, numbers))})

    assert mask is not None
    read = [int(entry) for entry in mask.entries]
    assert read == numbers[: len(read)]
    assert read == sorted(set(read))
    assert len(read) == len(numbers) or numbers[len(read)] <= read[-1]


@pytest.mark.parametrize("places", [(4, 1), (1, 4)])
def test_environment_when_npus_are_held_then_they_ascend_without_blanks(
    places: tuple[int, int],
) -> None:
    every = detect("ascend_910b").devices
    held = [every[place] for place in places]
    environ = {"ASCEND_DEVICE_ID": "5", "ASCEND_VISIBLE_DEVICES": "0-7"}
    changes = Ascend().environment(held, environ, every)
    assert changes == {MASK: "1,4", "ASCEND_DEVICE_ID": None}


def test_environment_when_there_are_no_npus_then_all_are_hidden() -> None:
    changes = Ascend().environment((), {}, detect("ascend_910b").devices)
    assert changes == {MASK: "", "ASCEND_DEVICE_ID": None}


def test_detect_when_there_is_no_npu_then_pci_is_not_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Of hundreds of PCI devices that would be most of what it takes to find nothing.
    host = RecordedHost()
    looked: list[str] = []
    monkeypatch.setattr(host, "glob", lambda pattern: looked.append(pattern) or [])

    Ascend().detect(host)

    assert looked
    assert not any("pci" in pattern for pattern in looked)
