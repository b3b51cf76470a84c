"""What may be said of generators, and their reader's end without any process."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
from helpers.engine import FakeEngine
from helpers.turns import next_turn

import actorlib
from actorlib import ObjectRefGenerator
from actorlib._futures.flow_control import UNREAD, Bounds
from actorlib._futures.stream_reader import StreamReader
from actorlib._options.interface import interface_of
from actorlib._wire.errors import load_result
from actorlib._wire.serialization import encode
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class Source:
    def plain(self) -> Iterator[int]:
        yield 1

    async def later(self) -> AsyncIterator[int]:
        yield 1

    @actorlib.method(backpressure=8, num_returns="streaming")
    def bounded(self) -> Iterator[int]:
        yield 1

    def no_stream(self) -> list[int]:
        return [1]


class Plain:
    def items(self) -> Iterator[int]:
        yield 1


TWO = Bounds(2, -1)


async def reading(
    engine: FakeEngine, bounds: Bounds = TWO, *, is_detached: bool = False
) -> StreamReader:
    loop = asyncio.get_running_loop()
    made = StreamReader(loop, engine, bounds, is_detached=is_detached)
    made.call = 7
    engine._refs[7] = made.completed  # it knows of the call
    return made


def put(items: StreamReader, index: int, number: int = 7) -> None:
    items.put(number, index, encode(index), load_result)


# Options.


FACE = interface_of(Source)


@pytest.mark.parametrize(
    ("name", "options", "headers"),
    [
        ("plain", {}, {"stream": 0}),
        ("later", {}, {"stream": 0}),
        ("bounded", {}, {"stream": 8}),
        ("no_stream", {}, None),
        ("bounded", {"backpressure": 2}, {"stream": 2}),
        ("plain", {"_generator_backpressure_num_objects": -1}, {"stream": -1}),
        ("bounded", {"detach": True}, {"stream": 8, "detach": True}),
        ("bounded", {"detach": False}, {"stream": 8}),
    ],
)
def test_method_when_it_is_a_generator_then_its_calls_are_streams(
    name: str, options: Any, headers: object
) -> None:
    method = FACE.methods[name]
    method = FACE.with_options(method, options) if options else method

    assert method.is_stream == (headers is not None)
    assert method.headers == headers


def test_num_returns_when_a_number_then_for_both_kinds_of_methods() -> None:
    for name in ("plain", "no_stream"):
        method = FACE.with_options(FACE.methods[name], {"num_returns": 2})
        assert method.options.parts == 2
    assert FACE.methods["later"].is_async
    assert FACE.is_async
    assert not interface_of(Plain).is_async


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("no_stream", {"num_returns": "streaming"}, ValueError, "no_stream is not a "),
        ("no_stream", {"detach": True}, ValueError, "is not a generator: detach="),
        ("no_stream", {"detach": False}, ValueError, "is not a generator: detach="),
        ("bounded", {"detach": 1}, TypeError, "detach"),
    ],
)
def test_options_when_they_do_not_fit_then_refused(
    name: str, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        FACE.with_options(FACE.methods[name], options)


def test_backpressure_when_the_method_is_no_generator_then_refused() -> None:
    with pytest.raises(ValueError, match="no_stream is not a generator"):
        actorlib.method(backpressure=2)(Source.no_stream)


# The reader's end.


async def test_reading_when_half_was_taken_then_it_is_told() -> None:
    engine = FakeEngine()
    items = await reading(engine, Bounds(4, -1))
    for index in range(3):
        put(items, index)

    taken = [items.take() for _ in range(3)]

    assert [ref.result() for ref in taken if ref is not None] == [0, 1, 2]
    assert engine.told == [(7, 2)]
    assert items.take() is None
    assert not items.is_exhausted


async def test_an_index_that_was_there_is_passed_over_and_told_anew() -> None:
    engine = FakeEngine()
    items = await reading(engine, Bounds(100, -1))
    for index in range(3):
        put(items, index)
    first = items.take()

    for index in range(4):
        put(items, index, number=9)

    assert first is not None
    assert engine.told == [(9, 1)]
    assert [ref.result() for ref in iter(items.take, None)] == [1, 2, 3]


async def test_reading_when_detached_and_dropped_then_told_with_the_first() -> None:
    engine = FakeEngine()
    items = await reading(engine, is_detached=True)

    items.drop()
    assert engine.told == []
    put(items, 0)

    assert engine.told == [(7, UNREAD)]
    assert items.take() is None


@pytest.mark.parametrize(
    ("is_detached", "is_over", "cancelled", "told"),
    [
        (False, False, [7], []),
        (True, False, [], [(7, UNREAD)]),
        (False, True, [], []),
    ],
)
async def test_generator_when_garbage_then_its_call_is_cancelled_or_told(
    cancelled: list[int], told: list[Any], *, is_detached: bool, is_over: bool
) -> None:
    engine = FakeEngine()
    items = await reading(engine, is_detached=is_detached)
    put(items, 0)
    if is_over:
        items.set_result(1)

    ObjectRefGenerator(items)
    gc.collect()
    await next_turn()

    assert (engine.cancelled, engine.told) == (cancelled, told)


async def test_generator_when_its_whole_call_is_let_go_then_it_is_cancelled() -> None:
    engine = FakeEngine()
    whole = ObjectRefGenerator[int](await reading(engine)).completed()

    del whole
    gc.collect()
    await next_turn()

    assert engine.cancelled == [7]


@pytest.mark.parametrize("is_detached", [True, False])
async def test_generator_when_its_wait_is_cancelled_then_its_call_is_unless_detached(
    *, is_detached: bool
) -> None:
    engine = FakeEngine()
    items = await reading(engine, is_detached=is_detached)
    generator: ObjectRefGenerator[int] = ObjectRefGenerator(items)
    first, last = (asyncio.ensure_future(_step(generator)) for _ in range(2))
    await asyncio.sleep(0)

    first.cancel()
    await asyncio.wait([first])
    assert engine.cancelled == []  # somebody else waits for the item
    last.cancel()
    await asyncio.wait([last])

    assert engine.cancelled == ([] if is_detached else [7])
    put(items, 0)
    if is_detached:
        assert await (await anext(generator)) == 0
    else:
        with pytest.raises(TaskCancelledError):
            await (await anext(generator))


async def _step(generator: ObjectRefGenerator[int]) -> int:
    ref = await anext(generator, None)
    return -1 if ref is None else await ref
