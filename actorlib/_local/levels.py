"""Devices of one make by what they have free, found in two look-ups.

A device has one of 10 001 amounts free, its *level*, so best fit is two look-ups: the
lowest level in use that is high enough, then the lowest index on it. The levels in use
are the bits of one ``int``; shift, isolate the lowest bit, and the interpreter has
scanned them all in C. Rejected: one list sorted by (free, index), which moves half of
itself at every decision; a heap per level without the set beside it, where an index
that left a level and came back is found twice.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPARE = 16
"""Stale entries a heap may always keep, so that small ones are not rebuilt at once."""


@final
class Levels:
    """A set of device indices, each on a level."""

    __slots__ = ("_at", "_in_use")

    def __init__(self) -> None:
        self._at: dict[int, _Indices] = {}
        self._in_use = 0

    @property
    def highest(self) -> int:
        """The highest level in use; -1 if nothing is here."""
        return self._in_use.bit_length() - 1

    def tightest(self, units: int) -> int:
        """The lowest level in use that is at least ``units``; -1 if there is none."""
        roomy = self._in_use >> units
        return units + (roomy & -roomy).bit_length() - 1 if roomy else -1

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
        self._in_use |= 1 << level

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
            self._in_use ^= 1 << level

    def move(self, index: int, left: int, level: int) -> None:
        """Takes one off a level and puts it on another."""
        at = self._at
        there = at[left]
        there.remove(index)
        if not there:
            del at[left]
            self._in_use ^= 1 << left
        if level in at:
            at[level].add(index)
        else:
            at[level] = _Indices((index,))
            self._in_use ^= 1 << level

    def has(self, index: int, level: int) -> bool:
        """Whether one is on a level."""
        return index in self._at.get(level, ())

    def __len__(self) -> int:
        return sum(map(len, self._at.values()))

    def check(self) -> None:
        """Raises AssertionError unless the levels in use are those that exist."""
        if self._in_use != sum(1 << level for level in self._at):
            raise AssertionError("the levels in use are not the levels that exist")


@final
class _Indices:
    """A set of device indices that knows its lowest.

    The heap may hold indices that have left, some of them twice: what counts is the
    set. They are at most as many as the members and a few, else the heap is rebuilt.
    """

    __slots__ = ("_heap", "_members")

    def __init__(self, ascending: Iterable[int]) -> None:
        self._heap = list(ascending)
        self._members = set(self._heap)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, index: int) -> bool:
        return index in self._members

    def add(self, index: int) -> None:
        self._members.add(index)
        heappush(self._heap, index)

    def remove(self, index: int) -> None:
        self._members.remove(index)
        if len(self._heap) > 2 * len(self._members) + _SPARE:
            self._heap = list(self._members)
            heapify(self._heap)

    def lowest(self) -> int:
        while self._heap[0] not in self._members:
            heappop(self._heap)
        return self._heap[0]

    def first(self, count: int) -> list[int]:
        found: dict[int, None] = {}
        while self._heap and len(found) < count:
            index = heappop(self._heap)
            if index in self._members:
                found[index] = None
        for index in found:
            heappush(self._heap, index)
        return list(found)
