"""Every step of an end is taken, whatever the others raise."""

from __future__ import annotations

from typing import NoReturn

import pytest

from actorlib._owner.actors.worker_session import Cleanup, Phase
from actorlib._owner.teardown import tear_down


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


GONE = "a worker"


def test_cleanup_when_run_then_its_steps_are_taken_in_the_order_of_their_phases() -> (
    None
):
    told: list[tuple[str, object]] = []
    cleanup = Cleanup()
    for phase, name in [
        (Phase.ANSWERS, "2"),
        (Phase.GROUPS, "4"),
        (Phase.ROUTES, "1"),
        (Phase.ANSWERS, "3"),
    ]:
        cleanup.add(phase, lambda gone, name=name: told.append((name, gone)))

    cleanup.run(GONE)

    assert told == [(name, GONE) for name in "1234"]


def test_cleanup_when_a_step_is_added_twice_then_it_is_taken_once() -> None:
    told: list[object] = []
    cleanup = Cleanup()
    for _ in range(2):
        cleanup.add(Phase.MEMORY, told.append)

    cleanup.run(GONE)

    assert told == [GONE]


def test_cleanup_when_a_step_raises_then_those_behind_it_are_taken_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[object] = []
    cleanup = Cleanup()
    cleanup.add(Phase.ROUTES, lambda _: _fail())
    cleanup.add(Phase.MEMORY, told.append)

    cleanup.run(GONE)

    assert told == [GONE]
    assert "the end of 'a worker' failed" in caplog.text
