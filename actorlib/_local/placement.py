"""Which devices a request gets: best fit, lowest index first.

A share of one device comes from the device that it leaves with the least, so that
devices fill one after another and whole ones stay whole for those who ask for whole
ones. Several devices are the first wholly free ones. A share never spans two
devices: half of one card and half of another are no card.

Guarantees: the choice depends only on what is free now, never on how it came about.
A decision takes the same time for ten devices as for 100 000.

A device has one of 10 001 amounts free, its *level*, so best fit is two look-ups:
the lowest level in use that is high enough, then the lowest index on it. The levels
in use are the bits of one ``int``; shift, isolate the lowest bit, and the interpreter
has scanned them all in C. Rejected: one list sorted by (free, index), which moves
half of itself at every decision; a heap per level without the set beside it, where
an index that left a level and came back is found twice.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, final

from actorlib._resources import UNITS
from actorlib.accelerators.base import Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actorlib.accelerators.base import Device

_SPARE = 16
"""Stale entries a heap may always keep, so that small ones are not rebuilt at once."""


@final
class DevicePool:
    """The free units of every device of one kind.

    Args:
        devices: In index order, numbered from 0.

    Attributes:
        devices: As given.

    Raises:
        ValueError: The devices are not numbered 0, 1, 2, ...
    """

    __slots__ = ("_free", "_in_use", "_levels", "devices")

    def __init__(self, devices: Sequence[Device]) -> None:
        if any(device.index != place for place, device in enumerate(devices)):
            raise ValueError("devices have to come in index order, numbered from 0")
        self.devices = tuple(devices)
        self._free = [UNITS] * len(devices)
        self._levels = {UNITS: _Indices(range(len(devices)))} if devices else {}
        self._in_use = sum(1 << level for level in self._levels)

    def fits(self, units: int) -> bool:
        """Whether :meth:`take` would find room now."""
        if units <= UNITS:
            return units < self._in_use.bit_length()
        return not units % UNITS and units // UNITS <= self.wholly_free

    def could_fit(self, units: int) -> bool:
        """Whether :meth:`take` would find room if nothing were taken."""
        if units <= UNITS:
            return bool(self.devices)
        return not units % UNITS and units // UNITS <= len(self.devices)

    def take(self, units: int) -> tuple[Share, ...] | None:
        """Takes a share of one device, or several whole ones.

        Args:
            units: Positive. Up to one whole device, or a multiple of whole ones.

        Returns:
            The shares in index order, or None if there is no room: nothing is taken.
        """
        if not self.fits(units):
            return None
        if units > UNITS:
            return tuple(self._cut(UNITS, UNITS) for _ in range(units // UNITS))
        roomy = self._in_use >> units
        tightest = units + (roomy & -roomy).bit_length() - 1
        return (self._cut(tightest, units),)

    def give(self, shares: Iterable[Share]) -> None:
        """Takes shares of these devices back.

        Raises:
            ValueError: A device would have more than the whole of itself free; the
                shares before that one have been taken back.
        """
        for share in shares:
            index = share.device.index
            level = self._free[index] + share.units
            if level > UNITS:
                raise ValueError(f"{share} was not taken: {self._free[index]} are free")
            self._move(index, level)

    def free(self, device: Device) -> int:
        """The units of one device that nobody has taken."""
        return self._free[device.index]

    @property
    def free_units(self) -> int:
        """The units free on all devices together."""
        return sum(level * len(there) for level, there in self._levels.items())

    @property
    def wholly_free(self) -> int:
        """The number of devices of which nothing is taken."""
        return len(self._levels.get(UNITS, ()))

    def largest(self) -> Share:
        """The largest share that could be taken of one device; of zero if none could.

        Raises:
            LookupError: There are no devices.
        """
        level = self._in_use.bit_length() - 1
        return Share(self.devices[self._levels[level].lowest()], level)

    def check(self) -> None:
        """Raises AssertionError unless every device is found under what it has free."""
        for index, level in enumerate(self._free):
            if not 0 <= level <= UNITS or index not in self._levels.get(level, ()):
                raise AssertionError(f"device {index} is not on its level, {level}")
        if sum(map(len, self._levels.values())) != len(self.devices):
            raise AssertionError("a device is on a level that it has left")
        if self._in_use != sum(1 << level for level in self._levels):
            raise AssertionError("the levels in use are not the levels that exist")

    def _cut(self, level: int, units: int) -> Share:
        index = self._levels[level].lowest()
        self._move(index, level - units)
        return Share(self.devices[index], units)

    def _move(self, index: int, level: int) -> None:
        left = self._free[index]
        there = self._levels[left]
        there.remove(index)
        if not there:
            del self._levels[left]
            self._in_use ^= 1 << left
        self._free[index] = level
        if level in self._levels:
            self._levels[level].add(index)
        else:
            self._levels[level] = _Indices((index,))
            self._in_use ^= 1 << level


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
