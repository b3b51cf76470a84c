"""Wakes the owner's loop for signals, so that Ctrl-C acts at once.

Python runs its handlers between two steps of the program. A signal that comes after the
last step and before the loop sleeps in its system call, or in another thread, is
handled when the loop next wakes: in an idle program never. asyncio closes that gap for
``loop.add_signal_handler``, but not for the handler of SIGINT that ``asyncio.run`` sets
(CPython 3.11 to 3.13; an idle loop lost one in 1,500). A byte that the interpreter
writes when the signal arrives always wakes the loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress


class SignalWakeup:
    """Makes the interpreter write a byte for each signal, which wakes the loop.

    It does so only on asyncio's own loop, in the main thread, which runs it, and unless
    other code has already called ``signal.set_wakeup_fd``. uvloop does the same for
    itself.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ends: tuple[int, int] | None = None
        is_main = threading.current_thread() is threading.main_thread()
        if not (is_main and isinstance(loop, asyncio.SelectorEventLoop)):
            return
        other = signal.set_wakeup_fd(-1)
        if other != -1:
            signal.set_wakeup_fd(other)
            return
        self._ends = read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        os.set_blocking(write_end, False)
        loop.add_reader(read_end, self._drain, read_end)
        # A full pipe loses nothing: the loop wakes for its content.
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)

    def close(self) -> None:
        if self._ends is None:
            return
        read_end, write_end = self._ends
        self._ends = None
        current = signal.set_wakeup_fd(-1)
        if current not in (-1, write_end):
            signal.set_wakeup_fd(current)
        if not self._loop.is_closed():
            self._loop.remove_reader(read_end)
        os.close(read_end)
        os.close(write_end)

    def _drain(self, read_end: int) -> None:
        with suppress(BlockingIOError):  # a fork of this process shares the pipe
            os.read(read_end, 4096)
