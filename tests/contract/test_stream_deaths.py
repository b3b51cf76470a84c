"""Deaths of producers and readers of streams, and calls that are made again."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Gate
from helpers.callees import Callee
from helpers.callers import all_items, error_of

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorlibError,
    WorkerCrashedError,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from helpers.actors import Place, Stop
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("streams"),
]

FEW_KINDS = pytest.mark.parametrize(
    "callee", ["function", "plain", "async"], indirect=True
)
ACTORS = pytest.mark.parametrize("callee", ["plain", "async"], indirect=True)


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


async def ended(stop: Stop) -> None:
    """Waits until ``counted`` has ended."""
    await stop.reached()
    stop.release()


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


@ACTORS
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


@ACTORS
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


@pytest.mark.parametrize("callee", ["plain", "threaded", "async"], indirect=True)
async def test_stream_when_its_reader_is_killed_then_it_ends(
    api: Api, callee: Callee, stop: Stop, tmp_path: Path, engine: str
) -> None:
    if engine == "ray":
        pytest.xfail("on Ray the stream of a reader that was killed goes on")
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


@pytest.mark.usefixtures("own_engines")
@ACTORS
async def test_actor_when_only_a_stream_needs_it_then_it_lives_until_the_end(
    api: Api, callee: Callee
) -> None:
    source = callee.new()
    stream = source.items(numbers, 300)
    await api.next_item(stream)
    end = api.end_of(source.actor)
    del source

    assert await all_items(api, stream) == list(range(1, 300))
    await end


@pytest.mark.parametrize(
    "callee", ["plain", "threaded", "async", "looped"], indirect=True
)
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


@FEW_KINDS
async def test_stream_when_made_again_for_a_callee_then_each_item_comes_once(
    api: Api, callee: Callee, tmp_path: Path
) -> None:
    source = restarted(Callee("plain", is_blocking=False))
    assert source.actor

    values = await api.get(callee.run(read, source, tmp_path / "runs"))

    assert values == list(range(400))
