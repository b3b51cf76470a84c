"""Asks the threads of a worker where they stand, also those that are stuck in C.

A worker has a file in memory, whose name says by which signal a thread of it writes its
stack there (``worker``). Each thread is sent that signal by itself and
writes about itself alone: to walk over the frames of a thread that runs meanwhile could
crash the process. What is waited for is told by the kernel: a thread has written when
it neither has the signal before it nor keeps it blocked, as it does while handling it.

The tasks of its loops are written by its main thread alone, as a line of JSON, in
Python: it is waited for until that is there.
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

from actorlib._queries.processes import usage
from actorlib._queries.rows import Frame, Stacks, Task, Thread
from actorlib._queries.stacks import is_users, users_first
from actorlib.exceptions import RuntimeUnreachableError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_NAME = re.compile(r"/memfd:actorlib-stacks-(\d+) \(deleted\)")
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')
_OF_LOOPS = (
    "/asyncio/base_events.py",
    "/_worker/executors/actor_loop.py",
    "/_worker/executors/async_executor.py",
    "/_worker/executors/group_loops.py",
)
"""What is on the stack of a thread that runs an event loop."""
_BEGINNING = ("<string>", "<module>")
"""What every worker comes from that was not started by a module."""
_PATIENCE = 2.0
_MOMENT = 0.02
_MEANWHILE = 0.3
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

    Args:
        pid: The worker.
        title: What messages call it.

    Raises:
        RuntimeUnreachableError: It cannot be asked, or does not answer in time.
    """
    threads = worker_threads(pid, title)
    tasks, missing = worker_tasks(pid, title, threads)
    return Stacks(
        pid=pid, title=title, threads=threads, tasks=tasks, tasks_missing=missing
    )


def worker_threads(pid: int, title: str) -> tuple[Thread, ...]:
    """Lists the threads of a worker that run Python, the main one first.

    Args:
        pid: The worker.
        title: What messages call it.

    Raises:
        RuntimeUnreachableError: It cannot be asked, or does not answer in time.
    """
    with _opened(pid, title) as (file, number):
        found: list[Thread] = []
        for thread in sorted(map(int, os.listdir(f"/proc/{pid}/task"))):  # noqa: PTH208  # names
            frames = _asked(file, pid, thread, number, title)
            if frames:
                name = _name(pid, thread)
                found.append(Thread(name=name, number=thread, frames=frames))
        return tuple(found)


def worker_tasks(
    pid: int, title: str, threads: Sequence[Thread]
) -> tuple[tuple[Task, ...], str]:
    """Lists the tasks of the event loops of a worker, users' first.

    Args:
        pid: The worker.
        title: What messages call it.
        threads: Where its threads stand. If none of them runs a loop, nothing is asked.

    Returns:
        The tasks, and why some are missing; empty if none are.

    Raises:
        RuntimeUnreachableError: It cannot be asked.
    """
    if not any(runs_a_loop(thread) for thread in threads):
        return (), ""
    with _opened(pid, title) as (file, number):
        gentle, interrupting = number - 1, number - 2
        end = time.monotonic() + _PATIENCE
        while True:
            told = _asked_for_tasks(file, pid, gentle, _MEANWHILE)
            if told is not None:
                return told
            # Where it stood before says nothing of where it is silent.
            frames = _asked(file, pid, pid, number, title)
            if waits_in_python(frames):
                told = _asked_for_tasks(file, pid, interrupting, _MEANWHILE)
                if told is not None:
                    return told
            if time.monotonic() > end:
                return (), _why_no_tasks(frames)


def _asked_for_tasks(
    file: int, pid: int, number: int, patience: float
) -> tuple[tuple[Task, ...], str] | None:
    """Asks the main thread of a worker; None if it does not answer in time."""
    masks, bit = _masks(pid, pid), 1 << (number - 1)
    if masks is None or masks.blocked & bit or not masks.caught & bit:
        return (), "its main thread does not take the signal by which it tells them"
    os.ftruncate(file, 0)
    if _tgkill is None or _tgkill(pid, pid, number) != 0:
        return (), "it cannot be sent the signal by which it tells them"
    end = time.monotonic() + patience
    while time.monotonic() < end:
        told = tasks_in(os.pread(file, os.fstat(file).st_size, 0), pid)
        if told is not None:
            return told
        time.sleep(_PAUSE)
    return None


def waits_in_python(frames: Sequence[Frame]) -> bool:
    """Whether a thread waits where a signal may interrupt it: in Python, or in ours.

    Python waits on after it. A library that the inmost frame has called need not.

    Args:
        frames: Where it stands, the outermost first; empty where nobody knows.
    """
    return bool(frames) and not frames[-1].is_users


def runs_a_loop(thread: Thread) -> bool:
    """Whether a thread runs an event loop, by its frames."""
    return any(frame.file.endswith(_OF_LOOPS) for frame in thread.frames)


