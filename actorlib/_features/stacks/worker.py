"""Lets who may look into this process see where its threads stand, by a signal.

A thread that gets the signal writes its stack into a file in memory, also when it is
stuck in a library written in C, and goes on. The file's name says which signal that is.
It is one of those that only programs use that know them, and each thread writes about
itself alone (``runtime``).

The signal below that one has the main thread write where the tasks of its loops stand.
No C code can do that, so it is done between two steps of whatever that thread runs:
also while a loop is busy, but not while it is in a library written in C. The next one
below does the same, and ends a wait for the system with EINTR. Python goes on waiting
after that (PEP 475), but not every library does: so it is for who knows that the thread
waits in Python itself.

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
"""Which of the real-time signals the first is; programs count from either end."""


def offer_stacks() -> None:
    """Has this process and its forks show their threads and tasks when asked."""
    last = getattr(signal, "SIGRTMAX", None)
    if last is None or not hasattr(os, "memfd_create"):
        return
    number = int(last) - _BELOW_THE_LAST
    gentle, interrupting = number - 1, number - 2
    with suppress(OSError):  # it is out of descriptors, and works without
        file = os.memfd_create(f"actorlib-stacks-{number}")
        # All forks have one place in the file, and who reads it empties it.
        fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
        faulthandler.register(number, file, all_threads=False)
        for tasks in (gentle, interrupting):
            signal.signal(tasks, partial(_show_tasks, file))
        signal.siginterrupt(gentle, False)  # noqa: FBT003  # the signal API


def _show_tasks(file: int, _: int, frame: FrameType | None) -> None:
    """Writes down the tasks, amid code of the user's that nothing here may harm."""
    with suppress(Exception):
        from actorlib._features.stacks.worker_tasks import write_tasks  # noqa: PLC0415  # for who asks

        write_tasks(file, frame)
