"""What may be said of generators, and their reader's end without any process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import TYPE_CHECKING, Any

import pytest
from helpers.engine import FakeEngine
from helpers.turns import next_turn

import actorlib
from actorlib import ObjectRefGenerator
from actorlib._futures.flow_control import UNREAD, Bounds
from actorlib._futures.stream_reader import StreamReader
from actorlib._options.call_options import CallOptions
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


def test_interface_when_methods_are_generators_then_calls_are_streams() -> None:
    methods = interface_of(Source).methods

    assert {name for name in methods if methods[name].is_stream} == {
        "plain",
        "later",
        "bounded",
    }
    assert methods["later"].is_async
    assert methods["plain"].headers == {"stream": 0}
    assert methods["bounded"].headers == {"stream": 8}
    assert methods["no_stream"].headers is None


def test_interface_when_a_generator_is_async_then_the_actor_has_a_loop() -> None:
    assert interface_of(Source).is_async
    assert not interface_of(Plain).is_async


def test_options_of_a_call_when_given_then_they_go_before_the_class() -> None:
    face = interface_of(Source)

    moved = face.with_options(face.methods["bounded"], {"backpressure": 2})
    rays = face.with_options(
        face.methods["plain"], {"_generator_backpressure_num_objects": -1}
    )

    assert moved.headers == {"stream": 2}
    assert rays.headers == {"stream": -1}


def test_streaming_is_for_generators_alone() -> None:
    def plain(self: object) -> int:
        del self
        return 1

    face = interface_of(Source)
    with pytest.raises(ValueError, match="plain is not a generator"):
        actorlib.method(num_returns="streaming")(plain)
    with pytest.raises(ValueError, match="no_stream is not a generator"):
        face.with_options(face.methods["no_stream"], {"num_returns": "streaming"})
    with pytest.raises(ValueError, match="plain is not a generator"):
        actorlib.method(backpressure=2)(plain)


@pytest.mark.parametrize(
    ("wrong", "error"), [(-1, ValueError), ("many", ValueError), (1.5, TypeError)]
)
def test_a_wrong_num_returns_is_refused(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="num_returns"):
        actorlib.method(num_returns=wrong)
    face = interface_of(Source)
    with pytest.raises(error, match="num_returns"):
        face.with_options(face.methods["no_stream"], {"num_returns": wrong})


def test_a_number_of_results_is_for_both_kinds_of_methods() -> None:
    face = interface_of(Source)

    for name in ("plain", "no_stream"):
        method = face.with_options(face.methods[name], {"num_returns": 2})
        assert method.options.parts == 2


def test_dynamic_is_streaming_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="dynamic"):
        options = CallOptions().updated({"num_returns": "dynamic"})

    assert options.num_returns == "streaming"


@pytest.mark.parametrize(("detach", "told"), [(True, {"detach": True}), (False, {})])
def test_options_when_a_stream_is_detached_then_its_call_says_so(
    *, detach: bool, told: dict[str, object]
) -> None:
    face = interface_of(Source)

    said = face.with_options(face.methods["bounded"], {"detach": detach}).headers

    assert said == {"stream": 8, **told}
    with pytest.raises(ValueError, match="no_stream is not a generator: detach="):
        face.with_options(face.methods["no_stream"], {"detach": detach})
    with pytest.raises(TypeError, match="detach"):
        face.with_options(face.methods["bounded"], {"detach": 1})


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


@pytest.mark.parametrize("is_detached", [True, False])
async def test_generator_when_garbage_then_its_call_is_cancelled_or_told(
    *, is_detached: bool
) -> None:
    engine = FakeEngine()
    items = await reading(engine, is_detached=is_detached)
    put(items, 0)

    ObjectRefGenerator(items)
    gc.collect()
    await next_turn()

    assert engine.cancelled == ([] if is_detached else [7])
    assert engine.told == ([(7, UNREAD)] if is_detached else [])


async def test_generator_when_closed_then_its_call_is_cancelled_once() -> None:
    engine = FakeEngine()
    with contextlib.closing(ObjectRefGenerator[int](await reading(engine))) as items:
        pass
    await items.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(items)

    assert engine.cancelled == [7]


async def test_generator_when_over_then_dropping_it_cancels_nothing() -> None:
    engine = FakeEngine()
    items = await reading(engine)
    put(items, 0)
    items.set_result(1)

    ObjectRefGenerator(items)
    gc.collect()
    await next_turn()

    assert engine.cancelled == engine.told == []


async def test_generator_when_its_whole_call_is_held_then_it_goes_on() -> None:
    engine = FakeEngine()
    items = await reading(engine)

    whole = ObjectRefGenerator[int](items).completed()
    gc.collect()
    await next_turn()
    assert engine.cancelled == []
    items.set_result(0)

    assert await whole == 0


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


async def test_generator_when_cancelled_then_one_ref_tells_and_it_ends() -> None:
    engine = FakeEngine()
    items = await reading(engine)
    put(items, 0)
    generator: ObjectRefGenerator[int] = ObjectRefGenerator(items)

    actorlib.cancel(generator)

    assert engine.cancelled == [7]
    assert repr(generator) == "<ObjectRefGenerator finished>"
    with pytest.raises(TaskCancelledError):
        await (await anext(generator))
    with pytest.raises(StopAsyncIteration):
        await anext(generator)
    with pytest.raises(TaskCancelledError):
        await generator.completed()


async def test_generator_when_waited_for_then_the_end_wakes_everybody() -> None:
    items = await reading(FakeEngine())
    generator: ObjectRefGenerator[int] = ObjectRefGenerator(items)
    waits = [asyncio.ensure_future(_step(generator)) for _ in range(3)]
    await asyncio.sleep(0)

    put(items, 0)
    items.set_result(1)

    assert sorted(await asyncio.gather(*waits)) == [-1, -1, 0]
    assert await generator.completed() == 1
    assert repr(await generator.completed()) == "1"


async def _step(generator: ObjectRefGenerator[int]) -> int:
    ref = await anext(generator, None)
    return -1 if ref is None else await ref
