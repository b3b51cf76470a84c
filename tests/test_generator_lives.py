"""Streams and lives: of their actors, of their readers, of handles."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import Stop, end_of, gone, living
from helpers.streams import KINDS, Source, all_of, ended, kinds, made

import actorlib
from actorlib.exceptions import ActorDiedError, PendingCallsLimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from helpers.actors import Place

    from actorlib import Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


@kinds("serial", "async")
async def test_stream_when_its_actor_is_killed_then_the_ref_behind_tells(
    kind: str,
) -> None:
    source = made(kind)
    items = source.items.remote(100_000)
    assert await (await anext(items)) == 0
    os.kill(await source.pid.remote(), 9)
    await end_of(source)

    refs = [ref async for ref in items]

    assert [await ref for ref in refs[:-1]] == list(range(1, len(refs)))
    with pytest.raises(ActorDiedError, match="SIGKILL"):
        await refs[-1]


@kinds("serial", "threaded", "mixed", "async")
@pytest.mark.parametrize("reader_kind", ["serial", "async"])
async def test_a_reader_that_dies_leaves_nobody_blocked(
    kind: str, reader_kind: str, stop: Stop
) -> None:
    source, reader = made(kind), made(reader_kind)
    reading = reader.reads_and_stops.remote(source, stop.place)
    await stop.reached()
    await actorlib.kill(reader)
    with pytest.raises(ActorDiedError):
        await reading

    assert await all_of(source.yields.remote(1, 2)) == [1, 2]
    assert await ended(source) == ["finally"]  # nothing is made for nobody


@kinds("serial", "async")
async def test_stream_when_a_worker_drops_it_then_it_ends(kind: str) -> None:
    source = made("serial")

    assert await made(kind).reads_some.remote(source, 5_000, 3) == [0, 1, 2]

    assert await ended(source) == ["closed", "finally"]
    assert await source.ping.remote() < 5_000


@kinds("serial", "async")
async def test_stream_when_a_detached_one_s_reader_is_gone_then_it_runs_on(
    kind: str,
) -> None:
    class Reader:
        def reads_one(self, source: Any) -> Any:
            return next(source.items.options(detach=True).remote(5_000)).get()

        def leaves_one(self, source: Any) -> None:
            self.items = source.items.options(detach=True).remote(3_000)
            next(self.items)
            os.kill(os.getpid(), 9)

    reader = cast("Any", actorlib.remote(Reader)).remote()
    source = made(kind)

    assert await reader.reads_one.remote(source) == 0
    assert await ended(source) == ["finally"]
    assert await source.ping.remote() == 5_000
    with pytest.raises(ActorDiedError):
        await reader.leaves_one.remote(source)
    while await source.ended.remote() != ["finally"] * 2:
        pass
    assert await source.ping.remote() == 3_000


async def test_stream_when_handles_are_dropped_then_the_actor_waits_for_it() -> None:
    source = made("serial")
    pid = await source.pid.remote()
    items = source.items.remote(1_000)
    await anext(items)
    del source

    assert await all_of(items) == list(range(1, 1_000))
    await gone(pid)


async def test_stream_when_made_before_its_actor_is_ready_then_it_waits(
    stop: Stop,
) -> None:
    class Late(Source):
        def __init__(self, place: Place) -> None:
            super().__init__()
            place.stop_here()

    source = cast("Any", actorlib.remote(Late)).remote(stop.place)
    items = source.items.remote(3)
    await stop.reached()
    stop.release()

    assert await all_of(items) == [0, 1, 2]


async def test_stream_when_calls_are_counted_then_it_is_one_until_it_ends() -> None:
    source = KINDS["serial"].options(max_pending_calls=1).remote()
    items = source.items.remote(1_000)
    await anext(items)

    with pytest.raises(PendingCallsLimitExceeded):
        source.ping.remote()
    with pytest.raises(PendingCallsLimitExceeded):
        source.items.remote(1)
    await all_of(items)
    assert await source.ping.remote() == 1_000


async def test_stream_when_it_runs_then_the_snapshot_counts_one_call(
    runtime: Runtime,
) -> None:
    source = made("serial")
    items = source.items.remote(1_000)
    await anext(items)

    (actor,) = living(runtime)
    assert actor.pending_calls == 1
    await all_of(items)
    (actor,) = living(runtime)
    assert actor.pending_calls == 0


async def test_exit_when_a_stream_calls_it_then_its_ref_tells() -> None:
    class Leaver:
        def leaves(self) -> Any:
            yield 1
            actorlib.exit_actor()

    items = cast("Any", actorlib.remote(Leaver)).remote().leaves.remote()

    assert await (await anext(items)) == 1
    with pytest.raises(ActorDiedError):
        await (await anext(items))


# Runs again.


async def test_a_stream_that_is_made_again_shows_each_index_once(
    tmp_path: Any,
) -> None:
    marks = str(tmp_path / "runs")

    class Shaky:
        def crashes(self, n: int) -> Any:
            with open(marks, "a") as file:  # noqa: PTH123
                file.write("x")
            with open(marks) as file:  # noqa: PTH123
                run = len(file.read())
            for i in range(n):
                if i == 400 and run == 1:
                    os.kill(os.getpid(), 9)
                if i == 600 and run == 2:
                    raise ConnectionError("again")
                yield i

    options = {"max_restarts": 1, "max_task_retries": 3, "retry_exceptions": True}
    source = cast("Any", actorlib.remote(**options)(Shaky)).remote()  # type: ignore[call-overload]

    assert await all_of(source.crashes.remote(1_500)) == list(range(1_500))
    reader = made("serial")
    assert await reader.reads.remote(source, "crashes", 700) == list(range(700))


# The explicit end.


@kinds("serial", "threaded", "mixed", "async")
async def test_end_when_a_stream_is_read_then_it_waits_for_the_last_item(
    kind: str,
) -> None:
    async with made(kind) as source:
        items = source.items.remote(3_000)
        reading = asyncio.ensure_future(all_of(items))
        await asyncio.sleep(0)

    assert await reading == list(range(3_000))


@kinds("serial", "threaded", "mixed", "async")
async def test_end_when_a_stream_has_ended_then_what_is_unread_stays(kind: str) -> None:
    async with made(kind) as source:
        items = source.items.remote(100)

    assert await all_of(items) == list(range(100))
