from __future__ import annotations

import asyncio
import contextlib
import gc
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from helpers.engine import FakeEngine
from helpers.turns import next_turn

from actorlib import ObjectRef
from actorlib._futures.object_ref import immediate_loop
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

on_both_loops = pytest.mark.usefixtures("on_both_loops")


@pytest.fixture
async def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What goes, goes because nobody holds it: no help by the garbage collector."""
    gc.disable()
    yield
    gc.enable()


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


# Awaiting.


@on_both_loops
async def test_await_when_the_result_comes_then_it_is_given(engine: FakeEngine) -> None:
    ref = engine.new_ref()
    task = await waiting(ref)

    ref.set_result("pong")

    assert await task == "pong"


@on_both_loops
async def test_await_when_done_already_then_at_once(engine: FakeEngine) -> None:
    ref = engine.new_ref()
    ref.set_result("pong")

    assert await ref == "pong"


@on_both_loops
async def test_await_when_repeated_then_the_same_result(engine: FakeEngine) -> None:
    ref = engine.new_ref()
    value = ["pong"]
    ref.set_result(value)

    assert [await ref is value for _ in range(3)] == [True, True, True]


@on_both_loops
async def test_await_when_many_tasks_wait_then_all_get_it(engine: FakeEngine) -> None:
    ref = engine.new_ref()
    tasks = [await waiting(ref) for _ in range(5)]

    ref.set_result("pong")

    assert [await task for task in tasks] == ["pong"] * 5


@on_both_loops
async def test_await_when_the_call_failed_then_every_wait_raises_it(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()
    first = await waiting(ref)
    ref.set_exception(KeyError("lost"))

    for wait in (first, ref, ref):
        with pytest.raises(KeyError, match="lost"):
            await wait


@on_both_loops
async def test_await_when_none_is_the_result_then_none(engine: FakeEngine) -> None:
    ref = engine.new_ref()
    ref.set_result(None)

    assert await ref is None


# A wait that is given up.


@on_both_loops
async def test_await_when_one_wait_is_cancelled_then_the_others_go_on(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()
    first, second = await waiting(ref), await waiting(ref)

    await cancelled(first)
    ref.set_result("pong")

    assert await second == "pong"


@on_both_loops
async def test_await_when_every_wait_is_cancelled_but_the_ref_is_held_then_it_goes_on(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()

    await cancelled(await waiting(ref))

    assert engine.cancelled == []
    ref.set_result("pong")
    assert await ref == "pong"


@on_both_loops
async def test_await_when_it_times_out_and_the_ref_is_held_then_it_goes_on(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await ref

    assert engine.cancelled == []
    assert not ref.done()
    ref.cancel()


@on_both_loops
@pytest.mark.usefixtures("no_collector")
async def test_await_when_it_times_out_and_nobody_holds_the_ref_then_it_is_cancelled(
    engine: FakeEngine,
) -> None:
    try:
        async with asyncio.timeout(0):
            await engine.new_ref()
    except TimeoutError:
        pass

    assert engine.cancelled == [1]


@on_both_loops
@pytest.mark.usefixtures("no_collector")
async def test_await_when_its_task_is_cancelled_and_nobody_holds_it_then_cancelled(
    engine: FakeEngine,
) -> None:
    async def ask() -> object:
        return await engine.new_ref()

    task = asyncio.create_task(ask())
    await next_turn()
    await cancelled(task)
    del task

    assert engine.cancelled == [1]


@on_both_loops
@pytest.mark.usefixtures("no_collector")
async def test_await_when_wait_for_times_out_and_nobody_holds_it_then_cancelled(
    engine: FakeEngine,
) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(engine.new_ref(), 0.001)
    await next_turn()  # the loop holds the error, and that wait_for, until then

    assert engine.cancelled == [1]


@on_both_loops
@pytest.mark.usefixtures("no_collector")
async def test_await_when_the_last_holder_goes_after_the_wait_then_cancelled(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()
    await cancelled(await waiting(ref))
    assert engine.cancelled == []

    del ref

    assert engine.cancelled == [1]


@on_both_loops
@pytest.mark.usefixtures("no_collector")
async def test_await_when_another_task_still_waits_then_the_call_goes_on(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()
    first, second = await waiting(ref), await waiting(ref)
    call = ref.call

    await cancelled(first)
    del ref, first

    assert engine.cancelled == []
    engine.cancel(call)
    await cancelled(second)


@on_both_loops
@pytest.mark.usefixtures("no_collector")
async def test_ref_when_dropped_without_a_wait_then_the_call_goes_on(
    engine: FakeEngine,
) -> None:
    engine.new_ref()

    await next_turn()

    assert engine.cancelled == []


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


# Cancelling.


@on_both_loops
async def test_cancel_when_not_done_then_the_engine_is_told(engine: FakeEngine) -> None:
    ref = engine.new_ref()

    assert ref.cancel()

    assert engine.cancelled == [ref.call]
    assert ref.cancelled()


@on_both_loops
async def test_cancel_when_somebody_waits_then_that_wait_raises_task_cancelled(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()
    task = await waiting(ref)

    ref.cancel()

    with pytest.raises(TaskCancelledError):
        await task


@on_both_loops
async def test_cancel_when_awaited_afterwards_then_task_cancelled(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()
    ref.cancel()

    with pytest.raises(TaskCancelledError):
        await ref


@on_both_loops
async def test_cancel_when_done_then_false_and_the_result_stays(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()
    ref.set_result("pong")

    assert not ref.cancel()

    assert engine.cancelled == []
    assert await ref == "pong"


@on_both_loops
async def test_cancel_when_repeated_then_the_engine_is_told_once(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()

    assert [ref.cancel(), ref.cancel()] == [True, False]
    assert engine.cancelled == [ref.call]


# Getting.


@on_both_loops
async def test_get_when_done_then_the_result(engine: FakeEngine) -> None:
    ref = engine.new_ref()
    ref.set_result("pong")

    assert ref.get() == "pong"


@on_both_loops
async def test_get_when_failed_then_raises_it(engine: FakeEngine) -> None:
    ref = engine.new_ref()
    ref.set_exception(KeyError("lost"))

    with pytest.raises(KeyError, match="lost"):
        ref.get()


@on_both_loops
async def test_get_when_cancelled_then_task_cancelled(engine: FakeEngine) -> None:
    ref = engine.new_ref()
    ref.cancel()

    with pytest.raises(TaskCancelledError):
        ref.get()


@on_both_loops
async def test_get_when_it_would_block_the_loop_then_runtime_error(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()

    with pytest.raises(RuntimeError):
        ref.get()


# What the standard library does with it.


@on_both_loops
async def test_gather_when_given_refs_then_their_results_in_order(
    engine: FakeEngine,
) -> None:
    first, second = engine.new_ref(), engine.new_ref()
    together = asyncio.gather(first, second)

    second.set_result(2)
    first.set_result(1)

    assert await together == [1, 2]


@on_both_loops
async def test_gather_when_one_fails_then_raises_it(engine: FakeEngine) -> None:
    first, second = engine.new_ref(), engine.new_ref()
    together = asyncio.gather(first, second)

    second.set_exception(KeyError("lost"))

    with pytest.raises(KeyError, match="lost"):
        await together
    first.cancel()


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


@on_both_loops
async def test_wait_when_given_refs_then_those_that_are_done(
    engine: FakeEngine,
) -> None:
    first, second = engine.new_ref(), engine.new_ref()
    second.set_result(2)

    done, pending = await asyncio.wait(
        [first, second], return_when=asyncio.FIRST_COMPLETED
    )

    assert (done, pending) == ({second}, {first})
    first.cancel()


@on_both_loops
async def test_wait_when_it_times_out_then_the_calls_go_on(engine: FakeEngine) -> None:
    ref = engine.new_ref()

    await asyncio.wait([ref], timeout=0)

    assert engine.cancelled == []
    ref.cancel()


@on_both_loops
async def test_as_completed_when_given_refs_then_in_the_order_of_their_results(
    engine: FakeEngine,
) -> None:
    refs = [engine.new_ref() for _ in range(3)]
    results: list[object] = []
    loop = asyncio.get_running_loop()
    for place in (2, 0, 1):
        loop.call_soon(refs[place].set_result, place)

    for next_done in asyncio.as_completed(refs):
        results.append(await next_done)  # noqa: PERF401  # a comprehension hides the order

    assert results == [2, 0, 1]


@on_both_loops
async def test_wait_for_when_the_result_comes_in_time_then_it_is_given(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()
    asyncio.get_running_loop().call_soon(ref.set_result, "pong")

    assert await asyncio.wait_for(ref, 60) == "pong"


@on_both_loops
async def test_shield_when_the_wait_is_cancelled_then_the_ref_is_not(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()
    shielded = asyncio.shield(ref)

    shielded.cancel()
    await next_turn()

    assert not ref.done()
    ref.cancel()


@on_both_loops
async def test_task_group_when_tasks_wait_for_refs_then_all_results(
    engine: FakeEngine,
) -> None:
    refs = [engine.new_ref() for _ in range(3)]

    async def ask(ref: ObjectRef[int]) -> int:
        return await ref

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(ref)) for ref in refs]
        for place, ref in enumerate(refs):
            ref.set_result(place)

    assert [task.result() for task in tasks] == [0, 1, 2]


# Travelling.


@on_both_loops
@pytest.mark.parametrize("wrap", [lambda ref: ref, lambda ref: [ref]])
async def test_ref_when_pickled_out_of_band_then_type_error_says_why(
    engine: FakeEngine, wrap: Callable[[object], object]
) -> None:
    with pytest.raises(TypeError, match="can be pickled only in an argument"):
        pickle.dumps(wrap(engine.new_ref()))


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


def test_unlooped_when_the_result_comes_then_callbacks_run_at_once(
    loopless: FakeEngine,
) -> None:
    ref = loopless.new_ref()
    seen: list[object] = []
    ref.add_done_callback(lambda done: seen.append(done.result()))

    ref.set_result("pong")

    assert seen == ["pong"]


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


def test_unlooped_when_awaited_on_a_loop_then_a_thread_waits_for_it(
    loopless: FakeEngine,
) -> None:
    ref = loopless.new_ref()

    async def main() -> object:
        task = await waiting(ref)
        loopless.answer(ref, "pong")
        return await task

    assert asyncio.run(main()) == "pong"


def test_unlooped_when_done_and_awaited_on_a_loop_then_the_result(
    loopless: FakeEngine,
) -> None:
    ref = loopless.new_ref()
    ref.set_result("pong")

    async def main() -> object:
        return await ref

    assert asyncio.run(main()) == "pong"


def test_unlooped_when_cancelled_then_got_as_task_cancelled(
    loopless: FakeEngine,
) -> None:
    ref = loopless.new_ref()

    ref.cancel()

    assert loopless.cancelled == [ref.call]
    with pytest.raises(TaskCancelledError):
        ref.get()


def test_unlooped_when_a_failure_is_never_looked_at_then_it_is_reported(
    loopless: FakeEngine, reports: Reports
) -> None:
    ref = loopless.new_ref()
    ref.set_exception(KeyError("lost"))
    loopless.release_if_unused(ref)

    del ref

    assert [type(context["exception"]) for context in reports.seen] == [KeyError]


def test_unlooped_when_a_failure_was_looked_at_then_it_is_not_reported(
    loopless: FakeEngine, reports: Reports
) -> None:
    ref = loopless.new_ref()
    ref.set_exception(KeyError("lost"))
    loopless.release_if_unused(ref)
    with pytest.raises(KeyError):
        ref.get()

    del ref

    assert reports.seen == []


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


def test_unlooped_when_the_result_is_set_by_another_thread_then_it_is_there(
    loopless: FakeEngine,
) -> None:
    ref = loopless.new_ref()

    thread = threading.Thread(target=loopless.answer, args=(ref, "pong"))
    thread.start()

    assert ref.get(60) == "pong"
    thread.join()


AS_IF_IT_WERE_THE_VALUE: dict[str, Callable[[Any], Any]] = {
    "ref + ...": lambda ref: ref + 1,
    "ref[0]": lambda ref: ref[0],
    "ref['key']": lambda ref: ref["key"],
    "bool(ref)": bool,
    "len(ref)": len,
    "iter(ref)": list,
    "int(ref)": int,
    "float(ref)": float,
}


@pytest.mark.parametrize("what", AS_IF_IT_WERE_THE_VALUE)
async def test_ref_when_used_as_if_it_were_its_value_then_it_says_await(
    engine: FakeEngine, what: str
) -> None:
    use = AS_IF_IT_WERE_THE_VALUE[what]

    with pytest.raises(TypeError, match="await ref") as caught:
        use(engine.new_ref())

    assert str(caught.value).startswith(what)


@pytest.mark.parametrize(
    "use", [lambda r: 2 * r, lambda r: r - 1, lambda r: 1 - r, lambda r: r > 3]
)
async def test_ref_when_an_operator_is_used_then_it_says_await(
    engine: FakeEngine, use: Callable[[Any], Any]
) -> None:
    with pytest.raises(TypeError, match="await ref"):
        use(engine.new_ref())


async def test_ref_when_done_then_it_is_no_empty_list(engine: FakeEngine) -> None:
    ref: Any = engine.new_ref()
    ref.set_result([1, 2])

    with pytest.raises(TypeError, match="await ref"):
        list(ref)


async def test_refs_when_compared_then_each_equals_itself(engine: FakeEngine) -> None:
    first, second = engine.new_ref(), engine.new_ref()

    assert [first == first, first == second] == [True, False]  # noqa: PLR0124  # what is asked


# What notebooks and editors ask.


async def test_dir_then_it_lists_what_users_call(engine: FakeEngine) -> None:
    listed = [name for name in dir(engine.new_ref()) if not name.startswith("_")]
    assert listed == [
        "add_done_callback",
        "as_future",
        "binary",
        "cancel",
        "cancelled",
        "done",
        "exception",
        "future",
        "get",
        "get_loop",
        "hex",
        "remove_done_callback",
        "result",
        "task_id",
    ]
