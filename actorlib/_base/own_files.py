"""Leaves the frames of this package out of tracebacks: they tell a user nothing."""

import os
from types import TracebackType

OWN_FILES = __file__.rpartition("_base")[0]
"""How the paths of this package's files begin."""
TRACEBACK_VARIABLE = "ACTORLIB_TRACEBACK"


def shows_own_frames() -> bool:
    """Whether tracebacks show all frames: ``ACTORLIB_TRACEBACK=full``."""
    return os.environ.get(TRACEBACK_VARIABLE) == "full"


def hide_own_frames(error: BaseException, *others: str) -> None:
    """Removes the frames of this package from the tracebacks of an error.

    Also from those of its causes, its contexts and the errors in a group. A traceback
    without any other frame is left as it is.

    Args:
        error: The error.
        *others: How the paths of further files begin whose frames are removed.
    """
    if shows_own_frames():
        return
    hidden = (OWN_FILES, *others)
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _users_frames(each.__traceback__, hidden)
        pending += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            pending += each.exceptions


def _users_frames(
    trace: TracebackType | None, hidden: tuple[str, ...]
) -> TracebackType | None:
    kept: list[TracebackType] = []
    entry = trace
    while entry is not None:
        if not entry.tb_frame.f_code.co_filename.startswith(hidden):
            kept.append(entry)
        entry = entry.tb_next
    shown: TracebackType | None = None
    for entry in reversed(kept):
        shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown or trace
