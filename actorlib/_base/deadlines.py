"""Orders deadlines: which are over, and which is the next.

It is a heap in which what was discarded stays until it comes up; when more than half of
it is such, it is built anew. So a call costs a push and the removal of one entry,
however many are answered long before their time.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_FEW = 64


class Deadlines(Generic[K]):
    """Orders deadlines: which are over, and which is the next.

    Attributes:
        live: When each is over.
    """

    def __init__(self) -> None:
        self.live: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        """Counts the entries that are kept, those of answered calls included."""
        return len(self._heap)

    def add(self, call: K, when: float) -> None:
        """Takes the deadline of a call; another one that it had is forgotten."""
        self.live[call] = when
        self._push(call, when)

    def discard(self, call: K) -> None:
        """Forgets a call, if it has a deadline."""
        if self.live.pop(call, None) is not None:
            self._tidy()

    def due(self, now: float) -> list[K]:
        """Takes out the calls whose time is over, the earliest first."""
        over: list[K] = []
        while self._heap and self._heap[0][0] <= now:
            when, _, call = heapq.heappop(self._heap)
            if self.live.get(call) == when:
                del self.live[call]
                over.append(call)
        return over

    def next(self) -> float | None:
        """Says when the next call's time is over; None if none has a deadline."""
        while self._heap:
            when, _, call = self._heap[0]
            if self.live.get(call) == when:
                return when
            heapq.heappop(self._heap)
        return None

    def _push(self, call: K, when: float) -> None:
        self._count += 1  # of two at one time, the earlier call is over first
        heapq.heappush(self._heap, (when, self._count, call))

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self.live) + _FEW:
            self._heap = []
            for call, when in self.live.items():
                self._push(call, when)
