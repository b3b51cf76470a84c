"""Makes the threads and tasks of this process write their stacks on a signal.

A thread that gets the signal writes its stack into a file in memory, even when it is
stuck in a library written in C, and continues. The file's name has the signal. It is a
real-time signal, which only programs that know it use, and each thread writes only its
own stack (``runtime``).

On the next lower signal the main thread writes where the tasks of its loops stand. C
code cannot do that, so it happens between two steps of the thread's Python code: even
while a loop is busy, but not inside a library written in C. The signal below that one
does the same, and ends a wait for the system with EINTR. Python continues to wait after
that (PEP 475), but some libraries do not: so it is only sent to a thread that waits in
Python itself.

Forks share the file, so the template offers it once for all workers.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_BELOW_THE_LAST = 3
"""The place of the first signal below SIGRTMAX; programs count from either end."""


def offer_stacks() -> None:
    """Makes this process and its forks show their threads and tasks on a signal."""
    last = getattr(signal, "SIGRTMAX", None)
    if last is None or not hasattr(os, "memfd_create"):
        return
    number = int(last) - _BELOW_THE_LAST
    gentle, interrupting = number - 1, number - 2
    with suppress(OSError):  # out of descriptors; the process works without it
        file = os.memfd_create(f"actorlib-stacks-{number}")
        # All forks share the file position, and a reader empties the file.
        fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
        faulthandler.register(number, file, all_threads=False)
        for tasks in (gentle, interrupting):
            signal.signal(tasks, partial(_show_tasks, file))
        signal.siginterrupt(gentle, False)  # noqa: FBT003  # the signal API


def _show_tasks(file: int, _: int, frame: FrameType | None) -> None:
    """Writes the tasks; interrupts the user's code, which must not see an error."""
    with suppress(Exception):
        from actorlib._features.stacks.worker_tasks import write_tasks  # noqa: PLC0415  # rarely used

        write_tasks(file, frame)
