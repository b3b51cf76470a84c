"""Device files with numbers: which are here, which open, and why the others do not."""

from __future__ import annotations

import pytest
from helpers.host import RecordedHost

from actorlib.accelerators.base import Device, Rejected, why_none
from actorlib.accelerators.files import closed, find_files

HOST = RecordedHost(
    devices={"/dev/npu2": True, "/dev/npu10": True, "/dev/npu3": False},
    files={
        "/dev/npu4": "a file, and no device",
        "/sys/class/npu/npu1/name": "",
        "/sys/class/npu/npu2/name": "",
    },
)
SHUT = "no permission to read and write /dev/npu3; join the group of that file"
ABSENT = "there is no /dev/npu1 here; give it to the container"


def test_find_files_when_some_open_then_they_are_in_the_order_of_their_numbers() -> (
    None
):
    found = find_files(HOST, "/dev/npu")

    assert found.present == ((2, "/dev/npu2"), (3, "/dev/npu3"), (10, "/dev/npu10"))
    assert found.usable == ((2, "/dev/npu2"), (10, "/dev/npu10"))
    assert found.rejected == (Rejected(name="/dev/npu3", why=SHUT),)


def test_find_files_when_sysfs_lists_more_then_each_without_a_file_is_rejected() -> (
    None
):
    found = find_files(HOST, "/dev/npu", "/sys/class/npu/npu")

    assert found.rejected == (
        Rejected(name="/dev/npu3", why=SHUT),
        Rejected(name="/sys/class/npu/npu1", why=ABSENT),
    )


@pytest.mark.parametrize(
    ("path", "why"), [("/dev/npu2", ""), ("/dev/npu3", SHUT), ("/dev/npu1", ABSENT)]
)
def test_closed_when_asked_about_a_file_then_says_what_to_do(
    path: str, why: str
) -> None:
    assert closed(HOST, path) == why


def test_why_none_when_nothing_is_left_then_it_is_the_first_reason() -> None:
    device = Device(family="npu", kind="NPU", index=0, id="0")
    shut = Rejected(name="/dev/npu3", why=SHUT)
    odd = Rejected(name="/dev/npu5", why="it is on fire")

    assert why_none([], [shut, odd]) == SHUT
    assert why_none([], [odd, shut]) == "/dev/npu5: it is on fire"
    assert why_none([], []) == ""
    assert why_none([device], [shut]) == ""
