"""The look, once a second, at what workers have on devices they share."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest
from helpers.fake_nvml import Processes
from helpers.host import RecordedHost
from helpers.nvml import Card, FakeNvml
from helpers.occupants import GIB, UUID, Worker, half

from actorlib._base.ids import ActorId
from actorlib._enforcement.gpu_watch import PERIOD, GpuWatch, processes_fault
from actorlib._enforcement.nvml_session import NvmlSession
from actorlib._enforcement.tiers import Site
from actorlib._features.watchdog.tier import Watchdog
from actorlib._options.actor_options import ActorOptions
from actorlib._options.kinds import UNITS
from actorlib._options.runtime_options import RuntimeOptions
from actorlib.accelerators import Lease

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from actorlib._enforcement.tiers import Verdict
    from actorlib.accelerators import Share
    from actorlib.exceptions import DeviceMemoryExceeded

pytestmark = pytest.mark.memory


class Greedy:
    """A worker as its supervisor shows it; see Supervised."""

    id = ActorId(b"a" * 16)
    options = ActorOptions()
    label = title = "Model"

    def __init__(self, process: object) -> None:
        self.record = self
        self.pid = cast("Worker", process).pid

    def end_for(self, verdict: Verdict) -> None:
        raise AssertionError(verdict)


class Room:
    """A card of 80 GiB, NVML that is played, and who is told what."""

    def __init__(self) -> None:
        self.processes = Processes()
        self.told: list[DeviceMemoryExceeded] = []
        self.lowered: list[str] = []
        nvml = FakeNvml(Card(uuid=UUID), processes=self.processes)
        stat = f"78 (other) S 1 78 78 {' '.join('0' * 15)} 5 0 9"
        host = RecordedHost(files={"/proc/78/stat": stat}, sdks={"pynvml": nvml})
        loop = asyncio.get_running_loop()
        self.gpus = GpuWatch(
            loop, partial(NvmlSession, host, loop), self.lowered.append
        )
        options = RuntimeOptions(device_memory_overuse=self.told.append)
        watchdog = Watchdog(Site(host, options=options))
        watchdog.attach(self.gpus, Greedy)

    def enter(self, pid: int, share: Share | None = None) -> Worker:
        worker, held = Worker(pid), share or half()
        lease = Lease(amounts={"GPU": held.units}, shares=(held,))
        self.gpus.add_worker(worker, "Model", lease, is_watched=True)
        return worker

    @property
    def looks(self) -> int:
        return self.processes.looks[UUID]


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    room = Room()
    yield room
    room.processes.going_on.set()
    await room.gpus.aclose()


async def pass_periods(count: float) -> None:
    await asyncio.sleep(count * PERIOD)


async def test_watch_when_it_has_too_much_then_told_once_with_figures(
    room: Room,
) -> None:
    room.enter(812)
    room.processes.put(UUID, 812, 20 * GIB)
    await pass_periods(2.5)
    assert room.told == []

    room.processes.put(UUID, 812, 60 * GIB)
    await pass_periods(4)

    [error] = room.told
    assert error.exit.pid == 812
    assert (error.granted, error.used) == (40 * GIB, 60 * GIB)
    assert [nbytes for _, nbytes in error.moments] == [60 * GIB, 20 * GIB]
    assert room.lowered == []


async def test_watch_when_nobody_shares_a_device_then_nothing_wakes(
    room: Room,
) -> None:
    room.enter(812, half(units=UNITS))
    await pass_periods(1.5)
    looks = room.looks

    await pass_periods(10)

    assert room.looks == looks


async def test_watch_when_the_last_has_left_then_it_ends_and_begins_again(
    room: Room,
) -> None:
    worker = room.enter(812)
    await pass_periods(3.5)
    room.gpus.drain_worker(worker)
    await pass_periods(3)
    looks = room.looks
    await pass_periods(10)
    assert room.looks == looks

    room.enter(813)
    await pass_periods(3.5)

    assert room.looks > looks + 2


def hide_all(processes: Processes) -> None:
    """Lists nobody, though memory is in use."""
    processes.used[UUID] = 30 * GIB
    for pid in (812, 78):
        processes.drop(pid)


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (
            lambda processes: processes.put(UUID, 812, None),
            ["NVML does not say how much memory processes have on GPU 0"],
        ),
        (
            lambda processes: processes.put(UUID, 4242, GIB),
            ["pid 4242", "another pid namespace"],
        ),
        (hide_all, ["NVML lists no process on a device of which 30 GiB are in"]),
        (Processes.lose, ["NVML has failed: GPU is lost"]),
        (
            lambda processes: processes.going_on.clear(),
            ["NVML has not answered for 10 s"],
        ),
    ],
)
async def test_watch_when_shares_cannot_be_judged_any_more_then_lowered_once(
    room: Room, trouble: Callable[[Processes], None], words: list[str]
) -> None:
    room.enter(812)
    room.processes.put(UUID, 812, GIB)
    room.processes.put(UUID, 78, GIB)
    await pass_periods(4.5)
    assert room.lowered == []

    trouble(room.processes)
    await pass_periods(30)

    [reason] = room.lowered
    for each in words:
        assert each in reason
    assert room.told == []


async def test_who_when_asked_then_what_the_last_look_found(room: Room) -> None:
    worker = room.enter(812)
    room.processes.put(UUID, 812, 30 * GIB)
    room.processes.put(UUID, 78, GIB)
    await pass_periods(1.5)

    assert room.gpus.who_has_what(worker) == (
        "GPU 0: Model (pid 812) 30 GiB, pid 78 (other), not a worker of this "
        "program, 1 GiB"
    )
    assert room.gpus.who_has_what("nobody") == ""


def test_fault_when_nvml_cannot_list_processes_then_said() -> None:
    host, wsl = RecordedHost(), RecordedHost(devices={"/dev/dxg": True})

    assert processes_fault(host, [half().device]) == ""
    assert "no device" in processes_fault(host, [half(source="/proc").device])
    assert "UUID" in processes_fault(host, [half(uuid=None).device])
    assert "WSL" in processes_fault(wsl, [half().device])
