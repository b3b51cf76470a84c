"""Every step of an end is taken, whatever the others raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, cast

import pytest

from actorlib._owner.teardown import Phase, WorkersGone, tear_down

if TYPE_CHECKING:
    from actorlib._owner.worker_session import WorkerSession


def _fail() -> NoReturn:
    raise TypeError("a bug")


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt


def test_steps_when_some_raise_then_all_are_taken_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    taken: list[int] = []
    tear_down("it", _fail, lambda: taken.append(1), _fail, lambda: taken.append(2))
    assert taken == [1, 2]
    assert [record.getMessage() for record in caplog.records] == [
        "a step of the end of 'it' failed: a bug in actorlib"
    ] * 2


def test_steps_when_the_user_interrupts_one_then_it_is_raised_behind_the_last() -> None:
    taken: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        tear_down("it", _interrupt, lambda: taken.append(1))
    assert taken == [1]


GONE = cast("WorkerSession", "a worker")


def test_subscribers_when_a_worker_is_gone_then_told_in_the_order_of_their_phases() -> (
    None
):
    gone, told = WorkersGone(), list[tuple[str, object]]()
    for phase, name in [
        (Phase.CHILDREN, "last"),
        (Phase.ANSWERS, "second"),
        (Phase.ROUTES, "first"),
        (Phase.ANSWERS, "third"),
    ]:
        gone.subscribe(phase, lambda session, name=name: told.append((name, session)))

    gone.tell(GONE)

    names = ["first", "second", "third", "last"]
    assert told == [(name, GONE) for name in names]


def test_subscriber_when_one_before_it_raises_then_it_is_told_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gone, told = WorkersGone(), list[object]()
    gone.subscribe(Phase.ROUTES, lambda _: _fail())
    gone.subscribe(Phase.MEMORY, told.append)

    gone.tell(GONE)

    assert told == [GONE]
    assert "the end of 'a worker' failed" in caplog.text
