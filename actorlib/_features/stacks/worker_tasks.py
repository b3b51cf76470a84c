"""Writes where the tasks of this process stand, for another process.

This runs in a signal handler, between two steps of the main thread's code: it waits for
nothing, and imports nothing that a loop has not imported.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from actorlib._base.stack_frames import MOST_FRAMES, awaited_frames
from actorlib._core.current_call import running
from actorlib._core.engine import find_engine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

Row = dict[str, Any]

MOST_TASKS: Final = 1000

_RUNNERS = ("run", "run_forever", "run_until_complete", "serve", "run_loop")
"""The functions that run a loop, which is in their local variable of ``_NAMES``."""
_NAMES = ("self", "loop", "methods")
LOOP_FILES = (
    "/_worker/executors/actor_loop.py",
    "/_worker/executors/async_executor.py",
    "/_worker/executors/group_loops.py",
)
"""The files of actorlib that run event loops."""
_FILES = ("/asyncio/", *LOOP_FILES)
_RUNS_CALLS = "/_worker/executors/coroutines.py"


def write_tasks(file: int, stack: FrameType | None) -> None:
    """Appends the tasks of all loops to a file, as one line.

    ``stack`` is the current frame of this thread.
    """
    tasks = [task for loop in _loops() for task in asyncio.all_tasks(loop)]
    answer = {
        "pid": os.getpid(),
        "tasks": [_row(task, stack) for task in islice(tasks, MOST_TASKS)],
        "left_out": max(0, len(tasks) - MOST_TASKS),
    }
    data = memoryview(f"{json.dumps(answer)}\n".encode())
    while data:
        data = data[os.write(file, data) :]


def _row(task: asyncio.Task[Any], stack: FrameType | None) -> Row:
    coroutine: Any = task.get_coro()
    is_running = asyncio.current_task(task.get_loop()) is task
    frames = awaited_frames(coroutine)
    if is_running and frames:
        # Its callees are on the stack, if it runs on this thread.
        frames = _called_by(frames[0], stack) or frames
    number, method = _call_of(task, frames)
    return {
        "name": task.get_name(),
        "coroutine": getattr(coroutine, "__qualname__", type(coroutine).__qualname__),
        "is_running": is_running,
        "method": method,
        "call": f"{_worker_id()}{number:016x}" if number else "",
        "frames": [
            (
                frame.f_code.co_filename,
                frame.f_lineno or frame.f_code.co_firstlineno,
                frame.f_code.co_name,
            )
            for frame in frames
        ],
    }


def _called_by(outermost: FrameType, stack: FrameType | None) -> list[FrameType]:
    """Returns the frames of a stack from one on, the outermost first, or none."""
    frames: list[FrameType] = []
    while stack is not None:
        frames.append(stack)
        if stack is outermost:
            return frames[::-1][:MOST_FRAMES]
        stack = stack.f_back
    return []


def _call_of(task: asyncio.Task[Any], frames: Iterable[FrameType]) -> tuple[int, str]:
    """Returns the number and the method of a task's call; 0 if it has none."""
    for frame in frames:
        code = frame.f_code
        is_ours = code.co_filename.endswith(_RUNS_CALLS)
        if is_ours and code.co_name in ("_run_async", "_run_scalars"):
            called = frame.f_locals.get("frame")
            return (called[1], called[2]) if called else (0, "")
        break
    # A call's own tasks have its context. Python 3.11 does not show it.
    context = getattr(task, "get_context", None)
    call = None if context is None else context().get(running)
    return (0, "") if call is None else (call[0], call[1])


def _worker_id() -> str:
    engine: Any = find_engine()
    return "" if engine is None else engine.context.worker_id


def _loops() -> Iterator[asyncio.AbstractEventLoop]:
    """Lists the loops that run in this process, on any thread."""
    loops: dict[int, asyncio.AbstractEventLoop] = {}
    own = asyncio._get_running_loop()  # noqa: SLF001  # raises no error
    if own is not None:
        loops[id(own)] = own
    frames = sys._current_frames().values()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # made for this use
    for inmost in frames:
        frame: FrameType | None = inmost
        while frame is not None:
            for loop in _loops_of(frame):
                loops[id(loop)] = loop
            frame = frame.f_back
    return iter(loops.values())


def _loops_of(frame: FrameType) -> Iterator[asyncio.AbstractEventLoop]:
    """Yields the loop that a frame runs.

    The locals of other frames are not read: reading makes Python keep their current
    values until the function returns.
    """
    code = frame.f_code
    if code.co_name not in _RUNNERS or not any(f in code.co_filename for f in _FILES):
        return
    for name in _NAMES:
        value = frame.f_locals.get(name)
        if isinstance(value, asyncio.Runner):
            value = value.get_loop()
        loop = getattr(value, "loop", value)
        if isinstance(loop, asyncio.AbstractEventLoop):
            yield loop
