"""Calls whose time is over: wherever they are, they fail and stop."""

from __future__ import annotations

import asyncio
import os
import pickle
import re
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from helpers import deadlines
from helpers.actors import AsyncCaller, Caller, Echo, Gate, Log, MixedLog, Stop, running
from helpers.deadlines import late, until_canceled

import actorlib
from actorlib._owner.deadlines import Clock, Timekeeper
from actorlib.exceptions import ActorlibError, DeadlineExceededError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from actorlib import ActorHandle, Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

SOON = 0.05
SOON_ENOUGH = 0.25
"""For what has to have begun by then."""
"""For calls that make calls."""
NEVER = 60.0

process = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("on_both_loops", "same_loop_in_workers", "runtime"),
]


class Worker(deadlines.Worker):
    """Works until nobody waits for it, in more ways."""

    @actorlib.method(timeout=SOON_ENOUGH)
    def hurry(self) -> str:
        """Has a time of its own."""
        return self.note(until_canceled())

    def hold(self, gate: ActorHandle[Any], echo: ActorHandle[Any]) -> Any:
        """Waits for a call that waits for its argument."""
        never = gate.wait.remote()
        return actorlib.get(echo.echo.options(timeout=SOON).remote(never))


class MixedWorker(Worker):
    """The same, with an event loop."""

    async def ask_later(self, handle: ActorHandle[Any], method: str) -> Any:
        """Asks another actor, and notes how it was left."""
        try:
            return await getattr(handle, method).remote()
        except asyncio.CancelledError:
            self.note("cancelled")
            raise

    async def seen_later(self) -> list[str]:
        """What was noted, asked on the loop: behind what that has begun to cancel."""
        return self.seen()


