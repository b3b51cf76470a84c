"""How far a stream is ahead of its reader, and who is served meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers.streams import KINDS, all_of, kinds, made

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from actorlib import Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

MIB = 1024 * 1024

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


@kinds()
async def test_the_producer_stops_behind_one_unread_item(kind: str) -> None:
    source = made(kind)
    items = source.items.options(backpressure=1).remote(4)

    for taken in range(4):
        await items._reader.arrival()
        # It has been set aside, or this would wait for ever in an actor with one place.
        assert await source.ping.remote() == taken + 1
        assert await (await anext(items)) == taken
    assert await all_of(items) == []


@kinds("serial", "threaded", "mixed", "async")
async def test_stream_when_its_reader_is_behind_then_other_calls_are_served(
    kind: str,
) -> None:
    source = made(kind)
    slow = source.items.remote(10_000)
    await slow._reader.arrival()

    assert await source.ping.remote() <= 300
    assert await all_of(source.yields.remote(1, 2)) == [1, 2]
    assert await all_of(slow) == list(range(10_000))


@kinds("serial", "async")
async def test_stream_when_its_items_are_large_then_their_bytes_are_bounded(
    kind: str,
) -> None:
    source = made(kind)
    items = source.blocks.remote(20, 8 * MIB)
    await items._reader.arrival()

    assert await source.ping.remote() == 1
    sizes = [len(block) for block in await all_of(items)]
    assert sizes == [8 * MIB] * 20


@kinds("serial", "mixed", "async")
async def test_stream_when_unlimited_then_it_runs_ahead(kind: str) -> None:
    source = made(kind)
    items = source.items.options(backpressure=-1).remote(2_000)

    assert await items.completed() == 2_000
    assert await all_of(items) == list(range(2_000))


async def test_a_window_of_nothing_is_refused() -> None:
    source = made("async")

    for wrong in (0, -2):
        with pytest.raises(ValueError, match="backpressure"):
            source.items.options(backpressure=wrong)
        with pytest.raises(ValueError, match="backpressure"):
            source.items.options(_generator_backpressure_num_objects=wrong)
    with pytest.raises(TypeError, match="backpressure"):
        source.items.options(backpressure="1")
    with pytest.raises(ValueError, match="no generator"):
        source.ping.options(backpressure=1)


@kinds("serial", "async")
async def test_all_streams_of_an_actor_together_are_capped(kind: str) -> None:
    source = KINDS[kind].options(max_unread_items=3).remote()
    first = source.items.remote(2)
    assert await first.completed() == 2  # finished, and unread
    second = source.endless.remote()
    third = source.endless.remote()
    await second._reader.arrival()

    assert await source.ping.remote() in (0, 1)
    assert third._reader.take() is None
    assert await all_of(first) == [0, 1]
    assert await (await anext(third)) >= 1
    for _ in range(10):
        await anext(second)
        await anext(third)


async def test_rays_name_is_accepted() -> None:
    cls = KINDS["serial"].options(_actor_generator_backpressure_num_objects=1)
    source = cls.remote()
    reader = made("serial")

    assert await reader.reads.remote(source, "items", 5) == [0, 1, 2, 3, 4]
    assert await reader.reads.remote(source, "items", 5) == [0, 1, 2, 3, 4]
    assert await all_of(source.items.remote(5)) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="max_unread_items"):
        KINDS["serial"].options(max_unread_items=0)


async def test_stream_when_it_is_long_then_every_item_comes() -> None:
    source, count = made("serial"), 0

    async for ref in source.items.remote(100_000):
        assert ref.result() == count
        count += 1

    assert count == 100_000
