"""How many calls of an actor run at once, and in which order."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import AsyncCaller, Log, MixedLog
from helpers.callees import GROUP
from helpers.callers import error_of
from helpers.kinds import (
    ALL_ACTORS,
    ASYNC,
    CONTRACT,
    FEW_KINDS,
    OWN_ENGINES,
    PLAIN,
    kinds,
)
from helpers.reused import Echo, Gate
from helpers.rooms import Room, visit
from helpers.waiting_calls import wait_at

import actorlib
from actorlib.exceptions import ActorDiedError, TaskCancelledError

if TYPE_CHECKING:
    from helpers.actors import Place, Stop
    from helpers.callees import Callee, Steps
    from helpers.callers import Api


pytestmark = CONTRACT

LIMITS: dict[str, tuple[dict[str, Any], int]] = {
    "plain": ({}, 1),
    "mixed": ({}, 1),
    "threaded": ({}, 2),
    "async": ({"max_concurrency": 3}, 3),
    "group": ({"concurrency_groups": {GROUP: 2}}, 2),
}
"""Options of each kind of actor, and how many calls may run with them."""


def limited(callee: Callee) -> tuple[Callee, int]:
    """A callee of the same kind, and how many of its calls may run at once."""
    options, limit = LIMITS[callee.kind]
    return callee.new(**options), limit


@ALL_ACTORS
async def test_calls_when_many_are_made_then_as_many_run_as_the_limit(
    api: Api, callee: Callee
) -> None:
    callee, limit = limited(callee)
    room = Room.remote(limit)

    await api.get([callee.run(visit, room) for _ in range(20)])

    assert await api.get(room.most.remote()) == limit


async def held(api: Api, callee: Callee, limit: int, gate: Any) -> list[Any]:
    """The refs of as many calls as may run; each waits at a gate of its own."""
    refs = [callee.run(wait_at, gate, str(number)) for number in range(limit)]
    await api.get([gate.reached.remote(str(number)) for number in range(limit)])
    return refs


@ASYNC
async def test_coroutines_when_they_wait_then_others_run_and_end(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    refs = await held(api, callee, 5, gate)

    assert await api.get(callee.run(len, "ab")) == 2
    for number in reversed(range(5)):
        assert not refs[number].done()
        await api.get(gate.open.remote(str(number)))
        assert await api.get(refs[number]) == str(number)


class Requests(Log):
    """Notes when its calls begin and end."""

    async def visit(self, gate: Any, name: str) -> None:
        self.note(f"{name} begins")
        await gate.wait.remote(name)
        self.note(f"{name} ends")


@OWN_ENGINES
async def test_calls_when_one_may_run_then_plain_methods_wait_for_coroutines(
    api: Api,
) -> None:
    gate, visits = Gate.remote(), actorlib.remote(max_concurrency=1)(Requests).remote()
    refs = [visits.visit.remote(gate, "a"), visits.note.remote("b")]
    refs += [visits.visit.remote(gate, "c"), visits.note.remote("d")]
    await api.get(gate.reached.remote("a"))
    assert not any(ref.done() for ref in refs)
    await api.get([gate.open.remote("a"), gate.open.remote("c")])
    await api.get(refs)

    notes = await api.get(visits.seen.remote())
    expected = ["a begins", "a ends", "b", "c begins", "c ends", "d"]
    assert notes == expected
    for name in ("a", "c"):
        assert notes.index(f"{name} ends") == notes.index(f"{name} begins") + 1


@OWN_ENGINES
async def test_coroutines_when_a_few_may_run_then_they_begin_in_order(api: Api) -> None:
    gate, visits = Gate.remote(), actorlib.remote(max_concurrency=3)(Requests).remote()
    names = [str(number) for number in range(50)]
    refs = [visits.visit.remote(gate, name) for name in names]
    for name in names:
        gate.open.remote(name)
    await api.get(refs)

    notes = await api.get(visits.seen.remote())
    begun = [note.split()[0] for note in notes if note.endswith("begins")]
    assert begun == names


@OWN_ENGINES
@pytest.mark.slow
async def test_coroutines_when_no_limit_is_given_then_a_thousand_run(api: Api) -> None:
    gate = Gate.remote()
    waiting = [gate.wait.remote("all") for _ in range(999)]
    await api.get(gate.reached.remote("all"))
    waiting.append(gate.wait.remote("all"))
    behind = gate.left.remote()
    other = Gate.remote()
    assert await api.get(other.left.remote()) == []
    assert not behind.done()

    api.cancel(waiting.pop())
    await api.get(behind)
    await api.get(gate.open.remote("all"))
    assert await api.get(waiting) == ["all"] * 999


class Meeting:
    """Where as many threads meet as there are."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(2)

    def meet(self) -> int:
        self._barrier.wait()
        return threading.get_ident()


