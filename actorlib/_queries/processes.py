"""What the system says of processes, on Linux: their state, time, memory and words."""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import suppress
from typing import NamedTuple

from actorlib._base.process_stat import read_stat

_SHOWN = 60
"""How much of a command line is shown."""


class Usage(NamedTuple):
    """What a process has used by now.

    Attributes:
        state: The kernel's letter; see ``ProcessStat``.
        cpu: Seconds of CPU time, all threads together.
        rss: Bytes of memory that are in use, those that others share counted in full.
    """

    state: str
    cpu: float
    rss: int


def usage(pid: int) -> Usage | None:
    """Says what a process has used; None if there is none, or nobody says."""
    stat = read_stat(pid)
    if stat is None:
        return None
    return Usage(
        state=stat.state,
        cpu=stat.ticks / os.sysconf("SC_CLK_TCK"),
        rss=stat.pages * os.sysconf("SC_PAGE_SIZE"),
    )


def cpu_time(pid: int) -> float | None:
    """Says how many seconds of CPU time all threads of a process have used.

    The kernel has a clock for each process, which anybody may read: it is exact to the
    nanosecond where ``/proc`` counts in hundredths of a second, and read 25 times as
    fast. Its number is made as clock_getcpuclockid(3) does, which Python lacks
    (``MAKE_PROCESS_CPUCLOCK`` with ``CPUCLOCK_SCHED`` in Linux's posix-timers.h).

    Returns:
        None if there is no such process, or nobody says.
    """
    if sys.platform == "linux":
        with suppress(OSError, OverflowError):
            return time.clock_gettime((~pid << 3) | 2)
    found = usage(pid)
    return None if found is None else found.cpu


def pss(pid: int) -> int | None:
    """Says how much memory is a process's own, in bytes; None if nobody says.

    What it shares with others is divided among them: workers that are forked from one
    process share most of what they have.
    """
    told = _read(f"/proc/{pid}/smaps_rollup") or b""
    for line in told.splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return None


def program(pid: int) -> str:
    """Says with what words a process was started, or as much as is shown of them."""
    return shortened((_read(f"/proc/{pid}/cmdline") or b"").decode("utf-8", "replace"))


def shortened(words: str) -> str:
    """Makes one short line of the words that a program was started with."""
    line = " ".join(words.replace("\0", " ").split())
    return f"{line[: _SHOWN - 1]}…" if len(line) > _SHOWN else line


def is_out_of_descriptors(pid: int) -> bool:
    """Whether a process has as many descriptors as it may; not if nobody says."""
    told = _read(f"/proc/{pid}/limits") or b""
    limit = re.search(rb"^Max open files +(\d+)", told, re.MULTILINE)
    if limit is None:
        return False
    with suppress(OSError):
        # A thread that waits in accept has one that is not listed.
        return len(os.listdir(f"/proc/{pid}/fd")) >= int(limit[1]) - 1  # noqa: PTH208  # names
    return False


def exists(pid: int) -> bool:
    """Whether there is such a process, of whomever."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # pathlib takes twice as long
            return file.read()
    except OSError:
        return None
