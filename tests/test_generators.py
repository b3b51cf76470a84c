"""Streams between real processes: what their readers see."""

from __future__ import annotations

import asyncio
import pickle
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import Caller, Gate, Stop, Target
from helpers.streams import all_of, kinds, made

import actorlib
from actorlib import ObjectRefGenerator
from actorlib.exceptions import TaskError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from actorlib import ActorHandle, Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("on_both_loops", "same_loop_in_workers", "runtime"),
]


@kinds()
async def test_each_step_gives_a_ref_in_order(kind: str) -> None:
    source = made(kind)

    items = source.items.remote(5)

    assert isinstance(items, ObjectRefGenerator)
    refs = [ref async for ref in items]
    assert all(ref.done() for ref in refs)
    assert [await ref for ref in refs] == [0, 1, 2, 3, 4]
    assert await items.completed() == 5
    with pytest.raises(StopAsyncIteration):
        await anext(items)


@kinds("serial", "threaded", "mixed", "async")
@pytest.mark.parametrize("reader", ["serial", "async"])
async def test_every_kind_of_actor_reads_every_other(kind: str, reader: str) -> None:
    source = made(kind)

    read = await made(reader).reads.remote(source, "items", 600)

    assert read == list(range(600))


@kinds("serial", "async")
async def test_the_owner_iterates_what_is_there_and_never_blocks(
    kind: str,
) -> None:
    items = made(kind).items.remote(2)

    with pytest.raises(RuntimeError, match="write 'async for'"):
        next(items)
    assert await items.completed() == 2
    assert [ref.get() for ref in items] == [0, 1]


@kinds("serial", "threaded", "mixed", "async")
async def test_an_item_arrives_while_the_method_runs(kind: str, stop: Stop) -> None:
    items = made(kind).stops.remote(stop.place)

    assert await (await anext(items)) == "first"
    await stop.reached()
    assert not items.completed().done()
    assert ".stops (pid " in repr(items)
    stop.release()
    assert await all_of(items) == ["last"]


@kinds("serial", "threaded", "mixed", "async")
async def test_an_exception_is_raised_by_the_ref_behind_what_came(
    kind: str,
) -> None:
    source = made(kind)

    for before in (0, 3):
        items = source.fails.remote(before)
        refs = [ref async for ref in items]

        assert [await ref for ref in refs[:-1]] == list(range(before))
        with pytest.raises(ValueError, match="enough") as caught:
            await refs[-1]
        assert isinstance(caught.value, TaskError)
        with pytest.raises(ValueError, match="enough"):
            await items.completed()
    assert await source.ping.remote() == 0


async def test_stream_when_the_arguments_do_not_fit_then_refused_at_once() -> None:
    with pytest.raises(TypeError, match="missing"):
        made("serial").items.remote()


@kinds("serial", "async")
async def test_stream_when_an_argument_is_a_ref_then_it_waits_for_it(kind: str) -> None:
    gate = cast("Any", Gate).remote()
    echo = gate.wait.remote("a")

    items = made(kind).yields.remote(echo, 2)
    await gate.open.remote("a")

    assert await all_of(items) == ["a", 2]


@kinds("serial", "async")
async def test_stream_when_an_argument_fails_then_its_ref_raises(kind: str) -> None:
    source = made(kind)
    failed = source.fails.remote(0).completed()

    items = source.yields.remote(failed)

    with pytest.raises(ValueError, match="enough"):
        await all_of(items)


@kinds("serial", "threaded", "async")
async def test_stream_when_handles_are_items_then_their_actors_live(kind: str) -> None:
    target = cast("Any", Target).remote()
    pid = await target.ping.remote()
    items = made(kind).yields.remote([target], [target])
    del target

    for _ in range(2):
        (again,) = await (await anext(items))
        assert await again.ping.remote() == pid


async def test_stream_when_many_read_then_each_item_goes_to_one() -> None:
    items = made("serial").items.remote(1000)

    async def read() -> list[int]:
        return await all_of(items)

    parts = await asyncio.gather(*(read() for _ in range(5)))

    assert sorted(i for part in parts for i in part) == list(range(1000))


async def test_stream_when_a_detached_one_is_not_waited_for_then_no_item_is_lost(
    stop: Stop,
) -> None:
    items = made("serial").stops.options(detach=True).remote(stop.place)
    await anext(items)
    waits = [asyncio.ensure_future(anext(items)) for _ in range(3)]
    await stop.reached()
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    stop.release()

    assert await all_of(items) == ["last"]


async def test_an_item_that_is_kept_outlives_the_stream_and_the_actor() -> None:
    source = made("serial")
    items = source.items.remote(3)
    refs = [ref async for ref in items]
    await actorlib.kill(source)
    del items

    assert [await ref for ref in refs] == [0, 1, 2]
    assert [await ref for ref in refs] == [0, 1, 2]
    assert await asyncio.wrap_future(refs[0].future()) == 0


async def test_stream_when_it_would_travel_then_refused() -> None:
    source = made("serial")
    items = source.items.remote(1)

    with pytest.raises(TypeError, match="ObjectRefGenerator cannot be sent"):
        source.yields.remote(items)
    with pytest.raises(TypeError, match="ObjectRefGenerator"):
        pickle.dumps(items)


@kinds("serial", "mixed", "async")
async def test_actors_chain_streams(kind: str) -> None:
    first, second, third = made("serial"), made(kind), made(kind)

    class Last:
        def relays(self, source: ActorHandle[Any], n: int) -> Any:
            for ref in source.relays.remote(self.first, n):
                yield ref.get() * 2

        def use(self, first: ActorHandle[Any]) -> None:
            self.first = first

    last = cast("Any", actorlib.remote(Last)).remote()
    await last.use.remote(first)
    del third

    assert await all_of(last.relays.remote(second, 700)) == [
        2 * (i + 1) for i in range(700)
    ]


@kinds("serial", "async")
async def test_streams_when_several_are_waited_for_then_each_item_comes_once(
    kind: str,
) -> None:
    sources = [made(kind), made(kind)]

    def read(sources: list[Any]) -> tuple[list[int], list[int]]:
        left = [source.items.remote(4) for source in sources]
        waited: list[int] = []
        while left:
            ready, left = actorlib.wait(left).get()
            for stream in ready:
                if not stream.is_finished():
                    waited += [
                        ref.get() for ref in [next(stream, None)] if ref is not None
                    ]
                    left.append(stream)
        completed = actorlib.as_completed(
            [source.items.remote(4) for source in sources]
        )
        return sorted(waited), sorted(completed)

    async def read_later() -> tuple[list[int], list[int]]:
        left = [source.items.remote(4) for source in sources]
        waited: list[int] = []
        while left:
            ready, left = await actorlib.wait(left)
            for stream in ready:
                if not stream.is_finished():
                    waited += [
                        await ref
                        for ref in [await anext(stream, None)]
                        if ref is not None
                    ]
                    left.append(stream)
        completed = actorlib.as_completed(
            [source.items.remote(4) for source in sources]
        )
        return sorted(waited), sorted([item async for item in completed])

    all_items = sorted([*range(4), *range(4)])
    assert await read_later() == (all_items, all_items)
    found = await Caller.remote().run.remote(read, sources)
    assert found == (all_items, all_items)
    assert await asyncio.to_thread(read, sources) == (all_items, all_items)
