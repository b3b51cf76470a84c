"""The stack frames of coroutines and of users' code."""

from __future__ import annotations

import os
import sys
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

OWN_FILES: Final = __file__.rpartition("_base")[0]
"""The prefix of the paths of this package's files. Users do not need their frames."""

_STANDARD = os.path.dirname(os.__file__)  # noqa: PTH120  # as code objects say it
TRACEBACK_VARIABLE = "ACTORLIB_TRACEBACK"

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


def shows_own_frames() -> bool:
    """Whether tracebacks show all frames: ``ACTORLIB_TRACEBACK=full``."""
    return os.environ.get(TRACEBACK_VARIABLE) == "full"


def hide_own_frames(error: BaseException, *others: str) -> None:
    """Removes the frames of this package from the tracebacks of an error.

    It also removes them from those of its causes, its contexts and the errors in a
    group. A traceback without any other frame is left as it is.

    Args:
        error: The error.
        *others: How the paths of further files begin whose frames are removed.
    """
    if shows_own_frames():
        return
    hidden = (OWN_FILES, *others)
    visited: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is None or id(each) in visited:
            continue
        visited.add(id(each))
        each.__traceback__ = _users_frames(each.__traceback__, hidden)
        pending += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            pending += cast("BaseExceptionGroup[BaseException]", each).exceptions


def _users_frames(
    trace: TracebackType | None, hidden: tuple[str, ...]
) -> TracebackType | None:
    entries: list[TracebackType] = []
    entry = trace
    while entry is not None:
        if not entry.tb_frame.f_code.co_filename.startswith(hidden):
            entries.append(entry)
        entry = entry.tb_next
    head: TracebackType | None = None
    for entry in reversed(entries):
        head = TracebackType(head, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return head or trace


def place_of(frame: FrameType) -> str:
    """Describes where a thread is: its innermost line of the user's own code."""
    import linecache  # noqa: PLC0415  # only a warning needs it

    users = (f for f in outer_frames(frame) if not is_library(f.f_code.co_filename))
    own = next(users, frame)
    file, number = own.f_code.co_filename, own.f_lineno
    line = linecache.getline(file, number).strip()
    where = f"{own.f_code.co_name}, {file}:{number}"
    return f"{where}: {line}" if line else where


def outer_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Iterates over a frame and the frames that called it, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_library(file: str) -> bool:
    """Whether a file is of Python, of this package or of an installed one."""
    return (
        file.startswith((_STANDARD, OWN_FILES, "<frozen"))
        or f"{os.sep}site-packages{os.sep}" in file
    )


def warn_old_name(old: str, new: str) -> None:
    """Warns that a name will be removed, at the line of the user's code that has it."""
    level, frame = 2, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # the documented way
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FILES):
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"{old} is {new} now, and the old name will be removed in 0.5",
        DeprecationWarning,
        stacklevel=level - 1,
    )
