"""Streams: what their readers see."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import Gate, Target
from helpers.callees import STREAMING_KINDS, Callee
from helpers.callers import all_items, error_of

from actorlib import ObjectRefGenerator
from actorlib.exceptions import TaskError, UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from helpers.actors import Place, Stop
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

STREAMS = pytest.mark.usefixtures("streams")
KINDS = pytest.mark.parametrize("callee", STREAMING_KINDS, indirect=True)
FEW_KINDS = pytest.mark.parametrize(
    "callee", ["function", "plain", "async"], indirect=True
)

LONG = 300
"""More items than a producer may be ahead by default."""


def numbers(count: int) -> Iterator[int]:
    for number in range(count):  # noqa: UP028  # see the test of "yield from"
        yield number


def given(*values: Any) -> Iterator[Any]:
    for value in values:  # noqa: UP028  # likewise
        yield value


def given_and_new(target: Any) -> Iterator[Any]:
    yield target
    yield cast("Any", Target).remote()


# Items.


@KINDS
async def test_stream_when_read_then_its_items_in_order_and_then_the_end(
    api: Api, callee: Callee, engine: str
) -> None:
    if engine == "client":
        with pytest.raises(UnsupportedOptionError, match="passes no streams"):
            callee.items(numbers, 5)
        return
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


@STREAMS
@KINDS
async def test_stream_when_it_is_long_then_every_item_comes(
    api: Api, callee: Callee
) -> None:
    refs = await api.items(callee.items(numbers, LONG))

    assert await api.get(refs) == list(range(LONG))


def first_and_last(place: Place) -> Iterator[str]:
    yield "first"
    place.stop_here()
    yield "last"


@STREAMS
@KINDS
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


@STREAMS
@KINDS
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


@STREAMS
@KINDS
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


@STREAMS
@FEW_KINDS
async def test_completion_when_the_generator_raises_then_it_raises_that(
    api: Api, callee: Callee, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "ray":
        reason = "on Ray the completion of a stream does not have its error"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    completed = callee.items(numbers_and_error, 1).completed()

    assert isinstance(await error_of(api, completed), ValueError)


def one_and_a_lock() -> Iterator[Any]:
    yield 1
    yield threading.Lock, threading.Lock()


@STREAMS
@KINDS
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


@STREAMS
@FEW_KINDS
async def test_item_when_it_is_large_then_it_arrives_and_may_be_an_argument(
    api: Api, callee: Callee
) -> None:
    refs = await api.items(callee.items(blocks, 3, 1 << 20))

    assert await api.get(refs) == list(blocks(3, 1 << 20))
    assert await api.get(callee.run(len, refs[1])) == 1 << 20


@STREAMS
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


@STREAMS
@FEW_KINDS
async def test_items_when_nobody_reads_before_the_end_then_they_are_kept(
    api: Api, callee: Callee
) -> None:
    stream = callee.items(numbers, 3)

    assert await api.get(stream.completed()) == 3
    assert not stream.cancel()
    assert await all_items(api, stream) == [0, 1, 2]


@STREAMS
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


@STREAMS
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


@STREAMS
@FEW_KINDS
async def test_arguments_when_one_has_failed_then_the_only_item_raises_it(
    api: Api, callee: Callee
) -> None:
    failed = callee.run(divmod, 1, 0)

    (ref,) = await api.items(callee.items(given, failed))

    assert isinstance(await error_of(api, ref), ZeroDivisionError)
