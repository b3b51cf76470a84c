"""Remote functions that yield, in real processes."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import AsyncCaller, Caller, Stop, gone
from helpers.calls import raised
from helpers.functions import add, group_of, mark
from helpers.streams import KINDS, all_of, kinds

import actorlib
from actorlib.exceptions import TaskCancelledError, TaskError, WorkerCrashedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.actors import Place

    from actorlib import Runtime
    from actorlib._core.runtime_options import RuntimeKeywords

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"num_cpus": 2}


@actorlib.remote
def items(number: int) -> Iterator[int]:
    yield from range(number)


@actorlib.remote
def fails(number: int) -> Iterator[int]:
    yield from range(number)
    raise KeyError("enough")


@actorlib.remote
def stops(place: Place, first: Any = "first") -> Iterator[Any]:
    yield first
    place.stop_here()
    yield "last"


@actorlib.remote
def counts(path: Path, number: int) -> Iterator[int]:
    for _ in range(number):
        yield mark(path)


@actorlib.remote
def pids(path: Path, number: int, deadly: int) -> Iterator[tuple[int, int]]:
    """Says in which process each item was made; the first one dies on its way."""
    runs = mark(path)
    for index in range(number):
        if runs == 1 and index == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        yield index, runs


@actorlib.remote
def noisy(place: Place, path: Path) -> Iterator[int]:
    """Notes how it ends."""
    try:
        yield os.getpid()
        place.stop_here()
        while True:
            yield 0
    except BaseException as error:
        path.write_text(type(error).__name__)
        raise


@actorlib.remote
def total(number: int) -> int:
    return sum(actorlib.get(ref) for ref in items.remote(number))


@actorlib.remote
def doubled(number: int) -> Iterator[int]:
    for ref in items.remote(number):
        yield 2 * actorlib.get(ref)


def total_here(number: int) -> int:
    return sum(ref.get() for ref in items.remote(number))


async def total_later(number: int) -> int:
    return sum([await ref async for ref in items.remote(number)])


# Items.


async def test_items_come_in_order_and_then_the_end() -> None:
    stream = items.remote(1_000)
    assert await all_of(stream) == list(range(1_000))
    assert await stream.completed() == 1_000
    assert await all_of(items.remote(0)) == []


async def test_an_item_comes_while_the_function_runs(stop: Stop) -> None:
    stream = stops.remote(stop.place)
    assert await (await anext(stream)) == "first"
    await stop.reached()
    assert not stream.completed().done()
    stop.release()
    assert await all_of(stream) == ["last"]


async def test_large_items_and_handles_arrive() -> None:
    @actorlib.remote
    def gives() -> Iterator[Any]:
        yield bytes(1_000_000)
        yield actorlib.remote(Tally).remote()

    class Tally:
        def one(self) -> int:
            return 1

    large, handle = await all_of(gives.remote())
    assert len(large) == 1_000_000
    assert await handle.one.remote() == 1


async def test_an_exception_comes_behind_the_items() -> None:
    stream = fails.remote(2)
    refs = [ref async for ref in stream]
    assert [await ref for ref in refs[:2]] == [0, 1]
    error = await raised(refs[2])
    assert isinstance(error, KeyError)
    assert isinstance(error, TaskError)
    assert error.where.startswith("fails (pid ")
    assert isinstance(await raised(stream.completed()), KeyError)
    [ref] = [ref async for ref in fails.remote(0)]
    assert isinstance(await raised(ref), KeyError)


async def test_an_item_that_cannot_be_sent_ends_it() -> None:
    @actorlib.remote
    def gives() -> Iterator[Any]:
        yield 1
        yield threading.Lock()

    refs = [ref async for ref in gives.remote()]
    assert await refs[0] == 1
    error = await raised(refs[1])
    assert isinstance(error, TypeError)
    assert "gives" in str(error)
    assert await add.remote(1) == 1


async def test_arguments_may_be_refs_and_are_checked() -> None:
    assert await all_of(items.remote(add.remote(2))) == [0, 1]  # type: ignore[arg-type]
    [ref] = [ref async for ref in items.remote(fails.remote(0).completed())]  # type: ignore[arg-type]
    assert isinstance(await raised(ref), KeyError)
    with pytest.raises(TypeError, match="missing 1 required"):
        items.remote()  # type: ignore[call-arg]


# Who reads.


async def test_functions_read_streams_of_functions() -> None:
    assert await total.remote(500) == sum(range(500))
    assert await all_of(doubled.remote(500)) == list(range(0, 1_000, 2))


@kinds("serial", "threaded", "async")
async def test_actors_read_streams_of_functions(kind: str) -> None:
    caller = Caller.remote() if kind == "serial" else AsyncCaller.remote()
    read = total_here if kind == "serial" else total_later
    if kind == "threaded":
        caller, read = Caller.options(max_concurrency=2).remote(), total_here
    assert await caller.run.remote(read, 600) == sum(range(600))


async def test_functions_read_streams_of_actors() -> None:
    source = KINDS["serial"].remote()
    read = actorlib.remote(lambda s: [ref.get() for ref in s.items.remote(300)])
    assert await read.remote(source) == list(range(300))


# Back-pressure.


async def test_the_producer_waits_for_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "made"
    stream = counts.options(backpressure=1).remote(path, 20)
    async for ref in stream:
        assert len(path.read_text()) <= await ref + 1
    assert len(path.read_text()) == 20
    ported = counts.options(_generator_backpressure_num_objects=1)  # type: ignore[call-arg]
    assert ported._options.backpressure == 1


async def test_stream_when_its_reader_is_behind_then_others_get_its_cpu() -> None:
    # Four on two CPUs would hang if who waits for a reader kept its CPU.
    streams = [items.options(backpressure=1).remote(5) for _ in range(4)]
    for number in range(5):
        assert [await (await anext(s)) for s in streams] == [number] * 4
    assert [await stream.completed() for stream in streams] == [5] * 4


async def test_stream_when_it_waits_for_its_reader_then_it_holds_no_cpu(
    runtime: Runtime, stop: Stop
) -> None:
    stream = items.options(backpressure=1).remote(5)
    assert await (await anext(stream)) == 0
    others = [stops.remote(stop.place) for _ in range(2)]
    await stop.reached()
    await stop.reached()  # both CPUs are theirs
    assert group_of(runtime).blocked == 1
    stop.release()
    stop.release()
    assert await all_of(stream) == [1, 2, 3, 4]
    for other in others:
        assert await all_of(other) == ["first", "last"]


async def test_a_detached_stream_that_is_dropped_runs_to_its_end(
    stop: Stop,
) -> None:
    @actorlib.remote(backpressure=1, detach=True)
    def ends(place: Place) -> Iterator[int]:
        yield from range(10)
        place.stop_here()

    stream = ends.remote(stop.place)
    await anext(stream)
    del stream
    await stop.reached()
    stop.release()

    await idle()


async def test_stream_when_only_its_whole_call_is_awaited_then_it_runs() -> None:
    assert await items.options(backpressure=-1).remote(10).completed() == 10


@pytest.mark.parametrize("how", ["read", "unseen"])
async def test_stream_when_dropped_then_it_ends_and_its_cpu_is_free(
    how: str, runtime: Runtime, tmp_path: Path
) -> None:
    stream = noted.options(num_cpus=2).remote(tmp_path / "ends")
    if how == "read":
        await anext(stream)
    del stream

    await idle()
    assert runtime.calls() == []


async def test_stream_when_left_by_a_worker_then_it_ends(tmp_path: Path) -> None:
    def reads_one(path: Path) -> int:
        stream = noted.options(backpressure=1).remote(path)
        return next(stream).get()

    def dies(path: Path) -> None:
        reads_one(path)
        stream = noted.options(backpressure=1).remote(path)
        next(stream).get()
        os.kill(os.getpid(), signal.SIGKILL)

    path = tmp_path / "ends"
    assert await actorlib.remote(reads_one).remote(path) == 0
    assert await behind(path) == "x"
    reader = actorlib.remote(max_retries=0)(dies)
    assert type(await raised(reader.remote(path))) is WorkerCrashedError
    assert await behind(path) == "xxx"


@actorlib.remote
def noted(path: Path) -> Iterator[int]:
    """Endless; writes down its end."""
    try:
        yield from itertools.count()
    finally:
        with path.open("a") as file:
            file.write("x")


async def test_a_reader_that_dies_leaves_a_detached_producer_running(
    stop: Stop,
) -> None:
    def read_and_die(place: Place) -> None:
        @actorlib.remote(backpressure=1, detach=True)
        def ends(place: Place) -> Iterator[int]:
            yield from range(10)
            place.stop_here()

        stream = ends.remote(place)
        next(stream).get()
        os.kill(os.getpid(), signal.SIGKILL)

    reader = actorlib.remote(max_retries=0)(read_and_die)
    assert type(await raised(reader.remote(stop.place))) is WorkerCrashedError
    await stop.reached()
    stop.release()
    await idle()


# Cancelling.


@pytest.mark.process
async def test_it_is_stopped_in_the_middle_of_its_code(
    stop: Stop, tmp_path: Path
) -> None:
    stream = noisy.remote(stop.place, tmp_path / "end")
    await anext(stream)
    await stop.reached()
    assert stream.cancel()
    [ref] = [ref async for ref in stream]
    assert isinstance(await raised(ref), TaskCancelledError)
    assert await behind(tmp_path / "end") == "KeyboardInterrupt"


async def idle() -> None:
    """Waits until no call holds a CPU."""
    await actorlib.remote(num_cpus=2)(lambda: None).remote()


async def behind(path: Path) -> str:
    """What a file says when no function runs any more."""
    await idle()
    return path.read_text()  # noqa: ASYNC240  # it is small


async def test_it_is_closed_at_its_yield(stop: Stop, tmp_path: Path) -> None:
    stream = noisy.options(backpressure=1).remote(stop.place, tmp_path / "end")
    await anext(stream)
    await stop.reached()
    stop.release()
    await anext(stream)  # now it waits for its reader, or is about to
    stream.cancel()
    [ref] = [ref async for ref in stream]
    assert isinstance(await raised(ref), TaskCancelledError)
    assert await behind(tmp_path / "end") in ("GeneratorExit", "KeyboardInterrupt")


async def test_cancel_when_it_waits_in_line_then_it_never_runs(
    stop: Stop, tmp_path: Path
) -> None:
    busy = [stops.remote(stop.place) for _ in range(2)]
    await stop.reached()
    await stop.reached()
    stream = counts.remote(tmp_path / "made", 1)
    stream.cancel()
    stop.release()
    stop.release()
    for other in busy:
        await all_of(other)
    assert isinstance(await raised(stream.completed()), TaskCancelledError)
    await idle()
    assert not (tmp_path / "made").exists()


async def test_by_force_its_process_ends(stop: Stop, tmp_path: Path) -> None:
    stream = noisy.remote(stop.place, tmp_path / "end")
    pid = await (await anext(stream))
    await stop.reached()
    assert stream.cancel(force=True)
    assert isinstance(await raised(await anext(stream)), TaskCancelledError)
    await gone(pid)
    assert not (tmp_path / "end").exists()


async def test_by_force_also_by_a_part_of_its_result(stop: Stop) -> None:
    @actorlib.remote(num_returns=2)
    def halts(place: Place) -> tuple[int, int]:
        place.stop_here()
        return 1, 2

    parts: Any = halts.remote(stop.place)
    await stop.reached()
    assert parts[1].cancel(force=True)
    assert isinstance(await raised(parts[0]), TaskCancelledError)


# Deaths.


async def test_stream_when_its_worker_dies_then_each_item_comes_once(
    tmp_path: Path,
) -> None:
    stream = pids.options(backpressure=2).remote(tmp_path / "runs", 10, 6)
    got = await all_of(stream)
    assert [index for index, _ in got] == list(range(10))
    assert {runs for _, runs in got[6:]} == {2}
    assert await stream.completed() == 10


async def test_stream_when_a_worker_reads_and_the_producer_dies_then_each_item_once(
    tmp_path: Path,
) -> None:
    read = actorlib.remote(
        lambda path: [ref.get()[0] for ref in pids.remote(path, 300, 200)]
    )
    assert await read.remote(tmp_path / "runs") == list(range(300))


async def test_stream_when_it_is_not_made_again_then_the_last_item_tells(
    tmp_path: Path,
) -> None:
    stream = pids.options(max_retries=0).remote(tmp_path / "runs", 10, 6)
    *refs, last = [ref async for ref in stream]
    assert [(await ref)[0] for ref in refs] == list(range(len(refs)))
    assert type(await raised(last)) is WorkerCrashedError


async def test_stream_when_its_exception_is_retried_then_each_item_comes_once(
    tmp_path: Path,
) -> None:
    @actorlib.remote(retry_exceptions=[KeyError])
    def often(path: Path) -> Iterator[int]:
        runs = mark(path)
        yield from range(runs * 2)
        if runs < 3:
            raise KeyError(runs)

    assert await all_of(often.remote(tmp_path / "runs")) == list(range(6))


async def test_stream_when_it_leaves_its_process_then_it_crashed() -> None:
    @actorlib.remote(max_retries=0)
    def leaves() -> Iterator[int]:
        yield os.getpid()
        sys.exit(3)

    pid, last = [ref async for ref in leaves.remote()]
    assert "exit code 3" in str(await raised(last))
    await gone(await pid)


async def test_max_calls_counts_streams_too() -> None:
    @actorlib.remote(max_calls=1)
    def here() -> Iterator[int]:
        yield os.getpid()

    assert len({*(await all_of(here.remote())), *(await all_of(here.remote()))}) == 2
