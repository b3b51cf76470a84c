"""Where shares of different sizes find room: a search, device after device.

Who takes bundle after bundle fails where the last few devices have to be filled to the
last unit, and only notices at the end. So the largest bundle that is left chooses a
device, and that device is then filled: first with the sums that leave the least of it.
It is filled as far as can be, which loses nothing: whoever could still join it may do
so in any way of packing the rest.

What bounds the search: equal bundles are one size and equal devices one sort, so which
of them is where is no choice; a way is given up as soon as the remaining devices, each
filled as well as the sums of the remaining bundles allow, cannot take them all; what
failed once is remembered. 48 bundles in steps of a hundredth that fill 16 devices to
the last unit take some thousand steps, 3 ms. Packing is hard in general, so
``MAX_STEPS`` bounds the rest, and :attr:`Packing.is_certain` tells whether it was met.
Where even one way down would take too long, each bundle is first put where it fits
best.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from itertools import accumulate, takewhile
from math import gcd
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._scheduler.backtracking import first_solution

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Hashable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

MAX_STEPS = 40_000
"""How many looks at a size of bundles all searches for one answer take at the most."""


@final
class SearchBudget:
    """What several searches for one answer may take together.

    Attributes:
        left: How many looks.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS


class BundleShare(NamedTuple):
    """What one bundle asks of a kind of devices.

    Attributes:
        number: Which bundle.
        units: How much.
        allowed: The devices that it may be on, or None for every one.
    """

    number: int
    units: int
    allowed: frozenset[int] | None


class _BundleSize(NamedTuple):
    """Bundles that are alike: so large, and open to these devices."""

    units: int
    allowed: frozenset[int] | None


class _EqualDevices(NamedTuple):
    """Devices that are alike: so much is free, and they are open to these sizes."""

    free: int
    sizes: tuple[int, ...]


Filling = tuple[int, tuple[tuple[int, int], ...]]
"""A sort of device, and how many bundles of which size one of it takes."""


