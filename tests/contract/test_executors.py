"""How many calls of an actor run at once, and what becomes of those that wait."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Gate, Log, MixedLog
from helpers.callees import GROUP
from helpers.callers import error_of
from helpers.rooms import Room, visit

import actorlib
from actorlib.exceptions import ActorDiedError, TaskCancelledError

if TYPE_CHECKING:
    from helpers.actors import Stop
    from helpers.callees import Callee, Steps
    from helpers.callers import Api

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

LIMITS: dict[str, tuple[dict[str, Any], int]] = {
    "plain": ({}, 1),
    "mixed": ({}, 1),
    "threaded": ({}, 2),
    "async": ({"max_concurrency": 3}, 3),
    "group": ({"concurrency_groups": {GROUP: 2}}, 2),
}
"""Options of each kind of actor, and how many calls may run with them."""

ACTORS = pytest.mark.parametrize("callee", [*LIMITS], indirect=True)
AT_ONCE = pytest.mark.parametrize(
    "callee", ["threaded", "async", "group"], indirect=True
)


def limited(callee: Callee) -> tuple[Callee, int]:
    """A callee of the same kind, and how many of its calls may run at once."""
    options, limit = LIMITS[callee.kind]
    return callee.new(**options), limit


@ACTORS
async def test_calls_when_many_are_made_then_as_many_run_as_the_limit(
    api: Api, callee: Callee
) -> None:
    callee, limit = limited(callee)
    room = Room.remote(limit)

    await api.get([callee.run(visit, room) for _ in range(20)])

    assert await api.get(room.most.remote()) == limit


def wait_at(gate: Any, name: str) -> Steps:
    return (yield gate.wait.remote(name))


async def held(api: Api, callee: Callee, limit: int, gate: Any) -> list[Any]:
    """The refs of as many calls as may run; each waits at a gate of its own."""
    refs = [callee.run(wait_at, gate, str(number)) for number in range(limit)]
    await api.get([gate.reached.remote(str(number)) for number in range(limit)])
    return refs


@pytest.mark.parametrize("callee", ["async"], indirect=True)
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


@pytest.mark.parametrize("callee", ["plain", "mixed"], indirect=True)
async def test_plain_method_when_it_runs_then_later_calls_wait(
    api: Api, callee: Callee, stop: Stop
) -> None:
    log = callee.new_actor(MixedLog if callee.kind == "mixed" else Log)
    is_mixed = callee.kind == "mixed"
    behind = log.note_later if is_mixed else log.note
    refs = [log.stop.remote(stop.place, "first"), behind.remote("second")]
    await stop.reached()
    assert not any(ref.done() for ref in refs)
    stop.release()

    assert await api.get(refs[1]) == "second"
    assert await api.get(refs[0]) == "first"
    assert await api.get(log.seen.remote()) == ["first", "second"]


class Requests(Log):
    """Notes when its calls begin and end."""

    async def visit(self, gate: Any, name: str) -> None:
        self.note(f"{name} begins")
        await gate.wait.remote(name)
        self.note(f"{name} ends")


@pytest.mark.usefixtures("runtime")
async def test_calls_when_one_may_run_then_plain_methods_wait_for_coroutines(
    api: Api, *, is_on_ray: bool
) -> None:
    gate, visits = Gate.remote(), actorlib.remote(max_concurrency=1)(Requests).remote()
    refs = [visits.visit.remote(gate, "a"), visits.note.remote("b")]
    refs += [visits.visit.remote(gate, "c"), visits.note.remote("d")]
    if not is_on_ray:  # which starts them in any order, and so perhaps "c" first
        await api.get(gate.reached.remote("a"))
        assert not any(ref.done() for ref in refs)
    await api.get([gate.open.remote("a"), gate.open.remote("c")])
    await api.get(refs)

    notes = await api.get(visits.seen.remote())
    expected = ["a begins", "a ends", "b", "c begins", "c ends", "d"]
    assert (sorted(notes) if is_on_ray else notes) == expected
    for name in ("a", "c"):
        assert notes.index(f"{name} ends") == notes.index(f"{name} begins") + 1


@pytest.mark.usefixtures("runtime")
async def test_coroutines_when_a_few_may_run_then_they_begin_in_order(
    api: Api, *, is_on_ray: bool
) -> None:
    gate, visits = Gate.remote(), actorlib.remote(max_concurrency=3)(Requests).remote()
    names = [str(number) for number in range(50)]
    refs = [visits.visit.remote(gate, name) for name in names]
    for name in names:
        gate.open.remote(name)
    await api.get(refs)

    notes = await api.get(visits.seen.remote())
    begun = [note.split()[0] for note in notes if note.endswith("begins")]
    assert (sorted(begun, key=int) if is_on_ray else begun) == names


@pytest.mark.slow
async def test_coroutines_when_no_limit_is_given_then_a_thousand_run(
    api: Api, runtime: object, *, is_on_ray: bool
) -> None:
    del runtime
    gate = Gate.remote()
    waiting = [gate.wait.remote("all") for _ in range(999)]
    await api.get(gate.reached.remote("all"))
    waiting.append(gate.wait.remote("all"))
    behind = gate.left.remote()
    other = Gate.remote()
    assert await api.get(other.left.remote()) == []
    if not is_on_ray:  # there, later calls may begin before
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


@pytest.mark.parametrize("callee", ["threaded", "group"], indirect=True)
async def test_threads_when_one_waits_for_another_then_both_go_on(
    api: Api, callee: Callee
) -> None:
    callee, limit = limited(callee)
    meet = callee.method_of(callee.new_actor(Meeting), "meet")

    threads = await api.get([meet.remote() for _ in range(20)])

    assert len(set(threads)) == limit


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


# Calls that are cancelled.


def note(log: Any, value: Any) -> Steps:
    return (yield log.note.remote(value))


@ACTORS
async def test_cancel_when_calls_wait_for_a_place_then_they_never_run(
    api: Api, callee: Callee, *, is_on_ray: bool
) -> None:
    callee, limit = limited(callee)
    gate, log = Gate.remote(), actorlib.remote(Log).remote()
    running = await held(api, callee, limit, gate)
    refs = [callee.run(note, log, "never") for _ in range(50 if is_on_ray else 200)]
    for ref in refs:
        api.cancel(ref)
    behind = callee.run(note, log, "behind")
    for ref in refs[::10]:
        assert isinstance(await error_of(api, ref), TaskCancelledError)
    assert all(ref.cancelled() for ref in refs) or is_on_ray

    await api.get([gate.open.remote(str(number)) for number in range(limit)])
    assert await api.get(running) == [str(number) for number in range(limit)]
    assert await api.get(behind) == "behind"
    if not is_on_ray:  # there, the request may come after the call has begun
        assert await api.get(log.seen.remote()) == ["behind"]


@pytest.mark.parametrize("callee", ["async"], indirect=True)
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


@pytest.mark.parametrize(
    "callee", ["plain", "threaded", "group", "mixed"], indirect=True
)
async def test_cancel_when_a_plain_method_runs_then_it_goes_on(
    api: Api, callee: Callee, stop: Stop
) -> None:
    log = callee.new_actor(MixedLog if callee.kind == "mixed" else Log)
    method = callee.method_of(log, "stop")
    ref = method.remote(stop.place, "ran")
    await stop.reached()
    api.cancel(ref)
    assert isinstance(await error_of(api, ref), TaskCancelledError)
    behind = callee.method_of(log, "note").remote("behind")
    if callee.kind == "threaded":
        assert await api.get(behind) == "behind"
    stop.release()

    assert await api.get(behind) == "behind"
    assert await api.get(log.seen.remote()) == ["ran", "behind"]


@pytest.mark.usefixtures("own_engines")
@pytest.mark.parametrize(
    "callee", ["plain", "threaded", "async", "group"], indirect=True
)
async def test_cancel_when_the_argument_is_late_then_only_that_call_never_runs(
    api: Api, callee: Callee
) -> None:
    gate, log = Gate.remote(), actorlib.remote(Log).remote()
    late = gate.wait.remote("late")
    refs = [callee.method("run").remote(note, log, late) for _ in range(10)]
    api.cancel(refs[3])
    await api.get(gate.open.remote("late"))

    assert isinstance(await error_of(api, refs.pop(3)), TaskCancelledError)
    assert await api.get(refs) == ["late"] * 9
    assert await api.get(log.seen.remote()) == ["late"] * 9


def work_until_cancelled(gate: Any) -> Steps:
    yield gate.open.remote("works")
    while not actorlib.get_runtime_context().is_canceled():
        pass
    yield gate.open.remote("saw it")


@pytest.mark.parametrize(
    "callee", ["plain", "threaded", "group", "mixed"], indirect=True
)
async def test_cancel_when_a_plain_method_asks_then_it_sees_it(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    ref = callee.run(work_until_cancelled, gate)
    await api.get(gate.wait.remote("works"))
    api.cancel(ref)

    assert isinstance(await error_of(api, ref), TaskCancelledError)
    assert await api.get(gate.wait.remote("saw it")) == "saw it"


# The end of the actor.


@ACTORS
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


@ACTORS
async def test_kill_when_calls_run_and_wait_then_all_of_them_fail(
    api: Api, callee: Callee
) -> None:
    callee, limit = limited(callee)
    refs = await held(api, callee, limit, Gate.remote())
    refs += [callee.run(len, "ab") for _ in range(10)]
    await api.kill(callee.actor)

    for ref in refs:
        assert isinstance(await error_of(api, ref), ActorDiedError)


@ACTORS
async def test_end_when_calls_run_and_wait_then_it_comes_behind_them(
    api: Api, callee: Callee
) -> None:
    callee, limit = limited(callee)
    gate = Gate.remote()
    refs = await held(api, callee, limit, gate)
    refs += [callee.run(len, "a" * number) for number in range(20)]
    end = callee.actor.__ray_terminate__.remote()
    for number in range(limit):
        gate.open.remote(str(number))

    values = [*(str(number) for number in range(limit)), *range(20)]
    assert await api.get(refs) == values
    assert await api.get(end) is None
    assert isinstance(await error_of(api, callee.run(len, "ab")), ActorDiedError)
