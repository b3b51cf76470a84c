from __future__ import annotations

import asyncio
import math
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.engine import FakeEngine
from helpers.turns import in_time, next_turn

import actorlib
from actorlib import ObjectRefGenerator
from actorlib._futures.flow_control import bounds_of
from actorlib._futures.stream_reader import StreamReader
from actorlib._wire.errors import load_result
from actorlib._wire.serialization import encode

if TYPE_CHECKING:
    from actorlib import ObjectRef

pytestmark = pytest.mark.usefixtures("on_both_loops")


@pytest.fixture
async def engine() -> FakeEngine:
    return FakeEngine()


async def started(awaitable: Any) -> asyncio.Task[Any]:
    async def work() -> Any:
        return await awaitable

    task = asyncio.create_task(work())
    await next_turn()
    return task


def refs_of(engine: FakeEngine, number: int) -> list[ObjectRef[Any]]:
    return [engine.new_ref() for _ in range(number)]


# wait


async def test_wait_when_cancelled_then_the_refs_go_on_and_it_can_be_awaited_again(
    engine: FakeEngine,
) -> None:
    refs = refs_of(engine, 2)
    waiting = actorlib.wait(refs)
    task = await started(waiting)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.cancelled == []

    again = await started(waiting)
    refs[1].set_result(1)

    assert await again == ([refs[1]], [refs[0]])
    with pytest.raises(RuntimeError, match="returned its result"):
        await waiting


async def test_wait_when_cancelled_and_nobody_holds_a_ref_then_its_call_is_cancelled(
    engine: FakeEngine,
) -> None:
    task = await started(actorlib.wait([engine.new_ref()]))
    task.cancel()
    await asyncio.wait([task])
    del task
    await next_turn()

    assert engine.cancelled == [1]


@pytest.mark.parametrize(
    ("refs", "options", "error", "message"),
    [
        ("one", {}, TypeError, "list of refs"),
        (7, {}, TypeError, "list of refs"),
        ([1], {}, TypeError, "takes refs, not 1"),
        ("twice", {}, ValueError, "twice"),
        ("two", {"num_returns": 0}, ValueError, "num_returns"),
        ("two", {"num_returns": 3}, ValueError, "at most 2"),
        ("two", {"num_returns": True}, TypeError, "num_returns"),
        ("two", {"timeout": -1}, ValueError, "timeout"),
        ("two", {"timeout": math.nan}, ValueError, "timeout"),
        ("two", {"timeout": "1"}, TypeError, "timeout"),
    ],
)
async def test_wait_when_misused_then_it_fails_at_the_call(
    engine: FakeEngine,
    refs: object,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    a, b = refs_of(engine, 2)
    given: Any = {"one": a, "two": [a, b], "twice": [a, a]}.get(str(refs), refs)

    with pytest.raises(error, match=message):
        actorlib.wait(given, **options)


async def test_wait_when_awaited_on_another_loop_then_it_works_there(
    engine: FakeEngine,
) -> None:
    a, b = refs = refs_of(engine, 2)

    async def elsewhere() -> Any:
        return await actorlib.wait(refs)

    other = threading.Thread(target=lambda: found.append(asyncio.run(elsewhere())))
    found: list[Any] = []
    other.start()
    engine.answer(b, 1)
    await asyncio.to_thread(other.join)

    assert found == [([b], [a])]


# get


async def test_get_when_it_is_over_then_nothing_of_it_stays_on_the_refs(
    engine: FakeEngine,
) -> None:
    slow = engine.new_ref()
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(actorlib.get, [slow, engine.new_ref()], timeout=0.01)
    await next_turn()

    assert not slow._callbacks  # type: ignore[attr-defined]  # nothing else tells


# as_completed


async def test_as_completed_when_one_failed_then_it_raises_there_and_goes_on(
    engine: FakeEngine,
) -> None:
    a, b = refs_of(engine, 2)
    results = actorlib.as_completed([a, b])
    a.set_exception(ValueError("no"))

    with pytest.raises(ValueError, match="no"):
        await anext(results)
    b.set_result(2)
    assert [value async for value in results] == [2]
    done = [ref async for ref in actorlib.as_completed([a, b], yield_obj_refs=True)]
    assert done == [a, b]
    with pytest.raises(TypeError, match="as_completed"):
        actorlib.as_completed(a)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="twice"):
        actorlib.as_completed([a, a])


