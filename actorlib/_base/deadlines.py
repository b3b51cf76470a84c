"""Orders deadlines: which have passed, and which is the next.

It is a heap. A discarded entry stays in the heap until it comes up. When more than half
of the entries are discarded ones, the heap is built again. So a call costs a push and
the removal of one entry, even if most calls are answered long before their deadline.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_FEW = 64


class Deadlines(Generic[K]):
    """The deadlines of calls; ``live`` has that of each."""

    def __init__(self) -> None:
        self.live: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        """Counts the entries of the heap, including those of answered calls."""
        return len(self._heap)

    def add(self, call: K, when: float) -> None:
        """Sets the deadline of a call; a new one replaces the old one."""
        self.live[call] = when
        self._push(call, when)

    def discard(self, call: K) -> None:
        """Removes the deadline of a call, and sometimes all discarded entries."""
        if self.live.pop(call, None) is None:
            return
        if len(self._heap) > 2 * len(self.live) + _FEW:
            self._heap = []
            for other, when in self.live.items():
                self._push(other, when)

    def due(self, now: float) -> list[K]:
        """Removes and returns the calls whose deadline has passed, in order."""
        due: list[K] = []
        while self._heap and self._heap[0][0] <= now:
            when, _, call = heapq.heappop(self._heap)
            if self.live.get(call) == when:
                del self.live[call]
                due.append(call)
        return due

    def next(self) -> float | None:
        """Returns the earliest deadline, or None if no call has one."""
        while self._heap:
            when, _, call = self._heap[0]
            if self.live.get(call) == when:
                return when
            heapq.heappop(self._heap)
        return None

    def _push(self, call: K, when: float) -> None:
        self._count += 1  # of two equal deadlines, the earlier call is due first
        heapq.heappush(self._heap, (when, self._count, call))
