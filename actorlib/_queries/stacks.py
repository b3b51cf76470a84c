"""Shows where the owner's threads and tasks stand, and its loop if it is stuck.

All of it is read by the thread of the server, so that no other has to answer.
"""

from __future__ import annotations

import asyncio
import linecache
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from actorlib._base.awaited_frames import MOST_FRAMES, awaited_frames
from actorlib._base.own_files import OWN_FILES
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
    """Says since when a loop has not answered, and where its thread stands.

    What asyncio's own loop does it has done since the turn that it is in began, and the
    turn says when that was. Of another loop it is known only since when it was asked.

    Args:
        loop: The loop.
        thread: The thread that it runs on.
        posted: When the oldest callback was posted that has not been called.
        now: The time, by the same clock.
    """
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # what it is for
    began = _began_turn(frame)
    return Standstill(
        seconds=now - (posted if began is None else began),
        is_exact=began is not None,
        is_running=loop.is_running(),
        frames=_frames_of(frame),
    )


def threads() -> tuple[Thread, ...]:
    """Lists the threads of this process but for the one that asks, users' first."""
    known = {thread.ident: thread for thread in threading.enumerate()}
    here = threading.get_ident()
    found: list[Thread] = []
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # likewise
        if ident != here:
            thread = known.get(ident)
            found.append(
                Thread(
                    name=thread.name if thread else f"thread {ident:#x}",
                    number=thread.native_id if thread else None,
                    frames=_frames_of(frame),
                )
            )
    return users_first(found)


def tasks(loop: asyncio.AbstractEventLoop) -> tuple[Task, ...]:
    """Lists the tasks of a loop that are not done, users' first."""
    found: list[Task] = []
    current = asyncio.current_task(loop)
    for task in asyncio.all_tasks(loop):
        coroutine: Any = task.get_coro()
        name = getattr(coroutine, "__qualname__", type(coroutine).__qualname__)
        found.append(
            Task(
                name=task.get_name(),
                coroutine=str(name),
                is_running=task is current,
                frames=_rows(awaited_frames(coroutine)),
            )
        )
    return users_first(found)[:MOST_TASKS]


def users_first(rows: Iterable[RowT]) -> tuple[RowT, ...]:
    """Puts those first that have a frame of the user's own."""
    return tuple(
        sorted(
            rows, key=lambda row: (not any(f.is_users for f in row.frames), row.name)
        )
    )


def _began_turn(frame: FrameType | None) -> float | None:
    """When the turn of an asyncio loop began that is at work; None if none is."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_run_once" and "asyncio" in code.co_filename:
            # Set behind the wait for what is ready; every handler runs after it.
            began: object = frame.f_locals.get("end_time")
            return began if isinstance(began, float) else None
        frame = frame.f_back
    return None


def _frames_of(frame: FrameType | None) -> tuple[Frame, ...]:
    found: list[FrameType] = []
    while frame is not None and len(found) < MOST_FRAMES:
        found.append(frame)
        frame = frame.f_back
    return _rows(reversed(found))


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
    """Whether a file is neither actorlib's nor of Python itself."""
    if file.startswith((OWN_FILES, "<frozen")):
        return False
    return not file.startswith(_LIBRARY) or any(name in file for name in _INSTALLED)
