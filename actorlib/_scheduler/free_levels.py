"""Devices of one make by what they have free, found in two look-ups.

A device has one of 10 001 amounts free, its *level*, so best fit is two look-ups: the
lowest level in use that is high enough, by bisection of the sorted levels in use, then
the lowest index on it. Rejected: one list sorted by (free, index), which moves half of
itself at every decision; the levels in use as the bits of one ``int``, of which every
look-up copies up to 1.3 KB (0.53 us against 0.13, CPython 3.11); a heap per level
without the set beside it, where an index that left a level and came back is found
twice.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPARE = 16
"""Stale entries a heap may always keep, so that small ones are not rebuilt at once."""


@final
class FreeLevels:
    """A set of device indices, each on a level."""

    __slots__ = ("_at", "_in_use")

    def __init__(self) -> None:
        self._at: dict[int, _Indices] = {}
        self._in_use: list[int] = []

    @property
    def highest(self) -> int:
        """The highest level in use; -1 if nothing is here."""
        return self._in_use[-1] if self._in_use else -1

    def tightest(self, units: int) -> int:
        """The lowest level in use that is at least ``units``; -1 if there is none."""
        place = bisect_left(self._in_use, units)
        return self._in_use[place] if place < len(self._in_use) else -1

    def lowest(self, level: int) -> int:
        """The lowest index on a level in use."""
        return self._at[level].lowest()

    def first(self, level: int, count: int) -> list[int]:
        """The lowest indices on a level, ascending; at most so many."""
        return self._at[level].first(count) if level in self._at else []

    def count(self, level: int) -> int:
        """How many are on a level."""
        return len(self._at.get(level, ()))

    def units(self) -> int:
        """The sum of all levels."""
        return sum(level * len(there) for level, there in self._at.items())

    def fill(self, level: int, ascending: Iterable[int]) -> None:
        """Puts many on a level that is not in use yet."""
        self._at[level] = _Indices(ascending)
        insort(self._in_use, level)

    def put(self, index: int, level: int) -> None:
        """Puts one on a level."""
        if level in self._at:
            self._at[level].add(index)
        else:
            self.fill(level, (index,))

    def drop(self, index: int, level: int) -> None:
        """Takes one off its level."""
        there = self._at[level]
        there.remove(index)
        if not there:
            del self._at[level]
            del self._in_use[bisect_left(self._in_use, level)]

    def move(self, index: int, left: int, level: int) -> None:
        """Takes one off a level and puts it on another."""
        at = self._at
        there = at[left]
        members = there.members
        members.remove(index)
        if not members:
            del at[left]
            del self._in_use[bisect_left(self._in_use, left)]
        elif len(there.heap) > 2 * len(members) + _SPARE:
            there.rebuild()
        if level in at:
            there = at[level]
            there.members.add(index)
            heappush(there.heap, index)
        else:
            at[level] = _Indices((index,))
            insort(self._in_use, level)

    def has(self, index: int, level: int) -> bool:
        """Whether one is on a level."""
        return index in self._at.get(level, ())

    def __len__(self) -> int:
        return sum(map(len, self._at.values()))

    def check(self) -> None:
        """Raises AssertionError unless the levels in use are those that exist."""
        if self._in_use != sorted(self._at):
            raise AssertionError("the levels in use are not the levels that exist")


@final
class _Indices:
    """A set of device indices that knows its lowest.

    The heap may hold indices that have left, some of them twice: what counts is the
    set. They are at most as many as the members and a few, else the heap is rebuilt.
    """

    __slots__ = ("heap", "members")

    def __init__(self, ascending: Iterable[int]) -> None:
        self.heap: list[int] = list(ascending)
        self.members = set(self.heap)

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, index: int) -> bool:
        return index in self.members

    def add(self, index: int) -> None:
        self.members.add(index)
        heappush(self.heap, index)

    def remove(self, index: int) -> None:
        self.members.remove(index)
        if len(self.heap) > 2 * len(self.members) + _SPARE:
            self.rebuild()

    def rebuild(self) -> None:
        self.heap = list(self.members)
        heapify(self.heap)

    def lowest(self) -> int:
        heap, members = self.heap, self.members
        while heap[0] not in members:
            heappop(heap)
        return heap[0]

    def first(self, count: int) -> list[int]:
        found: dict[int, None] = {}
        while self.heap and len(found) < count:
            index = heappop(self.heap)
            if index in self.members:
                found[index] = None
        for index in found:
            heappush(self.heap, index)
        return list(found)
