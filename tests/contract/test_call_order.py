"""The order in which an actor runs the calls that it gets."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import AsyncCaller, Echo, Gate, Log, MixedLog

import actorlib

if TYPE_CHECKING:
    from helpers.actors import Place, Stop
    from helpers.callees import Callee, Steps
    from helpers.callers import Api

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

ACTORS = pytest.mark.parametrize(
    "callee", ["plain", "threaded", "async", "group", "mixed"], indirect=True
)
ONE_AT_A_TIME = pytest.mark.parametrize(
    "callee", ["plain", "group", "mixed"], indirect=True
)


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


@ACTORS
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


@pytest.mark.parametrize("callee", ["threaded"], indirect=True)
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


async def test_calls_when_plain_and_async_methods_are_mixed_then_they_run_in_order(
    api: Api, runtime: object, *, is_on_ray: bool
) -> None:
    del runtime
    log = actorlib.remote(MixedLog).remote()
    methods = [log.note, log.note_later]
    refs = [methods[number % 3 == 0].remote(number) for number in range(300)]

    assert await api.get(refs) == [*range(300)]
    seen = await api.get(log.seen_now.remote())
    assert (sorted(seen) if is_on_ray else seen) == [*range(300)]


@pytest.mark.parametrize("callee", ["plain", "async", "group", "mixed"], indirect=True)
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


@pytest.mark.parametrize("callee", ["plain"], indirect=True)
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


@pytest.mark.parametrize(
    "callee", ["plain", "threaded", "async", "mixed"], indirect=True
)
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


@pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)
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


async def test_end_when_a_worker_asks_for_it_then_late_calls_run_before(
    api: Api, runtime: object, *, is_on_ray: bool
) -> None:
    del runtime
    # On Ray, calls of an actor with a loop have no order, and its end has none either.
    log = actorlib.remote(Log if is_on_ray else AsyncLog).remote()
    ref = AsyncCaller.remote().run.remote(end_behind_late_call, Gate.remote(), log)

    assert await api.get(ref) == "late"


@pytest.mark.parametrize("callee", ["plain"], indirect=True)
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


@pytest.mark.parametrize(
    "callee", ["function", "plain", "threaded", "async"], indirect=True
)
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
    api: Api, runtime: object
) -> None:
    del runtime
    log = actorlib.remote(Log).remote()

    def note(name: str) -> None:
        refs = [log.note.remote((name, number)) for number in range(100)]
        refs += [log.note.remote(value=(name, number)) for number in range(100, 105)]
        actorlib.get(refs)

    await asyncio.gather(*(asyncio.to_thread(note, name) for name in "abc"))

    seen = await api.get(log.seen.remote())
    for name in "abc":
        assert [number for who, number in seen if who == name] == [*range(105)]
