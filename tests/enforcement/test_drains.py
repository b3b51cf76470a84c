"""Shares that drain: held back until NVML lists nothing of their worker any more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from helpers.fake_nvml import Processes
from helpers.host import RecordedHost
from helpers.nvml import Card, FakeNvml
from helpers.occupants import GIB, UUID, Worker, half
from helpers.turns import in_time, next_turn

from actorlib._enforcement.drains import LIMIT
from actorlib._enforcement.gpu_watch import GpuWatch
from actorlib._enforcement.nvml_session import NvmlSession
from actorlib._options.kinds import UNITS
from actorlib.accelerators import Lease

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from actorlib._enforcement.drains import Drain
    from actorlib.accelerators import Share

pytestmark = pytest.mark.memory


class Room:
    """A card, NVML that is played, and what drains there."""

    def __init__(self) -> None:
        loop = self.loop = asyncio.get_running_loop()
        self.processes = Processes()
        self.faults: list[str] = []
        nvml = FakeNvml(Card(uuid=UUID), processes=self.processes)
        self.host = RecordedHost(sdks={"pynvml": nvml})
        self.gpus = GpuWatch(loop, self._open_session, self.faults.append)
        self.drains = self.gpus.drains

    def _open_session(self, on_fault: Callable[[str], None]) -> NvmlSession:
        self.session = NvmlSession(self.host, self.loop, on_fault)
        return self.session

    def enter(self, pid: int, *shares: Share) -> Worker:
        worker, held = Worker(pid), shares or (half(),)
        units = sum(share.units for share in held)
        lease = Lease(amounts={"GPU": units}, shares=held)
        self.gpus.add_worker(worker, "Model", lease, is_watched=False)
        return worker

    def leave(self, worker: Worker) -> Drain:
        self.gpus.drain_worker(worker)
        drain = self.drains.of(worker)
        assert drain is not None
        return drain

    async def looked(self, times: int = 1) -> None:
        """Waits until NVML has answered so many questions more."""
        for _ in range(times):
            answered: asyncio.Future[object] = self.loop.create_future()
            self.session.look((UUID,), answered.set_result)
            async with in_time():
                await answered


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    room = Room()
    yield room
    room.processes.going_on.set()
    await room.gpus.aclose()


async def over(drain: Drain) -> float:
    """Waits until a share has drained; gives how long that took."""
    loop = asyncio.get_running_loop()
    if not drain.is_over:
        await drain.ended()
    return loop.time() - drain.began


async def test_left_when_nothing_is_listed_then_it_is_over_at_the_first_look(
    room: Room,
) -> None:
    worker = room.enter(812)

    assert await over(room.leave(worker)) < 1
    assert list(room.drains) == []
    assert len(room.gpus.occupants) == 0


async def test_left_when_in_the_turn_in_which_it_came_then_its_share_is_free(
    on_both_loops: None, room: Room
) -> None:
    del on_both_loops
    async with in_time():
        await over(room.leave(room.enter(812)))

    assert list(room.drains) == []


async def test_left_when_the_worker_is_listed_then_not_before_it_is_gone(
    room: Room,
) -> None:
    worker = room.enter(812)
    room.processes.put(UUID, worker.pid, 3 * GIB)
    drain = room.leave(worker)
    released: list[Lease] = []
    lease = drain.occupant.lease
    drain.hold(lease, released.append)

    await room.looked(20)
    await asyncio.sleep(1)
    assert released == []
    assert str(drain) == "GPU 0: 0.5 drains: pid 812 still holds 3 GiB of GPU 0"

    room.processes.drop(812)
    await over(drain)
    assert released == [lease]
    assert drain.lease is None


async def test_left_when_it_takes_too_long_then_given_back_with_a_warning(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    worker = room.enter(812)
    room.processes.put(UUID, worker.pid, 3 * GIB)

    passed = await over(room.leave(worker))

    assert LIMIT <= passed < LIMIT + 1
    [line] = caplog.messages
    assert "Model (pid 812)" in line
    assert "pid 812 still holds 3 GiB of GPU 0" in line


async def test_left_when_nvml_hangs_then_the_limit_holds(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    worker = room.enter(812)
    await room.looked()
    room.processes.going_on.clear()

    passed = await over(room.leave(worker))

    assert LIMIT <= passed < LIMIT + 1
    assert "NVML has not listed" in caplog.text


async def test_left_when_an_answer_is_older_than_the_end_then_it_does_not_count(
    room: Room,
) -> None:
    worker = room.enter(812)
    room.processes.script(UUID, {}, {812: GIB})
    await next_turn()  # a question is on its way, and sees nothing yet
    drain = room.leave(worker)

    await room.looked(3)

    assert not drain.is_over
    assert [holder.pid for holder in drain.remaining] == [812]
    room.processes.script(UUID, {})
    await over(drain)


async def test_left_when_several_drain_then_each_is_over_with_its_own(
    room: Room,
) -> None:
    quarter = half(units=UNITS // 4)
    workers = [room.enter(pid, quarter) for pid in (1, 2)]
    for worker in workers:
        room.processes.put(UUID, worker.pid, GIB)
    first, second = map(room.leave, workers)
    room.processes.drop(2)
    await over(second)

    assert not first.is_over
    room.processes.drop(1)
    await over(first)


async def test_left_when_the_card_is_lost_then_nothing_is_waited_for(
    room: Room,
) -> None:
    worker = room.enter(812)
    room.processes.put(UUID, worker.pid, GIB)
    drain = room.leave(worker)
    room.processes.lose()

    assert await over(drain) < LIMIT
    assert room.faults == ["NVML has failed: GPU is lost"]
    room.gpus.drain_worker(worker)
    assert room.drains.of(worker) is None


async def test_left_when_it_was_not_on_a_device_then_nothing_drains(
    room: Room,
) -> None:
    worker = room.enter(812, half(source="declared", uuid=None))

    room.gpus.drain_worker(worker)
    await next_turn()

    assert list(room.drains) == []
    assert room.processes.looks == {}


async def test_close_when_shares_drain_then_they_are_back_at_once(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    worker, other = room.enter(812), room.enter(813)
    room.processes.put(UUID, worker.pid, GIB)
    drain = room.leave(worker)
    waiting = drain.ended()

    room.gpus.stop()

    assert drain.is_over
    await waiting
    room.gpus.drain_worker(other)
    assert room.drains.of(other) is None
    assert caplog.records == []


async def test_hold_when_it_is_over_then_given_back_at_once(room: Room) -> None:
    drain = room.leave(room.enter(812))
    await over(drain)
    released: list[Lease] = []

    drain.hold(drain.occupant.lease, released.append)

    assert released == [drain.occupant.lease]


async def test_finish_when_giving_back_fails_then_who_waits_is_told_all_the_same(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Lease) -> None:
        raise LookupError("it is broken")

    worker = room.enter(812)
    room.processes.put(UUID, worker.pid, GIB)
    drain = room.leave(worker)
    drain.hold(drain.occupant.lease, fail)
    waiting = drain.ended()
    room.gpus.stop()

    await waiting
    assert "it is broken" in caplog.text


async def test_left_when_nobody_is_listed_then_until_the_memory_is_back(
    room: Room,
) -> None:
    worker = room.enter(812, half(units=UNITS))
    await room.looked()
    room.processes.used[UUID] = 30 * GIB
    drain = room.leave(worker)
    await asyncio.sleep(LIMIT / 2)
    assert "a process that NVML does not list still holds 30 GiB" in str(drain)

    room.processes.used[UUID] = 0

    assert await over(drain) < LIMIT


async def test_left_when_unlisted_memory_was_there_before_then_it_is_not_waited_for(
    room: Room,
) -> None:
    room.processes.used[UUID] = 30 * GIB
    worker = room.enter(812, half(units=UNITS))
    await next_turn()
    await room.looked()

    assert await over(room.leave(worker)) < 1
