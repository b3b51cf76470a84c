"""Streams in memory: on both loops, for long, and what others see of them.

What holds for every engine and kind of callee is in ``tests/contract/``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers.actors import living
from helpers.streams import all_of, kinds, made

import actorlib

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from actorlib import Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

MIB = 1024 * 1024

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("on_both_loops", "same_loop_in_workers", "runtime"),
]


@kinds("serial", "threaded", "mixed", "async")
@pytest.mark.parametrize("reader", ["serial", "async"])
async def test_stream_when_any_kind_of_actor_reads_any_other_then_in_order(
    kind: str, reader: str
) -> None:
    source = made(kind)

    items = await made(reader).reads.remote(source, "items", 600)

    assert items == list(range(600))


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


@kinds()
async def test_stream_when_dropped_and_endless_then_the_actor_rests(kind: str) -> None:
    source = made(kind)
    items = source.endless.remote()
    await anext(items)
    del items

    assert await all_of(source.yields.remote(1, 2)) == [1, 2]
    at_rest = await source.ping.remote()
    assert await source.ping.remote() == at_rest


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


async def test_stream_when_it_runs_then_the_snapshot_counts_one_call(
    runtime: Runtime,
) -> None:
    source = made("serial")
    items = source.items.remote(1_000)
    await anext(items)

    (actor,) = living(runtime)
    assert actor.pending_calls == 1
    await all_of(items)
    (actor,) = living(runtime)
    assert actor.pending_calls == 0


async def test_stream_when_it_is_long_then_every_item_comes() -> None:
    source, count = made("serial"), 0

    async for ref in source.items.remote(100_000):
        assert ref.result() == count
        count += 1

    assert count == 100_000
