"""The option max_pending_calls: how many calls may be without an answer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Gate, Log
from helpers.callers import error_of

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    PendingCallsLimitExceeded,
    TaskCancelledError,
)

if TYPE_CHECKING:
    from helpers.actors import Stop
    from helpers.callees import Callee, Steps
    from helpers.callers import Api

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


def limited(limit: int | None) -> Any:
    return actorlib.remote(max_pending_calls=limit)(Log).remote()


async def test_call_when_as_many_as_the_limit_are_unanswered_then_refused_at_once(
    api: Api, stop: Stop
) -> None:
    log = limited(10)
    refs = [log.stop.remote(stop.place, 0)]
    refs += [log.note.remote(number) for number in range(1, 10)]
    with pytest.raises(PendingCallsLimitExceeded, match="max_pending_calls=10") as full:
        log.note.remote(10)
    assert full.value.limit == 10
    await stop.reached()
    with pytest.raises(PendingCallsLimitExceeded):
        log.seen.remote()

    stop.release()
    assert await api.get(refs) == [*range(10)]
    refs = [log.note.remote(number) for number in range(10)]
    assert await api.get(refs) == [*range(10)]


def wait_at(gate: Any) -> Steps:
    yield gate.wait.remote()


@pytest.mark.parametrize("callee", ["plain", "async"], indirect=True)
async def test_call_when_others_failed_or_were_refused_then_those_do_not_count(
    api: Api, callee: Callee
) -> None:
    callee, gate = callee.new(max_pending_calls=2, max_concurrency=1), Gate.remote()
    running = callee.run(wait_at, gate)
    await api.get(gate.reached.remote())
    for _ in range(5):
        with pytest.raises(TypeError):
            callee.method("run").remote()
        with pytest.raises(TypeError):
            callee.run(len, threading.Lock())
    waiting = callee.run(len, "a")
    with pytest.raises(PendingCallsLimitExceeded):
        callee.run(len, "ab")

    api.cancel(waiting)
    assert isinstance(await error_of(api, waiting), TaskCancelledError)
    waiting = callee.run(len, "abc")
    await api.kill(callee.actor)
    for ref in (running, waiting):
        assert isinstance(await error_of(api, ref), ActorDiedError)
    assert isinstance(await error_of(api, callee.run(len, "a")), ActorDiedError)


def call_until_refused(log: Any) -> tuple[int, int]:
    """How many calls are accepted, and the limit of the error."""
    refs: list[Any] = []
    try:
        while True:
            refs.append(log.note.remote("from a worker"))
    except PendingCallsLimitExceeded as error:
        return len(refs), error.limit


def call_again_and_again(log: Any) -> Steps:
    total = 0
    for number in range(50):
        total += yield log.note.remote(number)
    return total


@pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)
async def test_call_when_processes_share_an_actor_then_each_has_its_own_limit(
    api: Api, callee: Callee, stop: Stop
) -> None:
    log = limited(2)
    refs = [log.stop.remote(stop.place), log.note.remote(1)]
    await stop.reached()

    assert await api.get(callee.run(call_until_refused, log)) == (2, 2)
    with pytest.raises(PendingCallsLimitExceeded):
        log.note.remote(2)
    stop.release()
    await api.get(refs)


@pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)
async def test_call_when_a_worker_has_the_answer_then_it_may_call_again(
    api: Api, callee: Callee
) -> None:
    ref = callee.run(call_again_and_again, limited(1))

    assert await api.get(ref) == sum(range(50))


@pytest.mark.parametrize("limit", [None, 0, -1])
async def test_calls_when_there_is_no_limit_then_thousands_are_accepted(
    api: Api, limit: int | None
) -> None:
    log = limited(limit)
    refs = [log.note.remote(number) for number in range(2_000)]

    assert await api.get(refs) == [*range(2_000)]
