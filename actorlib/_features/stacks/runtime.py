"""Reads where the threads of a worker stand, even those that are stuck in C.

A worker has a file in memory, whose name has the signal on which a thread writes its
stack there (``worker``). Each thread gets that signal separately and writes only its
own stack: walking over the frames of a running thread could crash the process. The
kernel shows when a thread has written: the signal is then neither pending nor blocked,
which it is while the handler runs.

Only the main thread writes the tasks of the loops, as a line of JSON, in Python: this
module waits until the line is complete.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import linecache
import os
import re
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from actorlib._features.stacks.worker_tasks import LOOP_FILES
from actorlib._queries.processes import is_stopped
from actorlib._queries.rows import Frame, Stacks, Task, Thread
from actorlib._queries.stacks import is_users, users_first
from actorlib.exceptions import RuntimeUnreachableError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_NAME = re.compile(r"/memfd:actorlib-stacks-(\d+) \(deleted\)")
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')
_OF_LOOPS = ("/asyncio/base_events.py", *LOOP_FILES)
"""The files on the stack of a thread that runs an event loop."""
_BEGINNING = ("<string>", "<module>")
"""The outermost frame of every worker that was not started by a module."""
_PATIENCE = 2.0
_MOMENT = 0.02
_UNINTERRUPTED = 0.3
"""Seconds after which the main thread is interrupted, if it waits in Python."""
_PAUSE = 0.001
_tgkill = getattr(ctypes.CDLL(None), "tgkill", None)  # glibc has it from 2.30 on


class _Masks(NamedTuple):
    """The signals of one thread, as bits."""

    pending: int
    blocked: int
    caught: int


def worker_stacks(pid: int, title: str) -> Stacks:
    """Lists the threads and the tasks of a worker.

    Raises:
        RuntimeUnreachableError: The worker is unreachable, or does not answer in time.
    """
    threads = worker_threads(pid, title)
    tasks, missing = worker_tasks(pid, title, threads)
    return Stacks(
        pid=pid, title=title, threads=threads, tasks=tasks, tasks_missing=missing
    )


def worker_threads(pid: int, title: str) -> tuple[Thread, ...]:
    """Lists the threads of a worker that run Python, the main one first."""
    with _opened(pid, title) as (file, number):
        threads: list[Thread] = []
        for thread in sorted(map(int, os.listdir(f"/proc/{pid}/task"))):  # noqa: PTH208  # names
            frames = _read_frames(file, pid, thread, number, title)
            if frames:
                name = _name(pid, thread)
                threads.append(Thread(name=name, number=thread, frames=frames))
        return tuple(threads)


def worker_tasks(
    pid: int, title: str, threads: Sequence[Thread]
) -> tuple[tuple[Task, ...], str]:
    """Lists the tasks of the event loops of a worker, users' first.

    If none of its threads runs a loop, it gets no signal.

    Returns:
        The tasks, and why some are missing; empty if none are.
    """
    if not any(runs_a_loop(thread) for thread in threads):
        return (), ""
    with _opened(pid, title) as (file, number):
        gentle, interrupting = number - 1, number - 2
        end = time.monotonic() + _PATIENCE
        while True:
            answer = _read_tasks(file, pid, gentle, _UNINTERRUPTED)
            if answer is not None:
                return answer
            # Its earlier stack may differ from where it is silent.
            frames = _read_frames(file, pid, pid, number, title)
            if waits_in_python(frames):
                answer = _read_tasks(file, pid, interrupting, _UNINTERRUPTED)
                if answer is not None:
                    return answer
            if time.monotonic() > end:
                return (), _why_no_tasks(frames)


def _read_tasks(
    file: int, pid: int, number: int, patience: float
) -> tuple[tuple[Task, ...], str] | None:
    """Signals the main thread of a worker; None if it does not answer in time."""
    masks, bit = _masks(pid, pid), 1 << (number - 1)
    if masks is None or masks.blocked & bit or not masks.caught & bit:
        return (), "its main thread does not handle the signal for them"
    os.ftruncate(file, 0)
    if _tgkill is None or _tgkill(pid, pid, number) != 0:
        return (), "the signal for them cannot be sent to it"
    end = time.monotonic() + patience
    while time.monotonic() < end:
        answer = tasks_in(os.pread(file, os.fstat(file).st_size, 0), pid)
        if answer is not None:
            return answer
        time.sleep(_PAUSE)
    return None


def waits_in_python(frames: Sequence[Frame]) -> bool:
    """Whether a thread waits in Python or in actorlib, where a signal may interrupt it.

    Python continues to wait after it. A library below the innermost frame may not.

    Args:
        frames: Its frames, the outermost first; empty if unknown.
    """
    return bool(frames) and not frames[-1].is_users


def runs_a_loop(thread: Thread) -> bool:
    return any(frame.file.endswith(_OF_LOOPS) for frame in thread.frames)


def tasks_in(data: bytes, pid: int) -> tuple[tuple[Task, ...], str] | None:
    """Parses the answer of a worker's main thread; None before it is complete.

    Another worker, which got the signal earlier, may write late.
    """
    for line in data.splitlines(keepends=True):
        # Other lines are stacks; and a worker may write anything.
        with suppress(ValueError, TypeError, LookupError):
            answer: Any = json.loads(line) if line.endswith(b"\n") else {}
            if answer["pid"] != pid:
                continue
            rows = [
                Task(frames=tuple(_frame(*each) for each in row.pop("frames")), **row)
                for row in answer["tasks"]
            ]
            more = answer["left_out"]
            return users_first(rows), f"{more} more are not shown" if more else ""
    return None


def _why_no_tasks(frames: Sequence[Frame]) -> str:
    where = [f", in {at.function} ({at.file}:{at.line})" for at in frames[-1:]]
    return (
        "its main thread, which has to list them, has run no Python for "
        f"{_PATIENCE:g} s: it is in a library written in C, or waits for the system"
        + "".join(where)
    )


@contextmanager
def _opened(pid: int, title: str) -> Generator[tuple[int, int]]:
    """Opens the file of a worker, and locks it for the block.

    Yields:
        Its descriptor, and the signal on which a thread writes there.
    """
    place, number = _stack_file(pid, title)
    try:
        file = os.open(place, os.O_RDWR | os.O_CLOEXEC)
        try:
            _lock(file, title)
            try:
                yield file, number
            finally:
                os.ftruncate(file, 0)  # it is memory
        finally:
            os.close(file)
    except (FileNotFoundError, ProcessLookupError):
        raise RuntimeUnreachableError(f"{title} has ended meanwhile") from None


def _stack_file(pid: int, title: str) -> tuple[str, int]:
    """Returns the file of a worker, and the signal on which a thread writes there."""
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):  # noqa: PTH208  # names
            place = f"{folder}/{name}"
            with suppress(FileNotFoundError):
                match = _NAME.fullmatch(os.readlink(place))  # noqa: PTH115  # text
                if match:
                    return place, int(match[1])
    except FileNotFoundError:
        raise RuntimeUnreachableError(f"{title} has ended meanwhile") from None
    except PermissionError:
        raise RuntimeUnreachableError(
            f"{title} is another user's, or does not let itself be looked into"
        ) from None
    raise RuntimeUnreachableError(
        f"{title} shows no stacks: it is not a worker of this version of actorlib, or "
        "has closed the file for them"
    )


def _lock(file: int, title: str) -> None:
    """Locks out other readers; all workers of a runtime have one file."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise RuntimeUnreachableError(
                    f"another process is reading the stack of {title}"
                ) from None
            time.sleep(_PAUSE)
        else:
            return


