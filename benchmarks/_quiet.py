"""Measures the load by other programs, and waits until it is low.

Where there is no ``/proc`` the machine counts as quiet.
"""

import os
import resource
import time
from pathlib import Path
from typing import Final, NamedTuple

QUIET: Final = 0.05
"""The share of all CPUs below which a machine counts as quiet."""

_SAMPLE: Final = 0.5
"""Seconds over which the use of CPUs is measured."""


class Usage(NamedTuple):
    """CPU time since the machine started.

    Attributes:
        total: Seconds of all CPUs, busy or not.
        busy: Seconds in which they ran something.
        own: Seconds of this process and of its descendants that have ended.
    """

    total: float
    busy: float
    own: float


def usage() -> Usage:
    """Reads the counters."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return Usage(0.0, 0.0, 0.0)
    tick = os.sysconf("SC_CLK_TCK")
    # user nice system idle iowait irq softirq steal; guests are part of user.
    ticks = [int(field) / tick for field in first.split()[1:9]]
    idle = ticks[3] + ticks[4]
    spent = [
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    own = sum(each.ru_utime + each.ru_stime for each in spent)
    return Usage(total=sum(ticks), busy=sum(ticks) - idle, own=own)


def others_share(before: Usage, after: Usage) -> float:
    """The share of all CPUs that other programs used between two readings, 0 to 1."""
    total = after.total - before.total
    if total <= 0:
        return 0.0
    others = (after.busy - before.busy) - (after.own - before.own)
    return min(max(others / total, 0.0), 1.0)


def await_quiet(limit: float) -> bool:
    """Waits until other programs use less than ``QUIET`` of the machine.

    Args:
        limit: Seconds after which it gives up.

    Returns:
        True if the machine is quiet now.
    """
    deadline = time.monotonic() + limit
    while True:
        before = usage()
        time.sleep(_SAMPLE)
        if others_share(before, usage()) < QUIET:
            return True
        if time.monotonic() >= deadline:
            return False
