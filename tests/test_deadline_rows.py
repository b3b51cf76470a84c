"""The parts that keep deadlines, what timeouts may be, and deadlines at the end."""

from __future__ import annotations

import asyncio
import pickle
import time

import pytest
from helpers.actors import Gate, running

from actorlib._owner.calls.response_target import Clock, Timekeeper
from actorlib.exceptions import DeadlineExceededError

NEVER = 60.0


@pytest.mark.memory
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