def _read_frames(
    file: int, pid: int, thread: int, number: int, title: str
) -> tuple[Frame, ...]:
    """Signals one thread; empty for a thread that runs no Python."""
    bit = 1 << (number - 1)
    if is_stopped(pid):  # it would keep the signal until it goes on
        raise RuntimeUnreachableError(_why_silent(pid, thread, title))
    masks, end = _masks(pid, thread), time.monotonic() + _MOMENT
    while masks is not None and masks.blocked & bit and time.monotonic() < end:
        time.sleep(_PAUSE)  # it may be answering another process
        masks = _masks(pid, thread)
    if masks is None or masks.blocked & bit:
        return ()  # it has ended, or is a library's and blocks signals
    if not masks.caught & bit:  # then the signal would end the process
        raise RuntimeUnreachableError(
            f"{title} no longer handles the signal on which it shows its stack"
        )
    os.ftruncate(file, 0)
    if _tgkill is None or _tgkill(pid, thread, number) != 0:
        return ()
    end, looks = time.monotonic() + _PATIENCE, 0
    # Between its arrival and its handler a signal is neither pending nor blocked for a
    # moment, so two equal looks are needed.
    while looks < 2:
        time.sleep(_PAUSE)
        masks = _masks(pid, thread)
        if masks is None:
            break
        looks = 0 if (masks.pending | masks.blocked) & bit else looks + 1
        if time.monotonic() > end:
            raise RuntimeUnreachableError(_why_silent(pid, thread, title))
    text = os.pread(file, os.fstat(file).st_size, 0).decode("utf-8", "replace")
    return frames_in(text)


def frames_in(text: str) -> tuple[Frame, ...]:
    """Parses the frames of a thread, the outermost first."""
    matches = [_FRAME.fullmatch(line) for line in text.splitlines()]
    return tuple(
        _frame(frame[1], int(frame[2]) if frame[2].isdecimal() else 0, frame[3])
        for frame in reversed(matches)
        if frame
    )


def _frame(file: str, line: int, function: str) -> Frame:
    return Frame(
        file=file,
        line=line,
        function=function,
        code=linecache.getline(file, line).strip() if line else "",
        is_users=is_users(file) and (file, function) != _BEGINNING,
    )


def _masks(pid: int, thread: int) -> _Masks | None:
    """Reads the signals of a thread; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/task/{thread}/status").read_text("utf-8", "replace")
    except OSError:
        return None
    masks = dict(re.findall(r"^(Sig\w+|Shd\w+):\s+([0-9a-f]+)$", text, re.MULTILINE))
    names = ("SigPnd", "SigBlk", "SigCgt")
    return _Masks(*(int(masks.get(name, "0"), 16) for name in names))


def _name(pid: int, thread: int) -> str:
    if thread == pid:
        return "main thread"
    with suppress(OSError):
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text("utf-8").strip()
    return f"thread {thread}"


def _why_silent(pid: int, thread: int, title: str) -> str:
    if is_stopped(pid):
        return (
            f"{title} is stopped (SIGSTOP, or a debugger), and shows its stack when it "
            f"goes on: kill -CONT {pid}"
        )
    return (
        f"thread {thread} of {title} has not shown its stack within {_PATIENCE:g} s: "
        "it waits for a device or a disk in the kernel, where no signal reaches it"
    )
