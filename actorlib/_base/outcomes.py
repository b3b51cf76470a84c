"""Classifies how a call ended, from its ref or from the exception of its code.

The two sides of a call differ in one case. For the caller, an actor that has died has
lost the call. Code that raises such an error of another actor has failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from actorlib.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    DeadlineExceededError,
    TaskCancelledError,
    WorkerCrashedError,
)

if TYPE_CHECKING:
    import asyncio

Status: TypeAlias = Literal["ok", "error", "cancelled", "lost"]
"""How a call ended; ``lost``: the process that it was sent to ended before it did."""

_CANCELLED = (TaskCancelledError, DeadlineExceededError)
_LOST = (ActorDiedError, ActorUnavailableError, WorkerCrashedError)


def status_of_run(
    error: BaseException | None, *, is_cancelled: bool = False
) -> tuple[Status, str]:
    """Returns how code ended that did not return, and the name of its error's class.

    Without an error, its call was cancelled.
    """
    name = type(error).__name__
    if is_cancelled or name == "CancelledError":  # of asyncio, which few workers load
        return "cancelled", TaskCancelledError.__name__
    return "cancelled" if isinstance(error, _CANCELLED) else "error", name


def status_of_ref(ref: asyncio.Future[Any]) -> tuple[Status, str]:
    """Returns how the call of a finished ref ended, and its error's class name."""
    # exception() would mark the error as retrieved, and asyncio would not report it.
    error = cast("Any", ref)._exception  # noqa: SLF001  # the attribute of asyncio
    if error is None and not ref.cancelled():
        return "ok", ""
    if isinstance(error, _LOST):
        return "lost", type(error).__name__
    return status_of_run(error, is_cancelled=ref.cancelled())
