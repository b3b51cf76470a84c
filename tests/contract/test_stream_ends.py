"""Streams that end early or are made again, and how far they are ahead."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from helpers.callees import Callee, numbers
from helpers.callers import all_items, error_of
from helpers.kinds import (
    ASYNC,
    AWAITING,
    CONTRACT,
    FEW_KINDS,
    OWN_ENGINES,
    PLAIN,
    STREAMING,
    STREAMS,
    TWO_KINDS,
    kinds,
)
from helpers.lives import end_of
from helpers.reused import Gate
from helpers.waiting_calls import wait_at

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorlibError,
    PendingCallsLimitExceeded,
    TaskCancelledError,
    UnsupportedOptionError,
    WorkerCrashedError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator
    from pathlib import Path

    from helpers.actors import Place, Stop
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]


pytestmark = [*CONTRACT, STREAMS]


def counted(path: Path, place: Place, count: int | None = None) -> Iterator[int]:
    """Writes down how many items it has made, and stops at its end."""
    made = 0
    try:
        for made in itertools.count(1) if count is None else range(1, count + 1):
            yield made - 1
    finally:
        path.write_text(str(made))
        place.stop_here()


def window_of(callee: Callee, size: int, engine: str) -> dict[str, Any]:
    """The options for a stream that is so many items ahead at most."""
    if engine == "ray" and callee.kind in ("async", "looped"):
        return {}  # refused there
    return {"backpressure": size}


async def ended(stop: Stop) -> None:
    """Waits until ``counted`` has ended."""
    await stop.reached()
    stop.release()


# Readers that leave.


@STREAMING
@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_stream_when_cancelled_or_closed_then_its_generator_ends_where_it_is(
    api: Api, callee: Callee, how: str, stop: Stop, tmp_path: Path, engine: str
) -> None:
    window = window_of(callee, 2, engine)
    stream = callee.method("items", **window).remote(
        counted, tmp_path / "made", stop.place
    )
    assert await api.get(await api.next_item(stream)) == 0
    if how == "cancel":
        api.cancel(stream)
    elif api.is_blocking:
        stream.close()
    else:
        await stream.aclose()

    refs = await api.items(stream)
    assert len(refs) == (1 if how == "cancel" else 0)
    for ref in (*refs, stream.completed()):
        assert isinstance(await error_of(api, ref), TaskCancelledError)
    await ended(stop)
    if window and engine != "ray":  # which opens the window when it closes a stream
        assert int((tmp_path / "made").read_text()) < 10
    assert await api.get(callee.run(len, "ab")) == 2


@STREAMING
@pytest.mark.parametrize("how", ["left", "unseen"])
async def test_stream_when_nobody_reads_it_any_more_then_it_ends(
    api: Api, callee: Callee, how: str, stop: Stop, tmp_path: Path, runtime: Any
) -> None:
    stream = callee.items(counted, tmp_path / "made", stop.place)
    if how == "unseen":
        await api.wait([stream])  # it has begun
    elif api.is_blocking:
        await asyncio.to_thread(leave, stream)
    else:
        await leave_on_loop(stream)
    del stream

    await ended(stop)
    assert await api.get(callee.run(len, "ab")) == 2
    if not api.is_blocking:
        assert runtime.calls() == []


async def leave_on_loop(stream: Any) -> None:
    async for ref in stream:
        if await ref == 1:
            break


def leave(stream: Any) -> None:
    for ref in stream:
        if ref.get() == 1:
            break


@OWN_ENGINES
@STREAMING
@AWAITING
async def test_stream_when_the_task_that_reads_it_is_cancelled_then_it_ends(
    api: Api, callee: Callee, stop: Stop, tmp_path: Path
) -> None:
    async def read() -> None:
        async for _ in callee.items(counted, tmp_path / "made", stop.place):
            reading.cancel()

    reading = asyncio.ensure_future(read())
    await asyncio.wait([reading])

    assert reading.cancelled()
    await ended(stop)
    assert await api.get(callee.run(len, "ab")) == 2


@OWN_ENGINES
@FEW_KINDS
@pytest.mark.parametrize("how", ["read", "unseen"])
async def test_stream_when_detached_and_dropped_then_it_runs_to_its_end(
    api: Api, callee: Callee, how: str, stop: Stop, tmp_path: Path
) -> None:
    stream = callee.method("items", detach=True).remote(
        counted, tmp_path / "made", stop.place, 600
    )
    if how == "read":
        await api.next_item(stream)
    del stream

    await ended(stop)
    assert (tmp_path / "made").read_text() == "600"


# Cancelling.


def marked(path: Path) -> Iterator[int]:
    path.touch()
    yield 1


@kinds("function", "plain", "threaded", "async")
async def test_cancel_when_the_stream_has_not_begun_then_it_never_runs(
    api: Api, callee: Callee, tmp_path: Path, engine: str
) -> None:
    gate = Gate.remote()
    options = {"function": {"num_cpus": 3}, "async": {"max_concurrency": 1}}
    limited = callee.new(**options.get(callee.kind, {}))
    names = "ab" if callee.kind == "threaded" else "a"
    busy = [limited.run(wait_at, gate, name) for name in names]
    await api.get([gate.reached.remote(name) for name in names])
    stream = limited.items(marked, tmp_path / "made")
    api.cancel(stream)

    assert isinstance(await error_of(api, stream.completed()), TaskCancelledError)
    (ref,) = await api.items(stream)
    assert isinstance(await error_of(api, ref), TaskCancelledError)
    await api.get([gate.open.remote(name) for name in names])
    assert await api.get(busy) == list(names)
    assert await api.get(limited.run(len, "ab")) == 2
    if engine != "ray":  # there the request may come too late
        assert not (tmp_path / "made").exists()


async def waiting(path: Path, place: Place) -> AsyncIterator[int]:
    try:
        yield 0
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        path.write_text("cancelled")  # noqa: ASYNC240  # it is small
        raise
    finally:
        place.stop_here()


@ASYNC
async def test_cancel_when_the_generator_awaits_then_it_is_cancelled_there(
    api: Api, callee: Callee, stop: Stop, tmp_path: Path, engine: str
) -> None:
    stream = callee.items(waiting, tmp_path / "end", stop.place)
    await api.next_item(stream)

    assert stream.cancel()

    await ended(stop)
    if engine != "ray":  # it closes the generator
        assert (tmp_path / "end").read_text() == "cancelled"


# Waits for items.


@PLAIN
@AWAITING
async def test_wait_when_cancelled_and_the_stream_is_detached_then_no_item_is_lost(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    stream = callee.method("items", detach=True).remote(first_and_last, gate)
    await anext(stream)
    waits = [asyncio.ensure_future(anext(stream)) for _ in range(3)]
    await api.get(gate.reached.remote("last"))
    for wait in waits:
        wait.cancel()
    await asyncio.wait(waits)
    await api.get(gate.open.remote("last"))

    assert await all_items(api, stream) == ["last"]


def first_and_last(gate: Any) -> Iterator[str]:
    yield "first"
    yield gate.wait.remote("last").get()


# Deaths of producers and readers of streams, and calls that are made again.


def one_and_exit(code: int | None) -> Iterator[int]:
    yield 1
    if code is None:
        actorlib.exit_actor()
    raise SystemExit(code)


@FEW_KINDS
async def test_stream_when_its_process_ends_then_the_last_ref_has_the_error(
    api: Api, callee: Callee, engine: str
) -> None:
    options = {} if callee.is_actor else {"max_retries": 0}
    first, last = await api.items(
        callee.method("items", **options).remote(one_and_exit, 3)
    )

    assert await api.get(first) == 1
    error = await error_of(api, last)
    if callee.is_actor:
        assert isinstance(error, ActorDiedError)
        assert (error.exit.cause, error.exit.code) == ("exited", 3)
    else:
        assert type(error) is WorkerCrashedError
        if engine != "ray":
            assert "exit code 3" in str(error)


@TWO_KINDS
async def test_stream_when_it_ends_its_actor_then_the_last_ref_has_the_error(
    api: Api, callee: Callee, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "ray" and callee.is_async:
        reason = "on Ray exit_actor() in an async generator gives two errors"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    first, last = await api.items(callee.items(one_and_exit, None))

    assert await api.get(first) == 1
    error = await error_of(api, last)
    assert isinstance(error, ActorDiedError)
    assert error.exit.cause == "asked"


@TWO_KINDS
async def test_stream_when_its_actor_is_killed_then_the_ref_behind_what_came_fails(
    api: Api, callee: Callee
) -> None:
    stream = callee.items(itertools.count)
    assert await api.get(await api.next_item(stream)) == 0

    await api.kill(callee.actor)

    *refs, last = await api.items(stream)
    assert await api.get(refs) == list(range(1, len(refs) + 1))
    assert isinstance(await error_of(api, last), ActorDiedError)


def read_and_wait(source: Callee, path: Path, place: Place, gate: Any) -> Steps:
    stream = source.items(counted, path, place)
    yield stream
    yield gate.wait.remote("read")


@OWN_ENGINES
@kinds("plain", "threaded", "async")
async def test_stream_when_its_reader_is_killed_then_it_ends(
    api: Api, callee: Callee, stop: Stop, tmp_path: Path
) -> None:
    gate, source = Gate.remote(), Callee("plain", is_blocking=False)
    assert source.actor
    made = tmp_path / "made"
    reading = callee.run(read_and_wait, source, made, stop.place, gate)
    await api.get(gate.reached.remote("read"))

    await api.kill(callee.actor)

    assert isinstance(await error_of(api, reading), ActorDiedError)
    await ended(stop)
    assert await api.get(source.run(len, "ab")) == 2


def read_first(
    source: Callee, path: Path, place: Place, *, detach: bool, exits: bool
) -> Steps:
    method = source.method("items", detach=detach)
    stream = method.remote(counted, path, place, 600 if detach else None)
    first = yield stream
    if exits:
        raise SystemExit(3)
    return (yield first)


@OWN_ENGINES
@FEW_KINDS
@pytest.mark.parametrize("detach", [False, True], ids=["", "detached"])
@pytest.mark.parametrize("exits", [False, True], ids=["leaves", "exits"])
async def test_stream_when_its_reader_is_over_then_it_ends_unless_detached(
    api: Api,
    callee: Callee,
    detach: bool,  # noqa: FBT001  # a parameter of the test
    exits: bool,  # noqa: FBT001  # likewise
    stop: Stop,
    tmp_path: Path,
    engine: str,
) -> None:
    if engine == "ray" and callee.is_async and exits and not detach:
        pytest.xfail("on Ray the stream of an async reader that exits goes on")
    source, made = Callee("plain", is_blocking=False), tmp_path / "made"
    assert source.actor
    options = {} if callee.is_actor else {"max_retries": 0}

    reading = callee.method("run", **options).remote(
        read_first, source, made, stop.place, detach=detach, exits=exits
    )

    await ended(stop)
    if exits:
        assert isinstance(await error_of(api, reading), ActorlibError)
    else:
        assert await api.get(reading) == 0
    assert (made.read_text() == "600") == detach
    assert await api.get(source.run(len, "ab")) == 2


@OWN_ENGINES
@TWO_KINDS
async def test_actor_when_only_a_stream_needs_it_then_it_lives_until_the_end(
    api: Api, callee: Callee
) -> None:
    source = callee.new()
    stream = source.items(numbers, 300)
    await api.next_item(stream)
    end = end_of(api, source.actor)
    del source

    assert await all_items(api, stream) == list(range(1, 300))
    await end


@OWN_ENGINES
@kinds("plain", "threaded", "async", "looped")
async def test_actor_when_it_is_ended_then_its_streams_end_first(
    api: Api, callee: Callee
) -> None:
    unread = callee.items(numbers, 100)
    stream = callee.items(numbers, 600)
    reading = asyncio.ensure_future(api.items(stream))
    await asyncio.sleep(0)

    if api.is_blocking:
        await api.get(callee.actor.__ray_terminate__.remote())
    else:
        async with callee.actor:
            pass

    assert await api.get(await reading) == list(range(600))
    assert await all_items(api, unread) == list(range(100))


# More runs of one call.


def in_several_runs(path: Path) -> Iterator[int]:
    """The first run ends its process, the second raises."""
    with path.open("a") as file:
        file.write("x")
    run = len(path.read_text())
    for index in range(400):
        if (run, index) == (1, 300):
            raise SystemExit(3)
        if (run, index) == (2, 350):
            raise ConnectionError("again")
        yield index


def restarted(callee: Callee) -> Callee:
    """One of the same kind, whose calls are made again."""
    restarts = {"max_restarts": 1, "max_task_retries": 3} if callee.is_actor else {}
    return callee.new(retry_exceptions=[ConnectionError], **restarts)


@FEW_KINDS
async def test_stream_when_its_call_is_made_again_then_each_item_comes_once(
    api: Api, callee: Callee, tmp_path: Path
) -> None:
    stream = restarted(callee).items(in_several_runs, tmp_path / "runs")

    assert await api.get(await api.items(stream)) == list(range(400))
    assert await api.get(stream.completed()) == 400
    assert (tmp_path / "runs").read_text() == "xxx"


def read(source: Callee, path: Path) -> Steps:
    stream = source.items(in_several_runs, path)
    values: list[Any] = []
    while (ref := (yield stream)) is not None:
        values.append((yield ref))
    return values


@OWN_ENGINES
@FEW_KINDS
async def test_stream_when_made_again_for_a_callee_then_each_item_comes_once(
    api: Api, callee: Callee, tmp_path: Path
) -> None:
    source = restarted(Callee("plain", is_blocking=False))
    assert source.actor

    values = await api.get(callee.run(read, source, tmp_path / "runs"))

    assert values == list(range(400))


# Back-pressure: how far a stream is ahead of its reader, and what runs meanwhile.


def noted(path: Path, count: int) -> Iterator[int]:
    """Writes one letter for each item that it makes."""
    for number in range(count):
        with path.open("a") as file:
            file.write("x")
        yield number


@STREAMING
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


@OWN_ENGINES
@STREAMING
async def test_window_when_unlimited_then_the_producer_runs_ahead(
    api: Api, callee: Callee
) -> None:
    stream = callee.method("items", backpressure=-1).remote(numbers, 600)

    assert await api.get(stream.completed()) == 600
    assert await api.get(await api.items(stream)) == list(range(600))


@kinds("plain", "threaded", "async", "looped")
@OWN_ENGINES
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


@kinds("function")
@OWN_ENGINES
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


@OWN_ENGINES
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


@OWN_ENGINES
@TWO_KINDS
async def test_window_when_of_all_streams_of_an_actor_then_it_bounds_their_sum(
    api: Api, callee: Callee, tmp_path: Path
) -> None:
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


@PLAIN
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


@OWN_ENGINES
@TWO_KINDS
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


@OWN_ENGINES
async def test_stream_when_its_actor_is_not_ready_then_it_waits_for_that(
    api: Api, stop: Stop
) -> None:
    source: Any = actorlib.remote(Late).remote(stop.place)
    stream = source.items.remote(3)
    await stop.reached()
    assert not stream.next_ready()
    stop.release()

    assert await all_items(api, stream) == [0, 1, 2]
