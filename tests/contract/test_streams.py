"""Streams: what their readers see, and generators with ``num_returns``."""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import Target
from helpers.callees import Callee, numbers
from helpers.callers import all_items, error_of
from helpers.kinds import (
    CONTRACT,
    FEW_KINDS,
    OWN_ENGINES,
    PLAIN,
    STREAMING,
    STREAMS,
    kinds,
)
from helpers.reused import Echo, Gate

import actorlib
import actorlib.blocking
from actorlib import ObjectRefGenerator
from actorlib.exceptions import TaskError, UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from helpers.actors import Place, Stop
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]


pytestmark = [*CONTRACT, STREAMS]


LONG = 300
"""More items than a producer may be ahead by default."""


def given(*values: Any) -> Iterator[Any]:
    for value in values:  # noqa: UP028  # likewise
        yield value


def given_and_new(target: Any) -> Iterator[Any]:
    yield target
    yield cast("Any", Target).remote()


# Items.


@STREAMING
async def test_stream_when_read_then_its_items_in_order_and_then_the_end(
    api: Api, callee: Callee
) -> None:
    stream: Any = callee.items(numbers, 5)

    assert isinstance(stream, ObjectRefGenerator)
    refs = await api.items(stream)
    assert all(ref.done() for ref in refs)
    assert await api.get(refs) == [0, 1, 2, 3, 4]
    assert await api.get(stream.completed()) == 5
    assert stream.is_finished()
    assert repr(cast("object", stream)) == "<ObjectRefGenerator finished>"
    with pytest.raises(StopAsyncIteration):
        await api.next_item(stream)
    assert await api.items(callee.items(numbers, 0)) == []


def first_and_last(place: Place) -> Iterator[str]:
    yield "first"
    place.stop_here()
    yield "last"


@STREAMING
async def test_item_when_the_callee_still_runs_then_it_is_there(
    api: Api, callee: Callee, stop: Stop
) -> None:
    stream = callee.items(first_and_last, stop.place)

    assert await api.wait([stream]) == ([stream], [])
    assert stream.next_ready()
    assert await api.get(await api.next_item(stream)) == "first"
    await stop.reached()
    assert not stream.next_ready()
    assert not stream.is_finished()
    assert await api.wait([stream], limit=0) == ([], [stream])
    assert not stream.completed().done()
    assert "items" in repr(stream)
    stop.release()
    assert await all_items(api, stream) == ["last"]


def delegated(count: int) -> Iterator[int]:
    yield from range(count)


@STREAMING
async def test_stream_when_its_generator_delegates_then_items_come(
    api: Api, callee: Callee, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "ray" and not callee.is_actor:
        reason = "a function on Ray sends values into its generator"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))

    assert await all_items(api, callee.items(delegated, 3)) == [0, 1, 2]


def numbers_and_error(count: int) -> Iterator[int]:
    for number in range(count):  # noqa: UP028  # likewise
        yield number
    raise ValueError("enough")


@STREAMING
async def test_error_when_raised_between_items_then_the_last_ref_has_it(
    api: Api, callee: Callee
) -> None:
    for before in (0, 2):
        stream = callee.items(numbers_and_error, before)
        *refs, last = await api.items(stream)

        assert await api.get(refs) == list(range(before))
        error = await error_of(api, last)
        assert isinstance(error, ValueError)
        assert isinstance(error, TaskError)
        assert "items" in error.where
    assert await api.get(callee.run(len, "ab")) == 2


@OWN_ENGINES
@FEW_KINDS
async def test_completion_when_the_generator_raises_then_it_raises_that(
    api: Api, callee: Callee
) -> None:
    completed = callee.items(numbers_and_error, 1).completed()

    assert isinstance(await error_of(api, completed), ValueError)


def one_and_a_lock() -> Iterator[Any]:
    yield 1
    yield threading.Lock, threading.Lock()


@STREAMING
async def test_item_when_it_cannot_be_sent_then_it_ends_the_stream(
    api: Api, callee: Callee, engine: str
) -> None:
    first, second = await api.items(callee.items(one_and_a_lock))

    assert await api.get(first) == 1
    error = await error_of(api, second)
    assert isinstance(error, TypeError)
    if engine != "ray":  # it does not know the call
        assert "yielded a tuple" in str(error)
        assert "items" in str(error)
    assert await api.get(callee.run(len, "ab")) == 2


