"""Streams of functions where processes and CPUs matter.

What holds for every engine and kind of callee is in ``tests/contract/``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Stop, gone
from helpers.calls import raised
from helpers.functions import group_of
from helpers.streams import all_of

import actorlib
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.actors import Place

    from actorlib import Runtime
    from actorlib._options.runtime_options import RuntimeKeywords

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
def stops(place: Place, first: Any = "first") -> Iterator[Any]:
    yield first
    place.stop_here()
    yield "last"


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


async def idle() -> None:
    """Waits until no call holds a CPU."""
    await actorlib.remote(num_cpus=2)(lambda: None).remote()


async def behind(path: Path) -> str:
    """What a file says when no function runs any more."""
    await idle()
    return path.read_text()  # noqa: ASYNC240  # it is small


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


@pytest.mark.process
async def test_cancel_when_the_function_runs_then_it_is_interrupted(
    stop: Stop, tmp_path: Path
) -> None:
    stream = noisy.remote(stop.place, tmp_path / "end")
    await anext(stream)
    await stop.reached()
    assert stream.cancel()
    [ref] = [ref async for ref in stream]
    assert isinstance(await raised(ref), TaskCancelledError)
    assert await behind(tmp_path / "end") == "KeyboardInterrupt"


async def test_cancel_when_by_force_then_the_process_ends(
    stop: Stop, tmp_path: Path
) -> None:
    stream = noisy.remote(stop.place, tmp_path / "end")
    pid = await (await anext(stream))
    await stop.reached()
    assert stream.cancel(force=True)
    assert isinstance(await raised(await anext(stream)), TaskCancelledError)
    await gone(pid)
    assert not (tmp_path / "end").exists()


async def test_cancel_when_by_force_for_one_part_then_the_call_is_cancelled(
    stop: Stop,
) -> None:
    @actorlib.remote(num_returns=2)
    def halts(place: Place) -> tuple[int, int]:
        place.stop_here()
        return 1, 2

    parts: Any = halts.remote(stop.place)
    await stop.reached()
    assert parts[1].cancel(force=True)
    assert isinstance(await raised(parts[0]), TaskCancelledError)


async def test_max_calls_when_calls_are_streams_then_they_count() -> None:
    @actorlib.remote(max_calls=1)
    def here() -> Iterator[int]:
        yield os.getpid()

    assert len({*(await all_of(here.remote())), *(await all_of(here.remote()))}) == 2
