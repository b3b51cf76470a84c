"""A runtime that drains takes nothing new and finishes what it has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from helpers.marks import in_memory

import actorlib
from actorlib.exceptions import RuntimeDrainingError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actorlib import Runtime

pytestmark = in_memory(num_cpus=4, grace=0.5)


@actorlib.remote
class Front:
    """Calls another actor after a while."""

    async def ask(self, back: Any, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return str(await back.answer.remote())

    async def answer(self) -> str:
        return "answered"

    async def items(self) -> AsyncIterator[int]:
        for number in range(3):
            await asyncio.sleep(1)
            yield number


@actorlib.remote
def double(x: int) -> int:
    return 2 * x


async def test_drain_when_calls_are_under_way_then_finished_and_new_ones_refused(
    own_runtime: Runtime,
) -> None:
    front, back = Front.remote(), Front.remote()
    ref = front.ask.remote(back, 5)
    computed = double.remote(21)
    stream: Any = front.items.remote()

    drained = asyncio.create_task(own_runtime.drain())
    await asyncio.sleep(0)
    for refused in (
        front.answer.remote,
        front.items.remote,
        lambda: double.remote(1),
        Front.remote,
        lambda: actorlib.placement_group([{"CPU": 1}]),
    ):
        with pytest.raises(RuntimeDrainingError, match="takes no new ones"):
            refused()
    with pytest.raises(RuntimeDrainingError):
        await asyncio.to_thread(front.answer.remote)

    assert [await item async for item in stream] == [0, 1, 2]
    assert await drained == []
    assert (ref.done(), await ref, await computed) == (True, "answered", 42)
    assert await own_runtime.drain() == []


async def test_drain_when_one_takes_too_long_then_it_is_told_of(
    own_runtime: Runtime,
) -> None:
    front = await Front.remote()
    ref = front.ask.remote(front, 1000)

    [left] = await own_runtime.drain(timeout=1)

    assert left.method == "ask"
    assert not ref.done()
    with pytest.raises(ValueError, match="timeout takes a finite number"):
        await own_runtime.drain(timeout=-1)