@kinds("threaded", "group")
async def test_threads_when_one_waits_for_another_then_both_go_on(
    api: Api, callee: Callee
) -> None:
    callee, limit = limited(callee)
    meet = callee.method_of(callee.new_actor(Meeting), "meet")

    threads = await api.get([meet.remote() for _ in range(20)])

    assert len(set(threads)) == limit


# Calls that are cancelled.


def note(log: Any, value: Any) -> Steps:
    return (yield log.note.remote(value))


@ASYNC
async def test_cancel_when_a_coroutine_runs_then_the_next_has_its_place(
    api: Api, callee: Callee
) -> None:
    callee, gate = callee.new(max_concurrency=1), Gate.remote()
    [first] = await held(api, callee, 1, gate)
    second = callee.run(wait_at, gate, "second")
    await api.get(gate.open.remote("second"))
    assert not second.done()
    api.cancel(first)

    assert isinstance(await error_of(api, first), TaskCancelledError)
    assert await api.get(second) == "second"
    assert await api.get(gate.left.remote()) == ["0"]


# The end of the actor.


@ALL_ACTORS
async def test_exit_when_a_call_ends_the_actor_then_all_its_calls_fail(
    api: Api, callee: Callee
) -> None:
    callee, limit = limited(callee)
    running = await held(api, callee, limit - 1, Gate.remote())

    error = await error_of(api, callee.run(sys.exit, 7))
    assert isinstance(error, ActorDiedError)
    assert error.exit is not None
    assert error.exit.code == 7
    for ref in [*running, callee.run(len, "ab")]:
        assert isinstance(await error_of(api, ref), ActorDiedError)


@ALL_ACTORS
async def test_kill_when_calls_run_and_wait_then_all_of_them_fail(
    api: Api, callee: Callee
) -> None:
    callee, limit = limited(callee)
    refs = await held(api, callee, limit, Gate.remote())
    refs += [callee.run(len, "ab") for _ in range(10)]
    await api.kill(callee.actor)

    for ref in refs:
        assert isinstance(await error_of(api, ref), ActorDiedError)


AT_ONCE = kinds("threaded", "async", "group")


def fail() -> None:
    raise ValueError("mine")


@AT_ONCE
async def test_calls_when_they_raise_then_their_places_are_free(
    api: Api, callee: Callee
) -> None:
    callee, limit = limited(callee)
    for ref in [callee.run(fail) for _ in range(5 * limit)]:
        assert isinstance(await error_of(api, ref), ValueError)

    room = Room.remote(limit)
    await api.get([callee.run(visit, room) for _ in range(limit)])


# The order in which an actor runs the calls that it gets.

ONE_AT_A_TIME = kinds("plain", "group", "mixed")


class AsyncLog(Log):
    """A log whose methods are coroutines."""

    async def note(self, value: Any) -> Any:  # type: ignore[override]
        return super().note(value)

    async def seen(self) -> list[Any]:  # type: ignore[override]
        return super().seen()


def new_log(callee: Callee, place: Place | None = None) -> Any:
    """An actor of the callee's kind, whose constructor stops at the place."""
    logs = {"async": AsyncLog, "mixed": MixedLog}
    return callee.new_actor(logs.get(callee.kind, Log), place)


def values_of_all_sizes() -> list[Any]:
    """Numbers, and between them values that travel in other ways."""
    values: list[Any] = [*range(1_000)]
    for number, size in enumerate((0, 1, 70_000, 3, 2_000_000, 5, 65_535, 65_536)):
        values[100 * number] = bytes(size)
        values[100 * number + 1] = [number, (size,)]
    return values


@ALL_ACTORS
async def test_calls_when_one_caller_makes_them_then_they_run_in_order(
    api: Api, callee: Callee, *, is_on_ray: bool
) -> None:
    log, values = new_log(callee), values_of_all_sizes()
    note = callee.method_of(log, "note")

    assert await api.get([note.remote(value) for value in values]) == values
    seen = await api.get(callee.method_of(log, "seen").remote())
    if callee.kind == "threaded" or (is_on_ray and callee.kind != "plain"):
        # Each call runs once. Threads, and actors with a loop on Ray, promise no more.
        assert sorted(map(repr, seen)) == sorted(map(repr, values))
    else:
        assert seen == values


