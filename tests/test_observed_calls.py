"""Calls that middlewares are told of: on both sides, by every way, and by nobody."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import limited, running
from helpers.marks import in_memory

import actorlib
from actorlib._core.engine import find_engine
from actorlib._core.propagation import OBSERVED, PROPAGATED
from actorlib._features.middleware.middlewares import Middlewares
from actorlib._features.middleware.observed_calls import ObservedCalls
from actorlib._options.function_options import FunctionOptions, FunctionSpec
from actorlib._options.runtime_options import RuntimeOptions
from actorlib.exceptions import (
    ActorDiedError,
    TaskCancelledError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from actorlib import ActorHandle, Runtime
    from actorlib.observe import ObservedCall, Outcome, Run

pytestmark = in_memory()

IN_WORKERS: list[tuple[str, Any, Any, Any]] = []
"""What copies in workers were told: the side, the call, its carrier, its outcome."""
PLACE: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="")


class Seen:
    """Notes what it is told, its copies in ``IN_WORKERS``."""

    def __init__(self) -> None:
        self.begun: list[ObservedCall] = []
        self.over: list[tuple[ObservedCall, Outcome]] = []
        self.runs: list[Run] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Copy, ()

    def before(self, call: ObservedCall) -> int:
        call.carrier["from"] = f"call {call.number}"
        self.begun.append(call)
        return call.number

    def after(self, call: ObservedCall, token: int, outcome: Outcome) -> None:
        assert token == call.number
        self.over.append((call, outcome))

    def ran(self, run: Run) -> None:
        self.runs.append(run)

    def outcomes(self) -> list[tuple[str, str, str]]:
        return [(c.method, how.status, how.error) for c, how in self.over]


class Copy:
    def before(self, call: ObservedCall) -> contextvars.Token[str]:
        return PLACE.set(f"{call.side} {call.method}")

    def after(
        self, call: ObservedCall, token: contextvars.Token[str], outcome: Outcome
    ) -> None:
        if call.side == "worker":
            PLACE.reset(token)  # raises in another context
        IN_WORKERS.append((call.side, call, dict(call.carrier), outcome))


class Raising:
    def __init__(self, *methods: str) -> None:
        self.methods = methods

    def before(self, _: ObservedCall) -> None:
        if "before" in self.methods:
            raise LookupError("before")

    def after(self, _: ObservedCall, __: object, ___: Outcome) -> None:
        if "after" in self.methods:
            raise LookupError("after")


class Plain:
    """Has a plain method, and generators."""

    def place(self) -> str:
        return PLACE.get()

    def fail(self) -> None:
        raise KeyError("no")

    def count(self, n: int) -> Generator[int]:
        yield from range(n)

    def call(self, other: ActorHandle[Any], method: str) -> Any:
        return actorlib.get(getattr(other, method).remote())


class Looped(Plain):
    """The same, with an event loop."""

    async def later(self) -> str:
        await asyncio.sleep(0)
        return PLACE.get()

    async def items(self, n: int) -> AsyncGenerator[int]:
        for item in range(n):
            yield item

    async def wait(self) -> None:
        await asyncio.Event().wait()


KINDS: dict[str, Any] = {
    "serial": actorlib.remote(Plain),
    "threaded": actorlib.remote(max_concurrency=2)(Plain),
    "looped": actorlib.remote(Looped),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@actorlib.remote
def place() -> str:
    return PLACE.get()


@pytest.fixture
def seen(runtime: Runtime) -> Generator[Seen]:
    IN_WORKERS.clear()
    middleware = Seen()
    runtime.add_middleware(middleware)
    yield middleware
    runtime.remove_middleware(middleware)


@contextmanager
def added(runtime: Runtime, *middlewares: Any) -> Generator[None]:
    for middleware in middlewares:
        runtime.add_middleware(middleware)
    try:
        yield
    finally:
        for middleware in middlewares:
            runtime.remove_middleware(middleware)


@each_kind
async def test_call_when_observed_then_both_sides_are_told_of_it(
    kind: Any, seen: Seen
) -> None:
    handle = kind.options(name=f"m {kind is KINDS['serial']}").remote()

    ran_in = await handle.place.remote()

    [(call, outcome)], [run] = seen.over, seen.runs
    [(side, there, carrier, outcome_there)] = IN_WORKERS
    assert (call.side, side) == ("caller", "worker")
    assert call.number == there.number == run.number
    assert carrier == {"from": f"call {call.number}"}
    for told in (call, there, run):
        assert (told.class_name, told.method) == (kind.__name__, "place")
        assert told.actor_name is not None
        assert told.caller_id == ""
    assert call.actor_id == there.actor_id == run.actor_id
    assert (outcome.status, outcome_there.status, run.status) == ("ok",) * 3
    assert outcome[2:] == (run.began, run.ended, 1)
    assert run.made <= run.began <= run.ended
    assert ran_in == "worker place"  # what ``before`` has set


async def test_async_method_when_observed_then_it_runs_in_what_before_has_set(
    seen: Seen,
) -> None:
    handle = KINDS["looped"].remote()

    assert await handle.later.remote() == "worker later"
    assert await handle.place.remote() == "worker place"
    assert [side for side, *_ in IN_WORKERS] == ["worker", "worker"]
    assert seen.outcomes() == [("later", "ok", ""), ("place", "ok", "")]


async def test_function_when_observed_then_it_is_of_no_actor(seen: Seen) -> None:
    assert await place.remote() == "worker place"

    [run] = seen.runs
    [(call, outcome)], [(_, there, *_)] = seen.over, IN_WORKERS
    assert (call.actor_id, call.class_name, call.actor_name) == ("", "", None)
    assert call.method == there.method == run.method == "place"
    assert (there.actor_id, run.actor_id, run.class_name) == ("", "", "")
    assert outcome.runs == 1


@each_kind
async def test_error_when_observed_then_its_class_is_told(
    kind: Any, seen: Seen
) -> None:
    handle = kind.remote()

    with pytest.raises(KeyError):
        await handle.fail.remote()

    assert seen.outcomes() == [("fail", "error", "KeyError")]
    assert IN_WORKERS[0][3][:2] == ("error", "KeyError")


@pytest.mark.parametrize("method", ["count", "items"])
async def test_stream_when_observed_then_its_end_is_told_once(
    method: str, seen: Seen
) -> None:
    handle = KINDS["looped"].remote()

    items = [await ref async for ref in getattr(handle, method).remote(3)]

    assert items == [0, 1, 2]
    await handle.place.remote()
    (call, outcome), *_ = seen.over
    assert (call.is_stream, call.method, outcome.status) == (True, method, "ok")
    assert [there.method for _, there, *_ in IN_WORKERS] == [method, "place"]


async def test_stream_when_nobody_reads_on_then_it_is_told_of_as_cancelled(
    seen: Seen,
) -> None:
    handle = KINDS["serial"].remote()

    async for _ in handle.count.remote(1_000_000):
        break
    while "count" not in {run.method for run in seen.runs}:
        await handle.place.remote()

    assert min(seen.outcomes())[:2] == ("count", "cancelled")
    how = {there.method: outcome.status for _, there, _, outcome in IN_WORKERS}
    assert how["count"] == "cancelled"


async def test_call_when_it_is_cancelled_or_its_actor_dies_then_it_says_which(
    seen: Seen,
) -> None:
    handle = KINDS["looped"].remote()
    ref = handle.wait.remote()
    await handle.place.remote()
    actorlib.cancel(ref)
    with pytest.raises(TaskCancelledError):
        await ref
    lost = handle.wait.remote()
    await handle.place.remote()
    actorlib.kill(handle)
    with pytest.raises(ActorDiedError):
        await lost
    await asyncio.sleep(0)

    cancelled, died = (how for call, how in seen.over if call.method == "wait")
    assert cancelled[:2] == ("cancelled", "TaskCancelledError")
    assert cancelled.runs == 1
    assert died == ("lost", "ActorDiedError", None, None, 0)


async def test_ref_when_nobody_has_it_any_more_then_the_end_is_told(seen: Seen) -> None:
    handle = KINDS["looped"].remote()
    await handle.place.remote()

    with pytest.raises(TypeError):
        handle.place.remote(open)  # refused before it is a call
    ref = handle.wait.remote()
    await handle.place.remote()
    actorlib.cancel(ref)
    del ref
    await handle.place.remote()
    await asyncio.sleep(0)

    assert [how for _, how, _ in seen.outcomes()].count("cancelled") == 1


@each_kind
async def test_calls_of_actors_when_observed_then_their_caller_is_told(
    kind: Any, seen: Seen
) -> None:
    front, back = kind.remote(), KINDS["looped"].remote()

    assert await front.call.remote(back, "later") == "worker later"
    await front.place.remote()  # its loop tells of the answer behind that

    nested, own = (run for run in seen.runs if run.method != "place")
    assert (nested.method, own.method) == ("later", "call")
    assert nested.caller_id == own.actor_id
    assert nested.number != own.number
    there = [(side, c) for side, c, *_ in IN_WORKERS if c.method != "place"]
    assert sorted((side, call.method) for side, call in there) == [
        ("caller", "later"),
        ("worker", "call"),
        ("worker", "later"),
    ]
    assert {call.number for _, call in there} == {nested.number, own.number}
    assert [call.method for call, _ in seen.over] == ["call", "place"]


async def test_call_when_it_is_made_again_after_an_error_then_its_runs_are_counted(
    seen: Seen,
) -> None:
    handle = KINDS["serial"].remote()
    method = handle.fail.options(max_task_retries=2, retry_exceptions=True)

    with pytest.raises(KeyError):
        await method.remote()

    [(_, outcome)] = seen.over
    assert (outcome.error, outcome.runs) == ("KeyError", 3)


async def test_middleware_when_it_raises_then_it_is_logged_once_and_calls_go_on(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    handle, seen = KINDS["serial"].remote(), Seen()

    with (
        caplog.at_level(logging.WARNING, "actorlib"),
        added(runtime, Raising("before", "after"), Raising("after"), seen),
    ):
        assert await handle.place.remote() == "worker place"
        assert await handle.place.remote() == "worker place"

    here = [r.getMessage() for r in caplog.records if "Raising.before" in r.message]
    assert len(here) == 2  # once here, and once by the copy in the worker
    assert seen.outcomes() == [("place", "ok", "")] * 2


class Tally:
    """Has attributes of its own that are named like what others listen with."""

    def __init__(self) -> None:
        self.ran = self.count = self.tally_of = 0

    def before(self, _: ObservedCall) -> None:
        self.count += 1

    def after(self, _: ObservedCall, __: object, ___: Outcome) -> None:
        self.ran += 1


async def test_middleware_when_it_has_attributes_of_its_own_then_these_are_its_own(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    tally, handle = Tally(), KINDS["serial"].remote()

    with added(runtime, tally):
        await handle.place.remote()

    assert (tally.count, tally.ran) == (1, 1)
    assert not caplog.records


async def test_middleware_when_it_is_removed_then_nothing_of_it_is_left(
    runtime: Runtime,
) -> None:
    handle, engine = KINDS["serial"].remote(), find_engine()
    seen, other = Seen(), Seen()
    with added(runtime, seen, other):
        await handle.place.remote()
        with pytest.raises(ValueError, match="was added before"):
            runtime.add_middleware(seen)
    IN_WORKERS.clear()

    assert await handle.place.remote() == ""

    assert len(seen.over) == len(other.over) == 1
    assert not IN_WORKERS
    assert OBSERVED.name not in PROPAGATED
    assert not {"call", "stream"} & vars(engine).keys()
    with pytest.raises(ValueError, match="none of the middlewares"):
        runtime.remove_middleware(seen)


class Loaded(Seen):
    """Notes how often it was made in a worker."""

    def __reduce__(self) -> tuple[Any, ...]:
        return made_in_worker, ()


COPIES: list[Copy] = []


def made_in_worker() -> Copy:
    COPIES.append(Copy())
    return COPIES[-1]


async def test_middleware_when_others_come_and_go_then_its_copy_stays(
    runtime: Runtime,
) -> None:
    COPIES.clear()
    handle, first = KINDS["serial"].remote(), Loaded()
    with added(runtime, first):
        await handle.place.remote()
        with added(runtime, Seen()):
            await handle.place.remote()
        await handle.place.remote()
    with added(runtime, first):
        await handle.place.remote()
    assert len(COPIES) == 1

    with added(runtime, first, Loaded()):
        await handle.place.remote()
    assert len(COPIES) == 2


async def test_calls_of_actors_when_middlewares_change_then_no_two_have_one_number(
    runtime: Runtime,
) -> None:
    caller, other = KINDS["serial"].remote(), KINDS["serial"].remote()
    IN_WORKERS.clear()
    for _ in range(2):
        with added(runtime, Seen()):
            await caller.call.remote(other, "place")

    made = [call.number for side, call, *_ in IN_WORKERS if side == "caller"]
    assert len(made) == len({*made}) == 2


async def test_middleware_when_it_is_removed_then_it_hears_the_end_of_what_it_saw(
    runtime: Runtime,
) -> None:
    handle, seen = KINDS["looped"].remote(), Seen()
    with added(runtime, seen):
        ref = handle.wait.remote()
        await handle.place.remote()

    actorlib.cancel(ref)
    with pytest.raises(TaskCancelledError):
        await ref
    await asyncio.sleep(0)

    assert seen.outcomes()[-1][:2] == ("wait", "cancelled")
    assert len(seen.over) == 2


async def test_workers_when_they_are_not_wanted_then_no_copy_is_there(
    runtime: Runtime,
) -> None:
    seen = Seen()
    runtime.add_middleware(seen, in_workers=False)
    IN_WORKERS.clear()
    handle = KINDS["serial"].remote()

    ran_in = await handle.place.remote()

    runtime.remove_middleware(seen)
    assert ran_in == ""
    assert not IN_WORKERS
    assert len(seen.over) == len(seen.runs) == 1


async def test_call_when_its_loop_is_closed_then_its_end_is_told_to_nobody() -> None:
    loop, told = asyncio.new_event_loop(), []

    class Engine:
        def call(self, *_: Any) -> asyncio.Future[Any]:
            return loop.create_future()

        stream = call

        def later(self, callback: Any) -> None:
            told.append("asked")
            del callback  # as an engine whose loop is closed

    seen = Seen()
    engine: Any = Engine()
    calls = ObservedCalls(engine, iter([1]), b"", lambda: Middlewares([seen], set()))
    spec: Any = FunctionSpec(source=place, name="f", options=FunctionOptions())

    ref = calls.call(spec, (), {})
    del ref
    loop.close()

    assert told == ["asked"]
    assert not seen.over


async def test_init_when_it_is_given_middlewares_then_constructors_too() -> None:
    IN_WORKERS.clear()
    seen = Seen()

    with limited():
        async with running(middleware=[seen]):
            handle = actorlib.remote(Eager).remote(KINDS["looped"].remote())
            assert await handle.first.remote() == "worker later"

    assert [run.method for run in seen.runs] == ["later", "first"]
    assert ("caller", "later") in [(side, c.method) for side, c, *_ in IN_WORKERS]
    assert OBSERVED.name not in PROPAGATED


class Eager:
    def __init__(self, other: ActorHandle[Any]) -> None:
        self._first = actorlib.get(other.later.remote())

    def first(self) -> str:
        return self._first


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (Seen(), r"a list of middlewares"),
        ([object()], r"has no before\(\)"),
        ([Seen], r"make one of the class"),
        ("seen", r"a list of middlewares"),
    ],
)
async def test_middleware_when_it_is_none_then_it_is_refused(
    given: Any, why: str
) -> None:
    with pytest.raises(TypeError, match=why):
        RuntimeOptions(middleware=given)


async def test_middleware_when_the_engine_is_rays_then_it_is_refused() -> None:
    with pytest.raises(UnsupportedOptionError, match="on Ray calls are Ray's"):
        actorlib.init(engine="ray", middleware=[Seen()])
