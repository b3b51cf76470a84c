"""Calls whose time is over: wherever they are, they fail and stop."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from helpers.actors import Log, MixedLog, Stop
from helpers.callees import Callee
from helpers.callers import all_items, error_of
from helpers.kinds import CONTRACT, FEW_KINDS, OWN_ENGINES, TWO_KINDS, kinds
from helpers.reused import Echo, Gate
from helpers.waiting_calls import (
    ask,
    limited,
    occupy,
    sent,
    tell,
    until_canceled,
    was_left,
    works,
)

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    DeadlineExceededError,
    TaskCancelledError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from helpers.actors import Place
    from helpers.callers import Api

pytestmark = CONTRACT

_SERIAL, _MIXED = actorlib.remote(Log), actorlib.remote(MixedLog)
LOGS = pytest.mark.parametrize("log", [_SERIAL, _MIXED], ids=["serial", "mixed"])

NEVER = 60.0


@pytest.fixture
def soon(*, is_on_ray: bool) -> float:
    """The seconds of a call that does not have to begin."""
    return 0.2 if is_on_ray else 0.05


@pytest.fixture
def tries(engine: str, *, is_on_ray: bool) -> list[float]:
    """The seconds of a call that has to begin by then: more, if they were too few."""
    if is_on_ray:
        return [2.0, 10.0]
    first = 0.05 if engine in ("memory", "inline") else 0.1
    return [first, 10 * first, 100 * first]


async def late(api: Api, ref: Any) -> DeadlineExceededError:
    error = await error_of(api, ref)
    assert isinstance(error, DeadlineExceededError)
    return error


def import_here() -> None:
    """Has the worker import this module."""


async def ready(api: Api, callee: Callee) -> None:
    """Waits until a call begins as soon as it is made."""
    await api.get(callee.run(import_here))


class Late(NamedTuple):
    """What has become of a call whose time was over while it ran.

    Attributes:
        error: What its ref raises.
        seconds: What it was given.
        gate: A gate that it was given.
    """

    error: DeadlineExceededError
    seconds: float
    gate: Any


async def late_while_it_runs(
    api: Api, callee: Callee, tries: list[float], words: Stop, function: Any, *args: Any
) -> Late:
    """Makes a call with a deadline, which tells the word ``begun`` before.

    Args:
        api: How to wait.
        callee: What is called.
        tries: The seconds that it is given.
        words: Where it tells that.
        function: What it runs, with a gate and where to tell words.
        *args: What else the function gets first.
    """
    await ready(api, callee)
    for seconds in tries:
        gate = Gate.remote()
        timed = callee.method("run", timeout=seconds)
        error = await late(api, timed.remote(function, *args, gate, words.place))
        if words.has_word():
            assert await words.told() == "begun"
            return Late(error, seconds, gate)
    raise AssertionError("the call has never begun in time")


# Where the call is.


def work(gate: Any, words: Place) -> None:
    del gate
    words.tell("begun")
    try:
        words.tell(until_canceled())
    except KeyboardInterrupt:  # it may come late
        words.tell("interrupted")


@kinds("function", "plain", "threaded", "mixed")
async def test_deadline_when_plain_code_runs_then_the_call_fails_and_the_code_sees_it(
    api: Api, callee: Callee, stop: Stop, tries: list[float]
) -> None:
    error, seconds, _ = await late_while_it_runs(api, callee, tries, stop, work)

    assert isinstance(error, TimeoutError)
    assert re.search(
        r"\brun\w*( \(pid \d+\))? was not done within the "
        rf"{seconds:g} s that it was given",
        str(error),
    )
    assert (error.timeout, error.is_inherited) == (seconds, False)
    word = await stop.told()
    assert word == "stopped by itself" or not callee.is_actor
    assert await api.get(callee.run(len, "ab")) == 2


def ask_and_tell(gate: Any, words: Place) -> Generator[Any, Any, Any]:
    """As ``ask``; it tells when the gate is reached."""
    ref = gate.wait.remote("asked")
    yield gate.reached.remote("asked")
    words.tell("begun")
    try:
        yield ref
    except BaseException as error:
        try:
            words.tell(f"{type(error).__name__}: {error}")
        except KeyboardInterrupt:  # it comes late, if an error has come before it
            words.tell("KeyboardInterrupt")
        raise


@FEW_KINDS
async def test_deadline_when_the_call_waits_for_another_then_both_stop(
    api: Api, callee: Callee, stop: Stop, tries: list[float], *, is_on_ray: bool
) -> None:
    late_call = await late_while_it_runs(api, callee, tries, stop, ask_and_tell)

    error, seconds, gate = late_call
    assert (error.timeout, error.is_inherited) == (seconds, False)
    word = await stop.told()
    if callee.is_async:
        # On Ray the caller keeps the time, and the inner call may be late first.
        late_first = "DeadlineExceededError" if is_on_ray else "CancelledError"
        assert word.startswith(("CancelledError", late_first))
    elif callee.is_actor:  # a function may be interrupted before it gets the error
        assert re.match(
            r"DeadlineExceededError: Gate\.wait( \(pid \d+\))? was not done within the "
            rf"{seconds:g} s that Runner\.run( \(pid \d+\))?, which called it,",
            word,
        )
    assert await was_left(api, gate)
    assert await works(api, callee, is_on_ray=is_on_ray)


async def test_deadline_when_the_call_waits_in_line_then_it_never_runs(
    api: Api, callee: Callee, stop: Stop, soon: float, *, is_on_ray: bool
) -> None:
    callee = limited(callee, is_on_ray=is_on_ray)
    with Stop() as words:
        running = await occupy(callee, stop)

        timed = callee.method("run", timeout=soon)
        await late(api, timed.remote(tell, words.place, "late"))
        await sent(api)
        for _ in running:
            stop.release()
        await api.get(running)

        assert await api.get(callee.run(tell, words.place, "next")) == "next"
        assert await words.told() == "next"


@LOGS
async def test_deadline_when_the_actor_is_not_ready_then_the_call_never_runs(
    api: Api, stop: Stop, soon: float, log: Any
) -> None:
    actor = log.remote(stop.place)

    await late(api, actor.note.options(timeout=soon).remote("late"))
    await stop.reached()
    stop.release()

    assert await api.get(actor.seen.remote()) == []


async def test_deadline_when_an_argument_is_not_there_then_the_call_never_runs(
    api: Api, callee: Callee, stop: Stop, soon: float
) -> None:
    gate = Gate.remote()
    argument = gate.wait.remote("argument")
    timed = callee.method("run", timeout=soon)

    await late(api, timed.remote(tell, stop.place, "late", argument))
    await api.get(gate.open.remote("argument"))

    assert await api.get(argument) == "argument"
    assert await api.get(callee.run(tell, stop.place, "next")) == "next"
    assert await stop.told() == "next"


def time_left() -> float | None:
    return actorlib.get_runtime_context().time_left()


async def test_deadline_when_it_is_far_then_the_answers_come(
    api: Api, engine: str, callee: Callee
) -> None:
    timed = callee.method("run", timeout=NEVER)

    assert await api.get([timed.remote(abs, n) for n in range(50)]) == [*range(50)]
    left = await api.get(timed.remote(time_left))
    assert 0 < left <= NEVER
    assert await api.get(callee.run(time_left)) is None
    if engine != "client":  # Ray passes no streams to it
        stream = callee.method("items", timeout=NEVER).remote(range, 3)
        assert await all_items(api, stream) == [0, 1, 2]


@OWN_ENGINES
async def test_deadline_when_cancelled_before_then_the_call_stays_cancelled(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    argument = gate.wait.remote("argument")
    ref = callee.method("run", timeout=NEVER).remote(len, argument)

    api.cancel(ref)

    assert isinstance(await error_of(api, ref), TaskCancelledError)
    await api.get(gate.open.remote("argument"))
    assert await api.get(argument) == "argument"


# Streams.


def stopping(place: Place) -> Iterator[str]:
    yield "first"
    place.stop_here()


async def waiting(place: Place) -> AsyncIterator[str]:
    del place
    yield "first"
    await asyncio.Event().wait()


@FEW_KINDS
async def test_deadline_when_a_stream_takes_longer_then_its_last_item_says_so(
    api: Api, engine: str, callee: Callee, stop: Stop, tries: list[float]
) -> None:
    function = waiting if callee.is_async else stopping
    if engine == "client":
        with pytest.raises(UnsupportedOptionError, match="passes no streams"):
            callee.method("items", timeout=NEVER).remote(function, stop.place)
        return
    await ready(api, callee)

    for seconds in tries:
        stream = callee.method("items", timeout=seconds).remote(function, stop.place)
        first = await api.next_item(stream)
        await api.wait([first])
        if first.exception() is None:
            assert await api.get(first) == "first"
            await late(api, await api.next_item(stream))
            assert await all_items(api, stream) == []
            return
    raise AssertionError("the stream has never begun in time")


# What the call has called.


def pass_on(second: Callee, gate: Any, words: Place) -> Generator[Any, Any, Any]:
    yield second.run(ask_and_tell, gate, words)


@OWN_ENGINES
@FEW_KINDS
async def test_deadline_when_a_function_waits_below_the_call_then_all_three_stop(
    api: Api, callee: Callee, stop: Stop, tries: list[float]
) -> None:
    second = Callee("function", is_blocking=api.is_blocking)
    await ready(api, second)

    *_, gate = await late_while_it_runs(api, callee, tries, stop, pass_on, second)

    await stop.told()
    assert await was_left(api, gate)
    assert await works(api, callee)
    assert await works(api, second)


def ask_for_time(second: Callee) -> Generator[Any, Any, Any]:
    return (yield second.run(time_left))


@OWN_ENGINES
@FEW_KINDS
async def test_deadline_when_it_is_far_then_what_the_call_calls_inherits_it(
    api: Api, callee: Callee
) -> None:
    second = Callee("function", is_blocking=api.is_blocking)

    ref = callee.method("run", timeout=NEVER).remote(ask_for_time, second)

    assert 0 < await api.get(ref) <= NEVER
    assert await api.get(callee.run(ask_for_time, second)) is None


def ask_soon(gate: Any, soon: float) -> Generator[Any, Any, Any]:
    yield gate.wait.options(timeout=soon).remote("asked")


@OWN_ENGINES
@FEW_KINDS
async def test_deadline_when_a_call_gives_a_sooner_one_then_that_counts(
    api: Api, callee: Callee, soon: float
) -> None:
    timed = callee.method("run", timeout=NEVER)

    error = await late(api, timed.remote(ask_soon, Gate.remote(), soon))

    assert (error.timeout, error.is_inherited) == (soon, False)


def ask_without_argument(gate: Any, echo: Any, soon: float) -> Generator[Any, Any, Any]:
    yield echo.echo.options(timeout=soon).remote(gate.wait.remote("argument"))


@OWN_ENGINES
@FEW_KINDS
async def test_deadline_when_a_worker_holds_the_call_back_then_it_fails_in_time(
    api: Api, callee: Callee, soon: float
) -> None:
    gate, echo = Gate.remote(), Echo.remote()

    error = await late(api, callee.run(ask_without_argument, gate, echo, soon))

    assert "Echo.echo" in str(error)
    assert await api.get(echo.echo.remote(1)) == 1


# Deaths.


@OWN_ENGINES
@TWO_KINDS
async def test_deadline_when_the_caller_is_killed_then_what_it_called_stops_in_time(
    api: Api, callee: Callee, stop: Stop
) -> None:
    gate = Gate.remote()
    await ready(api, callee)
    timed = callee.method("run", timeout=0.25)
    ref = timed.remote(ask, gate, stop.place)
    await api.get(gate.reached.remote("asked"))

    await api.kill(callee.actor)

    assert isinstance(await error_of(api, ref), ActorDiedError)
    assert await was_left(api, gate)


@TWO_KINDS
async def test_deadline_when_the_actor_restarts_then_the_call_keeps_it(
    api: Api, callee: Callee, stop: Stop, *, is_on_ray: bool
) -> None:
    backoff: dict[str, Any] = {} if is_on_ray else {"restart_backoff": 0}
    lasting = callee.new(max_restarts=1, max_task_retries=1, **backoff)
    gate = Gate.remote()
    await ready(api, lasting)
    seconds = 5.0 if is_on_ray else 0.25
    timed = lasting.method("run", timeout=seconds)
    ref = timed.remote(ask, gate, stop.place)
    await api.get(gate.reached.remote("asked"))

    await actorlib.kill(lasting.actor, no_restart=False)

    assert (await late(api, ref)).timeout == seconds
    assert await works(api, lasting, is_on_ray=is_on_ray)


# Where it is given.


@actorlib.remote
class Hasty:
    @actorlib.method(timeout=0.1)
    async def wait(self) -> None:
        await asyncio.Event().wait()


@actorlib.remote(timeout=0.1, max_retries=0)
def hasty() -> None:
    until_canceled()


@OWN_ENGINES
@pytest.mark.parametrize("is_function", [False, True], ids=["method", "function"])
async def test_deadline_when_it_is_the_callees_then_for_each_call_that_names_no_other(
    api: Api, *, is_function: bool
) -> None:
    callee: Any = hasty if is_function else Hasty.remote().wait

    assert (await late(api, callee.remote())).timeout == 0.1
    assert (await late(api, callee.options(timeout=0.05).remote())).timeout == 0.05
