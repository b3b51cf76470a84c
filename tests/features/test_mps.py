"""What is decided about MPS, from values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from helpers.fake_nvml import Processes
from helpers.host import RecordedHost
from helpers.nvml import Card, nvidia_host

from actorlib._enforcement.enforcement import Enforcement
from actorlib._enforcement.tiers import Site
from actorlib._features.mps.compute_modes import gpus_without_mps
from actorlib._features.mps.decisions import (
    CONTROL,
    client_variables,
    is_faulty,
    limit_of,
    mps_fault,
    named_in,
    to_blame,
)
from actorlib._features.mps.tier import Mps
from actorlib._features.runtime import make_tiers
from actorlib._options.actor_options import ActorOptions
from actorlib._options.runtime_options import RuntimeOptions
from actorlib.accelerators import Device, Share, discover, inventory

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        ("darwin", {CONTROL: "/usr/bin/x"}, "only Linux has MPS"),
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


# Who is on a GPU already.


def host_with(
    *cards: Card, listed: Mapping[int, str], program: str = "/usr/bin/x"
) -> RecordedHost:
    """A machine with a control program, and processes on its first card."""
    processes = Processes()
    for pid in listed:
        processes.put(cards[0].uuid or "", pid, MIB)
    files = {f"/proc/{pid}/comm": f"{name}\n" for pid, name in listed.items() if name}
    host = nvidia_host(*cards, processes=processes, files=files)
    host.programs = {CONTROL: program}
    return host


def reason(host: RecordedHost) -> str:
    """Why the first GPU cannot have MPS, as everybody is told; empty if it can."""
    devices = inventory(discover(host), {}).devices["GPU"]
    return Mps(Site(host, tuple(devices))).fault(devices[0])


OTHER = Card(uuid="GPU-2")


@pytest.mark.parametrize(
    ("mode", "listed", "why"),
    [
        (0, {11: "python"}, ""),
        (None, {11: "python"}, ""),
        (3, {}, ""),
        (2, {}, "GPU 0 is in compute mode PROHIBITED, in which no process can"),
        (
            3,
            {11: "python"},
            "GPU 0 is in compute mode EXCLUSIVE_PROCESS, and python (pid 11) has it: "
            "wait for its end, or let several in by 'nvidia-smi -i GPU-1 -c DEFAULT' "
            "as root",
        ),
        (1, {11: ""}, "a process (pid 11) has it"),
        (
            3,
            {11: "nvidia-cuda-mps"},
            "the server of another MPS daemon (pid 11) has it: end that daemon ('echo "
            "quit | nvidia-cuda-mps-control' as its user), or",
        ),
    ],
)
def test_gpu_when_others_are_on_it_then_its_mode_says_whether_mps_can_be(
    mode: int | None, listed: dict[int, str], why: str
) -> None:
    said = reason(host_with(Card(uuid="GPU-1", mode=mode), OTHER, listed=listed))

    assert (why in said) if why else not said


@pytest.mark.parametrize("card", [Card(uuid=None, mode=2), Card(uuid="GPU-1")])
def test_gpu_when_nvml_does_not_say_then_nothing_is_found(card: Card) -> None:
    host = host_with(OTHER, listed={})
    device = replace(CARD, uuid=card.uuid or "GPU-9")

    assert gpus_without_mps(host, [device]) == {}
    assert gpus_without_mps(RecordedHost(), [device]) == {}


def test_actor_when_one_gpu_is_exclusive_then_it_goes_to_the_other() -> None:
    host = host_with(Card(uuid="GPU-1", mode=3), OTHER, listed={11: "python"})
    options = ActorOptions(num_gpus=0.5, enforcement="mps")
    enforcement = Enforcement.open(
        make_tiers,
        host,
        inventory(discover(host), {}),
        RuntimeOptions(),
        [],
        is_inline=False,
    )

    ((device, why),) = enforcement.unfit(options, options.request)

    assert device.id == "0"
    assert "python (pid 11) has it" in why