async def test_as_completed_when_there_are_many_then_each_comes_once(
    engine: FakeEngine,
) -> None:
    refs = refs_of(engine, 2_000)
    results = actorlib.as_completed(refs)
    found: list[int] = []
    async with in_time():
        for place in reversed(range(2_000)):
            task = await started(anext(results))
            refs[place].set_result(place)
            found.append(await task)

    assert found == list(reversed(range(2_000)))


# Streams.


class Feeding:
    """A stream that the test feeds.

    Args:
        engine: What it comes through.
    """

    def __init__(self, engine: FakeEngine) -> None:
        loop = asyncio.get_running_loop()
        self.reading = StreamReader(loop, engine, bounds_of(0))
        self.generator: ObjectRefGenerator[Any] = ObjectRefGenerator(self.reading)
        self._count = 0

    def put(self, value: object) -> None:
        """One more item comes."""
        self.reading.put(1, self._count, encode(value), load_result)
        self._count += 1

    def end(self) -> None:
        """No more will come."""
        self.reading.set_result(self._count)


async def test_wait_when_given_streams_then_whose_next_item_is_there(
    engine: FakeEngine,
) -> None:
    slow, quick, ref = Feeding(engine), Feeding(engine), engine.new_ref()
    given = [slow.generator, quick.generator, ref]
    task = await started(actorlib.wait(given))
    assert not task.done()

    quick.put("item")

    assert await task == ([quick.generator], [slow.generator, ref])
    assert await (await anext(quick.generator)) == "item"
    slow.end()
    assert await actorlib.wait(given) == ([slow.generator], [quick.generator, ref])
    with pytest.raises(ValueError, match="twice"):
        actorlib.wait([slow.generator, slow.generator])


async def test_wait_for_streams_when_cancelled_then_they_go_on(
    engine: FakeEngine,
) -> None:
    stream = Feeding(engine)
    task = await started(actorlib.wait([stream.generator]))
    task.cancel()
    await asyncio.wait([task])

    stream.put(1)

    assert engine.cancelled == []
    assert await actorlib.wait([stream.generator]) == ([stream.generator], [])


async def test_as_completed_when_given_streams_then_items_among_the_others(
    engine: FakeEngine,
) -> None:
    first, second, ref = Feeding(engine), Feeding(engine), engine.new_ref()
    results = actorlib.as_completed([first.generator, ref, second.generator])
    first.put("a")
    task = await started(anext(results))
    assert await task == "a"
    second.put("b")
    second.put("c")
    assert await anext(results) == "b"
    ref.set_result("d")
    first.reading.set_exception(ValueError("no"))
    assert {await anext(results), await anext(results)} == {"c", "d"}
    with pytest.raises(ValueError, match="no"):
        await anext(results)
    task = await started(anext(results, "end"))
    assert not task.done()
    second.end()
    assert await task == "end"


# map_unordered


async def test_map_unordered_gives_values_as_they_come(
    engine: FakeEngine,
) -> None:
    made: dict[int, Any] = {}

    def call(item: int) -> Any:
        made[item] = engine.new_ref()
        return made[item]

    results = actorlib.map_unordered(call, range(4), backpressure_size=2)
    task = await started(anext(results))
    assert sorted(made) == [0, 1]
    made[1].set_result("b")
    assert await task == "b"
    task = await started(anext(results))
    assert sorted(made) == [0, 1, 2]
    made[0].set_result("a")
    made[2].set_result("c")
    assert await task == "a"
    assert await anext(results) == "c"
    task = await started(anext(results))
    made[3].set_result("d")
    assert await task == "d"
    assert [value async for value in results] == []


async def test_map_unordered_when_the_function_raises_then_there_and_it_goes_on(
    engine: FakeEngine,
) -> None:
    def call(item: int) -> Any:
        ref = engine.new_ref()
        ref.set_result(1 // item)
        return ref

    results = actorlib.map_unordered(call, [1, 0, -1])
    assert await anext(results) == 1
    with pytest.raises(ZeroDivisionError):
        await anext(results)
    assert [value async for value in results] == [-1]


@pytest.mark.parametrize(
    ("fn", "items", "options", "error"),
    [
        (3, [1], {}, TypeError),
        (str, 1, {}, TypeError),
        (str, [1], {"backpressure_size": 0}, ValueError),
        (str, [1], {"backpressure_size": None}, TypeError),
    ],
)
async def test_map_unordered_when_misused_then_it_fails_at_the_call(
    fn: Any, items: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        actorlib.map_unordered(fn, items, **options)
