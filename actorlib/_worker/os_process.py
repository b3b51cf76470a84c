"""Asks the kernel about processes, for the template, and ends those of workers.

A fork that the user's code made in a worker ends otherwise than the worker itself.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import os
import sys
import threading
import traceback
from typing import TYPE_CHECKING, NoReturn

from actorlib._base.process_stat import read_stat
from actorlib._core.engine import set_engine
from actorlib._wire.forkserver_protocol import MARK_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable


PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

# Looked up once: a child would copy pages to make the functions anew.
_libc = ctypes.CDLL(None)
_prctl = getattr(_libc, "prctl", None)  # Linux has it
_fflush = _libc.fflush
_ASKED = 8


def watch(pid: int) -> int | None:
    """Opens a descriptor that becomes readable when our parent ends, where one can."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
    if os.getppid() != pid:  # it had ended before, and its number may be another's
        os.close(descriptor)
        return None
    return descriptor


def next_ended(before_reaping: Callable[[int], None]) -> tuple[int, int, int] | None:
    """Reaps one child that has ended: its pid, status and peak memory in KiB.

    Where the kernel can be asked without reaping, the callback runs while the child's
    number still cannot be given to another process.
    """
    try:
        if hasattr(os, "waitid"):
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return None
            before_reaping(ended.si_pid)
            pid, status, usage = os.wait4(ended.si_pid, 0)
        else:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            before_reaping(pid)
    except ChildProcessError:
        return None
    return (pid, status, usage.ru_maxrss) if pid else None


def has_child(pid: int) -> bool:
    """Whether a process is a child that was not reaped; True where one cannot ask."""
    try:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def is_stopped(pid: int) -> bool:
    """Whether a child got a signal that stops it, and none since, where one can ask."""
    if not hasattr(os, "waitid"):
        return False
    try:
        stopped = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, pid, stopped) is not None
    except ChildProcessError:
        return False


def is_ending(pid: int) -> bool:
    """Whether a process has begun to end, where the kernel says so.

    It closes what it has open, and so tells others, before it is to be reaped.
    """
    stat = read_stat(pid)
    return stat is not None and stat.is_ending


