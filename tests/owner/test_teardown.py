"""Every step of an end is taken, whatever the others raise."""

from __future__ import annotations

from typing import NoReturn

import pytest

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
