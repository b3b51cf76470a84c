"""Calls that are counted as their refs are filled, and nobody looks at."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import running

import actorlib
from actorlib import ObjectRef
from actorlib._futures.tally import Tally
from actorlib.exceptions import (
    SerializationError,
    TaskCancelledError,
    WorkerCrashedError,
)

if TYPE_CHECKING:
    from actorlib._options.callee import Callee


def tallied(tally: Tally) -> ObjectRef[int]:
    """A ref whose call is counted."""
    ref: ObjectRef[int] = ObjectRef(loop=asyncio.get_running_loop())
    ref.first_waiter = tally  # as a counter does
    return ref


async def test_ref_when_filled_then_its_call_is_counted() -> None:
    tally = Tally()
    value, error, cancelled = (tallied(tally) for _ in range(3))

    value.set_result(1)
    error.set_exception(WorkerCrashedError("it ended"))
    cancelled.set_cancelled()
    tally.refuse()

    assert tally.outcomes() == {"ok": 1, "error": 1, "cancelled": 1, "lost": 1}
    assert error.exception() is not None


async def test_ref_when_awaited_then_its_call_is_counted_once() -> None:
    tally = Tally()
    value, error, cancelled = refs = [tallied(tally) for _ in range(3)]
    waits = [asyncio.ensure_future(wait_for(ref)) for ref in (*refs, *refs)]
    await asyncio.sleep(0)

    value.set_result(1)
    error.set_exception(ValueError())
    cancelled.set_cancelled()
    found = await asyncio.gather(*waits, return_exceptions=True)
    refs.clear()
    del value, error, cancelled, waits
    gc.collect()

    assert found[0] == found[3] == 1
    assert [type(one) for one in found[1:3]] == [ValueError, TaskCancelledError]
    assert tally.outcomes() == {"ok": 1, "error": 1, "cancelled": 1, "lost": 0}


async def wait_for(ref: ObjectRef[int]) -> int:
    return await ref


async def test_ref_when_its_parts_are_filled_then_its_call_is_counted_too() -> None:
    tally, told = Tally(), list[int]()
    ref = tallied(tally)
    ref.call_when_filled(lambda: told.append(ref.result()))

    ref.set_result(3)

    assert told == [3]
    assert tally.ok == 1


class Owner:
    """Is asked to look whether anybody holds a ref."""

    def __init__(self) -> None:
        self.unused: list[object] = []

    def release_if_unused(self, ref: object) -> None:
        self.unused.append(ref)


async def test_ref_when_a_wait_is_given_up_then_another_wait_ends_and_counts() -> None:
    tally = Tally()
    ref = tallied(tally)
    owner: Any = Owner()
    ref.bind(owner, 1)
    first = asyncio.ensure_future(wait_for(ref))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.ensure_future(wait_for(ref))
    await asyncio.sleep(0)

    ref.set_result(2)

    assert await second == 2
    assert owner.unused == [ref]
    assert tally.outcomes() == {"ok": 1, "error": 0, "cancelled": 0, "lost": 0}


class Counting:
    """Has every call counted."""

    def __init__(self) -> None:
        self.tally = Tally()

    def tally_of(self, _: Callee) -> Tally:
        return self.tally

    def before(self, _: object) -> None: ...

    def after(self, _: object, __: object, ___: object) -> None: ...


@actorlib.remote
class Loop:
    async def back(self, value: Any) -> Any:
        return value

    async def fail(self) -> None:
        raise KeyError

    async def wait(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.memory
async def test_calls_when_counted_then_each_is_however_it_is_waited_for() -> None:
    counting = Counting()
    async with running(num_cpus=1) as runtime:
        runtime.add_middleware(counting)
        loop = await Loop.remote()
        tally = counting.tally

        assert await loop.back.remote(1) == 1
        assert await asyncio.gather(*map(loop.back.remote, range(9))) == [*range(9)]
        later = loop.back.remote(2)
        assert await loop.back.remote(later) == 2
        assert await asyncio.to_thread(lambda: loop.back.remote(3).get()) == 3
        assert tally.outcomes() == {"ok": 13, "error": 0, "cancelled": 0, "lost": 0}

        with pytest.raises(KeyError):
            await loop.fail.remote()
        with pytest.raises(SerializationError):
            loop.back.remote(threading.Lock())
        assert tally.others["error"] == 2

        cancelled = loop.wait.remote()
        actorlib.cancel(cancelled)
        with pytest.raises(TaskCancelledError):
            await cancelled
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await loop.wait.remote()
        gc.collect()
        assert tally.others["cancelled"] == 2

        lost = loop.wait.remote()
        await actorlib.kill(loop)
        with pytest.raises(actorlib.exceptions.ActorDiedError):
            await lost
        assert tally.outcomes() == {"ok": 13, "error": 2, "cancelled": 2, "lost": 1}


class Raising(Counting):
    def tally_of(self, _: Callee) -> Tally:
        raise KeyError("no")


@pytest.mark.memory
async def test_counter_when_it_raises_then_that_is_logged_once_and_calls_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(num_cpus=1) as runtime:
        runtime.add_middleware(Raising())
        loop = await Loop.remote()

        assert await loop.back.remote(1) == 1
        assert await loop.back.remote(2) == 2

    assert caplog.text.count("Raising.tally_of()") == 1
