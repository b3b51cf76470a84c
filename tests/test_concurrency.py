"""Threads and loops of actors, where processes or the version of Python matter.

What holds for every engine is in ``contract/``: test_call_order, test_executors,
test_call_groups, test_method_threads and test_pending_calls.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from helpers.actors import Caller, Echo, Gate, end_of
from helpers.calls import raised
from helpers.marks import USES_RUNTIME, in_memory

import actorlib

pytestmark = [*in_memory(preload=[__name__]), USES_RUNTIME]


async def test_threads_when_they_drop_handles_then_the_actors_end() -> None:
    caller = Caller.options(max_concurrency=3).remote()

    def use(echo: Any) -> Any:
        return actorlib.get([echo.echo.remote(1)])

    for _ in range(5):
        echo = Echo.remote()
        ended = end_of(echo)
        refs = [caller.run.remote(use, echo) for _ in range(3)]
        assert await asyncio.gather(*refs) == [[1], [1], [1]]
        del echo
        await ended


async def test_coroutines_when_more_than_the_recursion_limit_then_all_run() -> None:
    count = 4 * sys.getrecursionlimit()
    gate = actorlib.remote(max_concurrency=count + 2)(Gate.__wrapped__).remote()
    refs = [gate.wait.remote() for _ in range(count)]
    await gate.reached.remote()
    await gate.open.remote()

    assert await asyncio.gather(*refs) == [""] * count


def _begin_at_once(loop: Any, work: Any, *, context: Any = None, **_: Any) -> Any:
    # As asyncio's own, which in 3.13.0 refuses options that newer uvloops give it.
    new_task: Any = asyncio.Task
    return new_task(work, loop=loop, context=context, eager_start=True)


@actorlib.remote(max_concurrency=2)
class Eager:
    """Its loop begins a task where it is made."""

    def __init__(self) -> None:
        asyncio.get_running_loop().set_task_factory(_begin_at_once)

    async def echo(self, value: Any) -> Any:
        return value

    async def fail(self) -> None:
        raise LookupError("at once")

    async def count(self, number: int) -> Any:
        for value in range(number):
            yield value


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are newer")
@pytest.mark.usefixtures("on_both_loops", "same_loop_in_workers")
async def test_async_actor_when_its_tasks_are_eager_then_calls_are_answered() -> None:
    actor = Eager.remote()
    refs = [actor.echo.remote(number) for number in range(2_000)]

    assert await asyncio.gather(*refs) == list(range(2_000))
    assert isinstance(await raised(actor.fail.remote()), LookupError)
    assert [await item async for item in actor.count.remote(9)] == list(range(9))
    unwanted = actor.echo.remote(1)
    unwanted.cancel()
    assert await actor.echo.remote(2) == 2
