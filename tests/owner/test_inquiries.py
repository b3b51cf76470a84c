"""Asking workers: who answers, who is gone, and who is not waited for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from actorlib._owner.actors.worker_session import Cleanup
from actorlib._owner.observation.inquiries import Inquiries
from actorlib._wire.messages import LINK_CALLS, Frame

QUESTION = (LINK_CALLS,)
SOON, LATER = 1e-6, 60.0


class Worker:
    """What of a session is asked and torn down."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.got: list[Frame] = []
        self.channel = SimpleNamespace(send=self.got.append)
        self.cleanup = Cleanup()


@pytest.fixture
async def inquiries() -> Any:
    return Inquiries(asyncio.get_running_loop())


async def test_workers_when_all_have_answered_then_that_is_it(inquiries: Any) -> None:
    one, two = Worker(1), Worker(2)

    asking = inquiries.ask([one, two], QUESTION, LATER)
    inquiries.answered(one, LINK_CALLS, "first")
    assert not asking.done()
    inquiries.answered(two, LINK_CALLS, "second")

    assert await asking == ([(one, "first"), (two, "second")], [])
    assert one.got == two.got == [QUESTION]


async def test_worker_when_it_is_silent_then_it_is_named_and_asked_no_more(
    inquiries: Any,
) -> None:
    one, two = Worker(1), Worker(2)

    first = inquiries.ask([one, two], QUESTION, SOON)
    inquiries.answered(two, LINK_CALLS, "here")
    assert await first == ([(two, "here")], [one])
    second = inquiries.ask([one, two], QUESTION, LATER)
    inquiries.answered(two, LINK_CALLS, "again")
    inquiries.answered(one, LINK_CALLS, "at last")

    assert await second == ([(two, "again"), (one, "at last")], [])
    assert (len(one.got), len(two.got)) == (1, 2)


async def test_worker_when_it_is_gone_then_nobody_waits_for_it(inquiries: Any) -> None:
    one = Worker(1)

    asking = inquiries.ask([one], QUESTION, LATER)
    one.cleanup.run(one)

    assert await asking == ([], [])


async def test_answer_when_nobody_has_asked_then_nothing_happens(
    inquiries: Any,
) -> None:
    inquiries.answered(Worker(1), LINK_CALLS, "unasked")

    assert await inquiries.ask([], QUESTION, LATER) == ([], [])
