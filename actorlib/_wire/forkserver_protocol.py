"""Lists the requests of the owner to the template, and the reports of the template.

Requests are records of a fixed size, because descriptors are attached to the bytes they
are sent with. Reports are frames.
"""

from __future__ import annotations

import signal
import struct
from typing import Final

REQUEST: Final = struct.Struct("<Q")
"""A request for a process: the number of the worker. Its descriptors are attached."""

PRELOADING: Final = 3
"""(PRELOADING, module): the module is being imported now."""
PRELOADED: Final = 0
"""(PRELOADED, error, device preload): the preloads are imported, or the reason why not;
and the one that has initialised an accelerator, if any."""
FORKED: Final = 1
"""(FORKED, worker, pid); a pid of 0 and an error if the fork failed."""
EXITED: Final = 2
"""(EXITED, worker, status, peak memory in KiB); a status of None is unknown."""
MISSED: Final = 4
"""(MISSED, worker): the process that was forked ahead for this worker had ended."""

MARK_VARIABLE = "ACTORLIB_WORKER"
"""The environment variable that identifies a worker's descendants after its end."""

INTERRUPT_SIGNAL: Final = signal.SIGURG
"""The signal that makes a worker of functions read its pipe, whatever it runs.

Processes without a handler ignore it: the children that a function starts, and a later
process with the same process id.
"""

LEAVE_TIMEOUT = 1.0
"""Seconds in which workers may leave after the owner is gone."""


def worker_mark(runtime: str, worker: int) -> str:
    """Returns the value of the variable in a worker and its descendants.

    It has the same length for every worker, so one can overwrite another in place.
    """
    return f"{runtime}:{worker:012d}"