KINDS = {
    "serial": actorlib.remote(Worker),
    "threaded": actorlib.remote(max_concurrency=2)(Worker),
    "looped": actorlib.remote(MixedWorker),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


class TestOwner:
    """Calls of the owner's."""

    pytestmark = process

    @each_kind
    async def test_deadline_when_a_plain_method_runs_then_it_fails_and_sees_it(
        self, kind: Any
    ) -> None:
        worker = await kind.remote()

        error = await late(worker.work.options(timeout=SOON_ENOUGH).remote())

        assert isinstance(error, TimeoutError)
        assert "Worker.work" in str(error)
        assert "0.25 s that it was given" in str(error)
        assert (error.timeout, error.is_inherited) == (SOON_ENOUGH, False)
        if kind is not KINDS["threaded"]:  # another thread may be quicker
            assert await worker.seen.remote() == ["stopped by itself"]

    @each_kind
    async def test_deadline_when_it_is_the_method_s_then_for_every_call(
        self, kind: Any
    ) -> None:
        worker = await kind.remote()

        await late(worker.hurry.remote())

        if kind is not KINDS["threaded"]:  # another thread may be quicker
            assert await worker.seen.remote() == ["stopped by itself"]

    async def test_deadline_when_the_call_names_another_then_that_one(self) -> None:
        worker = await KINDS["serial"].remote()

        error = await late(worker.hurry.options(timeout=2 * SOON_ENOUGH).remote())

        assert error.timeout == 2 * SOON_ENOUGH

    async def test_deadline_when_an_async_method_runs_then_it_is_cancelled(
        self,
    ) -> None:
        gate = await Gate.remote()

        await late(gate.wait.options(timeout=SOON).remote("here"))

        assert await gate.left.remote() == ["here"]

    @pytest.mark.parametrize("log_class", [Log, MixedLog], ids=["serial", "mixed"])
    async def test_deadline_when_it_is_in_the_queue_then_it_never_runs(
        self, log_class: Any, stop: Stop
    ) -> None:
        log = actorlib.remote(log_class).remote()
        first = log.stop.remote(stop.place)
        await stop.reached()

        await late(log.note.options(timeout=SOON).remote("never"))
        stop.release()
        await first

        assert await log.seen.remote() == [None]

    async def test_deadline_when_the_actor_is_not_ready_then_it_fails_in_time(
        self, stop: Stop
    ) -> None:
        log = actorlib.remote(Log).remote(stop.place)
        await stop.reached()

        await late(log.note.options(timeout=SOON).remote("never"))
        stop.release()

        assert await log.seen.remote() == []

    async def test_deadline_when_the_arguments_are_not_there_then_it_fails_in_time(
        self,
    ) -> None:
        gate, echo = Gate.remote(), Echo.remote()
        given = gate.wait.remote()

        error = await late(echo.echo.options(timeout=SOON).remote(given))
        await gate.open.remote()

        assert "Echo.echo" in str(error)
        assert await given == ""
        assert await echo.echo.remote(1) == 1

    async def test_deadline_when_it_is_far_then_the_answer_comes_and_nothing_is_kept(
        self,
    ) -> None:
        echo = Echo.remote()
        ask = echo.echo.options(timeout=NEVER)

        assert await asyncio.gather(*(ask.remote(n) for n in range(300))) == [
            *range(300)
        ]

    async def test_deadline_when_it_is_cancelled_before_then_it_stays_cancelled(
        self,
    ) -> None:
        gate = await Gate.remote()
        ref = gate.wait.options(timeout=NEVER).remote()

        ref.cancel()

        with pytest.raises(actorlib.exceptions.TaskCancelledError):
            await ref

    async def test_deadline_when_inside_then_it_says_what_is_left(self) -> None:
        worker = await KINDS["serial"].remote()

        assert await worker.left.remote() is None
        left = await worker.left.options(timeout=NEVER).remote()

        assert 0 < left < NEVER


class TestNested:
    """Calls that calls make."""

    pytestmark = process

    @each_kind
    async def test_deadline_when_a_call_makes_another_then_that_inherits_it(
        self, kind: Any
    ) -> None:
        front, back = await kind.remote(), await KINDS["serial"].remote()

        await late(front.ask.options(timeout=SOON_ENOUGH).remote(back, "work"))

        assert await back.seen.remote() == ["stopped by itself"]
        if kind is not KINDS["threaded"]:  # another thread may be quicker
            assert await front.seen.remote() == ["DeadlineExceededError"]

    async def test_deadline_when_an_async_method_asked_then_both_are_cancelled(
        self,
    ) -> None:
        front, gate = await KINDS["looped"].remote(), await Gate.remote()

        await late(front.ask_later.options(timeout=SOON_ENOUGH).remote(gate, "wait"))

        assert await gate.left.remote() == [""]
        assert await front.seen_later.remote() == ["cancelled"]

    async def test_deadline_when_there_are_three_in_a_row_then_all_stop(self) -> None:
        worker = KINDS["serial"]
        first, second, third = [await worker.remote() for _ in range(3)]

        await late(
            first.ask.options(timeout=SOON_ENOUGH).remote(second, "ask", third, "work")
        )

        assert await third.seen.remote() == ["stopped by itself"]
        assert await second.seen.remote() == ["DeadlineExceededError"]

    async def test_deadline_when_it_is_inherited_then_the_error_says_from_whom(
        self,
    ) -> None:
        caller, gate = await Caller.remote(), await Gate.remote()
        inner = caller.run.options(timeout=SOON_ENOUGH).remote(told_by, gate)

        await late(inner)

        told, is_inherited = await caller.run.remote(told_before)
        assert is_inherited
        assert re.match(
            r"Gate\.wait \(pid \d+\) was not done within the 0\.25 s that Caller\.run "
            r"\(pid \d+\), which called it,",
            told,
        )

    async def test_deadline_when_its_own_is_sooner_then_it_counts(self) -> None:
        caller, gate = await Caller.remote(), await Gate.remote()

        with pytest.raises(DeadlineExceededError) as caught:
            await caller.run.options(timeout=NEVER).remote(ask_soon, gate)

        assert not caught.value.is_inherited
        assert caught.value.timeout == SOON

    async def test_deadline_when_the_one_in_the_middle_is_killed_then_the_last_stops(
        self,
    ) -> None:
        first, second, third = [await KINDS["serial"].remote() for _ in range(3)]
        ref = first.ask.options(timeout=SOON_ENOUGH).remote(
            second, "ask", third, "work"
        )
        actorlib.kill(second)

        with pytest.raises(ActorlibError):
            await ref

        assert await third.seen.remote() in ([], ["stopped by itself"])

    @each_kind
    async def test_deadline_when_a_worker_holds_the_call_back_then_it_fails_in_time(
        self, kind: Any
    ) -> None:
        worker, gate, echo = kind.remote(), Gate.remote(), Echo.remote()

        with pytest.raises(DeadlineExceededError, match=r"Echo\.echo"):
            await worker.hold.remote(gate, echo)

        assert await echo.echo.remote(1) == 1

    async def test_deadline_when_an_async_method_holds_it_back_then_it_fails_in_time(
        self,
    ) -> None:
        caller, gate, echo = AsyncCaller.remote(), Gate.remote(), Echo.remote()

        with pytest.raises(DeadlineExceededError, match=r"Echo\.echo"):
            await caller.run.remote(hold, gate, echo)


_told: list[Any] = []


def told_by(gate: ActorHandle[Any]) -> None:
    try:
        actorlib.get(gate.wait.remote())
    except DeadlineExceededError as error:
        _told.append((str(error), error.is_inherited))


def told_before() -> Any:
    return _told[0]


def ask_soon(gate: ActorHandle[Any]) -> Any:
    return actorlib.get(gate.wait.options(timeout=SOON).remote())


async def hold(gate: ActorHandle[Any], echo: ActorHandle[Any]) -> Any:
    never = gate.wait.remote()
    return await echo.echo.options(timeout=SOON).remote(never)


# Restarts, ends.


@pytest.mark.process
async def test_deadline_when_the_actor_restarts_then_the_call_keeps_it() -> None:
    async with running():
        kind = KINDS["serial"].options(
            max_restarts=1, restart_backoff=0, max_task_retries=1
        )
        worker = await kind.remote()
        pid = await pid_of(worker)
        ref = worker.work.options(timeout=SOON_ENOUGH).remote()
        os.kill(pid, signal.SIGKILL)

        error = await late(ref)

        assert error.timeout == SOON_ENOUGH
        assert await worker.seen.remote() in ([], ["stopped by itself"])


async def pid_of(worker: Any) -> int:
    pid: int = await worker.__ray_call__.remote(lambda _: os.getpid())
    return pid


@pytest.mark.process
async def test_deadline_when_the_runtime_ends_then_no_timer_is_left() -> None:
    async with running(grace=0.1) as runtime:
        gate = await Gate.remote()
        refs = [gate.wait.options(timeout=NEVER).remote() for _ in range(10)]
        await gate.reached.remote()
        await runtime.shutdown()

        errors = await asyncio.gather(*refs, return_exceptions=True)

    assert {type(error).__name__ for error in errors} == {"ActorDiedError"}
    scheduled = getattr(asyncio.get_running_loop(), "_scheduled", [])
    timers = [handle for handle in scheduled if not handle.cancelled()]
    assert not [t for t in timers if "Clock" in repr(t)]


# The parts.


async def test_timekeeper_when_a_call_is_answered_then_only_the_other_is_late() -> None:
    over: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
    keeper: Timekeeper[int] = Timekeeper(
        Clock(asyncio.get_running_loop()),
        lambda call, timed: over.put_nowait((call, timed.method)),
    )
    now = time.monotonic()
    keeper.add(1, "answered", (now + 0.01, 0.01, ""))
    keeper.add(2, "late", (now + 0.02, 0.02, ""))
    keeper.add(3, "first", (now, 0.0, ""))
    keeper.discard(1)

    assert [await over.get(), await over.get()] == [(3, "first"), (2, "late")]
    assert keeper.calls == {}


async def test_timekeeper_when_a_late_call_ends_another_then_that_is_not_told() -> None:
    loop = asyncio.get_running_loop()
    told: list[int] = []
    done = loop.create_future()

    def over(call: int, _: object) -> None:
        told.append(call)
        keeper.discard(2)
        done.set_result(None)

    keeper: Timekeeper[int] = Timekeeper(Clock(loop), over)
    keeper.add(1, "a", (0.0, 0.0, ""))
    keeper.add(2, "b", (0.0, 0.0, ""))
    await done

    assert told == [1]


@pytest.mark.process
def test_error_when_pickled_then_it_arrives_whole() -> None:
    error = DeadlineExceededError("late", timeout=1.5, is_inherited=True)

    arrived = pickle.loads(pickle.dumps(error))

    assert (str(arrived), arrived.timeout, arrived.is_inherited) == ("late", 1.5, True)


@pytest.mark.process
@pytest.mark.parametrize("timeout", ["1", True, [1]])
def test_timeout_when_of_a_wrong_type_then_refused_where_it_is_written(
    timeout: Any,
) -> None:
    with pytest.raises(TypeError, match="timeout takes a number of seconds"):
        actorlib.method(timeout=timeout)


@pytest.mark.process
@pytest.mark.parametrize("timeout", [0, 0.0, -1, float("inf"), float("nan")])
def test_timeout_when_out_of_range_then_refused_where_it_is_written(
    timeout: float,
) -> None:
    with pytest.raises(ValueError, match="timeout takes a finite number of seconds"):
        actorlib.method(timeout=timeout)