def blocks(count: int, nbytes: int) -> Iterator[bytes]:
    for number in range(count):
        yield bytes([number]) * nbytes


@OWN_ENGINES
@FEW_KINDS
async def test_item_when_it_is_large_then_it_arrives_and_may_be_an_argument(
    api: Api, callee: Callee
) -> None:
    refs = await api.items(callee.items(blocks, 3, 1 << 20))

    assert await api.get(refs) == list(blocks(3, 1 << 20))
    assert await api.get(callee.run(len, refs[1])) == 1 << 20


@FEW_KINDS
async def test_items_when_they_are_kept_then_they_outlive_stream_and_actor(
    api: Api, callee: Callee
) -> None:
    stream = callee.items(numbers, 3)
    refs = await api.items(stream)
    del stream
    if callee.is_actor:
        await api.kill(callee.actor)

    for _ in range(2):
        assert await api.get(refs) == [0, 1, 2]
    assert await asyncio.wrap_future(refs[1].future()) == 1


@OWN_ENGINES
@FEW_KINDS
async def test_items_when_nobody_reads_before_the_end_then_they_are_kept(
    api: Api, callee: Callee
) -> None:
    stream = callee.items(numbers, 3)

    assert await api.get(stream.completed()) == 3
    assert not stream.cancel()
    assert await all_items(api, stream) == [0, 1, 2]


@OWN_ENGINES
@FEW_KINDS
async def test_items_when_handles_are_in_them_then_their_actors_live(
    api: Api, callee: Callee
) -> None:
    target = cast("Any", Target).remote()
    pid = await api.get(target.ping.remote())
    stream = callee.items(given_and_new, target)
    del target

    given_target, new_target = await all_items(api, stream)
    assert await api.get(given_target.ping.remote()) == pid
    assert await api.get(new_target.ping.remote()) > 0


# Arguments.


