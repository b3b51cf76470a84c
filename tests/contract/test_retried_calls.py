"""Calls that are made again: after a death, or after what they raised."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import AsyncCaller
from helpers.callees import KINDS, STREAMING_KINDS, Callee
from helpers.callers import error_of
from helpers.kinds import (
    CONTRACT,
    FEW_KINDS,
    OWN_ENGINES,
    PLAIN,
    STREAMS,
    TWO_KINDS,
    kinds,
)
from helpers.reused import Gate

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorUnavailableError,
    TaskCancelledError,
    TaskError,
    WorkerCrashedError,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from helpers.actors import Place, Stop
    from helpers.callers import Api

pytestmark = CONTRACT


class Refusal(Exception):  # noqa: N818  # the name of no error
    """Of the user's own."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file in which calls are noted, also those of processes that died."""
    return str(tmp_path / "notes")


@pytest.fixture
def is_killed(engine: str) -> bool:
    """Whether a call dies by a signal; where the actor is a thread, it leaves."""
    return engine != "inline"


def note(path: str, word: str = "call") -> int:
    """Writes a word down; gives how often it is there."""
    with Path(path).open("a") as file:
        file.write(f"{word}\n")
    return Path(path).read_text().split().count(word)


def noted(path: str) -> list[str]:
    return Path(path).read_text().split()


def die(*, is_killed: bool) -> None:
    if is_killed:
        os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(3)


def die_until(path: str, last: int, *, is_killed: bool, word: str = "call") -> int:
    """Dies until it was called so often."""
    count = note(path, word)
    if count < last:
        die(is_killed=is_killed)
    return count


def fail_until(path: str, last: int, error: Exception, word: str = "call") -> int:
    """Raises until it was called so often."""
    count = note(path, word)
    if count < last:
        raise error
    return count


def retried(
    callee: Callee, times: int, *, is_on_ray: bool = False, **options: Any
) -> Callee:
    """Another callee, whose calls are made again so often."""
    if not callee.is_actor:
        return callee.new(max_retries=times, **options)
    backoff = {} if is_on_ray else {"restart_backoff": 0}
    lasting: dict[str, Any] = {"max_restarts": -1, **backoff}
    return callee.new(**lasting, max_task_retries=times, **options)


# Actors are awaited here, also in the cells of scripts: scripts have only calls to ask
# whether an actor is ready, and these are lost while it restarts. For the same reason
# it is killed by what says when the process is gone.


def method(callee: Callee, times: int | None = None, **options: Any) -> Any:
    """What has ``remote()``, with the retries of single calls."""
    name = "max_task_retries" if callee.is_actor else "max_retries"
    said = {} if times is None else {name: times}
    return callee.method("run", **said, **options)


# After a death.


def die_in_turns(path: str, last: int, *, is_killed: bool) -> int:
    """Dies until it was called so often, in different ways."""
    count = note(path)
    if count < last:
        die(is_killed=is_killed and count % 2 == 1)
    return count


@kinds(*[*KINDS, "mixed"])
async def test_call_when_it_dies_then_it_is_made_again_until_it_returns(
    api: Api, callee: Callee, path: str, *, is_killed: bool, is_on_ray: bool
) -> None:
    last = 3 if is_on_ray else 4
    lasting = retried(callee, last - 1, is_on_ray=is_on_ray)

    ref = lasting.run(die_in_turns, path, last, is_killed=is_killed)

    assert await api.get(ref) == last


async def test_call_when_its_retries_are_used_up_then_it_is_lost(
    api: Api, callee: Callee, path: str, *, is_killed: bool, is_on_ray: bool
) -> None:
    lasting = retried(callee, 1, is_on_ray=is_on_ray)

    error = await error_of(api, lasting.run(die_until, path, 9, is_killed=is_killed))

    if callee.is_actor:
        assert isinstance(error, ActorUnavailableError)
    else:
        assert isinstance(error, WorkerCrashedError)
        assert is_on_ray or "ended 2 times (max_retries=1)" in str(error)
    assert noted(path) == ["call"] * 2
    if callee.is_actor:
        await lasting.actor
    assert await api.get(lasting.run(len, "ab")) == 2


