"""The end of a stream before its last item: cancelled, closed, dropped, or a death."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Gate
from helpers.callees import STREAMING_KINDS, Callee
from helpers.callers import all_items, error_of

from actorlib.exceptions import (
    TaskCancelledError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator
    from pathlib import Path

    from helpers.actors import Place, Stop
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("streams"),
]

KINDS = pytest.mark.parametrize("callee", STREAMING_KINDS, indirect=True)
FEW_KINDS = pytest.mark.parametrize(
    "callee", ["function", "plain", "async"], indirect=True
)


def numbers(count: int) -> Iterator[int]:
    for number in range(count):  # noqa: UP028  # see test_call_streams
        yield number


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


@KINDS
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


@KINDS
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


@KINDS
@pytest.mark.usefixtures("awaiting_api")
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


@FEW_KINDS
async def test_stream_when_only_its_completion_is_awaited_then_it_runs_to_its_end(
    api: Api, callee: Callee
) -> None:
    completed = callee.method("items", backpressure=-1).remote(numbers, 600).completed()

    assert await api.get(completed) == 600


# Cancelling.


def marked(path: Path) -> Iterator[int]:
    path.touch()
    yield 1


def wait_at(gate: Any, name: str) -> Steps:
    return (yield gate.wait.remote(name))


@pytest.mark.parametrize(
    "callee", ["function", "plain", "threaded", "async"], indirect=True
)
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


@pytest.mark.parametrize("callee", ["async"], indirect=True)
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


@pytest.mark.parametrize("callee", ["plain"], indirect=True)
@pytest.mark.usefixtures("awaiting_api")
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
