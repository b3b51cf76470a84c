"""Calls back at given times: one thread for all calls of a process.

It starts with the first deadline, in processes with and without an event loop.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, final

from actorlib._base.deadlines import Deadlines

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("actorlib")


@final
class Timer:
    """A callback that is due at one time.

    Attributes:
        callback: The function; None after ``discard``, as the timer may stay for long.
    """

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback


@final
class TimerThread:
    """Runs the timers of one process on one thread."""

    def __init__(self) -> None:
        self._timers: Deadlines[Timer] = Deadlines()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    def __len__(self) -> int:
        """Counts the timers, with discarded ones."""
        return len(self._timers)

    def add(self, when: float, callback: Callable[[], object]) -> Timer:
        """Sets a timer.

        ``when`` is a time by ``time.monotonic()``. The callback is called on the thread
        of the timers.
        """
        timer = Timer(callback)
        with self._changed:
            first = self._timers.next()
            self._timers.add(timer, when)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="actorlib-timers", daemon=True
                )
                self._thread.start()
            elif first is None or when < first:
                self._changed.notify()
        return timer

    def discard(self, timer: Timer) -> None:
        """Cancels a timer, if it is not called yet."""
        with self._changed:
            timer.callback = None
            self._timers.discard(timer)

    def stop(self) -> None:
        """Stops the thread; no further timer is called."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while due := self._wait():
            for timer in due:
                callback = timer.callback
                if callback is None:
                    continue
                try:
                    callback()
                except Exception:  # noqa: BLE001  # the other timers have to run
                    _log.exception("a call could not be ended in time")

    def _wait(self) -> list[Timer]:
        """Waits for due timers; returns none at the end."""
        with self._changed:
            while not self._is_stopped:
                now = time.monotonic()
                due = self._timers.due(now)
                if due:
                    return due
                first = self._timers.next()
                self._changed.wait(None if first is None else first - now)
        return []
