"""Who reads streams: callees, threads, several at once."""

from __future__ import annotations

import asyncio
import pickle
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from helpers.callees import STREAMING_KINDS, Callee
from helpers.callers import all_items

import actorlib
import actorlib.blocking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

STREAMS = pytest.mark.usefixtures("streams")
KINDS = pytest.mark.parametrize("callee", STREAMING_KINDS, indirect=True)
FEW_KINDS = pytest.mark.parametrize(
    "callee", ["function", "plain", "async"], indirect=True
)
PLAIN = pytest.mark.parametrize("callee", ["plain"], indirect=True)

LONG = 300
"""More items than a producer may be ahead by default."""


def numbers(count: int) -> Iterator[int]:
    for number in range(count):  # noqa: UP028  # see test_call_streams
        yield number


def given(*values: Any) -> Iterator[Any]:
    for value in values:  # noqa: UP028  # likewise
        yield value


@STREAMS
@pytest.mark.parametrize(
    "callee", ["function", "plain", "threaded", "async", "looped"], indirect=True
)
async def test_stream_when_a_callee_reads_it_then_it_gets_every_item(
    api: Api, callee: Callee, engine: str
) -> None:
    kinds = ["function", "plain"] if engine == "ray" else ["function", "plain", "async"]

    for kind in kinds:
        values = await api.get(callee.run(read, new_source(kind), LONG))
        assert values == list(range(LONG))


def new_source(kind: str) -> Callee:
    source = Callee(kind, is_blocking=False)
    if kind != "function":
        assert source.actor is not None
    return source


def read(source: Callee, count: int) -> Steps:
    stream = source.items(numbers, count)
    values: list[Any] = []
    while (ref := (yield stream)) is not None:
        values.append((yield ref))
    return values


def doubled(source: Callee, count: int) -> Iterator[int]:
    for ref in source.items(numbers, count):
        yield 2 * ref.get()


async def doubled_on_loop(source: Callee, count: int) -> AsyncIterator[int]:
    async for ref in source.items(numbers, count):
        yield 2 * await ref


@STREAMS
@KINDS
async def test_stream_when_made_of_another_then_all_items_pass_through(
    api: Api, callee: Callee
) -> None:
    function: Any = doubled_on_loop if callee.kind == "async" else doubled
    stream = callee.items(function, new_source("plain"), LONG)

    values = await api.get(await api.items(stream))

    assert values == list(range(0, 2 * LONG, 2))


def take_from_both(sources: list[Callee], count: int) -> Steps:
    left = [source.items(numbers, count) for source in sources]
    waited: list[int] = []
    while left:
        ready, left = yield actorlib.wait(left)
        for stream in ready:
            ref = yield stream
            if ref is not None:
                waited.append((yield ref))
                left.append(stream)
    completed = actorlib.as_completed(
        [source.items(numbers, count) for source in sources]
    )
    values: list[int] = []
    while (value := (yield completed)) is not None:
        values.append(value)
    return sorted(waited), sorted(values)


@STREAMS
@FEW_KINDS
async def test_streams_when_a_callee_waits_for_several_then_each_item_comes_once(
    api: Api, callee: Callee
) -> None:
    sources = [new_source("plain"), new_source("function")]

    taken = await api.get(callee.run(take_from_both, sources, 4))

    items = sorted([*range(4), *range(4)])
    assert taken == (items, items)


@STREAMS
@FEW_KINDS
async def test_streams_when_several_are_waited_for_then_each_item_comes_once(
    api: Api, callee: Callee
) -> None:
    left = [callee.items(numbers, 3) for _ in range(2)]
    waited: list[int] = []
    while left:
        ready, left = await api.wait(left)
        for stream in ready:
            with suppress(StopAsyncIteration):
                waited += await api.get([await api.next_item(stream)])
                left.append(stream)
    as_completed: Any = (
        actorlib.blocking.util.as_completed
        if api.is_blocking
        else actorlib.as_completed
    )
    completed = as_completed([callee.items(numbers, 3), callee.run(len, "abc")])

    assert sorted(waited) == [0, 0, 1, 1, 2, 2]
    assert sorted(await api.items(completed)) == [0, 1, 2, 3]


@STREAMS
@PLAIN
async def test_stream_when_many_read_it_then_each_item_goes_to_one_of_them(
    api: Api, callee: Callee
) -> None:
    stream = callee.items(numbers, 100)

    parts = await asyncio.gather(*(all_items(api, stream) for _ in range(4)))

    assert sorted(item for part in parts for item in part) == list(range(100))


@STREAMS
@FEW_KINDS
async def test_stream_when_used_as_a_value_then_refused_with_what_to_write(
    api: Api, callee: Callee
) -> None:
    get: Any = actorlib.blocking.get if api.is_blocking else actorlib.get
    stream = callee.items(numbers, 1)

    for value in (stream, [stream]):
        with pytest.raises(TypeError, match=r"\[get\(ref\) for ref in generator\]"):
            get(value)
    with pytest.raises(TypeError, match="ObjectRefGenerator cannot be sent"):
        callee.items(given, stream)
    with pytest.raises(TypeError, match="ObjectRefGenerator"):
        pickle.dumps(stream)
    assert await all_items(api, stream) == [0]


@STREAMS
@PLAIN
async def test_plain_for_when_it_would_block_the_loop_of_the_stream_then_refused(
    api: Api, callee: Callee, engine: str
) -> None:
    stream = callee.items(numbers, 2)

    if not api.is_blocking:
        with pytest.raises(RuntimeError, match="write 'async for'"):
            next(stream)
    assert await api.get(stream.completed()) == 2
    if engine != "ray":  # there each item is asked for
        assert [ref.get() for ref in stream] == [0, 1]


@STREAMS
@PLAIN
async def test_plain_for_when_in_a_thread_then_it_blocks_for_each_item(
    api: Api, callee: Callee
) -> None:
    stream = callee.items(numbers, LONG)

    refs = await asyncio.to_thread(list, stream)

    assert await api.get(refs) == list(range(LONG))
