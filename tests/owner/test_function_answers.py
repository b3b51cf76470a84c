"""Calls of functions in the owner: each has one number, in whichever worker it is."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import actorlib
from actorlib._wire.function_code import ADD_FUNCTION
from actorlib._wire.messages import (
    CALL,
    CALL_SCALARS,
    CALL_WITH,
    FAILURE,
    RESULT,
    RESULT_SCALAR,
    UNSTARTED,
)
from actorlib._wire.serialization import encode
from tests.helpers.scripted import be_silent, scripted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from actorlib._wire.messages import Frame
    from tests.helpers.scripted import ScriptedWorker

LIMIT = 10.0


@actorlib.remote
def double(value: int) -> int:
    return 2 * value


class Calls:
    """The calls that have come to workers, in order."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[ScriptedWorker, Frame]] = asyncio.Queue()

    def take(self, worker: ScriptedWorker, frame: Frame) -> None:
        be_silent(worker, frame)
        is_call = frame[0] in (CALL, CALL_SCALARS, CALL_WITH)
        if is_call and frame[2] != ADD_FUNCTION:
            self._queue.put_nowait((worker, frame))

    async def next(self) -> tuple[ScriptedWorker, Frame]:
        return await asyncio.wait_for(self._queue.get(), LIMIT)


@asynccontextmanager
async def silent_workers(**options: Any) -> AsyncGenerator[Calls]:
    calls = Calls()
    async with scripted({"function": calls.take}, **options):
        yield calls


@pytest.mark.parametrize("kind", [RESULT, RESULT_SCALAR])
async def test_answer_when_another_worker_has_the_call_then_it_is_dropped(
    kind: int,
) -> None:
    def answer(number: int, value: str) -> Frame:
        if kind == RESULT:
            return (RESULT, number, None, encode(value))
        return (RESULT_SCALAR, number, value)

    async with silent_workers(num_cpus=2) as calls:
        refs = [double.remote(1), double.remote(2)]
        (first, one), (second, two) = await calls.next(), await calls.next()
        assert first is not second

        first.send(answer(two[1], "of the wrong worker"))
        first.send(answer(one[1], "one"))
        assert await asyncio.wait_for(refs[0], LIMIT) == "one"
        assert not refs[1].done()
        second.send(answer(two[1], "two"))

        assert await asyncio.wait_for(refs[1], LIMIT) == "two"


async def test_call_when_it_comes_back_unstarted_then_it_goes_on_as_the_same() -> None:
    async with silent_workers(num_cpus=1) as calls:
        ref = double.remote(1)
        worker, frame = await calls.next()

        worker.send((FAILURE, frame[1], UNSTARTED, "", "", "", None, b""))

        worker, again = await calls.next()
        assert again == frame
        worker.send((RESULT_SCALAR, again[1], 2))
        assert await asyncio.wait_for(ref, LIMIT) == 2


async def test_call_of_scalars_when_it_has_headers_then_they_arrive_too() -> None:
    async with silent_workers(num_cpus=1) as calls:
        ref = double.options(timeout=60).remote(1)

        worker, frame = await calls.next()

        assert frame[0] == CALL_WITH
        assert "deadline" in frame[4]
        worker.send((RESULT_SCALAR, frame[1], 2))
        assert await asyncio.wait_for(ref, LIMIT) == 2
