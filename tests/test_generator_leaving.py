"""Readers that leave a stream: dropped, cancelled, closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from helpers.streams import all_of, ended, kinds, made

import actorlib
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from helpers.actors import Stop

    from actorlib import Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


@kinds()
async def test_a_detached_generator_that_is_dropped_runs_on_to_its_end(
    kind: str,
) -> None:
    source = made(kind)
    items = source.items.options(backpressure=1, detach=True).remote(2_000)
    await anext(items)
    del items

    assert await ended(source) == ["finally"]
    assert await source.ping.remote() == 2_000


@kinds()
@pytest.mark.parametrize("how", ["break", "cancelled"])
async def test_stream_when_left_then_it_ends_where_it_is(kind: str, how: str) -> None:
    source = made(kind)

    async def read() -> None:
        async for ref in source.items.options(backpressure=2).remote(1_000):
            if await ref == 1 and how == "break":
                break
            if how == "cancelled":
                reading.cancel()

    reading = asyncio.ensure_future(read())
    await asyncio.wait([reading])

    assert (await ended(source))[-1] == "finally"
    assert await source.ping.remote() < 10


@kinds()
async def test_stream_when_dropped_and_endless_then_the_actor_is_free(
    kind: str, runtime: Runtime
) -> None:
    source = made(kind)
    items = source.endless.remote()
    await anext(items)
    del items

    assert await all_of(source.yields.remote(1, 2)) == [1, 2]
    assert runtime.calls() == []
    at_rest = await source.ping.remote()
    assert await source.ping.remote() == at_rest


@kinds()
async def test_stream_when_detached_and_endless_then_the_actor_serves_others(
    kind: str,
) -> None:
    source = made(kind)
    items = source.endless.options(detach=True).remote()
    await anext(items)
    del items

    before = await source.ping.remote()
    while await source.ping.remote() < before + 300:
        pass
    assert await all_of(source.yields.remote(1, 2)) == [1, 2]
    await actorlib.kill(source)


@kinds("serial", "async")
async def test_stream_when_only_its_whole_call_is_awaited_then_it_runs(
    kind: str,
) -> None:
    source = made(kind)

    assert await source.items.options(backpressure=-1).remote(5_000).completed() == 5000


@kinds("serial", "async")
async def test_stream_when_dropped_unseen_then_nothing_is_left(kind: str) -> None:
    source = made(kind)

    source.items.options(detach=True).remote(5_000)

    assert await ended(source) == ["finally"]
    del source


@kinds()
@pytest.mark.parametrize("how", ["function", "aclose"])
async def test_a_cancelled_stream_is_closed_where_it_is(kind: str, how: str) -> None:
    source = made(kind)
    items = source.items.options(backpressure=2).remote(1_000)
    await anext(items)

    if how == "function":
        actorlib.cancel(items)
    else:
        await items.aclose()

    refs = [ref async for ref in items]
    assert len(refs) == (0 if how == "aclose" else 1)
    for ref in refs:
        with pytest.raises(TaskCancelledError, match="cancelled"):
            await ref
    with pytest.raises(TaskCancelledError):
        await items.completed()
    assert (await ended(source))[-1] == "finally"
    assert await source.ping.remote() < 10


async def test_a_stream_inside_an_await_gets_the_cancellation_there() -> None:
    source = made("async")
    items = source.sleeps.remote()
    await anext(items)

    items.cancel()

    assert await ended(source) == ["cancelled", "finally"]


@kinds("serial", "async")
async def test_a_finished_stream_keeps_its_items(kind: str) -> None:
    items = made(kind).items.remote(3)
    await items.completed()

    assert not items.cancel()

    assert await all_of(items) == [0, 1, 2]


@kinds("serial", "single")
async def test_a_stream_that_waits_never_runs(kind: str, stop: Stop) -> None:
    source = made(kind)
    blocking = asyncio.ensure_future(all_of(source.stops.remote(stop.place)))
    await stop.reached()
    items = source.items.remote(3)

    items.cancel()

    with pytest.raises(TaskCancelledError):
        await all_of(items)
    await asyncio.sleep(0)  # what a turn of the loop gathers leaves at its end
    await asyncio.sleep(0)
    stop.release()
    assert await blocking == ["first", "last"]
    assert await source.ping.remote() == 0


@kinds("serial", "threaded", "mixed", "async")
async def test_an_item_that_cannot_be_sent_ends_the_stream(kind: str) -> None:
    source = made(kind)

    refs = [ref async for ref in source.unsendable.remote()]

    assert await refs[0] == 1
    with pytest.raises(TypeError, match=r"unsendable .*yielded a tuple"):
        await refs[1]
    assert len(refs) == 2
    assert await source.ended.remote() == ["finally"]
