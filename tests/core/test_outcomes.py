"""How a call ended, from what its ref got or its code raised."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from actorlib import ObjectRef
from actorlib._base.outcomes import status_of_ref, status_of_run
from actorlib.exceptions import (
    ActorDiedError,
    DeadlineExceededError,
    Exit,
    TaskCancelledError,
)

if TYPE_CHECKING:
    from actorlib._base.outcomes import Status

LATE = DeadlineExceededError("late", timeout=1.0, is_inherited=False)
DIED = ActorDiedError("it died", exit=Exit(cause="asked"))


@pytest.mark.parametrize(
    ("error", "of_ref", "of_run"),
    [
        (KeyError("no"), "error", "error"),
        (TaskCancelledError("it was"), "cancelled", "cancelled"),
        (LATE, "cancelled", "cancelled"),
        (DIED, "lost", "error"),  # the code that runs only called somebody who died
    ],
)
async def test_error_when_raised_then_the_ref_and_the_code_say_how_it_ended(
    error: BaseException, of_ref: Status, of_run: Status
) -> None:
    ref: ObjectRef[Any] = ObjectRef(loop=asyncio.get_running_loop())
    ref.set_exception(error)

    assert status_of_ref(ref) == (of_ref, type(error).__name__)
    assert status_of_run(error) == (of_run, type(error).__name__)
    assert ref.exception() is error


async def test_call_when_cancelled_then_both_sides_name_one_error() -> None:
    ref: ObjectRef[Any] = ObjectRef(loop=asyncio.get_running_loop())
    ref.set_cancelled()
    expected = ("cancelled", "TaskCancelledError")

    assert status_of_ref(ref) == expected
    assert status_of_run(asyncio.CancelledError()) == expected
    assert status_of_run(None, is_cancelled=True) == expected
