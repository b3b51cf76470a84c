"""Calls that are cancelled, what they have called, and waits that are given up."""

from __future__ import annotations

import asyncio
import gc
import os
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, Cleaner, Log, MixedLog, Stop
from helpers.callees import KINDS, Callee
from helpers.callers import error_of
from helpers.kinds import ASYNC, CONTRACT, FEW_KINDS, OWN_ENGINES, TWO_KINDS, kinds
from helpers.reused import Echo, Gate
from helpers.waiting_calls import (
    ask,
    ask_here,
    limited,
    occupy,
    pass_on,
    sent,
    tell,
    wait_at,
    was_left,
    works,
)

import actorlib
from actorlib.exceptions import TaskCancelledError, WorkerCrashedError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from helpers.actors import Place
    from helpers.callers import Api


pytestmark = CONTRACT

_SERIAL, _MIXED = actorlib.remote(Log), actorlib.remote(MixedLog)
LOGS = pytest.mark.parametrize("log", [_SERIAL, _MIXED], ids=["serial", "mixed"])


async def is_cancelled(api: Api, ref: Any) -> bool:
    error = await error_of(api, ref)
    return isinstance(error, TaskCancelledError)


each_kind = kinds(*[*KINDS, "mixed"])


def tell_and_look(place: Place, word: str) -> bool:
    place.tell(word)
    return actorlib.get_runtime_context().is_canceled()


# Calls that wait.


@each_kind
async def test_cancel_when_a_call_waits_in_line_then_it_alone_never_runs(
    api: Api, callee: Callee, stop: Stop, *, is_on_ray: bool
) -> None:
    callee = limited(callee, is_on_ray=is_on_ray)
    with Stop() as words:
        running = await occupy(callee, stop)
        refs = [callee.run(tell_and_look, words.place, word) for word in "abc"]
        api.cancel(refs[1])
        await sent(api)
        for _ in running:
            stop.release()

        assert await api.get([*running, refs[0], refs[2]]) == [
            *(None for _ in running),
            *(False, False),
        ]
        assert await is_cancelled(api, refs[1])
        assert await api.get(callee.run(tell, words.place, "last")) == "last"
        if is_on_ray:  # there it may run all the same
            return
        assert sorted([await words.told() for _ in range(3)]) == ["a", "c", "last"]


@OWN_ENGINES
async def test_cancel_when_a_worker_has_read_the_call_then_it_never_runs(
    api: Api, stop: Stop
) -> None:
    actor: Any = _SERIAL.remote()
    first = actor.stop.remote(stop.place, "first")
    await stop.reached()
    # These lie in the socket of the worker together, and are read together.
    second = actor.stop.remote(stop.place, "second")
    cancelled, kept = actor.note.remote("cancelled"), actor.note.remote("kept")
    await sent(api)
    stop.release()
    await stop.reached()

    api.cancel(cancelled)
    await sent(api)
    stop.release()

    assert await api.get([first, second, kept]) == ["first", "second", "kept"]
    assert await is_cancelled(api, cancelled)
    assert await api.get(actor.seen.remote()) == ["first", "second", "kept"]


@LOGS
async def test_cancel_when_the_actor_is_not_ready_then_the_call_never_runs(
    api: Api, stop: Stop, log: Any, *, is_on_ray: bool
) -> None:
    actor = log.remote(stop.place)
    refs = [actor.note.remote(number) for number in range(5)]
    api.cancel(refs[1])
    await stop.reached()
    api.cancel(refs[3])
    await sent(api)
    stop.release()

    assert await api.get(refs[::2]) == [0, 2, 4]
    for ref in (refs[1], refs[3]):
        assert await is_cancelled(api, ref)
    if not is_on_ray:  # there they may run all the same
        assert await api.get(actor.seen.remote()) == [0, 2, 4]