async def test_call_when_it_has_no_retries_then_it_is_made_once(
    api: Api, callee: Callee, path: str, *, is_killed: bool
) -> None:
    once = callee.new(max_restarts=1) if callee.is_actor else callee.new(max_retries=0)

    error = await error_of(api, once.run(die_until, path, 9, is_killed=is_killed))

    assert isinstance(error, (ActorError, WorkerCrashedError))
    if callee.is_actor:
        await once.actor
    assert await api.get(once.run(note, path, "next")) == 1
    assert noted(path) == ["call", "next"]


@kinds("function")
async def test_call_when_a_function_says_nothing_then_three_retries(
    api: Api, callee: Callee, path: str, *, is_killed: bool
) -> None:
    error = await error_of(api, callee.run(die_until, path, 9, is_killed=is_killed))

    assert isinstance(error, WorkerCrashedError)
    assert noted(path) == ["call"] * 4


@OWN_ENGINES
@pytest.mark.parametrize("restarts", [0, 1])
@TWO_KINDS
async def test_call_when_the_actor_has_no_restart_left_then_retries_end_with_it(
    api: Api,
    callee: Callee,
    path: str,
    restarts: int,
    *,
    is_killed: bool,
) -> None:
    mortal = callee.new(max_restarts=restarts, restart_backoff=0)
    dies = method(mortal, 5).remote(die_until, path, 9, is_killed=is_killed)
    behind = method(mortal, 5).remote(note, path, "behind")

    assert isinstance(await error_of(api, dies), ActorDiedError)
    if not callee.is_async:  # else it may be answered before
        assert isinstance(await error_of(api, behind), ActorDiedError)
    assert noted(path).count("call") == restarts + 1


@OWN_ENGINES
@FEW_KINDS
async def test_call_when_retries_are_minus_one_then_for_ever(
    api: Api, callee: Callee, path: str, *, is_killed: bool
) -> None:
    last = 6
    lasting = retried(callee, -1)

    ref = lasting.run(die_until, path, last, is_killed=is_killed)

    assert await api.get(ref) == last


@OWN_ENGINES
@kinds("plain", "group")
async def test_calls_when_made_again_then_in_order_and_none_that_had_returned(
    api: Api, callee: Callee, path: str, *, is_killed: bool
) -> None:
    lasting = retried(callee, 3)
    await api.get(lasting.run(note, path, "a"))
    refs = [lasting.run(die_until, path, 2, is_killed=is_killed, word="b")]
    refs += [lasting.run(note, path, word) for word in "cd"]
    await api.get(refs)
    await api.get([lasting.run(note, path, word) for word in "ef"])

    assert noted(path) == ["a", "b", "b", "c", "d", "e", "f"]


# Only calls that ran pay for the end of a process. On Ray that is up to Ray.

IN_LINE = ["plain", "group", "mixed"]
"""Actors that run one plain method at a time: which call runs is certain there."""


@OWN_ENGINES
@kinds("function")
async def test_call_when_another_kills_the_process_then_one_not_begun_does_not_pay(
    api: Api, callee: Callee, path: str, *, is_killed: bool
) -> None:
    lasting = retried(callee, 1)

    dies = lasting.run(die_until, path, 9, is_killed=is_killed)
    behind = lasting.run(note, path, "behind")

    assert isinstance(await error_of(api, dies), (ActorError, WorkerCrashedError))
    assert await api.get(behind) == 1


