"""Queries the kernel about processes for the template, and ends worker processes.

A fork that the user's code created in a worker ends differently from the worker itself.
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

# Looked up once: creating the functions again would copy pages in each child.
_libc = ctypes.CDLL(None)
_prctl = getattr(_libc, "prctl", None)  # Linux has it
_fflush = _libc.fflush
_MOST_READS = 8
"""Reads of the list of children, at most, until two agree."""


def watch(pid: int) -> int | None:
    """Opens a descriptor that becomes readable when the parent ends, if it can."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
    if os.getppid() != pid:  # it had ended, and another process may have its number
        os.close(descriptor)
        return None
    return descriptor


def next_ended(before_reaping: Callable[[int], None]) -> tuple[int, int, int] | None:
    """Reaps one child that has ended; returns its pid, status and peak memory in KiB.

    If the kernel supports it, the callback runs before the reaping, while no other
    process can get the child's number.
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
    """Whether a process is a child that was not reaped; True if that is unknown."""
    try:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a child; False if that is unknown."""
    if not hasattr(os, "waitid"):
        return False
    try:
        stopped = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, pid, stopped) is not None
    except ChildProcessError:
        return False


def is_ending(pid: int) -> bool:
    """Whether a process has begun to end, as far as the kernel reports it.

    A process closes its descriptors, which others notice, before it can be reaped.
    """
    stat = read_stat(pid)
    return stat is not None and stat.is_ending


def kill_group(pid: int, number: int) -> None:
    """Sends a signal to the process group of a worker."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)  # it was just forked and has no process group yet


def has_children() -> bool:
    try:
        if hasattr(os, "waitid"):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return True
    except ChildProcessError:
        return False
    return bool(children())


def children() -> list[int]:
    """Lists the children of this process that were not reaped; empty if unknown.

    The kernel may skip some while others end (proc(5)), so the list is read until two
    reads agree.
    """
    me = os.getpid()
    pids: list[int] | None = None
    for _ in range(_MOST_READS):
        previous = pids
        try:
            with open(f"/proc/{me}/task/{me}/children", encoding="ascii") as listed:  # noqa: PTH123  # no pathlib in the template
                pids = [int(pid) for pid in listed.read().split()]
        except OSError:
            return []
        if pids == previous:
            break
    return pids or []


def mark_of(pid: int) -> str:
    """Reads the mark in the initial environment of a process; empty if none."""
    with (
        contextlib.suppress(OSError),
        open(f"/proc/{pid}/environ", "rb") as environ,  # noqa: PTH123
    ):
        for variable in environ.read().split(b"\0"):
            if variable.startswith(f"{MARK_VARIABLE}=".encode()):
                return variable.partition(b"=")[2].decode()
    return ""


def find_mark() -> ctypes.Array[ctypes.c_char] | None:
    """Returns the memory of the mark in the initial environment of this process.

    The kernel shows the environment at its original place in memory, even after
    ``setenv``. A fork of this process is marked by writing there, and so is every
    descendant of the fork that never calls ``exec``.
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
    """Marks this process; the new mark has the length of the old one."""
    if there is not None:
        there.raw = mark.encode()  # type: ignore[attr-defined]  # pyright: ignore  # noqa: PGH003  # of arrays of c_char
    os.environ[MARK_VARIABLE] = mark


class ProcessTitle:
    """Writes the title that ``ps`` and ``top -c`` show for a process, if it can.

    The kernel shows the arguments that a process was started with from the process's
    memory, and reports their address (``arg_start`` in proc_pid_stat(5)). Text that is
    written there is shown instead. It is written only if the memory contains what the
    kernel shows, and never beyond its end. The address is the same in forks.
    """

    def __init__(self) -> None:
        self._words = _find_words()

    def show(self, title: str) -> None:
        """Shows a title, cut to the available size."""
        if self._words is not None:
            size = len(self._words)
            # The last byte stays empty, or the kernel would read on.
            words = title.encode("utf-8", "replace")[: size - 1]
            self._words.raw = words.ljust(size, b"\0")  # type: ignore[attr-defined]  # pyright: ignore  # noqa: PGH003  # of arrays of c_char


def _find_words() -> ctypes.Array[ctypes.c_char] | None:
    """Returns the memory of the arguments that this process was started with."""
    stat = read_stat("self")
    if stat is None:
        return None
    try:
        with open("/proc/self/cmdline", "rb") as cmdline:  # noqa: PTH123  # no pathlib in the template
            words = cmdline.read()
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
    """Sets the name of the process for ``top`` and ``ps``, if possible."""
    prctl(PR_SET_NAME, name.encode()[:15])


def prctl(option: int, value: int | bytes) -> None:
    if _prctl is not None:
        _prctl(option, value, 0, 0, 0)


def exit_process(code: int) -> NoReturn:
    """Runs the handlers of the end of the process, then ends it.

    The teardown of the interpreter is skipped: a forked child would copy and destroy
    modules that it shares with the template.
    """
    set_engine(None)
    _wait_for_threads()
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # what multiprocessing does
    _flush()
    os._exit(code)


def exit_fork(error: BaseException | None) -> NoReturn:
    """Ends a fork whose code has returned to where the worker would continue.

    Handlers of the end of the process belong to the worker, which runs them at its own
    end. In a fork they would remove files that are in use, or end the worker's
    processes.
    """
    code = 0
    if isinstance(error, SystemExit):
        code = code_of(error)
    elif error is not None:
        # The outermost frame is actorlib's own, and of no use to the user.
        inner = error.__traceback__ and error.__traceback__.tb_next
        traceback.print_exception(type(error), error, inner or error.__traceback__)
        code = 1
    _wait_for_threads()
    _flush()
    os._exit(code)


def code_of(error: SystemExit) -> int:
    """Returns the exit code of a SystemExit, by the rules of the interpreter."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)  # noqa: T201  # as the interpreter does
    return 1


def _wait_for_threads() -> None:
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]  # pyright: ignore  # noqa: PGH003, SLF001  # it waits for the user's threads


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    with contextlib.suppress(BaseException):
        _fflush(None)  # the output of C code