async def test_cancel_when_an_argument_is_not_there_then_the_call_never_runs(
    api: Api, callee: Callee, stop: Stop, *, is_on_ray: bool
) -> None:
    gate = Gate.remote()
    argument = gate.wait.remote("argument")
    ref = callee.run(tell, stop.place, "cancelled", argument)
    await api.get(gate.reached.remote("argument"))

    api.cancel(ref)

    assert await is_cancelled(api, ref)
    await api.get(gate.open.remote("argument"))
    assert await api.get(argument) == "argument"
    assert await api.get(callee.run(tell, stop.place, "next")) == "next"
    if not is_on_ray:  # there it may run all the same
        assert await stop.told() == "next"


@OWN_ENGINES
@pytest.mark.slow
@TWO_KINDS
async def test_cancel_when_a_thousand_wait_then_all_end_and_the_callee_goes_on(
    api: Api, callee: Callee, stop: Stop
) -> None:
    running = await occupy(callee, stop)
    refs = [callee.run(len, "ab") for _ in range(1100)]
    await sent(api)

    for ref in refs:
        api.cancel(ref)
    stop.release()

    await api.wait(refs, num_returns=len(refs))
    assert all(ref.cancelled() for ref in refs)
    assert await api.get([*running, callee.run(len, "ab")]) == [None, 2]


# Calls that run.


def work(place: Place, words: Place) -> None:
    context = actorlib.get_runtime_context()
    word = f"is_canceled() was {context.is_canceled()}"
    try:
        place.stop_here()
        while not context.is_canceled():
            pass
        words.tell(word)
    except KeyboardInterrupt:
        words.tell("interrupted")


@kinds("function", "plain", "threaded", "group", "mixed")
async def test_cancel_when_plain_code_runs_then_it_sees_it_and_its_result_is_dropped(
    api: Api, engine: str, callee: Callee, stop: Stop
) -> None:
    with Stop() as words:
        ref = callee.run(work, stop.place, words.place)
        await stop.reached()

        api.cancel(ref)

        assert await is_cancelled(api, ref)
        stop.release()
        word = await words.told()
    if callee.is_actor or engine in ("memory", "inline"):  # nothing interrupts threads
        assert word == "is_canceled() was False"
    elif engine == "local":  # elsewhere it may be either: the news takes longer
        assert word == "interrupted"
    assert await api.get(callee.run(tell_and_look, stop.place, "next")) is False


async def look() -> bool:
    return actorlib.get_runtime_context().is_canceled()


async def wait_and_look(words: Place, *, is_stubborn: bool) -> str:
    words.tell("runs")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        words.tell(f"{await look()} {await asyncio.create_task(look())}")
        if not is_stubborn:
            raise
    return "an answer that is dropped"


@pytest.mark.parametrize("is_stubborn", [False, True])
@ASYNC
async def test_cancel_when_a_coroutine_runs_then_it_and_its_tasks_see_it(
    api: Api, callee: Callee, stop: Stop, *, is_stubborn: bool
) -> None:
    ref = callee.run(wait_and_look, stop.place, is_stubborn=is_stubborn)
    assert await stop.told() == "runs"

    api.cancel(ref)

    assert await is_cancelled(api, ref)
    assert await stop.told() == "True True"
    assert await api.get(callee.run(look)) is False


# Coroutines that clean up.


async def cleaning(api: Api) -> tuple[Any, Any]:
    """An actor, and the ref of a call that was cancelled and cleans up."""
    cleaner = Cleaner.options(max_restarts=1, max_task_retries=-1).remote()
    ref = cleaner.work.remote("it")
    await api.get(cleaner.began.remote())
    assert ref.cancel()
    await api.get(cleaner.cleans.remote())
    return cleaner, ref


async def test_cancel_when_a_coroutine_cleans_up_then_its_ref_waits_for_that(
    api: Api, runtime: Any
) -> None:
    cleaner, ref = await cleaning(api)
    assert not ref.done()
    assert ref.cancel()  # a second time does not interrupt it
    if runtime is not None:  # scripts have none
        assert [call.method for call in runtime.calls()] == ["work"]

    await api.get(cleaner.end.remote())

    assert await is_cancelled(api, ref)
    assert ref.cancelled()
    assert await api.get(cleaner.ended.remote()) == ["it"]
    if runtime is not None:
        assert runtime.calls() == []