@OWN_ENGINES
@kinds(*IN_LINE)
async def test_calls_when_one_of_many_kills_the_process_then_it_alone_is_lost(
    api: Api, callee: Callee, path: str, *, is_killed: bool
) -> None:
    lasting = retried(callee, 1)

    refs = [lasting.run(note, path, f"n{number}") for number in range(59)]
    dies = lasting.run(die_until, path, 9, is_killed=is_killed)
    behind = [lasting.run(note, path, f"n{number}") for number in range(59, 100)]

    assert isinstance(await error_of(api, dies), ActorError)
    await api.get([*refs, *behind])
    words = noted(path)
    assert words.count("call") == 2
    # Those before it may run again, as their answers may be lost: at least once.
    assert [words.count(f"n{number}") for number in range(59, 100)] == [1] * 41


def stay(path: str, word: str, place: Place) -> None:
    note(path, word)
    place.stop_here()


async def stay_on_loop(path: str, word: str, place: Place) -> None:
    note(path, word)
    place.tell(word)
    await asyncio.sleep(20)


@OWN_ENGINES
@kinds("threaded", "async")
async def test_calls_when_several_ran_then_each_of_them_pays_and_no_other(
    api: Api, engine: str, callee: Callee, path: str, stop: Stop
) -> None:
    if engine == "inline":
        pytest.skip("an actor whose thread does not return is waited for there")
    lasting = retried(callee, 1, max_concurrency=2)
    began = stop.told if callee.is_async else stop.reached
    function = stay_on_loop if callee.is_async else stay

    refs = [lasting.run(function, path, word, stop.place) for word in "ab"]
    behind = lasting.run(note, path, "behind")
    for _ in range(2):
        await began()
        await began()
        await actorlib.kill(lasting.actor, no_restart=False)

    for ref in refs:
        assert isinstance(await error_of(api, ref), ActorUnavailableError)
    assert await api.get(behind) == 1
    assert sorted(noted(path)) == ["a", "a", "b", "b", "behind"]


@OWN_ENGINES
@kinds("plain", "threaded", "async")
async def test_call_when_no_restart_finishes_any_then_those_behind_it_are_lost(
    api: Api, callee: Callee, path: str, *, is_killed: bool
) -> None:
    patient = retried(callee, -1, max_concurrency=1)

    dies = patient.run(die_until, path, 12, is_killed=is_killed)
    behind = method(patient, 1).remote(note, path, "behind")

    error = await error_of(api, behind)
    assert isinstance(error, ActorUnavailableError)
    assert await api.get(dies) == 12
    assert noted(path) == ["call"] * 12


def call_in_line(second: Callee, path: str, *, is_killed: bool) -> Any:
    dies = second.run(die_until, path, 9, is_killed=is_killed)
    behind = second.run(die_until, path, 2, is_killed=is_killed, word="behind")
    yield behind
    with pytest.raises(ActorError):
        yield dies
    return (yield behind)


def call_over_a_link(second: Callee, path: str, *, is_killed: bool) -> Any:
    """Has a call die that goes over a link, before one that may go again once."""
    for _ in range(20):
        yield second.run(len, ())
    second.run(die_until, path, 9, is_killed=is_killed)
    behind = method(second, 1)
    return (yield behind.remote(die_until, path, 2, is_killed=is_killed, word="behind"))


@OWN_ENGINES
@FEW_KINDS
async def test_calls_of_workers_when_one_kills_the_process_then_none_behind_it_pays(
    api: Api, callee: Callee, path: str, *, is_killed: bool
) -> None:
    second = Callee("plain", is_blocking=False).new(
        max_restarts=-1, restart_backoff=0, max_task_retries=1
    )

    ref = callee.run(call_in_line, second, path, is_killed=is_killed)

    assert await api.get(ref) == 2
    assert noted(path) == ["call"] * 2 + ["behind"] * 2


@OWN_ENGINES
@TWO_KINDS
async def test_call_when_one_over_a_link_kills_the_process_then_it_does_not_pay(
    api: Api, callee: Callee, path: str, *, is_killed: bool
) -> None:
    for kind in ("plain", "group"):
        second = Callee(kind, is_blocking=False).new(max_restarts=-1, restart_backoff=0)

        ref = callee.run(call_over_a_link, second, path + kind, is_killed=is_killed)

        assert await api.get(ref) == 2
        assert noted(path + kind) == ["call"] + ["behind"] * 2