@FEW_KINDS
async def test_arguments_when_they_are_refs_then_the_stream_waits_for_them(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    stream = callee.items(given, gate.wait.remote("a"), 2)
    await api.get(gate.open.remote("a"))

    assert await all_items(api, stream) == ["a", 2]
    with pytest.raises(TypeError, match="missing"):
        callee.method("items").remote()


@OWN_ENGINES
@FEW_KINDS
async def test_arguments_when_one_has_failed_then_the_only_item_raises_it(
    api: Api, callee: Callee
) -> None:
    failed = callee.run(divmod, 1, 0)

    (ref,) = await api.items(callee.items(given, failed))

    assert isinstance(await error_of(api, ref), ZeroDivisionError)


# ``num_returns`` of a generator: each of its values is the result of one ref.


def values_of(source: Callee, count: int) -> Steps:
    return (yield source.method("items", num_returns=count).remote(numbers, count))


@FEW_KINDS
async def test_values_when_as_many_as_refs_then_each_has_one(
    api: Api, callee: Callee
) -> None:
    def refs_of(num_returns: object) -> Any:
        return callee.method("items", num_returns=num_returns).remote(numbers, 3)

    assert await api.get(refs_of(3)) == [0, 1, 2]
    assert await api.get(refs_of(1)) == 0
    assert refs_of(0) is None
    assert await all_items(api, refs_of("streaming")) == [0, 1, 2]
    if not callee.is_actor or callee.is_async:  # else it would wait for itself
        source = callee if callee.is_actor else callee.new()
        assert await api.get(callee.run(values_of, source, 3)) == [0, 1, 2]


@OWN_ENGINES
@FEW_KINDS
async def test_values_when_too_few_then_the_other_refs_say_so(
    api: Api, callee: Callee
) -> None:
    first, second, *rest = callee.method("items", num_returns=4).remote(numbers, 2)

    assert await api.get([first, second]) == [0, 1]
    for ref in rest:
        error = await error_of(api, ref)
        assert isinstance(error, TaskError)
        assert isinstance(error, ValueError)
        assert "yielded 2 values, and was called with num_returns=4" in str(error)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def stops_at_its_end(place: Place) -> Iterator[int]:
    number = 0
    try:
        while True:
            yield number
            number += 1
    finally:
        place.stop_here()


@FEW_KINDS
async def test_values_when_more_than_refs_then_the_generator_is_closed(
    api: Api, callee: Callee, stop: Stop
) -> None:
    refs = callee.method("items", num_returns=2).remote(stops_at_its_end, stop.place)

    assert await api.get(refs) == [0, 1]
    await stop.reached()
    stop.release()


def one_and_error() -> Iterator[int]:
    yield 1
    raise KeyError("behind one")


@OWN_ENGINES
@FEW_KINDS
async def test_values_when_an_error_comes_between_then_the_earlier_are_kept(
    api: Api, callee: Callee
) -> None:
    first, *rest = callee.method("items", num_returns=3).remote(one_and_error)

    assert await api.get(first) == 1
    for ref in rest:
        assert isinstance(await error_of(api, ref), KeyError)


@OWN_ENGINES
@FEW_KINDS
async def test_values_when_an_error_comes_behind_them_then_it_is_logged(
    api: Api, callee: Callee, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    texts: asyncio.Queue[str] = asyncio.Queue()

    def keep(record: logging.LogRecord) -> bool:
        text = logging.Formatter().format(record)
        loop.call_soon_threadsafe(texts.put_nowait, text)
        return False

    monkeypatch.setattr(logging.getLogger("actorlib"), "filters", [keep])

    assert (
        await api.get(callee.method("items", num_returns=1).remote(one_and_error)) == 1
    )

    assert "KeyError: 'behind one'" in await texts.get()


def one_and_stop(place: Place) -> Iterator[int]:
    yield 1
    place.stop_here()
    yield 2


@OWN_ENGINES
@FEW_KINDS
async def test_value_when_it_has_come_then_its_ref_waits_for_no_other(
    api: Api, callee: Callee, stop: Stop
) -> None:
    first, second = callee.method("items", num_returns=2).remote(
        one_and_stop, stop.place
    )

    assert await api.get(first) == 1
    await stop.reached()
    assert not second.done()
    stop.release()
    assert await api.get(second) == 2


@FEW_KINDS
async def test_value_when_it_is_an_argument_before_it_is_there_then_it_arrives(
    api: Api, callee: Callee, engine: str
) -> None:
    echo = Echo.remote()
    first, second = callee.method("items", num_returns=2).remote(numbers, 2)

    if engine == "ray":
        with pytest.raises(UnsupportedOptionError, match="await it first"):
            echo.both.remote(first)
        await api.get([first, second])
    both = echo.both.remote(first, name=second)
    assert await api.get(both) == ((0,), {"name": 1})


@OWN_ENGINES
async def test_num_returns_when_dynamic_then_it_streams_with_a_warning(
    api: Api,
) -> None:
    with pytest.warns(DeprecationWarning, match="dynamic"):
        function: Any = actorlib.remote(numbers).options(num_returns="dynamic")

    assert await all_items(api, function.remote(2)) == [0, 1]


# Who reads streams: callees, threads, several at once.


@kinds("function", "plain", "threaded", "async", "looped")
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


@OWN_ENGINES
@STREAMING
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


@OWN_ENGINES
@FEW_KINDS
async def test_streams_when_a_callee_waits_for_several_then_each_item_comes_once(
    api: Api, callee: Callee
) -> None:
    sources = [new_source("plain"), new_source("function")]

    taken = await api.get(callee.run(take_from_both, sources, 4))

    items = sorted([*range(4), *range(4)])
    assert taken == (items, items)


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


@OWN_ENGINES
@PLAIN
async def test_stream_when_many_read_it_then_each_item_goes_to_one_of_them(
    api: Api, callee: Callee
) -> None:
    stream = callee.items(numbers, 100)

    parts = await asyncio.gather(*(all_items(api, stream) for _ in range(4)))

    assert sorted(item for part in parts for item in part) == list(range(100))


@OWN_ENGINES
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


@OWN_ENGINES
@PLAIN
async def test_plain_for_when_it_would_block_the_loop_of_the_stream_then_refused(
    api: Api, callee: Callee
) -> None:
    stream = callee.items(numbers, 2)

    if not api.is_blocking:
        with pytest.raises(RuntimeError, match="write 'async for'"):
            next(stream)
    assert await api.get(stream.completed()) == 2
    assert [ref.get() for ref in stream] == [0, 1]


@OWN_ENGINES
@PLAIN
async def test_plain_for_when_in_a_thread_then_it_blocks_for_each_item(
    api: Api, callee: Callee
) -> None:
    stream = callee.items(numbers, LONG)

    refs = await asyncio.to_thread(list, stream)

    assert await api.get(refs) == list(range(LONG))
