"""What the threads of a program may do beside the one that runs the loop."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Counter, Echo, Gate, Log, end_of
from helpers.functions import add, fail
from helpers.streams import Source as PlainSource

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorNotFoundError,
    GetTimeoutError,
    SerializationError,
    TaskCancelledError,
)

if TYPE_CHECKING:
    from actorlib import Runtime

Source = actorlib.remote(PlainSource)

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("on_both_loops"),
]


async def test_thread_when_it_calls_actors_then_answers_come_in_order(
    runtime: Runtime,
) -> None:
    log = actorlib.remote(Log).remote()

    def call() -> Any:
        refs = [log.note.remote(number) for number in range(100)]
        refs += [log.note.remote(value=(number,)) for number in range(5)]
        return actorlib.get(refs), refs[7].get(), log.seen.remote().get(timeout=20)

    values, seventh, seen = await asyncio.to_thread(call)

    assert values == seen == [*range(100), *((number,) for number in range(5))]
    assert seventh == 7
    assert runtime.calls() == []


async def test_threads_when_they_call_side_by_side_then_each_is_answered(
    runtime: Runtime,
) -> None:
    del runtime
    counter, loop = Counter.remote(), asyncio.get_running_loop()

    def call() -> list[int]:
        return actorlib.get([counter.add.remote() for _ in range(50)])

    with ThreadPoolExecutor(8) as pool:
        found = [loop.run_in_executor(pool, call) for _ in range(8)]
        own = await asyncio.gather(*[counter.add.remote() for _ in range(50)])
        values = [value for each in await asyncio.gather(*found) for value in each]

    assert sorted(values + own) == list(range(1, 451))


@pytest.mark.usefixtures("runtime")
async def test_thread_when_it_asks_for_what_is_wrong_then_it_is_told_in_its_line() -> (
    None
):
    echo, gate = Echo.remote(), Gate.remote()

    def ask() -> None:
        with pytest.raises(TypeError, match="value"):
            echo.echo.remote()
        with pytest.raises(SerializationError, match="generator"):
            echo.echo.remote(number for number in [])
        with pytest.raises(ValueError, match="no"):
            echo.fail.remote(ValueError("no")).get()
        with pytest.raises(ValueError, match="no"):
            actorlib.get([gate.wait.remote(), fail.remote(ValueError("no"))])
        with pytest.raises(GetTimeoutError):
            gate.wait.remote().get(timeout=0.01)
        with pytest.raises(ActorNotFoundError):
            actorlib.get_actor("nobody")

    await asyncio.to_thread(ask)


@pytest.mark.usefixtures("runtime")
async def test_thread_when_it_makes_finds_and_kills_actors_then_so_it_is() -> None:
    Counter.options(name="known", lifetime="detached").remote(4)

    def work() -> Any:
        made, known = Counter.remote(8), actorlib.get_actor("known")
        values = actorlib.get([made.add.remote(), known.add.remote(), add.remote(1, 2)])
        actorlib.kill(known).get()
        with pytest.raises(ActorDiedError):
            known.add.remote().get()
        return values, actorlib.put(values).get()

    assert await asyncio.to_thread(work) == ([9, 5, 3], [9, 5, 3])


@pytest.mark.usefixtures("runtime")
async def test_thread_when_it_drops_the_last_handle_then_the_actor_ends() -> None:
    counter = Counter.remote()
    ended = end_of(counter)
    held = [counter]
    del counter

    await asyncio.to_thread(lambda: (held.pop().add.remote().get(), gc.collect()))
    await ended


@pytest.mark.usefixtures("runtime")
async def test_thread_when_it_waits_for_streams_and_several_then_as_anywhere() -> None:
    gate, source = Gate.remote(), Source.remote()

    def work() -> Any:
        refs = [gate.wait.remote(name) for name in "ab"]
        gate.open.remote("b")
        ready, left = actorlib.wait(refs).get()
        refs[0].cancel()
        with pytest.raises(TaskCancelledError):
            left[0].get()
        items = [ref.get() for ref in source.items.remote(3)]
        done = sorted(actorlib.as_completed([add.remote(1), add.remote(2)]))
        return actorlib.get(ready), items, done, add.remote(3).future().result(20)

    assert await asyncio.to_thread(work) == (["b"], [0, 1, 2], [1, 2], 3)


@pytest.mark.usefixtures("runtime")
async def test_loop_when_in_another_thread_then_it_awaits_as_anywhere() -> None:
    counter, source = Counter.remote(), Source.remote()

    async def work() -> Any:
        first = await counter.add.remote()
        others = await asyncio.gather(counter.add.remote(), counter.add.remote())
        last = await asyncio.wait_for(counter.add.remote(), 20)
        made = await Counter.remote(7)
        kept = await made.add.remote()
        await actorlib.kill(made)
        items = [await ref async for ref in source.items.remote(3)]
        ready, _ = await actorlib.wait([counter.add.remote()])
        return first, others, last, kept, items, await ready[0]

    found = await asyncio.to_thread(lambda: asyncio.run(work()))

    assert found == (1, [2, 3], 4, 8, [0, 1, 2], 5)
