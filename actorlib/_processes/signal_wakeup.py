"""Wakes the owner's loop for signals, so that no Ctrl-C waits for something else.

Python runs its handlers between two steps of the program. A signal that comes behind
the last of them and before the loop sleeps in its system call, or in another thread, is
handled when the loop next wakes: in an idle program never. asyncio closes that gap for
``loop.add_signal_handler``, but not for the handler of SIGINT that ``asyncio.run`` sets
(CPython 3.11 to 3.13; an idle loop lost one in 1,500). A byte that the interpreter
writes where the signal arrives wakes the loop whatever it was about to do.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress


class SignalWakeup:
    """Makes the interpreter write a byte for each signal, which wakes the loop.

    It is made where it is needed and stands in nobody's way: on asyncio's own loop, in
    the main thread, and unless somebody has signals written somewhere already. uvloop
    does the same for itself.

    Args:
        loop: The loop that is to wake, which runs in this thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ends: tuple[int, int] | None = None
        is_main = threading.current_thread() is threading.main_thread()
        if not (is_main and isinstance(loop, asyncio.SelectorEventLoop)):
            return
        taken = signal.set_wakeup_fd(-1)
        if taken != -1:
            signal.set_wakeup_fd(taken)
            return
        self._ends = read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        os.set_blocking(write_end, False)
        loop.add_reader(read_end, self._drain, read_end)
        # A full pipe is no loss: the loop wakes for what is in it.
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)

    def close(self) -> None:
        """Leaves signals to whoever comes next."""
        if self._ends is None:
            return
        read_end, write_end = self._ends
        self._ends = None
        there = signal.set_wakeup_fd(-1)
        if there not in (-1, write_end):
            signal.set_wakeup_fd(there)
        if not self._loop.is_closed():
            self._loop.remove_reader(read_end)
        os.close(read_end)
        os.close(write_end)

    def _drain(self, read_end: int) -> None:
        with suppress(BlockingIOError):  # a fork of this process shares the pipe
            os.read(read_end, 4096)