async def test_ref_when_dropped_while_a_coroutine_cleans_up_then_that_goes_on(
    api: Api, runtime: Any
) -> None:
    cleaner, ref = await cleaning(api)

    del ref

    if runtime is not None:
        assert [call.method for call in runtime.calls()] == ["work"]
    await api.get(cleaner.end.remote())
    assert await api.get(cleaner.ended.remote()) == ["it"]
    if runtime is not None:
        assert runtime.calls() == []


@OWN_ENGINES
@pytest.mark.parametrize("no_restart", [True, False])
async def test_cancel_when_the_actor_dies_cleaning_up_then_the_call_is_not_made_again(
    api: Api, *, no_restart: bool
) -> None:
    cleaner, ref = await cleaning(api)

    await api.kill(cleaner, no_restart=no_restart)

    assert await is_cancelled(api, ref)
    if not no_restart:
        assert await api.get(cleaner.ended.remote()) == []


def cancel_and_wait(cleaner: Any, before: int) -> Generator[Any, Any, Any]:
    for _ in range(before):
        yield cleaner.ended.remote()
    ref = cleaner.work.remote("it")
    yield cleaner.began.remote()
    actorlib.cancel(ref)
    yield cleaner.cleans.remote()
    was_done = ref.done()
    cleaner.end.remote()
    try:
        yield ref
    except TaskCancelledError:
        is_canceled = actorlib.get_runtime_context().is_canceled()
        return [was_done, is_canceled, (yield cleaner.ended.remote())]
    return "not cancelled"


@pytest.mark.parametrize("before", [0, 20], ids=["by_the_owner", "over_a_link"])
@FEW_KINDS
async def test_cancel_when_a_worker_cancels_what_it_called_then_its_ref_waits_likewise(
    api: Api, callee: Callee, before: int
) -> None:
    answer = await api.get(callee.run(cancel_and_wait, Cleaner.remote(), before))

    assert answer == [False, False, ["it"]]


def cancel_at_once(cleaner: Any, gate: Any) -> Generator[Any, Any, Any]:
    argument = gate.wait.remote("argument")
    ref = cleaner.work.remote(argument)
    actorlib.cancel(ref)
    try:
        yield ref
    except TaskCancelledError:
        yield gate.open.remote("argument")
        return (yield argument)
    return "not cancelled"


@OWN_ENGINES
@FEW_KINDS
async def test_cancel_when_a_worker_cancels_what_has_no_argument_yet_then_at_once(
    api: Api, callee: Callee
) -> None:
    cleaner = Cleaner.remote()

    answer = await api.get(callee.run(cancel_at_once, cleaner, Gate.remote()))

    assert answer == "argument"
    assert await api.get(cleaner.ended.remote()) == []


# Calls that are done, and what depends on calls.


def fail() -> None:
    raise LookupError("lost")


async def test_cancel_when_the_call_is_done_then_it_keeps_its_result(
    api: Api, callee: Callee
) -> None:
    ref, failed = callee.run(len, "ab"), callee.run(fail)
    await api.wait([ref, failed], num_returns=2)

    api.cancel(ref)
    api.cancel(failed)

    assert ref.cancel() is failed.cancel() is False
    assert await api.get(ref) == 2
    assert isinstance(await error_of(api, failed), LookupError)


async def test_cancel_when_repeated_then_the_first_counts(api: Api) -> None:
    ref = Gate.remote().wait.remote()

    assert ref.cancel() is True
    assert await is_cancelled(api, ref)
    assert ref.cancel() is False
    api.cancel(ref)
    assert ref.cancelled()