@OWN_ENGINES
@STREAMS
@kinds(*STREAMING_KINDS[1:])
async def test_stream_when_it_waits_for_its_reader_then_it_has_begun_and_pays(
    api: Api, callee: Callee
) -> None:
    lasting = retried(callee, 1)
    stream = lasting.method("items", backpressure=1).remote(range, 5)
    assert await api.get(await api.next_item(stream)) == 0

    for _ in range(2):
        await api.get(lasting.run(len, ()))  # it is paused now
        await actorlib.kill(lasting.actor, no_restart=False)
        await lasting.actor

    *_, last = await api.items(stream)
    assert isinstance(await error_of(api, last), ActorUnavailableError)


def note_and_stop(path: str, place: Place) -> None:
    note(path)
    place.stop_here()


# Ray cancels later, and begins the call again if it sees the end of the actor first.
@OWN_ENGINES
@kinds("plain", "threaded")
async def test_call_when_cancelled_while_it_runs_then_it_is_not_made_again(
    api: Api, engine: str, callee: Callee, path: str, stop: Stop
) -> None:
    lasting = retried(callee, 3)
    cancelled = lasting.run(note_and_stop, path, stop.place)
    await stop.reached()
    api.cancel(cancelled)
    if engine == "inline":  # a thread is waited for, and ends by itself
        stop.release()

    await actorlib.kill(lasting.actor, no_restart=False)

    assert isinstance(await error_of(api, cancelled), TaskCancelledError)
    assert await api.get(lasting.run(note, path, "next")) == 1
    assert noted(path) == ["call", "next"]


def length(path: str, value: bytearray, *, is_killed: bool) -> int:
    die_until(path, 2, is_killed=is_killed)
    return len(value)


@OWN_ENGINES
@FEW_KINDS
async def test_call_when_made_again_then_with_its_arguments_as_they_were(
    api: Api, callee: Callee, path: str, *, is_killed: bool
) -> None:
    lasting = retried(callee, 1)
    value = bytearray(300_000)

    ref = lasting.run(length, path, value, is_killed=is_killed)
    value.clear()

    assert await api.get(ref) == 300_000


async def wait_until_ready(actor: Any) -> None:
    """Asks in another process: a client's own question would wait behind its call."""
    await actor


@OWN_ENGINES
@TWO_KINDS
async def test_call_when_it_waits_for_its_arguments_then_a_restart_costs_it_nothing(
    api: Api, engine: str, callee: Callee
) -> None:
    if engine == "attached":
        pytest.xfail("a client's wait for the restarted actor hangs")
    lasting, gate = retried(callee, 0), Gate.remote()
    other = AsyncCaller.remote()
    ref = lasting.run(len, gate.wait.remote("argument"))
    await api.get(gate.reached.remote("argument"))
    await api.get(other.run.remote(wait_until_ready, lasting.actor))

    await actorlib.kill(lasting.actor, no_restart=False)
    await api.get(other.run.remote(wait_until_ready, lasting.actor))
    await api.get(gate.open.remote("argument"))

    assert await api.get(ref) == len("argument")


