"""Lets who may look into this process see where its threads stand, by a signal.

A thread that gets the signal writes its stack into a file in memory, also when it is
stuck in a library written in C, and goes on. The file's name says which signal that is.
It is one of those that only programs use that know them, and each thread writes about
itself alone (``_door/worker_stacks.py``).

Forks share the file, so the template offers it once for all workers.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
from contextlib import suppress

_BELOW_THE_LAST = 3
"""Which of the real-time signals it is; programs count from either end."""


def offer_stacks() -> None:
    """Has the threads of this process and of its forks show their stacks when asked."""
    last = getattr(signal, "SIGRTMAX", None)
    if last is None or not hasattr(os, "memfd_create"):
        return
    number = int(last) - _BELOW_THE_LAST
    with suppress(OSError):  # it is out of descriptors, and works without
        file = os.memfd_create(f"actorlib-stacks-{number}")
        # All forks have one place in the file, and who reads it empties it.
        fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
        faulthandler.register(number, file, all_threads=False)