async def test_cancel_when_calls_depend_on_it_then_they_fail_too(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    argument = gate.wait.remote("argument")
    dependent = callee.run(str, argument)
    last = callee.run(str, dependent)
    await api.get(gate.reached.remote("argument"))

    api.cancel(argument)

    for ref in (argument, dependent, last):
        assert await is_cancelled(api, ref)
    assert await api.get(callee.run(len, "ab")) == 2


def cancel_argument(gate: Any, echo: Any) -> Generator[Any, Any, Any]:
    argument = gate.wait.remote()
    dependent = echo.echo.remote(argument)
    actorlib.cancel(argument)
    try:
        yield dependent
    except TaskCancelledError:
        return "cancelled"
    return "not cancelled"


@OWN_ENGINES
@FEW_KINDS
async def test_cancel_when_calls_of_a_worker_depend_on_it_then_they_fail_too(
    api: Api, callee: Callee
) -> None:
    echo = Echo.remote()

    ref = callee.run(cancel_argument, Gate.remote(), echo)

    assert await api.get(ref) == "cancelled"
    assert await api.get(echo.echo.remote(1)) == 1


# What cancel() takes.


async def test_cancel_when_its_argument_is_wrong_then_refused_with_what_to_write(
    api: Api,
) -> None:
    echo = Echo.remote()
    ref: Any = echo.echo.remote(1)

    with pytest.raises(ValueError, match=r"kill\(handle\)"):
        api.cancel(ref, force=True)
    with pytest.raises(ValueError, match=r"kill\(handle\)"):
        ref.cancel(force=True)
    for name in ("force", "recursive"):
        with pytest.raises(TypeError, match=f"{name} takes True or False"):
            api.cancel(ref, **{name: "yes"})
    for wrong in (echo, echo.echo, None, 1, [ref]):
        with pytest.raises(TypeError, match=r"kill\(\) ends an actor"):
            api.cancel(wrong)
    with pytest.raises(TypeError, match=r"cancel\("):
        await api.kill(ref)
    assert await api.get(ref) == 1


# What a call has called, which is cancelled with it.

all_callers = kinds("function", "plain", "threaded", "async", "mixed")


def ask_and_stop(gate: Any, place: Place) -> bool:
    """Makes a call, and is busy with something else."""
    ref = gate.wait.remote("asked")
    place.stop_here()
    return ref.done()


def how_left(callee: Callee) -> str:
    """The exception that ``ask`` gets when it is cancelled."""
    special = {"function": "KeyboardInterrupt", "async": "CancelledError"}
    return special.get(callee.kind, "TaskCancelledError")


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


@FEW_KINDS
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


@OWN_ENGINES
@FEW_KINDS
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


@OWN_ENGINES
@FEW_KINDS
async def test_cancel_when_what_it_called_has_no_argument_yet_then_that_never_runs(
    api: Api, callee: Callee, stop: Stop
) -> None:
    gate, second = Gate.remote(), Caller.remote()
    argument = gate.wait.remote("argument")
    ref = callee.run(ask_without_argument, second, stop.place, [argument])
    assert await stop.told() == "called"

    api.cancel(ref)

    assert await is_cancelled(api, ref)
    assert await works(api, callee)
    await api.get(gate.open.remote("argument"))
    assert await api.get(argument) == "argument"
    assert await api.get(second.run.remote(tell, stop.place, "next")) == "next"
    assert await stop.told() == "next"


# Refs that a worker keeps longer than for one call.


async def keep_ref(gate: Any) -> None:
    task: Any = asyncio.current_task()
    _kept[task.get_loop()] = gate.wait.remote("asked")


async def cancel_kept_ref() -> None:
    task: Any = asyncio.current_task()
    actorlib.cancel(_kept.pop(task.get_loop()))


_kept: dict[Any, Any] = {}


@ASYNC
async def test_cancel_when_another_call_of_the_worker_keeps_the_ref_then_it_works(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    await api.get(callee.run(keep_ref, gate))
    await api.get(gate.reached.remote("asked"))

    await api.get(callee.run(cancel_kept_ref))

    assert await was_left(api, gate)


@OWN_ENGINES
@pytest.mark.slow
@ASYNC
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


# Callers that die.


def call_and_stop(second: Any, gate: Any, words: Place, place: Place) -> None:
    second.run.remote(ask_here, gate, words)
    place.stop_here()
    os._exit(1)


@kinds("function")
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


@kinds("function")
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


# Waits for calls that are given up, and refs that are dropped.


async def begun(make: Callable[[], Any]) -> asyncio.Task[Any]:
    """A task that makes a call and waits for it, and alone has its ref."""

    async def wait() -> Any:
        return await make()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)  # it has begun
    return task


async def give_up(wait: asyncio.Future[Any]) -> None:
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait


async def was_not_left(api: Api, gate: Any) -> bool:
    """Lets the call of the gate end."""
    await api.get(gate.open.remote("asked"))
    await api.get(gate.wait.remote("asked"))
    return await api.get(gate.left.remote()) == []


@FEW_KINDS
async def test_wait_when_given_up_without_another_ref_then_the_call_is_cancelled(
    api: Api, callee: Callee, stop: Stop
) -> None:
    gate = Gate.remote()
    wait = await begun(lambda: callee.run(ask, gate, stop.place))
    await api.get(gate.reached.remote("asked"))

    await give_up(wait)

    assert await was_left(api, gate)
    assert await api.get(callee.run(len, "ab")) == 2


@OWN_ENGINES
@FEW_KINDS
async def test_wait_when_given_up_then_other_waits_and_the_ref_go_on(
    api: Api, callee: Callee, stop: Stop
) -> None:
    gate = Gate.remote()
    ref = callee.run(ask, gate, stop.place)
    waits = [await begun(lambda: ref) for _ in range(2)]
    await api.get(gate.reached.remote("asked"))

    await give_up(waits[0])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await ref

    assert not ref.done()
    assert await was_not_left(api, gate)
    assert await waits[1] == "asked"
    assert await api.get(ref) == "asked"


@FEW_KINDS
async def test_ref_when_dropped_after_its_wait_was_given_up_then_the_call_is_cancelled(
    api: Api, callee: Callee, stop: Stop
) -> None:
    gate = Gate.remote()
    ref = callee.run(ask, gate, stop.place)
    await api.get(gate.reached.remote("asked"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await ref

    del ref
    gc.collect()

    assert await was_left(api, gate)


@OWN_ENGINES
@FEW_KINDS
async def test_ref_when_dropped_without_a_wait_then_the_call_goes_on(
    api: Api, callee: Callee, stop: Stop
) -> None:
    gate = Gate.remote()
    callee.run(ask, gate, stop.place)
    gc.collect()
    await api.get(gate.reached.remote("asked"))

    assert await was_not_left(api, gate)


@OWN_ENGINES
@FEW_KINDS
async def test_wait_when_given_up_before_the_arguments_come_then_the_call_never_runs(
    api: Api, callee: Callee, stop: Stop
) -> None:
    gate = Gate.remote()
    argument = gate.wait.remote("argument")
    wait = await begun(lambda: callee.run(tell, stop.place, "given up", argument))

    await give_up(wait)
    gc.collect()
    await api.get(gate.open.remote("argument"))

    assert await api.get(argument) == "argument"
    assert await api.get(callee.run(tell, stop.place, "next")) == "next"
    assert await stop.told() == "next"


@OWN_ENGINES
@LOGS
async def test_wait_when_given_up_before_the_actor_is_ready_then_the_call_never_runs(
    api: Api, stop: Stop, log: Any
) -> None:
    actor = log.remote(stop.place)
    wait = await begun(lambda: actor.note.remote("given up"))
    await stop.reached()

    await give_up(wait)
    kept = actor.note.remote("kept")
    await sent(api)
    stop.release()

    assert await api.get(kept) == "kept"
    assert await api.get(actor.seen.remote()) == ["kept"]


async def give_up_inside(gate: Any) -> str:
    ref = gate.wait.remote("asked")
    await gate.reached.remote("asked")
    try:
        async with asyncio.timeout(0.001):
            await ref
    except TimeoutError:
        return "given up"
    return "not given up"


@ASYNC
async def test_wait_when_given_up_by_a_method_then_the_call_is_cancelled(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()

    assert await api.get(callee.run(give_up_inside, gate)) == "given up"
    assert await was_left(api, gate)
