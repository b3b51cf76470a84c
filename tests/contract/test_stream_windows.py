"""Back-pressure: how far a stream is ahead of its reader, and what runs meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from helpers.callees import STREAMING_KINDS
from helpers.callers import all_items

import actorlib
from actorlib.exceptions import PendingCallsLimitExceeded, UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.actors import Place, Stop
    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("streams"),
]

KINDS = pytest.mark.parametrize("callee", STREAMING_KINDS, indirect=True)
FEW_KINDS = pytest.mark.parametrize(
    "callee", ["function", "plain", "async"], indirect=True
)
ACTORS = pytest.mark.parametrize("callee", ["plain", "async"], indirect=True)


def numbers(count: int) -> Iterator[int]:
    for number in range(count):  # noqa: UP028  # see test_call_streams
        yield number


def noted(path: Path, count: int) -> Iterator[int]:
    """Writes one letter for each item that it makes."""
    for number in range(count):
        with path.open("a") as file:
            file.write("x")
        yield number


@KINDS
async def test_window_when_of_one_item_then_the_producer_waits_for_its_reader(
    api: Api, callee: Callee, tmp_path: Path, engine: str
) -> None:
    path, method = tmp_path / "made", callee.method("items", backpressure=1)
    if engine == "ray" and callee.kind in ("async", "looped"):
        with pytest.raises(UnsupportedOptionError, match="backpressure"):
            method.remote(noted, path, 4)
        return
    stream = method.remote(noted, path, 4)

    for number in range(4):
        await api.wait([stream])
        ahead = 2 if engine == "ray" else 1  # Ray notes an item before it is read
        assert len(path.read_text()) <= number + ahead
        assert await api.get(await api.next_item(stream)) == number
    assert await all_items(api, stream) == []
    assert await api.get(stream.completed()) == 4


@KINDS
async def test_window_when_unlimited_then_the_producer_runs_ahead(
    api: Api, callee: Callee
) -> None:
    stream = callee.method("items", backpressure=-1).remote(numbers, 600)

    assert await api.get(stream.completed()) == 600
    assert await api.get(await api.items(stream)) == list(range(600))


@pytest.mark.parametrize(
    "callee", ["plain", "threaded", "async", "looped"], indirect=True
)
@pytest.mark.usefixtures("own_engines")
async def test_stream_when_it_waits_for_its_reader_then_other_calls_are_served(
    api: Api, callee: Callee
) -> None:
    limited = callee.new(max_concurrency=1) if callee.kind != "threaded" else callee
    for source in (callee, limited):
        slow = source.items(numbers, 600)
        slower = source.method("items", backpressure=1).remote(numbers, 3)
        await api.wait([slow, slower], num_returns=2)

        assert await api.get(source.run(len, "ab")) == 2
        assert await all_items(api, source.items(numbers, 2)) == [0, 1]
        for number in range(3):
            assert await api.get(await api.next_item(slower)) == number
            assert await api.get(source.run(len, "ab")) == 2
        assert await api.get(await api.items(slow)) == list(range(600))


@pytest.mark.parametrize("callee", ["function"], indirect=True)
@pytest.mark.usefixtures("own_engines")
async def test_stream_when_it_waits_for_its_reader_then_others_have_its_cpus(
    api: Api, callee: Callee
) -> None:
    method = callee.method("items", backpressure=1, num_cpus=4)
    streams = [method.remote(numbers, 3) for _ in range(2)]
    for number in range(3):
        for stream in streams:
            assert await api.get(await api.next_item(stream)) == number

    for stream in streams:
        assert await api.get(stream.completed()) == 3


@FEW_KINDS
async def test_window_when_it_is_of_no_item_then_refused(
    api: Api, callee: Callee
) -> None:
    del api
    for wrong in (0, -2):
        for option in ("backpressure", "_generator_backpressure_num_objects"):
            with pytest.raises(ValueError, match="backpressure"):
                callee.method("items", **{option: wrong})
    with pytest.raises(TypeError, match="backpressure"):
        callee.method("items", backpressure="1")
    with pytest.raises(ValueError, match="not a generator"):
        callee.method("run", backpressure=1)


@ACTORS
async def test_window_when_of_all_streams_of_an_actor_then_it_bounds_their_sum(
    api: Api, callee: Callee, engine: str, tmp_path: Path
) -> None:
    if engine == "ray":
        if callee.is_async:
            with pytest.raises(UnsupportedOptionError, match="max_unread_items"):
                assert callee.new(max_unread_items=3).actor
        return
    capped = callee.new(max_unread_items=3)
    first = capped.items(numbers, 2)
    assert await api.get(first.completed()) == 2  # finished, and unread
    second = capped.items(noted, tmp_path / "made", 8)
    third = capped.items(noted, tmp_path / "made", 8)
    await api.wait([second])

    assert await api.get(capped.run(len, "ab")) == 2
    assert not third.next_ready()
    assert (tmp_path / "made").read_text() == "x"
    assert await all_items(api, first) == [0, 1]
    for number in range(8):
        for stream in (second, third):
            assert await api.get(await api.next_item(stream)) == number


@pytest.mark.parametrize("callee", ["plain"], indirect=True)
async def test_window_when_called_by_its_name_on_ray_then_it_is_the_same(
    api: Api, callee: Callee, tmp_path: Path
) -> None:
    capped = callee.new(_actor_generator_backpressure_num_objects=2)
    named = callee.method("items", _generator_backpressure_num_objects=2)

    for method in (capped.method("items"), named):
        stream = method.remote(noted, tmp_path / "made", 9)
        await api.get(await api.next_item(stream))
        assert len((tmp_path / "made").read_text()) < 9
        assert len(await api.items(stream)) == 8
        (tmp_path / "made").unlink()
    with pytest.raises(ValueError, match="max_unread_items"):
        assert callee.new(max_unread_items=0).actor


@ACTORS
async def test_stream_when_calls_are_counted_then_it_counts_until_its_end(
    api: Api, callee: Callee
) -> None:
    limited = callee.new(max_pending_calls=1)
    stream = limited.items(numbers, 600)
    await api.next_item(stream)

    with pytest.raises(PendingCallsLimitExceeded):
        limited.run(len, "ab")
    with pytest.raises(PendingCallsLimitExceeded):
        limited.items(numbers, 1)
    await api.items(stream)
    assert await api.get(limited.run(len, "ab")) == 2


class Late:
    """Stops in its constructor."""

    def __init__(self, place: Place) -> None:
        place.stop_here()

    def items(self, count: int) -> Iterator[int]:
        yield from range(count)


@pytest.mark.usefixtures("runtime")
async def test_stream_when_its_actor_is_not_ready_then_it_waits_for_that(
    api: Api, stop: Stop
) -> None:
    source: Any = actorlib.remote(Late).remote(stop.place)
    stream = source.items.remote(3)
    await stop.reached()
    assert not stream.next_ready()
    stop.release()

    assert await all_items(api, stream) == [0, 1, 2]