def kill_group(pid: int, number: int) -> None:
    """Sends a signal to the process group that a worker leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)  # so young that it has no group of its own yet


def has_children() -> bool:
    """Whether this process has a child, ended or not."""
    try:
        if hasattr(os, "waitid"):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return True
    except ChildProcessError:
        return False
    return bool(children())


def children() -> list[int]:
    """Lists the children of this process, ended or not; empty where nobody says.

    The kernel may skip some while others end (proc(5)), so it is asked until it says
    the same twice.
    """
    seen: list[int] | None = None
    for _ in range(_ASKED):
        found = _children()
        if found == seen:
            break
        seen = found
    return seen or []


def _children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", encoding="ascii") as children:  # noqa: PTH123  # no pathlib in the template
            return [int(pid) for pid in children.read().split()]
    except OSError:
        return []


def mark_of(pid: int) -> str:
    """Reads the mark in the environment that a process was started with."""
    with (
        contextlib.suppress(OSError),
        open(f"/proc/{pid}/environ", "rb") as environ,  # noqa: PTH123
    ):
        for variable in environ.read().split(b"\0"):
            if variable.startswith(f"{MARK_VARIABLE}=".encode()):
                return variable.partition(b"=")[2].decode()
    return ""


def find_mark() -> ctypes.Array[ctypes.c_char] | None:
    """Finds the memory where the mark lies that this process was started with, if any.

    The kernel shows the environment as it lay in memory at the start, whatever
    ``setenv`` did later. Writing there marks a fork of this process, and every
    descendant of it that never calls ``exec``.
    """
    try:
        variables = ctypes.POINTER(ctypes.c_void_p).in_dll(_libc, "environ")
    except ValueError:
        return None
    start = f"{MARK_VARIABLE}=".encode()
    for place in itertools.count():
        address: int | None = variables[place]
        if not address:
            return None
        if ctypes.string_at(address, len(start)) == start:
            size = len(ctypes.string_at(address)) - len(start)
            return (ctypes.c_char * size).from_address(address + len(start))
    return None


def write_mark(there: ctypes.Array[ctypes.c_char] | None, mark: str) -> None:
    """Marks this process; the mark is as long as the one that was there."""
    if there is not None:
        there.raw = mark.encode()  # type: ignore[attr-defined]  # pyright: ignore  # noqa: PGH003  # of arrays of c_char
    os.environ[MARK_VARIABLE] = mark


class ProcessTitle:
    """Writes the words that ``ps`` and ``top -c`` show for a process, where it can.

    The kernel shows the words that a process was started with as they lie in its
    memory, and says where that is (``arg_start`` in proc_pid_stat(5)): what is written
    there is shown instead. It is written only where the memory has what the kernel
    shows, and never beyond it. Forks find theirs at the same place.
    """

    def __init__(self) -> None:
        self._words = _find_words()

    def show(self, title: str) -> None:
        """Shows a title, or as much of it as there is room for."""
        if self._words is not None:
            size = len(self._words)
            # The last byte stays empty: the kernel reads on where it is not.
            words = title.encode("utf-8", "replace")[: size - 1]
            self._words.raw = words.ljust(size, b"\0")  # type: ignore[attr-defined]  # pyright: ignore  # noqa: PGH003  # of arrays of c_char


def _find_words() -> ctypes.Array[ctypes.c_char] | None:
    """Finds the memory of the words that this process was started with, if any."""
    stat = read_stat("self")
    if stat is None:
        return None
    try:
        with open("/proc/self/cmdline", "rb") as shown:  # noqa: PTH123  # no pathlib in the template
            words = shown.read()
    except OSError:
        return None
    start, end = stat.words
    size = end - start
    if not start or size < 1 or size != len(words):
        return None
    if ctypes.string_at(start, size) != words:
        return None
    return (ctypes.c_char * size).from_address(start)


def name_process(name: str) -> None:
    """Gives the process a name for ``top`` and ``ps``, where the system has a way."""
    prctl(PR_SET_NAME, name.encode()[:15])


def prctl(option: int, value: int | bytes) -> None:
    """Tells the kernel something about this process, where it can be told."""
    if _prctl is not None:
        _prctl(option, value, 0, 0, 0)


def exit_process(code: int) -> NoReturn:
    """Runs what was registered for the end of the process, then ends it.

    Interpreter teardown itself is skipped: a forked child would take apart modules
    that it shares with the template, page by page, for nothing.

    Args:
        code: The exit code.
    """
    set_engine(None)
    _wait_for_threads()
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # what multiprocessing does
    _flush()
    os._exit(code)


def exit_fork(error: BaseException | None) -> NoReturn:
    """Ends a fork whose code has come back to where the worker would go on.

    What was registered for the end of the process was so by the worker, which runs it
    at its own end: here it would remove files that are in use, or end processes that
    are the worker's.

    Args:
        error: What the code raised, if it did.
    """
    code = 0
    if isinstance(error, SystemExit):
        code = code_of(error)
    elif error is not None:
        # The outermost frame is ours, and tells the user nothing.
        inner = error.__traceback__ and error.__traceback__.tb_next
        traceback.print_exception(type(error), error, inner or error.__traceback__)
        code = 1
    _wait_for_threads()
    _flush()
    os._exit(code)


def code_of(error: SystemExit) -> int:
    """Gives the exit code, by the rules of the interpreter."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)  # noqa: T201  # what the interpreter does with a text
    return 1


def _wait_for_threads() -> None:
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]  # pyright: ignore  # noqa: PGH003, SLF001  # waits for the user's threads, as the interpreter does


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    with contextlib.suppress(BaseException):
        _fflush(None)  # what C code has printed
