"""Lists what the owner asks of the template, and what the template reports.

Requests are records of a fixed size, as descriptors can only ride on the bytes they
were sent with. Reports are frames.
"""

from __future__ import annotations

import signal
import struct
from typing import Final

REQUEST: Final = struct.Struct("<Q")
"""A request for a process: the number of the worker. It brings its descriptors."""

PRELOADING: Final = 3
"""(PRELOADING, module): it is being imported now."""
PRELOADED: Final = 0
"""(PRELOADED, error, device preload): the preloads are imported, or why not; and which
of them initialised an accelerator, if one did."""
FORKED: Final = 1
"""(FORKED, worker, pid); a pid of 0 and an error if it could not."""
EXITED: Final = 2
"""(EXITED, worker, status, peak memory in KiB); a status of None is lost."""
MISSED: Final = 4
"""(MISSED, worker): the process that was forked ahead to become it had ended."""

MARK_VARIABLE = "ACTORLIB_WORKER"
"""The variable by which descendants of a worker are known after it is gone."""

INTERRUPT_SIGNAL: Final = signal.SIGURG
"""The signal that has a worker of functions read its pipe, whatever it runs.

It is ignored where nobody handles it: by the children that a function starts, and by
whoever has its number next.
"""

LEAVE_TIMEOUT = 1.0
"""Seconds that workers are given to leave when the owner is gone."""


def worker_mark(runtime: str, worker: int) -> str:
    """Gives the value of the variable in a worker, and in whatever descends from it.

    It is as long for every worker, so one can be written over another in place.
    """
    return f"{runtime}:{worker:012d}"
