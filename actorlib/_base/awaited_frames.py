"""Lists the stack frames of a coroutine and of what it awaits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import FrameType

MOST_FRAMES: Final = 100
"""The maximum number of frames shown of one coroutine, or of one thread."""


def awaited_frames(coroutine: Any) -> list[FrameType]:
    """Lists the frames of a coroutine and of what it awaits, the outermost first.

    A coroutine that is running has its outermost frame only. The frames of the
    functions that it has called are on the stack of its thread.
    """
    frames: list[FrameType] = []
    while coroutine is not None and len(frames) < MOST_FRAMES:
        frame = _first_attribute(coroutine, "cr_frame", "gi_frame", "ag_frame")
        if frame is None:
            break
        frames.append(frame)
        coroutine = _first_attribute(coroutine, "cr_await", "gi_yieldfrom", "ag_await")
    return frames


def _first_attribute(owner: object, *names: str) -> Any:
    values = (getattr(owner, name, None) for name in names)
    return next((value for value in values if value is not None), None)
