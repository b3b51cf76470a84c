"""Reads the state, CPU time, memory and command lines of processes, on Linux."""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import suppress
from typing import NamedTuple

from actorlib._base.process_stat import read_stat

_SHOWN = 60
"""Characters of a command line that are shown."""


class Usage(NamedTuple):
    """The resources that a process has used until now.

    Attributes:
        state: The kernel's letter; see ``ProcessStat``.
        cpu: Seconds of CPU time, all threads together.
        rss: Bytes of memory in use, with shared memory counted in full.
    """

    state: str
    cpu: float
    rss: int

    @property
    def is_stopped(self) -> bool:
        """Whether it is stopped, by SIGSTOP or a debugger."""
        return self.state in "tT"


def usage(pid: int) -> Usage | None:
    """Returns what a process has used, or None if that cannot be read."""
    stat = read_stat(pid)
    if stat is None:
        return None
    return Usage(
        state=stat.state,
        cpu=stat.ticks / os.sysconf("SC_CLK_TCK"),
        rss=stat.pages * os.sysconf("SC_PAGE_SIZE"),
    )


def is_stopped(pid: int) -> bool:
    use = usage(pid)
    return use is not None and use.is_stopped


def cpu_time(pid: int) -> float | None:
    """Returns the CPU time of all threads of a process, or None if it cannot be read.

    Each process has a clock that every user may read. It is exact to the nanosecond,
    where ``/proc`` counts hundredths of a second, and takes 1/25 of the time to read.
    The number of the clock is computed as by clock_getcpuclockid(3), which Python lacks
    (``MAKE_PROCESS_CPUCLOCK`` with ``CPUCLOCK_SCHED`` in Linux's posix-timers.h).
    """
    if sys.platform == "linux":
        with suppress(OSError, OverflowError):
            return time.clock_gettime((~pid << 3) | 2)
    use = usage(pid)
    return None if use is None else use.cpu


def pss(pid: int) -> int | None:
    """Returns the memory of a process in bytes, or None if it cannot be read.

    Shared memory is divided among the processes that share it: workers that are forked
    from one process share most of theirs.
    """
    rollup = _read(f"/proc/{pid}/smaps_rollup") or b""
    for line in rollup.splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return None


def program(pid: int) -> str:
    """Returns the shortened command line of a process."""
    return shortened((_read(f"/proc/{pid}/cmdline") or b"").decode("utf-8", "replace"))


def shortened(words: str) -> str:
    """Shortens a command line to one line."""
    line = " ".join(words.replace("\0", " ").split())
    return f"{line[: _SHOWN - 1]}…" if len(line) > _SHOWN else line


def is_out_of_descriptors(pid: int) -> bool:
    """Whether a process has no free descriptor; False if that cannot be read."""
    limits = _read(f"/proc/{pid}/limits") or b""
    limit = re.search(rb"^Max open files +(\d+)", limits, re.MULTILINE)
    if limit is None:
        return False
    with suppress(OSError):
        # A thread that waits in accept holds one that is not listed.
        return len(os.listdir(f"/proc/{pid}/fd")) >= int(limit[1]) - 1  # noqa: PTH208  # names
    return False


def exists(pid: int) -> bool:
    """Whether the process exists, whatever its user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # pathlib takes twice as long
            return file.read()
    except OSError:
        return None
