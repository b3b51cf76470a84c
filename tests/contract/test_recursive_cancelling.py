"""What a call has called, which is cancelled with it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, Gate, Stop
from helpers.callees import Callee
from helpers.callers import error_of
from helpers.waiting_calls import ask, ask_here, pass_on, tell, was_left, works

import actorlib
from actorlib.exceptions import TaskCancelledError, WorkerCrashedError

if TYPE_CHECKING:
    from collections.abc import Generator

    from helpers.actors import Place
    from helpers.callers import Api

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]

callers = pytest.mark.parametrize(
    "callee", ["function", "plain", "async"], indirect=True
)
all_callers = pytest.mark.parametrize(
    "callee", ["function", "plain", "threaded", "async", "mixed"], indirect=True
)


def ask_and_stop(gate: Any, place: Place) -> bool:
    """Makes a call, and is busy with something else."""
    ref = gate.wait.remote("asked")
    place.stop_here()
    return ref.done()


def how_left(callee: Callee) -> str:
    """The exception that ``ask`` gets when it is cancelled."""
    special = {"function": "KeyboardInterrupt", "async": "CancelledError"}
    return special.get(callee.kind, "TaskCancelledError")


async def is_cancelled(api: Api, ref: Any) -> bool:
    error = await error_of(api, ref)
    return isinstance(error, TaskCancelledError)


@all_callers
async def test_cancel_when_the_call_waits_for_another_then_both_are_cancelled(
    api: Api, callee: Callee, stop: Stop, *, is_on_ray: bool
) -> None:
    gate = Gate.remote()
    ref = callee.run(ask, gate, stop.place)
    await api.get(gate.reached.remote("asked"))

    api.cancel(ref)

    assert await is_cancelled(api, ref)
    # actorlib.blocking.get raises the error that is a RayTaskError, too.
    assert (await stop.told()).removeprefix("Ray") == how_left(callee)
    assert await was_left(api, gate)
    assert await works(api, callee, is_on_ray=is_on_ray)


@all_callers
async def test_cancel_when_the_call_is_busy_then_what_it_called_is_cancelled(
    api: Api, callee: Callee, stop: Stop, *, is_on_ray: bool
) -> None:
    gate = Gate.remote()
    ref = callee.run(ask_and_stop, gate, stop.place)
    await stop.reached()
    await api.get(gate.reached.remote("asked"))

    api.cancel(ref)

    assert await was_left(api, gate)
    stop.release()
    assert await is_cancelled(api, ref)
    assert await works(api, callee, is_on_ray=is_on_ray)


@all_callers
async def test_cancel_when_it_is_not_recursive_then_what_it_called_goes_on(
    api: Api, callee: Callee, stop: Stop, *, is_on_ray: bool
) -> None:
    gate = Gate.remote()
    ref = callee.run(ask_and_stop, gate, stop.place)
    await stop.reached()
    await api.get(gate.reached.remote("asked"))

    api.cancel(ref, recursive=False)
    stop.release()

    assert await is_cancelled(api, ref)
    await api.get(gate.open.remote("asked"))
    assert await api.get(gate.wait.remote("asked")) == "asked"
    assert await api.get(gate.left.remote()) == []
    assert await works(api, callee, is_on_ray=is_on_ray)


@callers
async def test_cancel_when_a_function_waits_below_the_call_then_all_three_end(
    api: Api, callee: Callee, stop: Stop, *, is_on_ray: bool
) -> None:
    gate, second = Gate.remote(), Callee("function", is_blocking=api.is_blocking)
    ref = callee.run(pass_on, second, gate, stop.place)
    await api.get(gate.reached.remote("asked"))

    api.cancel(ref)

    assert await is_cancelled(api, ref)
    assert await stop.told() == how_left(second)
    assert await was_left(api, gate)
    assert await works(api, callee, is_on_ray=is_on_ray)
    assert await works(api, second, is_on_ray=is_on_ray)


def call_and_cancel(second: Any, gate: Any, words: Place) -> Generator[Any, Any, Any]:
    ref = second.run.remote(ask_here, gate, words)
    yield gate.reached.remote("asked")
    actorlib.cancel(ref)
    try:
        yield ref
    except TaskCancelledError:
        return actorlib.get_runtime_context().is_canceled()
    return "not cancelled"


@callers
async def test_cancel_when_a_worker_cancels_then_what_was_called_is_cancelled_too(
    api: Api, callee: Callee, stop: Stop
) -> None:
    gate, second = Gate.remote(), Caller.remote()

    is_canceled = await api.get(callee.run(call_and_cancel, second, gate, stop.place))

    assert is_canceled is False
    assert await stop.told() == "TaskCancelledError"
    assert await was_left(api, gate)


def ask_without_argument(
    second: Any, words: Place, refs: list[Any]
) -> Generator[Any, Any, Any]:
    ref = second.run.remote(tell, words, "cancelled", refs[0])
    words.tell("called")
    yield ref


@callers
async def test_cancel_when_what_it_called_has_no_argument_yet_then_that_never_runs(
    api: Api, callee: Callee, stop: Stop, *, is_on_ray: bool
) -> None:
    gate, second = Gate.remote(), Caller.remote()
    argument = gate.wait.remote("argument")
    ref = callee.run(ask_without_argument, second, stop.place, [argument])
    assert await stop.told() == "called"

    api.cancel(ref)

    assert await is_cancelled(api, ref)
    assert await works(api, callee, is_on_ray=is_on_ray)
    await api.get(gate.open.remote("argument"))
    assert await api.get(argument) == "argument"
    assert await api.get(second.run.remote(tell, stop.place, "next")) == "next"
    if not is_on_ray:  # there it may run all the same
        assert await stop.told() == "next"


# Refs that a worker keeps longer than for one call.


async def keep_ref(gate: Any) -> None:
    task: Any = asyncio.current_task()
    _kept[task.get_loop()] = gate.wait.remote("asked")


async def cancel_kept_ref() -> None:
    task: Any = asyncio.current_task()
    actorlib.cancel(_kept.pop(task.get_loop()))


_kept: dict[Any, Any] = {}


@pytest.mark.parametrize("callee", ["async"], indirect=True)
async def test_cancel_when_another_call_of_the_worker_keeps_the_ref_then_it_works(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    await api.get(callee.run(keep_ref, gate))
    await api.get(gate.reached.remote("asked"))

    await api.get(callee.run(cancel_kept_ref))

    assert await was_left(api, gate)


@pytest.mark.slow
@pytest.mark.parametrize("callee", ["async"], indirect=True)
async def test_cancel_when_a_thousand_have_called_then_all_they_called_are_cancelled(
    api: Api, callee: Callee, *, is_on_ray: bool
) -> None:
    gate = Gate.options(max_concurrency=2000).remote()
    begun, behind = (100, 0) if is_on_ray else (1000, 100)
    names = [str(number) for number in range(begun + behind)]
    refs = [callee.run(wait_at, gate, name) for name in names]
    await api.get([gate.reached.remote(name) for name in names[:begun]])

    for ref in refs:
        api.cancel(ref)

    await api.wait(refs, num_returns=len(refs))
    assert all(ref.cancelled() for ref in refs)
    await api.get([gate.wait.remote(name) for name in names[:begun]])
    # One behind may have begun in a place that was free before it was cancelled.
    assert set(names[:begun]) <= set(await api.get(gate.left.remote()))


def wait_at(gate: Any, name: str) -> Generator[Any, Any, Any]:
    yield gate.wait.remote(name)


# Callers that die.


def call_and_stop(second: Any, gate: Any, words: Place, place: Place) -> None:
    second.run.remote(ask_here, gate, words)
    place.stop_here()
    os._exit(1)


@pytest.mark.parametrize("callee", ["function"], indirect=True)
async def test_death_when_the_function_has_called_another_then_that_is_cancelled(
    api: Api, engine: str, callee: Callee, stop: Stop
) -> None:
    if engine == "inline":
        pytest.skip("a process of its own dies here")
    gate, second = Gate.remote(), Caller.remote()
    with Stop() as words:
        ref = callee.method("run", max_retries=0).remote(
            call_and_stop, second, gate, words.place, stop.place
        )
        await stop.reached()
        await api.get(gate.reached.remote("asked"))
        stop.release()

        assert isinstance(await error_of(api, ref), WorkerCrashedError)
        assert await words.told() == "TaskCancelledError"
    assert await was_left(api, gate)


# Functions that are ended by force.


@pytest.mark.parametrize("callee", ["function"], indirect=True)
async def test_cancel_when_forced_then_the_function_ends_and_what_it_called_too(
    api: Api, engine: str, callee: Callee, stop: Stop, *, is_on_ray: bool
) -> None:
    if engine == "inline":
        pytest.skip("nothing ends a thread")
    gate = Gate.remote()
    ref = callee.run(ask_and_stop, gate, stop.place)
    await stop.reached()
    await api.get(gate.reached.remote("asked"))

    api.cancel(ref, force=True)

    assert await is_cancelled(api, ref)
    assert await was_left(api, gate)
    assert await works(api, callee, is_on_ray=is_on_ray)
