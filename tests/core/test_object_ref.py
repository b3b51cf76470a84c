from __future__ import annotations

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from helpers.engine import FakeEngine
from helpers.turns import next_turn

from actorlib import ObjectRef
from actorlib._futures.object_ref import immediate_loop
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable

on_both_loops = pytest.mark.usefixtures("on_both_loops")


@pytest.fixture
async def engine() -> FakeEngine:
    return FakeEngine()


async def waiting(ref: ObjectRef[Any]) -> asyncio.Task[Any]:
    """A task that waits for the ref already."""

    async def wait() -> object:
        return await ref

    task = asyncio.create_task(wait())
    await next_turn()
    return task


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancels a task and waits until it is over, without a traceback that holds it."""
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_repr_when_nobody_knows_the_call_then_the_state_alone(
    engine: FakeEngine,
) -> None:
    unbound: ObjectRef[Any] = ObjectRef(loop=asyncio.get_running_loop())

    assert repr(unbound) == repr(engine.new_ref()) == "<ObjectRef pending>"


@on_both_loops
async def test_await_when_the_wait_is_cancelled_after_the_result_then_nothing_is(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()
    task = await waiting(ref)

    ref.set_result("pong")
    await cancelled(task)

    assert engine.cancelled == []
    assert await ref == "pong"


@on_both_loops
async def test_cancel_when_not_done_then_the_engine_is_told_once_and_waits_raise(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()
    task = await waiting(ref)

    assert [ref.cancel(), ref.cancel()] == [True, False]

    assert engine.cancelled == [ref.call]
    assert ref.cancelled()
    for wait in (task, ref):
        with pytest.raises(TaskCancelledError):
            await wait
    with pytest.raises(TaskCancelledError):
        ref.get()


@on_both_loops
async def test_gather_when_it_is_cancelled_then_the_calls_are(
    engine: FakeEngine,
) -> None:
    refs = [engine.new_ref(), engine.new_ref()]
    together = asyncio.gather(*refs)

    together.cancel()

    assert engine.cancelled == [1, 2]
    with pytest.raises(asyncio.CancelledError):
        await together


# Travelling.


async def test_ref_when_pickled_out_of_band_then_type_error_says_why(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()

    for value in (ref, [ref]):
        with pytest.raises(TypeError, match="can be pickled only in an argument"):
            pickle.dumps(value)


def test_ref_when_subscripted_then_it_can_be_an_annotation() -> None:
    assert ObjectRef[int] is not None


# Where no loop runs.


class Reports:
    """Keeps what it is told of failures that nobody looked at."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def report(self, context: dict[str, Any]) -> None:
        self.seen.append(context)


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def loopless(reports: Reports) -> FakeEngine:
    """An engine like that of a worker without an event loop."""
    loop: Any = immediate_loop()
    loop.call_exception_handler = reports.report
    return FakeEngine(loop)


def test_unlooped_when_got_from_a_thread_then_it_waits_for_the_result(
    loopless: FakeEngine,
) -> None:
    ref = loopless.new_ref()
    with ThreadPoolExecutor(1) as pool:
        got = pool.submit(ref.get, 60)
        loopless.answer(ref, "pong")

        assert got.result() == "pong"


def test_unlooped_when_not_done_in_time_then_timeout_error_and_it_goes_on(
    loopless: FakeEngine,
) -> None:
    ref = loopless.new_ref()

    with pytest.raises(TimeoutError):
        ref.get(timeout=0)

    assert not ref.done()


@pytest.mark.parametrize("is_early", [False, True])
def test_unlooped_when_awaited_on_a_loop_then_the_result(
    loopless: FakeEngine, *, is_early: bool
) -> None:
    ref = loopless.new_ref()

    async def main() -> object:
        if is_early:
            ref.set_result("pong")
        task = await waiting(ref)
        if not is_early:
            loopless.answer(ref, "pong")
        return await task

    assert asyncio.run(main()) == "pong"


def test_unlooped_when_cancelled_then_got_as_task_cancelled(
    loopless: FakeEngine,
) -> None:
    ref = loopless.new_ref()

    ref.cancel()

    assert loopless.cancelled == [ref.call]
    with pytest.raises(TaskCancelledError):
        ref.get()


@pytest.mark.parametrize("is_looked_at", [False, True])
def test_unlooped_when_a_failure_is_never_looked_at_then_it_is_reported(
    loopless: FakeEngine, reports: Reports, *, is_looked_at: bool
) -> None:
    ref = loopless.new_ref()
    ref.set_exception(KeyError("lost"))
    loopless.release_if_unused(ref)
    if is_looked_at:
        with pytest.raises(KeyError):
            ref.get()

    del ref

    errors = [type(context["exception"]) for context in reports.seen]
    assert errors == ([] if is_looked_at else [KeyError])


def test_unlooped_when_a_callback_raises_then_it_is_reported_and_the_result_stays(
    loopless: FakeEngine, reports: Reports
) -> None:
    def broken(_: object) -> None:
        raise KeyError("in a callback")

    ref = loopless.new_ref()
    seen: list[object] = []
    ref.add_done_callback(broken)
    ref.add_done_callback(lambda done: seen.append(done.result()))

    ref.set_result("pong")

    assert seen == ["pong"]
    assert [type(context["exception"]) for context in reports.seen] == [KeyError]


# Used as if it were its value.

USES: dict[str, Callable[[Any], Any]] = {
    "ref + ...": lambda ref: ref + 1,
    "ref[0]": lambda ref: ref[0],
    "ref['key']": lambda ref: ref["key"],
    "bool(ref)": bool,
    "len(ref)": len,
    "iter(ref)": list,
    "int(ref)": int,
    "float(ref)": float,
    "... * ref": lambda ref: 2 * ref,
    "ref - ...": lambda ref: ref - 1,
    "... - ref": lambda ref: 1 - ref,
    "ref > ...": lambda ref: ref > 3,
}


async def test_ref_when_used_as_if_it_were_its_value_then_it_says_await(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()
    for is_done in (False, True):
        if is_done:  # and still no list, also if its value is one
            ref.set_result([1, 2])
        for name, use in USES.items():
            with pytest.raises(TypeError, match="await ref") as caught:
                use(ref)

            assert str(caught.value).startswith(name)


async def test_refs_when_compared_then_each_equals_itself(engine: FakeEngine) -> None:
    first, second = engine.new_ref(), engine.new_ref()

    assert [first == first, first == second] == [True, False]  # noqa: PLR0124  # what is asked
