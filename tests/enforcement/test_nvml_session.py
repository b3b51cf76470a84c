"""The session with NVML: its thread, its answers, and its end."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from helpers.fake_nvml import Processes
from helpers.host import RecordedHost
from helpers.nvml import Card, FakeNvml, Part
from helpers.turns import in_time

from actorlib._enforcement.gpu_processes import UNLISTED
from actorlib._enforcement.nvml_session import NvmlSession

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actorlib._enforcement.nvml_session import Look

A, B = "GPU-aaaa", "GPU-bbbb"
MIG = "MIG-cccc"


def stat(pid: int, parent: int, session: int) -> str:
    fields = ["S", parent, pid, session, *[0] * 15, 4000 + pid, 0, 9]
    return f"{pid} (python) {' '.join(map(str, fields))}"


FILES = {
    "/proc/812/stat": stat(812, 7, 812),
    "/proc/813/stat": stat(813, 812, 812),
    "/proc/814/stat": stat(814, 813, 814),
    "/proc/7/stat": stat(7, 1, 7),
}


class Asker:
    """A session with a driver that is played, and its answers."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.processes = Processes()
        self.faults: list[str] = []
        self.nvml = FakeNvml(
            Card(uuid=A),
            Card(uuid=B, mig=True, parts=[Part(uuid=MIG)]),
            processes=self.processes,
        )
        host = RecordedHost(files=FILES, sdks={"pynvml": self.nvml})
        self.failed = loop.create_future()
        self.session = NvmlSession(host, loop, self._fail)

    def _fail(self, reason: str) -> None:
        self.faults.append(reason)
        self.failed.set_result(reason)

    async def look(self, *devices: str) -> Look:
        answered: asyncio.Future[Look] = asyncio.get_running_loop().create_future()
        self.session.look(devices or (A,), answered.set_result)
        async with in_time():
            await asyncio.wait(
                [answered, self.failed], return_when=asyncio.FIRST_COMPLETED
            )
        return answered.result() if answered.done() else {}

    async def bytes_of(self, device: str = A) -> dict[int, int | None]:
        look = await self.look(device)
        return {each.pid: each.nbytes for each in look.get(device, ())}


@pytest.fixture
async def asker() -> AsyncIterator[Asker]:
    asker = Asker()
    yield asker
    asker.processes.going_on.set()
    await asker.session.aclose()
    assert asker.nvml.open == 0


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "actorlib-nvml"]


async def test_session_when_nothing_is_asked_then_nothing_is_started(
    asker: Asker,
) -> None:
    assert threads() == []
    assert asker.nvml.open == 0


async def test_session_when_no_thread_can_be_started_then_it_is_over(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert await asker.look() == {}
    assert asker.faults == ["can't start new thread"]
    assert asker.session.is_over


async def test_look_when_asked_twice_then_by_one_session(asker: Asker) -> None:
    asker.processes.put(A, 812, 5)

    assert await asker.bytes_of() == {812: 5}
    asker.processes.drop(812)
    assert await asker.bytes_of() == {}
    assert asker.nvml.open == 1
    assert len(threads()) == 1


async def test_look_when_processes_are_here_then_their_lineage_is_told(
    asker: Asker,
) -> None:
    for pid in (812, 813, 814, 4242):
        asker.processes.put(A, pid, 1)

    listed = {each.pid: each for each in (await asker.look())[A]}

    assert listed[812].lineage == {812, 7}
    assert listed[814].lineage == {814, 813, 812, 7}
    assert listed[814].name == "python"
    assert listed[814].began == 4814
    assert listed[4242].lineage == frozenset()


async def test_look_when_lists_are_missing_or_change_then_each_process_is_told_once(
    asker: Asker,
) -> None:
    asker.processes.put(MIG, 812, 7)
    asker.processes.put(B, 813, 6)
    assert await asker.bytes_of(MIG) == {812: 7}  # by the UUID of the instance

    asker.processes.put(A, 812, 5)
    asker.processes.put(A, 812, 9, "Graphics")
    asker.processes.put(A, 813, None)
    asker.processes.put(A, 814, 2, "MPSCompute")
    assert await asker.bytes_of() == {812: 9, 813: None, 814: 2}

    asker.processes.fail("INSUFFICIENT_SIZE", times=3)
    assert await asker.bytes_of() == {812: 9, 813: None, 814: 2}

    asker.processes.is_older = True  # it knows the lists by older names
    assert await asker.bytes_of() == {812: 9, 813: None, 814: 2}

    asker.processes.unsupported.add("Graphics")
    assert await asker.bytes_of() == {812: 5, 813: None, 814: 2}
    asker.processes.unsupported.add("MPSCompute")
    assert await asker.bytes_of() == {812: 5, 813: None}


async def test_look_when_no_list_is_supported_then_the_session_is_over(
    asker: Asker,
) -> None:
    asker.processes.unsupported |= {"Compute", "Graphics", "MPSCompute"}

    assert await asker.look() == {}
    assert asker.faults == ["Not Supported"]


async def test_look_when_the_card_is_lost_then_told_once_and_nothing_is_raised(
    asker: Asker,
) -> None:
    assert await asker.bytes_of() == {}
    asker.processes.lose()

    assert await asker.look() == {}
    asker.session.look((A,), lambda _: pytest.fail("it is over"))

    assert asker.faults == ["GPU is lost"]
    assert asker.session.fault == "GPU is lost"
    assert asker.session.is_over


async def test_look_when_nvml_is_not_there_then_told() -> None:
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[str] = loop.create_future()
    session = NvmlSession(RecordedHost(), loop, failed.set_result)

    session.look((A,), lambda _: None)

    async with in_time():
        assert "pynvml" in await failed
    await session.aclose()


async def test_close_when_a_call_hangs_then_it_is_not_waited_for_long(
    asker: Asker,
) -> None:
    await asker.look()
    asker.processes.going_on.clear()
    asker.processes.asked.clear()
    asker.session.look((A,), lambda _: pytest.fail("it is over"))
    await asyncio.to_thread(asker.processes.asked.wait)

    async with in_time():
        await asker.session.aclose(patience=0.01)

    [thread] = threads()
    asker.processes.going_on.set()
    await asyncio.to_thread(thread.join)
    assert asker.faults == []


async def test_close_when_the_loop_is_closed_before_then_the_thread_ends() -> None:
    def lived() -> threading.Thread:
        loop = asyncio.new_event_loop()
        host = RecordedHost(sdks={"pynvml": FakeNvml(Card(uuid=A))})
        session = NvmlSession(host, loop, lambda _: None)
        session.look((A,), lambda _: None)
        [thread] = threads()
        loop.close()
        session.close()
        return thread

    await asyncio.to_thread(lived().join)


async def test_fork_when_the_thread_is_the_parents_then_nothing_is_asked(
    asker: Asker,
) -> None:
    await asker.look()
    looks = asker.processes.looks[A]
    forked = Asker()
    forked.session.close_in_fork()

    forked.session.look((A,), lambda _: pytest.fail("it is a fork"))
    await forked.session.aclose()

    assert asker.processes.looks[A] == looks


async def test_look_when_nobody_is_listed_then_what_is_in_use_is_told(
    asker: Asker,
) -> None:
    asker.processes.used[A] = 2**30
    assert await asker.bytes_of() == {UNLISTED: 2**30}

    asker.processes.put(A, 812, 5)
    assert await asker.bytes_of() == {812: 5}

    asker.processes.drop(812)
    asker.processes.used[A] = 2**30 - 1
    assert await asker.bytes_of() == {}
