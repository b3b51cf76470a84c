"""What is decided about MPS, from values."""

from __future__ import annotations

import pytest
from helpers.host import RecordedHost

from actorlib._enforcement.mps import (
    CONTROL,
    client_variables,
    is_faulty,
    limit_of,
    mps_fault,
    named_in,
    to_blame,
)
from actorlib.accelerators import Device, Share

MIB = 2**20
CARD = Device(
    family="nvidia", kind="GPU", index=0, id="0", uuid="GPU-1f", memory=16160 * MIB
)


def test_variables_when_a_half_is_held_then_they_name_the_held_gpu_alone() -> None:
    assert client_variables("/tmp/x", Share(CARD, 5000)) == {
        "CUDA_MPS_PIPE_DIRECTORY": "/tmp/x/pipe",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "GPU-1f=8080M",
        "CUDA_VISIBLE_DEVICES": "GPU-1f",
    }


def test_limit_when_it_is_no_whole_number_of_mib_then_it_is_rounded_down() -> None:
    assert limit_of(Share(CARD, 3333)) == 5386 * MIB
    assert limit_of(Share(CARD, 3333)) <= (Share(CARD, 3333).nbytes or 0)


@pytest.mark.parametrize(
    ("system", "programs", "why"),
    [
        ("linux", {CONTROL: "/usr/bin/x"}, ""),
        ("linux", {}, "no nvidia-cuda-mps-control on PATH"),
        ("darwin", {CONTROL: "/usr/bin/x"}, "on Linux alone"),
    ],
)
def test_fault_when_asked_then_it_says_why_no_daemon_can_be_run(
    system: str, programs: dict[str, str], why: str
) -> None:
    host = RecordedHost(system=system)
    host.programs = programs

    said = mps_fault(host)

    assert (why in said) if why else not said


@pytest.mark.parametrize(
    ("status", "says"),
    [("FAULT\n", "bad"), ("ACTIVE", "good"), ("Unknown command: default", "good")],
)
def test_state_when_a_server_is_asked_then_the_word_counts(
    status: str, says: str
) -> None:
    assert is_faulty(status) is (says == "bad")


def test_log_when_it_tells_of_a_fault_then_only_its_lines_are_read() -> None:
    log = (
        "[2026-01-01 00:00:00.000 Server 77] Received new client request from 11\n"
        "[2026-01-01 00:00:01.000 Server 77] Client 12 has a fatal fault on device 0\n"
    )

    assert named_in(log) == (12, 0)


@pytest.mark.parametrize(
    ("members", "named", "blamed"),
    [
        ({11: False, 12: False}, [12, 0], {12}),
        ({11: True, 12: False}, [12], {12}),
        ({11: True, 12: False}, [], {11}),
        ({11: False, 12: False}, [99], set[int]()),
    ],
)
def test_blame_when_the_log_names_somebody_then_it_counts_before_who_died_first(
    members: dict[int, bool], named: list[int], blamed: set[int]
) -> None:
    assert to_blame(members, named) == blamed
