"""Calls that are cancelled while they wait, run or clean up, or when they are done."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Cleaner, Echo, Gate, Log, MixedLog, Stop
from helpers.callees import KINDS
from helpers.callers import error_of
from helpers.waiting_calls import limited, occupy, sent, tell

import actorlib
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Generator

    from helpers.actors import Place
    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]

_SERIAL, _MIXED = actorlib.remote(Log), actorlib.remote(MixedLog)
LOGS = pytest.mark.parametrize("log", [_SERIAL, _MIXED], ids=["serial", "mixed"])


async def is_cancelled(api: Api, ref: Any) -> bool:
    error = await error_of(api, ref)
    return isinstance(error, TaskCancelledError)


each_kind = pytest.mark.parametrize("callee", [*KINDS, "mixed"], indirect=True)


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


async def test_cancel_when_a_worker_has_read_the_call_then_it_never_runs(
    api: Api, stop: Stop, *, is_on_ray: bool
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
    if not is_on_ray:  # there it may run all the same
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


async def test_cancel_when_a_coroutine_waits_for_a_place_then_it_never_runs(
    api: Api,
) -> None:
    gate = Gate.options(concurrency_groups={"one": 1}).remote()
    wait = gate.wait.options(concurrency_group="one")
    first = wait.remote("first")
    await api.get(gate.reached.remote("first"))  # on Ray the second may begin first
    second = wait.remote("second")

    api.cancel(second)

    assert await is_cancelled(api, second)
    api.cancel(first)
    assert await is_cancelled(api, first)
    assert await api.get(gate.left.remote()) == ["first"]


@pytest.mark.slow
@pytest.mark.parametrize("callee", ["plain", "async"], indirect=True)
async def test_cancel_when_a_thousand_wait_then_all_end_and_the_callee_goes_on(
    api: Api, callee: Callee, stop: Stop, *, is_on_ray: bool
) -> None:
    running = await occupy(callee, stop)
    refs = [callee.run(len, "ab") for _ in range(100 if is_on_ray else 1100)]
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


@pytest.mark.parametrize(
    "callee", ["function", "plain", "threaded", "group", "mixed"], indirect=True
)
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
@pytest.mark.parametrize("callee", ["async"], indirect=True)
async def test_cancel_when_a_coroutine_runs_then_it_and_its_tasks_see_it(
    api: Api, callee: Callee, stop: Stop, *, is_stubborn: bool
) -> None:
    ref = callee.run(wait_and_look, stop.place, is_stubborn=is_stubborn)
    assert await stop.told() == "runs"

    api.cancel(ref)

    assert await is_cancelled(api, ref)
    assert await stop.told() == "True True"
    assert await api.get(callee.run(look)) is False


def look_in_a_thread() -> list[bool]:
    answers: list[bool] = []
    context = actorlib.get_runtime_context()
    thread = threading.Thread(target=lambda: answers.append(context.is_canceled()))
    thread.start()
    thread.join()
    return answers


async def test_is_canceled_when_no_call_asks_then_false(
    api: Api, callee: Callee
) -> None:
    assert await api.get(callee.run(look_in_a_thread)) == [False]
    assert look_in_a_thread() == [False]


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
@pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)
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


@pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)
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


@pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)
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