@final
class Packing:
    """Fills device after device with bundles that may share one.

    Args:
        parts: The bundles, each of at most one device.
        free: What the devices that may be used have free, by index.
        rank: Of devices that have as much free, the one of the lowest rank is taken,
            given those that are used.
        steps: How many looks its searches may take.

    Attributes:
        is_certain: Whether what the last search did not find is not there.
    """

    def __init__(
        self,
        parts: Sequence[BundleShare],
        free: Mapping[int, int],
        rank: Callable[[int, set[int]], int],
        steps: SearchBudget,
    ) -> None:
        self.is_certain = True
        self._rank = rank
        # In the largest unit that divides all sizes, sums are fewer.
        self._unit = gcd(*(part.units for part in parts)) or 1
        self._parts: dict[_BundleSize, list[int]] = {}
        for part in sorted(parts, key=lambda part: (-part.units, part.number)):
            size = _BundleSize(part.units // self._unit, part.allowed)
            self._parts.setdefault(size, []).append(part.number)
        self._sizes = list(self._parts)
        self._are_alike = len({size.allowed for size in self._sizes}) == 1
        self._devices: dict[_EqualDevices, list[int]] = {}
        sizes_of = self._sizes_by_scope()
        for index in sorted(free, key=lambda index: (free[index], index)):
            sort = _EqualDevices(free[index] // self._unit, sizes_of(index))
            self._devices.setdefault(sort, []).append(index)
        self._free = free
        self._sorts = list(self._devices)
        # So many looks is one way down, where no step is taken back.
        self._is_large = 3 * len(free) * len(self._sizes) > MAX_STEPS
        self._budget = steps
        self._steps = 0
        self._opens = 0
        self._bundles = [len(numbers) for numbers in self._parts.values()]
        self._left = [len(indices) for indices in self._devices.values()]
        self._failed: set[Hashable] = set()

    def _sizes_by_scope(self) -> Callable[[int], tuple[int, ...]]:
        """What tells the sizes that a device is open to."""
        scopes = list(dict.fromkeys(size.allowed for size in self._sizes))
        known: dict[tuple[bool, ...], tuple[int, ...]] = {}

        def sizes(index: int) -> tuple[int, ...]:
            within = tuple(scope is None or index in scope for scope in scopes)
            if within not in known:
                allowed = {s for s, has in zip(scopes, within, strict=True) if has}
                known[within] = tuple(
                    number
                    for number, size in enumerate(self._sizes)
                    if size.allowed in allowed
                )
            return known[within]

        return sizes

    @property
    def fewest(self) -> int:
        """A number of devices below which it cannot be done."""
        asked = sum(self._total())
        frees = (self._free[index] // self._unit for index in self._free)
        taken = accumulate(sorted(frees, reverse=True))
        return 1 + sum(1 for _ in takewhile(lambda units: units < asked, taken))

    def run(self, opens: int | None = None) -> dict[int, list[int]] | None:
        """The device of each bundle, by its place, or None.

        Args:
            opens: On how many devices they may be; None for any number.
        """
        if opens is None and self._is_large and (found := self._best_fit()):
            return found
        self._steps = self._budget.left
        self._opens = sum(self._left) if opens is None else opens
        fillings = first_solution(self, self._failed)
        self.is_certain = fillings is not None or not self.is_given_up
        self._budget.left = max(0, min(self._budget.left, self._steps))
        return None if fillings is None else self._placement(fillings)

    def _best_fit(self) -> dict[int, list[int]] | None:
        """Each bundle, the largest first, on the fullest device that has room.

        With those that others are on before the rest, so that few are used.
        """
        used: list[tuple[int, int]] = []
        unused = sorted((free, index) for index, free in self._free.items())
        found: dict[int, list[int]] = {}
        for size, numbers in self._parts.items():
            units = size.units * self._unit
            for number in numbers:
                for devices in (used, unused):
                    at = _fullest(devices, units, size.allowed)
                    if at is not None:
                        free, index = devices.pop(at)
                        insort(used, (free - units, index))
                        found[number] = [index]
                        break
                else:
                    return None
        return found

    # Problem.

    @property
    def is_solved(self) -> bool:
        """Whether every bundle has a device; see Problem."""
        return not any(self._bundles)

    @property
    def is_given_up(self) -> bool:
        """Whether the search has taken too many steps; see Problem."""
        return self._steps < 0

    def state(self) -> Hashable:
        """Returns which bundles and devices are left; see Problem."""
        return (self._opens, *self._bundles, *self._left)

    def choices(self) -> Iterator[Filling]:
        """Yields what the next device may take; see Problem."""
        return self._fillings() if self._may_fit(self._opens) else iter(())

    def make(self, choice: Filling) -> None:
        """Makes a choice; see Problem."""
        self._opens -= 1
        self._fill(choice, -1)

    def undo(self, choice: Filling) -> None:
        """Takes the last choice back; see Problem."""
        self._opens += 1
        self._fill(choice, 1)

    def _fill(self, filling: Filling, sign: int) -> None:
        sort, sizes = filling
        self._left[sort] += sign
        for size, count in sizes:
            self._bundles[size] += sign * count

    def _total(self) -> Iterator[int]:
        return (s.units * n for s, n in zip(self._sizes, self._bundles, strict=True))

    def _may_fit(self, opens: int) -> bool:
        """Whether the devices that are left could take all, as far as sums tell."""
        fills: list[tuple[int, int]] = []
        of_scope: Counter[frozenset[int] | None] = Counter()
        sums: dict[tuple[int, ...], int] = {}
        for number, sort in enumerate(self._sorts):
            if not self._left[number]:
                continue
            if sort.sizes not in sums:
                sums[sort.sizes] = self._sums(sort.sizes)[0]
            best = (sums[sort.sizes] & ((2 << sort.free) - 1)).bit_length() - 1
            fills.append((best, self._left[number]))
            scopes = {self._sizes[size].allowed for size in sort.sizes}
            of_scope.update(dict.fromkeys(scopes, best * self._left[number]))
        room = _most_room(sorted(fills, reverse=True), opens)
        asked: Counter[frozenset[int] | None] = Counter()
        for size, total in zip(self._sizes, self._total(), strict=True):
            asked[size.allowed] += total
        return room >= asked.total() and all(
            of_scope[scope] >= units for scope, units in asked.items()
        )

    def _sums(self, sizes: Sequence[int]) -> list[int]:
        """The sums that bundles make, as bits: of all sizes, all but the first, ..."""
        self._steps -= len(sizes)
        bits, found = 1, [1]
        most = (2 << self._sorts[-1].free) - 1
        for number in reversed(sizes):
            units, left, times = self._sizes[number].units, self._bundles[number], 1
            while left:
                bits |= bits << (units * min(times, left)) & most
                left -= min(times, left)
                times *= 2
            found.append(bits)
        return found[::-1]

    def _fillings(self) -> Iterator[Filling]:
        """Yields what the device of the largest bundle may take, the best first."""
        first = next(size for size, count in enumerate(self._bundles) if count)
        largest = self._sizes[first]
        frees = [sort.free for sort in self._sorts]
        room = _most_room(zip(frees[::-1], self._left[::-1], strict=True), self._opens)
        spare = room - sum(self._total())
        for number, sort in enumerate(self._sorts):
            if not self._left[number] or sort.free < largest.units:
                continue
            if first in sort.sizes:
                for sizes in self._fills(sort, first, spare):
                    yield number, sizes

    def _fills(
        self, sort: _EqualDevices, first: int, spare: int
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        """What fills a device beside a bundle of the first size, the fullest first."""
        sizes = [size for size in sort.sizes if size >= first and self._bundles[size]]
        self._bundles[first] -= 1
        sums = self._sums(sizes)
        there = list(self._bundles)
        self._bundles[first] += 1
        left = sort.free - self._sizes[first].units
        open_sums = sums[0] & ((2 << left) - 1)
        while open_sums and left + 1 - open_sums.bit_length() <= spare:
            units = open_sums.bit_length() - 1
            open_sums ^= 1 << units
            for more in self._subsets(sizes, sums, there, units):
                if self._is_full(sizes, there, more, left - units):
                    counts = Counter({first: 1})
                    counts.update(dict(more))
                    yield tuple(counts.items())
                    if self._are_alike and sum(n for _, n in more) == 1:
                        return

    def _subsets(
        self,
        sizes: Sequence[int],
        sums: Sequence[int],
        there: Sequence[int],
        units: int,
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        """The ways to make a sum, those with the largest bundles first."""
        ways: list[tuple[int, int, tuple[tuple[int, int], ...]]] = [(0, units, ())]
        while ways:
            number, left, chosen = ways.pop()
            self._steps -= 1
            if self._steps < 0:
                return
            if not left:
                yield chosen
                continue
            size = sizes[number]
            each, most = self._sizes[size].units, there[size]
            for count in range(min(most, left // each) + 1):
                rest = left - count * each
                if sums[number + 1] >> rest & 1:
                    more = ((size, count),) if count else ()
                    ways.append((number + 1, rest, (*chosen, *more)))

    def _is_full(
        self,
        sizes: Sequence[int],
        there: Sequence[int],
        chosen: Iterable[tuple[int, int]],
        left: int,
    ) -> bool:
        """Whether nobody who may join has room any more."""
        taken = dict(chosen)
        return not any(
            self._sizes[size].units <= left and there[size] > taken.get(size, 0)
            for size in sizes
        )

    def _placement(self, filled: Iterable[Filling]) -> dict[int, list[int]]:
        numbers = {size: list(each) for size, each in self._parts.items()}
        devices = {sort: list(each) for sort, each in self._devices.items()}
        used: set[int] = set()
        found: dict[int, list[int]] = {}

        def rank(index: int) -> tuple[int, int, int]:
            return self._free[index], self._rank(index, used), index

        for sort, sizes in filled:
            indices = devices[self._sorts[sort]]
            index = min(indices, key=rank)
            indices.remove(index)
            used.add(index)
            for size, count in sizes:
                mine = numbers[self._sizes[size]]
                found.update((number, [index]) for number in mine[:count])
                del mine[:count]
        return found


def _fullest(
    devices: Sequence[tuple[int, int]], units: int, allowed: frozenset[int] | None
) -> int | None:
    """Where the first device stands that has room; they are in order of that."""
    for at in range(bisect_left(devices, (units,)), len(devices)):
        if allowed is None or devices[at][1] in allowed:
            return at
    return None


def _most_room(frees: Iterable[tuple[int, int]], opens: int) -> int:
    """What so many devices have together at the most.

    Args:
        frees: What some have, and how many do, those with the most first.
        opens: How many of them.
    """
    room = 0
    for free, count in frees:
        room += free * min(opens, count)
        opens -= min(opens, count)
    return room