def pass_on(second: Callee, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
    return (yield second.run(*args, **kwargs))


@FEW_KINDS
async def test_calls_of_workers_when_they_die_or_raise_then_they_are_made_again_too(
    api: Api, callee: Callee, path: str, *, is_killed: bool, is_on_ray: bool
) -> None:
    second = retried(callee, 1, is_on_ray=is_on_ray, retry_exceptions=[Refusal])
    call = callee.method("run")

    died = call.remote(pass_on, second, die_until, path, 2, is_killed=is_killed)
    assert await api.get(died) == 2
    failed = call.remote(pass_on, second, fail_until, path, 2, Refusal(), "other")
    assert await api.get(failed) == 2
    lost = call.remote(pass_on, second, fail_until, path, 9, Refusal(), "lost")
    assert isinstance(await error_of(api, lost), Refusal)
    assert noted(path) == ["call"] * 2 + ["other"] * 2 + ["lost"] * 2


# After an exception.


async def test_exception_when_it_is_listed_then_the_call_is_made_again_so_often(
    api: Api, callee: Callee, path: str
) -> None:
    class Local(Exception):  # noqa: N818  # the name of no error
        pass

    cases: list[tuple[dict[str, Any], int, int]] = [
        ({"retry_exceptions": True}, 3, 4),
        ({"retry_exceptions": [Refusal, Local]}, 3, 4),
        ({"retry_exceptions": (LookupError, Refusal)}, 3, 4),
        ({"retry_exceptions": True}, 2, 3),
        ({"retry_exceptions": True}, 0, 1),
        ({"retry_exceptions": [LookupError, Local]}, 3, 1),
        ({"retry_exceptions": False}, 3, 1),
        ({}, 3, 1),
    ]
    for number, (options, times, runs) in enumerate(cases):
        patient = method(callee, times, **options)
        ref = patient.remote(fail_until, path, 4, Refusal("no"), f"{number}")

        if runs == 4:
            assert await api.get(ref) == 4, options
        else:
            error = await error_of(api, ref)
            assert isinstance(error, Refusal)
            assert isinstance(error, TaskError)
            assert error.args == ("no",)
        assert noted(path).count(f"{number}") == runs, options
    local = method(callee, 1, retry_exceptions=[Local])
    assert await api.get(local.remote(fail_until, path, 2, Local(), "local")) == 2


def fail_then_die(path: str, *, is_killed: bool) -> int:
    count = note(path)
    if count == 1:
        raise Refusal
    if count == 2:
        die(is_killed=is_killed)
    return count


@OWN_ENGINES
@FEW_KINDS
async def test_retries_when_a_call_raises_and_dies_then_both_use_them(
    api: Api, callee: Callee, path: str, *, is_killed: bool, is_on_ray: bool
) -> None:
    options: Any = {"is_on_ray": is_on_ray, "retry_exceptions": True}
    twice, once = retried(callee, 2, **options), retried(callee, 1, **options)

    ref = twice.run(fail_then_die, path, is_killed=is_killed)
    assert await api.get(ref) == 3
    lost = once.run(fail_then_die, f"{path}-of-one", is_killed=is_killed)
    error = await error_of(api, lost)
    assert isinstance(error, (ActorUnavailableError, WorkerCrashedError))


async def arrival(api: Api, callee: Callee) -> None:
    """Returns when the actor was sent all that the test has said before.

    A client's words come to the runtime in order, but later than the test goes on.
    """
    await api.get(callee.new().run(len, ()))


@OWN_ENGINES
@PLAIN
async def test_retry_after_an_exception_when_others_were_sent_then_it_runs_behind_them(
    api: Api, callee: Callee, path: str, stop: Stop
) -> None:
    patient = method(callee, 1, retry_exceptions=True)
    held = callee.run(note_and_stop, f"{path}-of-others", stop.place)
    await stop.reached()
    refs = [patient.remote(fail_until, path, 2, Refusal(), "a")]
    refs += [callee.run(note, path, word) for word in "bc"]
    await arrival(api, callee)
    stop.release()

    await api.get([held, *refs])

    assert noted(path) == ["a", "b", "c", "a"]


@OWN_ENGINES
@PLAIN
async def test_retry_after_an_exception_when_cancelled_before_then_it_never_runs(
    api: Api, callee: Callee, path: str, stop: Stop
) -> None:
    patient = method(callee, -1, retry_exceptions=True)
    others = f"{path}-of-others"
    first = callee.run(note_and_stop, others, stop.place)
    await stop.reached()
    fails = patient.remote(fail_until, path, 99, Refusal())
    second = callee.run(note_and_stop, others, stop.place)
    await arrival(api, callee)
    stop.release()
    await stop.reached()  # the call has failed, and waits behind the second one
    await api.get(first)

    api.cancel(fails)
    await arrival(api, callee)
    stop.release()

    assert isinstance(await error_of(api, fails), TaskCancelledError)
    await api.get([second, callee.run(note, path, "next")])
    assert noted(path) == ["call", "next"]


# Who says it: the actor, its method, or the call.


class Stubborn:
    """Its methods say themselves how often they are called.

    Args:
        path: The file in which calls are noted.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    @actorlib.method(max_task_retries=2, retry_exceptions=[Refusal])
    def often(self, last: int, error: Exception, word: str) -> int:
        return fail_until(self._path, last, error, word)

    @actorlib.method(max_task_retries=0)
    def once(self, last: int, word: str, *, is_killed: bool) -> int:
        return die_until(self._path, last, is_killed=is_killed, word=word)

    def fail(self, last: int, error: Exception, word: str) -> int:
        return fail_until(self._path, last, error, word)


class StubbornWithLoop(Stubborn):
    """The same, with an event loop."""

    async def nothing(self) -> None: ...


SERIAL, MIXED = actorlib.remote(Stubborn), actorlib.remote(StubbornWithLoop)
stubborn_classes = pytest.mark.parametrize(
    "cls", [SERIAL, MIXED], ids=["serial", "mixed"]
)


@stubborn_classes
async def test_retries_when_a_method_names_exceptions_then_those_alone(
    api: Api, path: str, cls: Any
) -> None:
    stubborn = cls.remote(path)

    assert await api.get(stubborn.often.remote(3, Refusal(), "a")) == 3
    error = await error_of(api, stubborn.often.remote(9, KeyError(), "b"))
    assert isinstance(error, KeyError)
    assert noted(path) == ["a"] * 3 + ["b"]


@stubborn_classes
async def test_retries_when_a_method_says_none_then_the_call_goes_first_the_actor_last(
    api: Api, path: str, cls: Any, *, is_killed: bool, is_on_ray: bool
) -> None:
    options: Any = {"max_restarts": -1, "max_task_retries": 5, "retry_exceptions": True}
    if not is_on_ray:
        options["restart_backoff"] = 0
    stubborn = cls.options(**options).remote(path)

    lost = stubborn.once.remote(9, "a", is_killed=is_killed)
    assert isinstance(await error_of(api, lost), ActorError)
    await stubborn
    again = stubborn.once.options(max_task_retries=1)
    assert await api.get(again.remote(2, "b", is_killed=is_killed)) == 2
    assert await api.get(stubborn.fail.remote(3, Refusal(), "c")) == 3
    never = stubborn.fail.options(retry_exceptions=False)
    assert isinstance(await error_of(api, never.remote(3, Refusal(), "d")), Refusal)
    assert noted(path) == ["a", "b", "b", "c", "c", "c", "d"]


def make(path: str) -> Any:
    return SERIAL.remote(path)


def call_often(stubborn: Any, word: str) -> Generator[Any, Any, Any]:
    """With retries of the method, and of a call."""
    yield stubborn.often.remote(3, Refusal(), word)
    options: Any = {"max_task_retries": 1, "retry_exceptions": [Refusal]}
    return (yield stubborn.fail.options(**options).remote(5, Refusal(), word))


@OWN_ENGINES
@FEW_KINDS
async def test_retries_when_a_worker_makes_the_actor_or_the_call_then_they_hold_too(
    api: Api, callee: Callee, path: str
) -> None:
    ours = make(path)

    assert await api.get(callee.run(call_often, ours, "a")) == 5
    if callee.is_actor:  # what a function made would end with it
        theirs = await api.get(callee.run(make, path))
        assert await api.get(theirs.often.remote(3, Refusal(), "b")) == 3
