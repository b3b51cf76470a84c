"""Calls of workers: which have no answer, and which call made which."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from actorlib._base.ids import LINKED
from actorlib._owner.calls.response_target import Clock
from actorlib._owner.requests.worker_calls import WorkerCall, WorkerCalls

if TYPE_CHECKING:
    from collections.abc import Callable

    Put = Callable[..., WorkerCall]


@pytest.fixture
async def calls() -> WorkerCalls:
    references: Any = None  # nothing is lent here
    return WorkerCalls(references, Clock(asyncio.get_running_loop()))


@pytest.fixture
def put(calls: WorkerCalls) -> Put:
    def put(session: int, number: int, parent: int = 0, sent_as: int = 1) -> WorkerCall:
        worker: Any = SimpleNamespace(number=session)
        call = WorkerCall(calls, worker, number, parent_call=parent)
        call.number = sent_as
        calls.put(call)
        return call

    return put


async def test_children_when_a_call_has_made_others_then_those_without_an_answer(
    calls: WorkerCalls, put: Put
) -> None:
    for number, parent in [(3, 7), (1, 7), (2, 8), (4, 0)]:
        put(5, number, parent)
    put(6, 9, 7)

    calls.pop(5, 3)

    assert calls.children(5, 7) == [1]
    assert calls.children(5, 8) == [2]
    assert calls.children(5, 0) == []


async def test_pop_when_all_are_answered_then_nothing_is_kept(
    calls: WorkerCalls, put: Put
) -> None:
    for number in range(4):
        put(1, number, number % 2)
    for number in range(4):
        assert calls.pop(1, number) is not None

    assert len(calls) == 0
    assert calls.children(1, 1) == []
    assert calls.pop(1, 1) is None


async def test_put_when_its_arguments_have_come_then_it_is_known_by_its_number(
    calls: WorkerCalls, put: Put
) -> None:
    put(1, 2, 7, sent_as=0)
    put(1, 2, 7, sent_as=3)

    found = calls.get(1, 2)

    assert found is not None
    assert found.number == 3
    assert calls.children(1, 7) == [2]


async def test_end_when_a_worker_is_gone_then_calls_that_were_sent_are_kept(
    calls: WorkerCalls, put: Put
) -> None:
    put(1, 2)
    put(1, 3, sent_as=0)
    put(1, 4, sent_as=LINKED + 4)
    put(2, 5, sent_as=0)
    gone: Any = SimpleNamespace(number=1)

    calls.on_worker_gone(gone)

    left = [(s, n) for s in (1, 2) for n in range(6) if calls.get(s, n)]
    assert left == [(1, 2), (2, 5)]
