"""Asks the threads of a worker where they stand, also those that are stuck in C.

A worker has a file in memory, whose name says by which signal a thread of it writes its
stack there (``_worker/stack_file.py``). Each thread is sent that signal by itself and
writes about itself alone: to walk over the frames of a thread that runs meanwhile could
crash the process. What is waited for is told by the kernel: a thread has written when
it neither has the signal before it nor keeps it blocked, as it does while handling it.
"""

from __future__ import annotations

import ctypes
import fcntl
import linecache
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from actorlib._door.processes import usage
from actorlib._door.stacks import is_users
from actorlib.exceptions import RuntimeUnreachableError

_NAME = re.compile(r"/memfd:actorlib-stacks-(\d+) \(deleted\)")
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')
_BEGINNING = ("<string>", "<module>")
"""What every worker comes from that was not started by a module."""
_PATIENCE = 2.0
_MOMENT = 0.02
_PAUSE = 0.001
_tgkill = getattr(ctypes.CDLL(None), "tgkill", None)  # glibc has it from 2.30 on

Row = dict[str, Any]


class _Masks(NamedTuple):
    """The signals of one thread, as bits."""

    pending: int
    blocked: int
    caught: int


def worker_threads(pid: int, title: str) -> list[Row]:
    """Lists the threads of a worker that run Python, the main one first.

    Args:
        pid: The worker.
        title: What messages call it.

    Returns:
        For each its ``name``, ``number`` and ``frames``: file, line and function, the
        outermost first.

    Raises:
        RuntimeUnreachableError: It cannot be asked, or does not answer in time.
    """
    place, number = _stack_file(pid, title)
    with suppress(FileNotFoundError, ProcessLookupError):
        file = os.open(place, os.O_RDWR | os.O_CLOEXEC)
        try:
            _lock(file, title)
            found: list[Row] = []
            for thread in sorted(map(int, os.listdir(f"/proc/{pid}/task"))):  # noqa: PTH208  # names
                frames = _asked(file, pid, thread, number, title)
                if frames:
                    found.append(
                        {"name": _name(pid, thread), "number": thread, "frames": frames}
                    )
        finally:
            os.close(file)
        return found
    raise RuntimeUnreachableError(f"{title} has ended while it was asked")


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


def _asked(file: int, pid: int, thread: int, number: int, title: str) -> list[Row]:
    """Asks one thread; empty for one that runs no Python."""
    bit = 1 << (number - 1)
    if _is_stopped(pid):  # it would keep the signal until it goes on
        raise RuntimeUnreachableError(_why_silent(pid, thread, title))
    masks, end = _masks(pid, thread), time.monotonic() + _MOMENT
    while masks is not None and masks.blocked & bit and time.monotonic() < end:
        time.sleep(_PAUSE)  # it may be answering somebody else
        masks = _masks(pid, thread)
    if masks is None or masks.blocked & bit:
        return []  # it has ended, or is a library's and takes no signals
    if not masks.caught & bit:  # then the signal would end the process
        raise RuntimeUnreachableError(
            f"{title} does not take the signal any more by which it shows its stack"
        )
    os.ftruncate(file, 0)
    if _tgkill is None or _tgkill(pid, thread, number) != 0:
        return []
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


def frames_in(text: str) -> list[Row]:
    """Reads what a thread has written: its frames, the outermost first."""
    found = [_FRAME.fullmatch(line) for line in text.splitlines()]
    return [
        {
            "file": frame[1],
            "line": int(frame[2]) if frame[2].isdecimal() else 0,
            "function": frame[3],
            "code": linecache.getline(frame[1], int(frame[2])).strip()
            if frame[2].isdecimal()
            else "",
            "is_users": is_users(frame[1]) and (frame[1], frame[3]) != _BEGINNING,
        }
        for frame in reversed(found)
        if frame
    ]


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
