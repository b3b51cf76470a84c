"""What a trace records: every kind of call and of worker, lives, puts; and its end."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from helpers.marks import in_memory

import actorlib
from actorlib._api.actor_handle import pin_of
from actorlib._core.engine import find_engine
from actorlib._features.runtime import recording_of
from actorlib.exceptions import ActorDiedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from pathlib import Path

    from actorlib import ActorHandle, Runtime
    from actorlib.types import Trace

pytestmark = in_memory()


class Plain:
    def ping(self) -> int:
        return 1

    def fail(self) -> None:
        raise KeyError("no")

    def items(self, n: int) -> Generator[int]:
        yield from range(n)

    def call(self, other: ActorHandle[Any]) -> Any:
        return actorlib.get(other.ping.remote())


class Looped(Plain):
    async def later(self) -> None:
        await asyncio.sleep(0)

    async def fail_later(self) -> None:
        raise LookupError

    async def wait(self) -> None:
        await asyncio.Event().wait()

    async def stream(self, n: int) -> AsyncGenerator[int]:
        for item in range(n):
            yield item


KINDS: dict[str, Any] = {
    "serial": actorlib.remote(Plain),
    "threaded": actorlib.remote(max_concurrency=2)(Plain),
    "looped": actorlib.remote(Looped),
}


@actorlib.remote
def double(x: int) -> int:
    return 2 * x


def runs(trace: Trace) -> list[tuple[str, str]]:
    return [
        (event["name"].rpartition(".")[2], event["args"]["outcome"])
        for event in trace.events
        if event.get("cat") in ("run", "stream")
    ]


def recording() -> Any:
    engine: Any = find_engine()
    return recording_of(engine, "runtime.trace()")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
async def test_actor_when_traced_then_its_calls_streams_and_errors_are_there(
    runtime: Runtime, kind: Any
) -> None:
    actor, other = kind.remote(), KINDS["serial"].remote()
    await asyncio.gather(actor, other)

    async with runtime.trace() as trace:
        await actor.ping.remote()
        await actor.call.remote(other)
        with pytest.raises(KeyError):
            await actor.fail.remote()
        async for ref in actor.items.remote(2):
            await ref

    assert sorted(runs(trace)) == [
        ("call", "finished"),
        ("fail", "KeyError"),
        ("items", "finished"),
        ("ping", "finished"),
        ("ping", "finished"),
    ]
    assert (trace.calls, trace.runs, trace.dropped, trace.silent) == (5, 5, 0, ())
    arrows = [event["ph"] for event in trace.events if event["ph"] in "sf"]
    assert sorted(arrows) == ["f"] * 5 + ["s"] * 5


async def test_loop_of_an_actor_when_traced_then_its_coroutines_are_there(
    runtime: Runtime,
) -> None:
    actor = KINDS["looped"].remote()
    await actor

    async with runtime.trace() as trace:
        await actor.later.remote()
        with pytest.raises(LookupError):
            await actor.fail_later.remote()
        async for ref in actor.stream.remote(2):
            await ref
        given_up = actor.wait.remote()
        await actor.later.remote()
        given_up.cancel()
        await actor.later.remote()
        await double.remote(1)

    outcomes = runs(trace)
    assert ("fail_later", "LookupError") in outcomes
    assert ("wait", "TaskCancelledError") in outcomes
    assert outcomes.count(("later", "finished")) == 3
    assert ("double", "finished") in outcomes


async def test_lives_when_traced_then_states_deaths_and_puts(
    runtime: Runtime, tmp_path: Path
) -> None:
    async with runtime.trace(tmp_path / "trace.json") as trace:
        actor = KINDS["serial"].remote()
        await actor.ping.remote()
        await actorlib.kill(actor)
        with pytest.raises(ActorDiedError):
            await actor.ping.remote()
        actorlib.put(b"value")

    written = json.loads((tmp_path / "trace.json").read_text())
    assert written["traceEvents"] == trace.events
    named = {
        event["name"]
        for event in trace.events
        if event.get("cat") in ("life", "death", "object")
    }
    assert {"pending", "starting", "alive", "put"} <= named
    assert any(name.startswith("died: it was killed") for name in named)
    assert ("ping", "finished") in runs(trace)


@pytest.mark.usefixtures("runtime")
async def test_record_when_looked_at_and_it_goes_on_then_all_and_later_more() -> None:
    actor = KINDS["serial"].remote()
    await actor

    began = recording().begin(10)
    await actor.ping.remote()
    first = (await recording().end(began, goes_on=True))()
    await actor.ping.remote()
    last = (await recording().end(began))()

    assert (len(first.calls), len(last.calls)) == (1, 2)
    assert (len(first.runs), len(last.runs)) == (1, 2)
    assert [*recording()._recordings] == []


async def test_trace_when_a_longer_one_has_dropped_much_then_it_counts_its_own(
    runtime: Runtime,
) -> None:
    actor = KINDS["serial"].remote()
    await actor

    async with runtime.trace(kept=2) as outer:
        await asyncio.gather(*[actor.ping.remote() for _ in range(9)])
        async with runtime.trace(kept=1) as inner:
            await actor.ping.remote()
        async with runtime.trace(kept=1) as full:
            await asyncio.gather(*[actor.ping.remote() for _ in range(3)])

    # The newest are kept.
    assert (outer.calls, outer.runs, outer.dropped) == (2, 2, 22)
    assert (inner.calls, inner.runs, inner.dropped) == (1, 1, 0)
    assert (full.calls, full.runs, full.dropped) == (1, 1, 4)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
async def test_actor_when_it_has_ended_then_its_last_runs_are_in_the_trace(
    runtime: Runtime, kind: Any
) -> None:
    async with runtime.trace() as trace:
        actor = kind.remote()
        for _ in range(3):
            await actor.ping.remote()
        actor_id = pin_of(actor).actor_id
        engine: Any = find_engine()
        ended = engine.actor_table.by_id[actor_id].ended
        del actor
        await ended

    assert runs(trace).count(("ping", "finished")) == 3
    assert (trace.calls, trace.dropped) == (3, 0)


async def test_trace_when_it_is_over_then_nothing_is_left(runtime: Runtime) -> None:
    actor = KINDS["serial"].remote()
    await actor
    engine: Any = find_engine()
    supervisor = next(
        made for made in engine.actor_table if made.record.state.value == "alive"
    )

    async def fail() -> None:
        async with runtime.trace():
            await actor.ping.remote()
            assert supervisor.router.calls.note_sent is not None
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()

    kept = recording()
    assert supervisor.router.calls.note_sent is None
    assert supervisor.record.watcher is None
    assert [*kept._recordings, *kept._calls, *kept._pieces, *kept._moves] == []


async def test_trace_when_entered_twice_or_asked_wrongly_then_refused(
    runtime: Runtime,
) -> None:
    trace = runtime.trace()
    async with trace:
        pass
    with pytest.raises(RuntimeError, match="entered once"):
        await trace.__aenter__()
    with pytest.raises(ValueError, match="kept"):
        runtime.trace(kept=0)


async def test_plain_generator_when_given_up_then_its_run_was_cancelled(
    runtime: Runtime,
) -> None:
    actor = KINDS["serial"].remote()

    async with runtime.trace() as trace:
        async for ref in actor.items.remote(1_000_000):
            await ref
            break
        await actor.ping.remote()
        await actor.ping.remote()

    assert ("items", "TaskCancelledError") in runs(trace)


async def test_trace_when_a_stream_is_under_way_then_it_has_the_rest_of_it(
    runtime: Runtime,
) -> None:
    actor = KINDS["serial"].remote()
    stream = actor.items.remote(1000)
    first = await anext(stream)
    await actor.ping.remote()  # the generator waits for its reader

    async with runtime.trace() as trace:
        rest = [await ref async for ref in stream]

    assert [await first, *rest] == [*range(1000)]
    assert ("items", "finished") in runs(trace)
