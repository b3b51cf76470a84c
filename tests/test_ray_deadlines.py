"""Calls on a cluster whose time is over: as on the local engine, they fail and stop."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers import deadlines
from helpers.actors import AsyncCaller, Caller, Echo, Gate, Log, MixedLog, Stop
from helpers.calls import raised
from helpers.deadlines import late, until_canceled
from helpers.on_ray import NEEDS_RAY

import actorlib
from actorlib.exceptions import DeadlineExceededError, TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from actorlib import Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

pytestmark = [
    pytest.mark.process,
    pytest.mark.ray,
    NEEDS_RAY,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]

SOON = 0.2
"""For what is not to run by then."""
SOON_ENOUGH = 2.0
"""For what has to be running by then, also where other tests run beside."""
NEVER = 60.0


@pytest.fixture(scope="module")
def address(ray_cluster: str) -> str:
    return ray_cluster


class Worker(deadlines.Worker):
    """Works until nobody waits for it, in more ways."""

    def endless(self) -> Iterator[str]:
        yield "first"
        yield until_canceled()


class MixedWorker(Worker):
    """The same, with an event loop."""

    async def nothing(self) -> None:
        """Makes it have one."""


each_kind = pytest.mark.parametrize(
    "kind", [actorlib.remote(Worker), actorlib.remote(MixedWorker)]
)


@actorlib.remote(timeout=SOON_ENOUGH, max_retries=0)
def pass_through(gate: Any, name: str) -> None:
    actorlib.get(gate.wait.remote(name))


# Wherever the call is.


@each_kind
async def test_deadline_when_a_plain_method_runs_then_it_fails_and_sees_it(
    kind: Any,
) -> None:
    worker = await kind.remote()

    error = await late(worker.work.options(timeout=SOON_ENOUGH).remote())

    assert isinstance(error, TimeoutError)
    assert "Worker.work" in str(error)
    assert "2 s that it was given" in str(error)
    assert (error.timeout, error.is_inherited) == (SOON_ENOUGH, False)
    assert await worker.seen.remote() == ["stopped by itself"]


async def test_deadline_when_an_async_method_runs_then_it_is_cancelled() -> None:
    gate = await Gate.remote()

    await late(gate.wait.options(timeout=SOON_ENOUGH).remote("here"))

    assert await gate.wait.remote("here") == "here"  # opened by who gave up
    assert await gate.left.remote() == ["here"]


@pytest.mark.parametrize("log", [Log, MixedLog])
async def test_deadline_when_it_is_in_the_queue_then_it_never_runs(log: Any) -> None:
    with Stop() as stop:
        actor = await actorlib.remote(log).remote()
        running = actor.stop.remote(stop.place, "runs")
        await stop.reached()
        await late(actor.note.options(timeout=SOON).remote("waits"))
        stop.release()

        assert await running == "runs"
        assert await actor.seen.remote() == ["runs"]


async def test_deadline_when_the_actor_is_not_ready_then_it_fails_in_time() -> None:
    with Stop() as stop:
        actor = actorlib.remote(Log).remote(stop.place)  # its constructor stops
        await late(actor.note.options(timeout=SOON).remote("waits"))
        await stop.reached()
        stop.release()

        assert await actor.seen.remote() == []


async def test_deadline_when_the_arguments_are_not_there_then_it_fails_in_time() -> (
    None
):
    gate, echo = await Gate.remote(), await Echo.remote()
    given = gate.wait.remote("a")

    error = await late(echo.echo.options(timeout=SOON).remote(given))
    await gate.open.remote("a")

    assert "Echo.echo" in str(error)
    assert await given == "a"
    assert await echo.echo.remote(1) == 1


async def test_deadline_when_it_is_far_then_the_answers_come() -> None:
    echo = await Echo.remote()
    ask = echo.echo.options(timeout=NEVER)

    assert await asyncio.gather(*map(ask.remote, range(100))) == [*range(100)]


async def test_deadline_when_a_generator_runs_then_its_end_says_so() -> None:
    worker = await actorlib.remote(Worker).remote()
    stream = worker.endless.options(timeout=SOON_ENOUGH).remote()
    assert await (await anext(stream)) == "first"

    await late(await anext(stream))
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


# What it calls.


@each_kind
async def test_deadline_when_a_call_makes_another_then_that_inherits_it(
    kind: Any,
) -> None:
    front, back = await kind.remote(), await actorlib.remote(Worker).remote()

    await late(front.ask.options(timeout=SOON_ENOUGH).remote(back, "work"))

    assert await back.seen.remote() == ["stopped by itself"]
    assert await front.seen.remote() == ["DeadlineExceededError"]


async def test_deadline_when_an_async_method_asked_then_both_are_cancelled() -> None:
    front, gate = await AsyncCaller.remote(), await Gate.remote()

    await late(front.call.options(timeout=SOON_ENOUGH).remote(gate, "wait"))

    assert await gate.wait.remote() == ""
    assert await gate.left.remote() == [""]


async def test_deadline_when_inside_then_it_says_what_is_left() -> None:
    worker = await actorlib.remote(Worker).remote()

    assert await worker.left.remote() is None
    left = await worker.left.options(timeout=NEVER).remote()
    assert left is not None
    assert 0 < left < NEVER


async def test_cancel_when_a_plain_method_waits_then_it_is_told_as_anybody() -> None:
    front, gate = await actorlib.remote(Worker).remote(), await Gate.remote()
    ref = front.ask.remote(gate, "wait")
    await gate.reached.remote()
    actorlib.cancel(ref)

    assert isinstance(await raised(ref), TaskCancelledError)
    assert await front.seen.remote() == ["TaskCancelledError"]


async def test_deadline_when_its_own_is_sooner_then_it_counts() -> None:
    def ask(gate: Any) -> None:
        actorlib.get(gate.wait.options(timeout=SOON).remote())

    caller, gate = await Caller.remote(), await Gate.remote()
    error = await late(caller.run.options(timeout=NEVER).remote(ask, gate))

    assert (error.timeout, error.is_inherited) == (SOON, False)


# Functions.


async def test_deadline_when_a_function_runs_then_it_is_stopped() -> None:
    gate = await Gate.remote()
    await gate.open.remote("open")
    await pass_through.options(timeout=NEVER).remote(gate, "open")  # a worker is there

    error = await late(pass_through.remote(gate, "shut"))
    assert "pass_through" in str(error)
    assert error.timeout == SOON_ENOUGH
    # The call that it has made has inherited its deadline.
    assert await gate.wait.remote("shut") == "shut"
    assert await gate.left.remote() == ["shut"]


async def test_deadline_when_a_function_inherits_it_then_it_says_from_whom() -> None:
    def told_by(gate: Any) -> None:
        try:
            actorlib.get(pass_through.options(timeout=NEVER).remote(gate, "shut"))
        except DeadlineExceededError as error:
            cast("Any", sys).told = str(error)

    def told_before() -> str:
        return str(cast("Any", sys).told)

    caller, gate = await Caller.remote(), await Gate.remote()
    await late(caller.run.options(timeout=SOON_ENOUGH).remote(told_by, gate))

    told = await caller.run.remote(told_before)
    assert "the 2 s that Caller.run, which called it, was given" in told
