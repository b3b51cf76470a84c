from __future__ import annotations

import asyncio

import pytest

from actorlib._base.notifier import Notifier


@pytest.fixture
async def moment() -> Notifier:
    return Notifier(asyncio.get_running_loop())


async def test_happens_when_several_wait_then_all_but_cancelled_ones_are_told(
    moment: Notifier,
) -> None:
    cancelled, *waiters = [moment.wait() for _ in range(3)]
    cancelled.cancel()

    moment.notify()

    assert [waiter.done() for waiter in waiters] == [True, True]


async def test_happens_when_it_never_will_then_each_gets_an_error_of_its_own(
    moment: Notifier,
) -> None:
    waiters = [moment.wait(), moment.wait()]

    moment.notify(lambda: LookupError("never"))

    errors = [waiter.exception() for waiter in waiters]
    assert [type(error) for error in errors] == [LookupError, LookupError]
    assert errors[0] is not errors[1]


async def test_wait_when_it_has_happened_before_then_for_the_next_time(
    moment: Notifier,
) -> None:
    moment.notify()
    waiter = moment.wait()

    assert not waiter.done()

    moment.notify()
    await waiter
