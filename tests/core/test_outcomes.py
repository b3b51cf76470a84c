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
CASES: list[tuple[BaseException, Status]] = [
    (KeyError("no"), "error"),
    (TaskCancelledError("it was"), "cancelled"),
    (LATE, "cancelled"),
]


@pytest.mark.parametrize(("error", "status"), CASES)
async def test_error_when_raised_then_both_sides_say_the_same(
    error: BaseException, status: str
) -> None:
    ref: ObjectRef[Any] = ObjectRef(loop=asyncio.get_running_loop())
    ref.set_exception(error)

    assert status_of_ref(ref) == (status, type(error).__name__)
    assert status_of_run(error) == (status, type(error).__name__)
    assert ref.exception() is error


async def test_actor_when_it_has_died_then_its_call_is_lost_and_other_code_failed() -> (
    None
):
    ref: ObjectRef[Any] = ObjectRef(loop=asyncio.get_running_loop())
    error = ActorDiedError("it died", exit=Exit(cause="asked"))
    ref.set_exception(error)

    assert status_of_ref(ref) == ("lost", "ActorDiedError")
    assert status_of_run(error) == ("error", "ActorDiedError")
    assert ref.exception() is error


async def test_call_when_cancelled_then_both_sides_name_one_error() -> None:
    ref: ObjectRef[Any] = ObjectRef(loop=asyncio.get_running_loop())
    ref.set_cancelled()
    expected = ("cancelled", "TaskCancelledError")

    assert status_of_ref(ref) == expected
    assert status_of_run(asyncio.CancelledError()) == expected
    assert status_of_run(None, is_cancelled=True) == expected
