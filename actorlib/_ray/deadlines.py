"""Deadlines of calls: on their way between machines, and kept by the caller.

On one machine a deadline is a moment by ``time.monotonic()``. On its way it is one by
the clocks of the machines, which are taken to agree; where they do not, a call never
gets more time than it had when it was sent.

An alarm calls back at given moments: one thread for all calls, which is there as soon
as a call has a deadline, in a process with a loop and in one without. What is not
needed any more stays until it comes up, or until more than half of all is such.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, final

from actorlib._core.current_call import deadline_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


def leaving(told: Mapping[str, Any], now: float, clock: float) -> Mapping[str, Any]:
    """What is said of a call, as it is sent.

    Args:
        told: The same, as it holds in this process.
        now: The moment by ``time.monotonic()``.
        clock: The same moment by ``time.time()``.
    """
    deadline = deadline_of(told)
    if deadline is None:
        return told
    when, seconds, giver = deadline
    left = when - now
    return {**told, "deadline": (clock + left, left, seconds, giver)}


def arriving(told: Mapping[str, Any], now: float, clock: float) -> Mapping[str, Any]:
    """What is said of a call, as it holds where that arrives.

    Args:
        told: What came.
        now: The moment by ``time.monotonic()``.
        clock: The same moment by ``time.time()``.
    """
    came = told.get("deadline")
    if came is None:
        return told
    end, left, seconds, giver = came
    when = now + min(left, end - clock)
    return {**told, "deadline": (when, seconds, giver)}


_log = logging.getLogger("actorlib")
_FEW = 64


@final
class Ring:
    """One time to call back.

    Args:
        when: When, by ``time.monotonic()``.
        callback: What is called, on the thread of the alarm.

    Attributes:
        when: The same.
        callback: The same; None if it is not wanted any more.
    """

    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self.callback: Callable[[], object] | None = callback


@final
class Alarm:
    """The alarm of one process."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Ring]] = []
        self._numbers = itertools.count()
        self._wanted = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    def __len__(self) -> int:
        """How many moments are kept, those that were discarded included."""
        return len(self._heap)

    def add(self, when: float, callback: Callable[[], object]) -> Ring:
        """Takes a moment.

        Args:
            when: When, by ``time.monotonic()``; at once if that is over.
            callback: What is called, on a thread of its own.
        """
        ring = Ring(when, callback)
        with self._changed:
            self._push(ring)
            self._wanted += 1
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="actorlib-alarm", daemon=True
                )
                self._thread.start()
            elif self._heap[0][2] is ring:
                self._changed.notify()
        return ring

    def discard(self, ring: Ring) -> None:
        """Does not call back, if that has not been yet."""
        with self._changed:
            if ring.callback is None:
                return
            ring.callback = None
            self._wanted -= 1
            if len(self._heap) > 2 * self._wanted + _FEW:
                kept = [entry for entry in self._heap if entry[2].callback is not None]
                heapq.heapify(kept)
                self._heap = kept

    def stop(self) -> None:
        """Calls nobody back any more."""
        with self._changed:
            self._is_stopped = True
            self._heap.clear()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _push(self, ring: Ring) -> None:
        # Of two at one moment, the one that was asked for first is first.
        heapq.heappush(self._heap, (ring.when, next(self._numbers), ring))

    def _watch(self) -> None:
        while (due := self._due()) is not None:
            for callback in due:
                try:
                    callback()
                except Exception:  # noqa: BLE001  # it must not silence the others
                    _log.exception("a call could not be ended in time")

    def _due(self) -> list[Callable[[], object]] | None:
        """Waits for the next moment; None at the end."""
        with self._changed:
            while not self._is_stopped:
                due = list(self._taken(time.monotonic()))
                if due:
                    return due
                next_one = self._heap[0][0] if self._heap else None
                left = None if next_one is None else next_one - time.monotonic()
                if left is None or left > 0:
                    self._changed.wait(left)
        return None

    def _taken(self, now: float) -> Iterator[Callable[[], object]]:
        while self._heap and self._heap[0][0] <= now:
            ring = heapq.heappop(self._heap)[2]
            callback, ring.callback = ring.callback, None
            if callback is not None:
                self._wanted -= 1
                yield callback
