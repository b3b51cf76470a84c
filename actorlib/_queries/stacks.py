"""Reads the stacks of the owner's threads and tasks, and of its loop if it is blocked.

The thread of the server reads all of it, so that no other thread has to answer.
"""

from __future__ import annotations

import asyncio
import linecache
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from actorlib._base.stack_frames import MOST_FRAMES, OWN_FILES, awaited_frames
from actorlib._queries.rows import Frame, Standstill, Task, Thread

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

RowT = TypeVar("RowT", Task, Thread)

MOST_TASKS: Final = 1000
_LIBRARY = os.path.dirname(os.__file__)  # noqa: PTH120  # no pathlib in the owner
_INSTALLED = ("site-packages", "dist-packages")


def where_it_stands(
    loop: asyncio.AbstractEventLoop, thread: int, posted: float, now: float
) -> Standstill:
    """Describes a loop that does not answer: since when, and the stack of its thread.

    asyncio's own loop keeps the time at which its turn has begun. For other loops the
    time at which the oldest uncalled callback was posted is a lower bound.
    """
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # its purpose
    began = _began_turn(frame)
    return Standstill(
        seconds=now - (posted if began is None else began),
        is_exact=began is not None,
        is_running=loop.is_running(),
        frames=_frames_of(frame),
    )


def threads() -> tuple[Thread, ...]:
    """Lists the other threads of this process, those with the user's code first."""
    threads_by_ident = {thread.ident: thread for thread in threading.enumerate()}
    here = threading.get_ident()
    rows: list[Thread] = []
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # its purpose
        if ident != here:
            thread = threads_by_ident.get(ident)
            rows.append(
                Thread(
                    name=thread.name if thread else f"thread {ident:#x}",
                    number=thread.native_id if thread else None,
                    frames=_frames_of(frame),
                )
            )
    return users_first(rows)


def tasks(loop: asyncio.AbstractEventLoop) -> tuple[Task, ...]:
    """Lists the unfinished tasks of a loop, those with the user's code first."""
    rows: list[Task] = []
    current = asyncio.current_task(loop)
    for task in asyncio.all_tasks(loop):
        coroutine: Any = task.get_coro()
        name = getattr(coroutine, "__qualname__", type(coroutine).__qualname__)
        rows.append(
            Task(
                name=task.get_name(),
                coroutine=str(name),
                is_running=task is current,
                frames=_rows(awaited_frames(coroutine)),
            )
        )
    return users_first(rows)[:MOST_TASKS]


def users_first(rows: Iterable[RowT]) -> tuple[RowT, ...]:
    """Sorts rows: those with a frame of the user's code first, then by name."""
    return tuple(
        sorted(
            rows, key=lambda row: (not any(f.is_users for f in row.frames), row.name)
        )
    )


def _began_turn(frame: FrameType | None) -> float | None:
    """Returns the time at which the turn of an asyncio loop has begun, or None."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_run_once" and "asyncio" in code.co_filename:
            # Set after the wait for events, before every handler.
            began: object = frame.f_locals.get("end_time")
            return began if isinstance(began, float) else None
        frame = frame.f_back
    return None


def _frames_of(frame: FrameType | None) -> tuple[Frame, ...]:
    frames: list[FrameType] = []
    while frame is not None and len(frames) < MOST_FRAMES:
        frames.append(frame)
        frame = frame.f_back
    return _rows(reversed(frames))


def _rows(frames: Iterable[FrameType]) -> tuple[Frame, ...]:
    return tuple(
        Frame(
            file=frame.f_code.co_filename,
            line=frame.f_lineno or frame.f_code.co_firstlineno,
            function=frame.f_code.co_name,
            code=linecache.getline(
                frame.f_code.co_filename, frame.f_lineno or 0, frame.f_globals
            ).strip(),
            is_users=is_users(frame.f_code.co_filename),
        )
        for frame in frames
    )


def is_users(file: str) -> bool:
    """Whether a file belongs neither to actorlib nor to Python."""
    if file.startswith((OWN_FILES, "<frozen")):
        return False
    return not file.startswith(_LIBRARY) or any(name in file for name in _INSTALLED)