@kinds("threaded")
async def test_calls_when_one_thread_is_free_then_they_run_in_order(
    api: Api, callee: Callee, stop: Stop
) -> None:
    log = new_log(callee)
    held = [log.stop.remote(stop.place, "held") for _ in range(2)]
    await stop.reached()
    await stop.reached()
    refs = [log.note.remote(number) for number in range(300)]
    stop.release()

    assert await api.get(refs) == [*range(300)]
    stop.release()
    await api.get(held)
    assert await api.get(log.seen.remote()) == ["held", "held", *range(300)]


@OWN_ENGINES
async def test_calls_when_plain_and_async_methods_are_mixed_then_they_run_in_order(
    api: Api,
) -> None:
    log = actorlib.remote(MixedLog).remote()
    methods = [log.note, log.note_later]
    refs = [methods[number % 3 == 0].remote(number) for number in range(300)]

    assert await api.get(refs) == [*range(300)]
    seen = await api.get(log.seen_now.remote())
    assert seen == [*range(300)]


@OWN_ENGINES
@kinds("plain", "async", "group", "mixed")
async def test_calls_when_made_before_readiness_then_they_run_in_order(
    api: Api, callee: Callee, stop: Stop, *, is_on_ray: bool
) -> None:
    log = new_log(callee, stop.place)
    note = callee.method_of(log, "note")
    refs = [note.remote(number) for number in range(100)]
    await stop.reached()
    refs += [note.remote(number) for number in range(100, 200)]
    assert not any(ref.done() for ref in refs)
    stop.release()
    refs.append(note.remote(200))

    assert await api.get(refs) == [*range(201)]
    seen = await api.get(callee.method_of(log, "seen").remote())
    if is_on_ray and callee.kind != "plain":
        assert sorted(seen) == [*range(201)]
    else:
        assert seen == [*range(201)]


# Arguments that are not there yet.


@PLAIN
async def test_call_when_its_argument_is_late_then_later_calls_wait(
    api: Api, callee: Callee
) -> None:
    gate, log, other = Gate.remote(), new_log(callee), new_log(callee)
    late = [gate.wait.remote(name) for name in "ab"]
    refs = [log.note.remote(value) for value in (0, late[0], 1, late[1], 2)]
    refs.append(log.note.remote(refs[0]))

    assert await api.get(other.note.remote("other")) == "other"
    assert await api.get(other.note.remote(refs[0])) == 0
    assert not any(ref.done() for ref in refs[1:])
    await api.get(gate.open.remote("b"))
    assert await api.get(late[1]) == "b"
    await api.get(gate.open.remote("a"))
    assert await api.get(refs) == [0, "a", 1, "b", 2, 0]
    assert await api.get(log.seen.remote()) == [0, "a", 1, "b", 2, 0]


@OWN_ENGINES
@kinds("plain", "threaded", "async", "mixed")
async def test_call_when_its_argument_is_late_and_order_is_free_then_others_pass(
    api: Api, callee: Callee
) -> None:
    if callee.kind == "plain":
        callee = callee.new(allow_out_of_order_execution=True)
    gate, log = Gate.remote(), new_log(callee)
    late = log.note.remote(gate.wait.remote("late"))

    assert await api.get(log.note.remote("early")) == "early"
    assert not late.done()
    await api.get(gate.open.remote("late"))
    assert await api.get(late) == "late"
    assert await api.get(log.seen.remote()) == ["early", "late"]


def note_late_and_early(gate: Any, ordered: Any, free: Any) -> Steps:
    """Calls two logs with an argument that is late, and then without one."""
    late = gate.wait.remote("late")
    first, passed = ordered.note.remote(late), free.note.remote(late)
    second = ordered.note.remote("early")
    early = yield free.note.remote("early")
    was_done = second.done()
    yield gate.open.remote("late")
    return early, was_done, (yield [first, second, passed])


@OWN_ENGINES
@FEW_KINDS
async def test_call_when_a_worker_makes_it_with_a_late_argument_then_likewise(
    api: Api, callee: Callee
) -> None:
    ordered = actorlib.remote(Log).remote()
    free = actorlib.remote(AsyncLog).remote()
    ref = callee.run(note_late_and_early, Gate.remote(), ordered, free)

    assert await api.get(ref) == ("early", False, ["late", "early", "late"])
    assert await api.get(ordered.seen.remote()) == ["late", "early"]
    assert await api.get(free.seen.remote()) == ["early", "late"]


