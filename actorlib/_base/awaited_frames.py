"""Finds where a coroutine stands: its own frame, and those of what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import FrameType

MOST_FRAMES: Final = 100
"""How many frames of one coroutine, or of one thread, are shown."""


def awaited_frames(coroutine: Any) -> list[FrameType]:
    """Lists the frame of a coroutine and of what that waits for, the outermost first.

    Of one that runs there is the outermost alone: what that has called is on the stack
    of its thread.

    Args:
        coroutine: A coroutine, a generator or an asynchronous one.
    """
    found: list[FrameType] = []
    while coroutine is not None and len(found) < MOST_FRAMES:
        frame = _first(coroutine, "cr_frame", "gi_frame", "ag_frame")
        if frame is None:
            break
        found.append(frame)
        coroutine = _first(coroutine, "cr_await", "gi_yieldfrom", "ag_await")
    return found


def _first(thing: object, *names: str) -> Any:
    found = (getattr(thing, name, None) for name in names)
    return next((value for value in found if value is not None), None)