def tasks_in(data: bytes, pid: int) -> tuple[tuple[Task, ...], str] | None:
    """Reads what the main thread of a worker has written; None before it has.

    Args:
        data: What is in the file.
        pid: The worker. Another one, that was asked earlier, may write late.
    """
    for line in data.splitlines(keepends=True):
        # Others are of another kind; and what a worker writes may be anything.
        with suppress(ValueError, TypeError, LookupError):
            told: Any = json.loads(line) if line.endswith(b"\n") else {}
            if told["pid"] != pid:
                continue
            rows = [
                Task(frames=tuple(_frame(*each) for each in row.pop("frames")), **row)
                for row in told["tasks"]
            ]
            more = told["left_out"]
            return users_first(rows), f"{more} more are not shown" if more else ""
    return None


def _why_no_tasks(frames: Sequence[Frame]) -> str:
    where = [f", in {at.function} ({at.file}:{at.line})" for at in frames[-1:]]
    return (
        "its main thread, which alone can tell them, has run no Python for "
        f"{_PATIENCE:g} s: it is in a library written in C, or waits for the system"
        + "".join(where)
    )


@contextmanager
def _opened(pid: int, title: str) -> Generator[tuple[int, int]]:
    """Opens the file of a worker, for who asks in the block, and nobody else.

    Yields:
        Its descriptor, and the signal that has a thread write there.
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
        raise RuntimeUnreachableError(f"{title} has ended while it was asked") from None


def _stack_file(pid: int, title: str) -> tuple[str, int]:
    """Finds the file of a worker, and the signal that has a thread write to it."""
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):  # noqa: PTH208  # names
            place = f"{folder}/{name}"
            with suppress(FileNotFoundError):
                known = _NAME.fullmatch(os.readlink(place))  # noqa: PTH115  # text
                if known:
                    return place, int(known[1])
    except FileNotFoundError:
        raise RuntimeUnreachableError(f"{title} has ended while it was asked") from None
    except PermissionError:
        raise RuntimeUnreachableError(
            f"{title} is another user's, or does not let itself be looked into"
        ) from None
    raise RuntimeUnreachableError(
        f"{title} shows no stacks: it is no worker of this version of actorlib, or has "
        "closed the file for them"
    )


def _lock(file: int, title: str) -> None:
    """Keeps others who ask out; all workers of a runtime have one file."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise RuntimeUnreachableError(
                    f"{title} is being asked for its stack by somebody else"
                ) from None
            time.sleep(_PAUSE)
        else:
            return


def _asked(
    file: int, pid: int, thread: int, number: int, title: str
) -> tuple[Frame, ...]:
    """Asks one thread; empty for one that runs no Python."""
    bit = 1 << (number - 1)
    if _is_stopped(pid):  # it would keep the signal until it goes on
        raise RuntimeUnreachableError(_why_silent(pid, thread, title))
    masks, end = _masks(pid, thread), time.monotonic() + _MOMENT
    while masks is not None and masks.blocked & bit and time.monotonic() < end:
        time.sleep(_PAUSE)  # it may be answering somebody else
        masks = _masks(pid, thread)
    if masks is None or masks.blocked & bit:
        return ()  # it has ended, or is a library's and takes no signals
    if not masks.caught & bit:  # then the signal would end the process
        raise RuntimeUnreachableError(
            f"{title} does not take the signal any more by which it shows its stack"
        )
    os.ftruncate(file, 0)
    if _tgkill is None or _tgkill(pid, thread, number) != 0:
        return ()
    end, looks = time.monotonic() + _PATIENCE, 0
    # Between its arrival and its handler a signal is neither pending nor blocked for a
    # moment: what is seen twice holds.
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
    """Reads what a thread has written: its frames, the outermost first."""
    found = [_FRAME.fullmatch(line) for line in text.splitlines()]
    return tuple(
        _frame(frame[1], int(frame[2]) if frame[2].isdecimal() else 0, frame[3])
        for frame in reversed(found)
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
        told = Path(f"/proc/{pid}/task/{thread}/status").read_text("utf-8", "replace")
    except OSError:
        return None
    found = dict(re.findall(r"^(Sig\w+|Shd\w+):\s+([0-9a-f]+)$", told, re.MULTILINE))
    names = ("SigPnd", "SigBlk", "SigCgt")
    return _Masks(*(int(found.get(name, "0"), 16) for name in names))


def _name(pid: int, thread: int) -> str:
    if thread == pid:
        return "main thread"
    with suppress(OSError):
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text("utf-8").strip()
    return f"thread {thread}"


def _is_stopped(pid: int) -> bool:
    found = usage(pid)
    return found is not None and found.state in "tT"


def _why_silent(pid: int, thread: int, title: str) -> str:
    if _is_stopped(pid):
        return (
            f"{title} is stopped (SIGSTOP, or a debugger), and shows its stack when it "
            f"goes on: kill -CONT {pid}"
        )
    return (
        f"thread {thread} of {title} has not shown its stack within {_PATIENCE:g} s: "
        "it waits for a device or a disk in the kernel, where no signal reaches it"
    )