async def end_behind_late_call(gate: Any, log: Any) -> Any:
    """Ends an actor behind a call whose argument is late."""
    late = log.note.remote(gate.wait.remote("late"))
    opened = gate.open.remote("late")
    async with log:
        await opened
    return await late


@OWN_ENGINES
async def test_end_when_a_worker_asks_for_it_then_late_calls_run_before(
    api: Api, *, is_on_ray: bool
) -> None:
    # On Ray, calls of an actor with a loop have no order, and its end has none either.
    log = actorlib.remote(Log if is_on_ray else AsyncLog).remote()
    ref = AsyncCaller.remote().run.remote(end_behind_late_call, Gate.remote(), log)

    assert await api.get(ref) == "late"


@OWN_ENGINES
@PLAIN
async def test_calls_when_their_arguments_are_of_all_kinds_then_they_run_in_order(
    api: Api, callee: Callee
) -> None:
    chance = random.Random(3)  # nothing secret
    echo, log = Echo.remote(), new_log(callee)
    done = echo.echo.remote(-1)
    await api.get(done)
    refs: list[Any] = []
    for number in range(150):
        arguments = [
            number,
            [number],
            done,
            echo.echo.remote(number),
            echo.echo.remote([number]),
            echo.fail.remote(ValueError(number)),
        ]
        refs.append(log.note.remote(chance.choice(arguments)))
        if chance.random() < 0.1:
            await api.wait(refs[-1:])
    results: list[Any] = []
    for ref in refs:
        with suppress(ValueError):  # its argument has failed, and those behind it run
            results.append(await api.get(ref))

    assert 100 < len(results) < 150
    assert await api.get(log.seen.remote()) == results


# Several callers.


def note_numbers(log: Any, name: str) -> Steps:
    yield [log.note.remote((name, number)) for number in range(200)]


@OWN_ENGINES
@kinds("function", "plain", "threaded", "async")
async def test_calls_when_several_callers_make_them_then_each_keeps_its_order(
    api: Api, callee: Callee
) -> None:
    log, callers = actorlib.remote(Log).remote(), {"a": callee, "b": callee.new()}

    for _ in range(2):  # on the local engine, the first calls go by another way
        refs = [each.run(note_numbers, log, name) for name, each in callers.items()]
        refs += [log.note.remote(("own", number)) for number in range(200)]
        await api.get(refs)

    seen = await api.get(log.seen.remote())
    for name in ("own", *callers):
        assert [number for who, number in seen if who == name] == 2 * [*range(200)]


# Calls that wait for others.


def note_around_wait(log: Any, gate: Any, name: str) -> Steps:
    yield log.note.remote(f"{name} begins")
    yield gate.wait.remote(name)
    yield log.note.remote(f"{name} ends")
    return name


def note_one(log: Any, number: int) -> Steps:
    return (yield log.note.remote(number))


@OWN_ENGINES
@ONE_AT_A_TIME
async def test_calls_when_they_come_during_a_nested_call_then_they_keep_their_order(
    api: Api, callee: Callee
) -> None:
    gate, log = Gate.remote(), actorlib.remote(Log).remote()
    refs = [callee.run(note_around_wait, log, gate, "a")]
    await api.get(gate.reached.remote("a"))
    refs += [callee.run(note_one, log, number) for number in range(50)]
    refs.append(callee.run(note_around_wait, log, gate, "b"))
    await api.get(gate.open.remote("a"))
    await api.get(gate.reached.remote("b"))
    refs.append(callee.run(note_one, log, 50))
    await api.get(gate.open.remote("b"))

    assert await api.get(refs) == ["a", *range(50), "b", 50]
    expected = ["a begins", "a ends", *range(50), "b begins", "b ends", 50]
    assert await api.get(log.seen.remote()) == expected


async def test_calls_when_threads_make_them_then_each_thread_keeps_its_order(
    api: Api,
) -> None:
    log = actorlib.remote(Log).remote()

    def note(name: str) -> None:
        refs = [log.note.remote((name, number)) for number in range(100)]
        refs += [log.note.remote(value=(name, number)) for number in range(100, 105)]
        actorlib.get(refs)

    await asyncio.gather(*(asyncio.to_thread(note, name) for name in "abc"))

    seen = await api.get(log.seen.remote())
    for name in "abc":
        assert [number for who, number in seen if who == name] == [*range(105)]
