"""The clock of tests: it jumps over idle time, and over nothing else."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Self

import pytest
from helpers.actors import AsyncCaller, Caller, Gate, Stop, running
from helpers.jumping_loop import JumpingLoop

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.memory

HOUR = 3600.0


class RealTime:
    """How much time really passes in a block, and by the clock of the loop."""

    def __enter__(self) -> Self:
        self._real, self._told = time.perf_counter(), time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.real = time.perf_counter() - self._real
        self.told = time.monotonic() - self._told

    @property
    def jumped(self) -> float:
        """The time that was jumped over."""
        return self.told - self.real


async def test_sleep_when_nothing_else_happens_then_it_takes_no_time() -> None:
    with RealTime() as passed:
        await asyncio.sleep(HOUR)

    assert passed.told >= HOUR
    assert passed.jumped > 0.9 * HOUR


async def test_timers_when_jumped_to_then_they_come_in_their_order() -> None:
    loop, seen = asyncio.get_running_loop(), []
    for hours in (3, 1, 2):
        loop.call_later(hours * HOUR, seen.append, hours)
    await asyncio.sleep(4 * HOUR)

    assert seen == [1, 2, 3]


def _computes(go_on: threading.Event) -> None:
    while not go_on.is_set():
        pass


def _waits_with_a_limit(go_on: threading.Event) -> None:
    go_on.wait(5)


def _sleeps(go_on: threading.Event) -> None:
    while not go_on.is_set():
        time.sleep(0.001)


@pytest.mark.parametrize("work", [_computes, _waits_with_a_limit, _sleeps])
async def test_sleep_when_a_thread_works_then_the_clock_does_not_jump(
    work: Callable[[threading.Event], None],
) -> None:
    go_on = threading.Event()
    working = asyncio.ensure_future(asyncio.to_thread(work, go_on))
    with RealTime() as passed:
        await asyncio.sleep(0.02)
    go_on.set()
    await working

    assert passed.jumped < 0.001


async def test_sleep_when_a_thread_waits_for_this_one_then_the_clock_jumps() -> None:
    go_on = threading.Event()
    waiting = asyncio.ensure_future(asyncio.to_thread(go_on.wait))
    try:
        await asyncio.sleep(HOUR)
    finally:
        go_on.set()

    assert await waiting


async def test_sleep_when_a_thread_joins_one_that_waits_then_the_clock_jumps() -> None:
    go_on = threading.Event()
    waiting = threading.Thread(target=go_on.wait)
    waiting.start()
    joining = asyncio.ensure_future(asyncio.to_thread(waiting.join))
    try:
        await asyncio.sleep(HOUR)
    finally:
        go_on.set()

    await joining


async def test_sleep_when_a_thread_has_spoken_then_it_is_heard_first() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)  # noqa: FBT003  # the socket API
        loop, seen = asyncio.get_running_loop(), []
        loop.call_later(HOUR, seen.append, "timer")
        speaking = asyncio.ensure_future(asyncio.to_thread(theirs.send, b"!"))
        seen.append(await loop.sock_recv(ours, 1))
        await speaking

        assert seen == [b"!"]


@pytest.mark.process
def test_sleep_when_a_process_was_started_then_the_clock_does_not_jump() -> None:
    async def sleep() -> float:
        with RealTime() as passed:
            await asyncio.sleep(0.02)
        return passed.jumped

    with (
        asyncio.Runner(loop_factory=JumpingLoop) as runner,
        subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE
        ) as child,
    ):
        assert runner.run(sleep()) < 0.001
        child.communicate(b"\n")


def test_jump_when_a_worker_wakes_by_itself_then_it_is_no_further_than_its_timer() -> (
    None
):
    loop, worker = JumpingLoop(), JumpingLoop(is_of_test=False)
    try:
        begun = loop.time()
        worker.rests_until = begun + HOUR

        def poll(seconds: float | None) -> list[str]:
            if seconds == 0:  # everybody was found asleep: it wakes, and rests no more
                worker.rests_until = None
            return ["it has spoken"] if loop.time() >= begun + HOUR else []

        assert loop.rest(poll, begun + 20 * HOUR) == ["it has spoken"]
        assert loop.time() < begun + 2 * HOUR
    finally:
        worker.close()
        loop.close()


def test_loop_when_the_last_one_is_closed_then_time_is_what_it_was() -> None:
    real = time.monotonic
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(asyncio.sleep(HOUR))
        assert time.monotonic is not real

    assert time.monotonic is real


async def test_actor_when_its_method_stands_still_then_the_clock_jumps() -> None:
    with Stop() as stop:
        async with running():
            actor = Caller.remote()
            answer = actor.run.remote(stop.place.stop_here)
            await stop.reached()
            with RealTime() as passed:
                await asyncio.sleep(1)
            stop.release()
            await answer

    assert passed.jumped > 0.5


async def test_actor_when_it_sleeps_on_its_loop_then_that_is_jumped_over() -> None:
    async with running():
        actor = AsyncCaller.remote()
        with RealTime() as passed:
            await actor.run.remote(asyncio.sleep, 15)

    assert passed.told >= 15
    assert passed.jumped > 10


async def test_actor_when_it_computes_then_a_deadline_is_kept_in_real_time() -> None:
    async with running():
        actor = Caller.remote()
        await actor
        with RealTime() as passed:
            assert await actor.run.options(timeout=10).remote(sum, range(300_000))

    assert passed.told < 10


async def test_deadlock_when_nobody_can_go_on_then_the_test_ends_at_once() -> None:
    with RealTime() as passed, pytest.raises(asyncio.CancelledError, match="20 s"):
        async with running():
            await Gate.remote().wait.remote()

    assert passed.jumped > 10
