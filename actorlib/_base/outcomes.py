"""How a call ended, told from what its ref got or its code raised.

The two sides of a call differ in one thing: for its caller an actor that has died has
lost the call, and code that raises such an error, of another actor, has failed.
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
    """How code ended that did not return, and the name of its error's class.

    Args:
        error: What it raised; None if its call was cancelled.
        is_cancelled: Whether that is as the call was cancelled. Default: False.
    """
    name = type(error).__name__
    if is_cancelled or name == "CancelledError":  # asyncio's, which few workers load
        return "cancelled", TaskCancelledError.__name__
    return "cancelled" if isinstance(error, _CANCELLED) else "error", name


def status_of_ref(ref: asyncio.Future[Any]) -> tuple[Status, str]:
    """How a call ended, and the name of its error's class; of a ref that is done."""
    # exception() would count as somebody's look at it, who would be told else.
    error = cast("Any", ref)._exception  # noqa: SLF001  # asyncio's name for it
    if error is None and not ref.cancelled():
        return "ok", ""
    if isinstance(error, _LOST):
        return "lost", type(error).__name__
    return status_of_run(error, is_cancelled=ref.cancelled())
