"""Packs bundles that may share a device: a search, device after device.

A search bundle after bundle fails if the last few devices have to be filled to the last
unit, and only notices at the end. So the largest remaining bundle chooses a device, and
that device is then filled: first with the sums that leave the least free. It is filled
as far as possible, which loses no solution: a bundle that still fits can join it
however the rest is packed.

Four rules bound the search. Equal bundles are one size and equal devices one class, so
their order is not a choice. A step is undone as soon as the remaining devices, each
filled as well as the sums of the remaining bundles allow, cannot take all bundles.
Failed states are remembered (``backtracking``). 48 bundles in steps of a hundredth that
fill 16 devices to the last unit take some thousand steps, 3 ms. Packing is hard in
general, so ``MAX_STEPS`` bounds the rest, and :attr:`Packing.is_certain` is False if it
was reached. If even a search without an undone step would take too long, each bundle is
first put where it fits best.

Bytes of memory are more units of a small device than of a large one. Then each size has
different units on each class of devices, and no size replaces another. The bounds count
in the least units of each size, and the free units of a device as the highest number of
those that it can hold, so that they never exclude a solution.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from fractions import Fraction
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
"""How many steps a whole result may take; a step looks at one size of bundles."""


@final
class SearchBudget:
    """The remaining steps that several searches for one result may take together."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS


@final
class UnitsByDevice:
    """The units that some bytes need on each device that has them, by index.

    Equal bundles share one object: it is compared by identity.
    """

    __slots__ = ("units",)

    def __init__(self, units: Mapping[int, int]) -> None:
        self.units = units


class BundleShare(NamedTuple):
    """The share of one kind of devices that a bundle requests.

    Attributes:
        number: The number of the bundle.
        units: The units; the least ones if devices differ.
        allowed: The devices that it may be on, or None for all.
        on_device: The units on each allowed device, or None if they are equal.
    """

    number: int
    units: int
    allowed: frozenset[int] | None
    on_device: UnitsByDevice | None = None

    def units_on(self, index: int) -> int:
        return self.units if self.on_device is None else self.on_device.units[index]

    def may_be_on(self, index: int) -> bool:
        return self.allowed is None or index in self.allowed


class _BundleSize(NamedTuple):
    """The size of equal bundles: their units, and the devices that they may use."""

    units: int
    allowed: frozenset[int] | None
    on_device: UnitsByDevice | None


class _EqualDevices(NamedTuple):
    """A class of equal devices.

    Attributes:
        free: The free units of each.
        sizes: The sizes of bundles that they may take.
        units: The units that a bundle of each size needs there.
        gain: The highest ratio of the least units of a size to its units there, as a
            numerator and a denominator.
    """

    free: int
    sizes: tuple[int, ...]
    units: tuple[int, ...]
    gain: tuple[int, int]

    def least(self, units: int) -> int:
        """Converts units of this class to the most least units that they can be."""
        numerator, denominator = self.gain
        return units * numerator // denominator


Filling = tuple[int, tuple[tuple[int, int], ...]]
"""The number of a class of devices, and the bundles of one: sizes with their counts."""


@final
class Packing:
    """Fills device after device with bundles that may share one; see Problem.

    Args:
        parts: The bundles, each of at most one device.
        free: The free units of the usable devices, by index.
        rank: Ranks a device, given the used ones: of devices with equal free units, the
            one with the lowest rank is used.
        budget: The steps that its searches may take.

    Attributes:
        is_certain: Whether the last search was complete: if it found no solution, there
            is none.
    """

    def __init__(
        self,
        parts: Sequence[BundleShare],
        free: Mapping[int, int],
        rank: Callable[[int, set[int]], int],
        budget: SearchBudget,
    ) -> None:
        self.is_certain = True
        self._rank = rank
        # There are fewer sums in the largest unit that divides all sizes.
        self._unit = gcd(*_all_units(parts)) or 1
        self._parts: dict[_BundleSize, list[int]] = {}
        for part in sorted(parts, key=lambda part: (-part.units, part.number)):
            units = part.units // self._unit
            size = _BundleSize(units, part.allowed, part.on_device)
            self._parts.setdefault(size, []).append(part.number)
        self._sizes = list(self._parts)
        self._are_uniform = not any(size.on_device for size in self._sizes)
        scopes = {size.allowed for size in self._sizes}
        self._are_alike = self._are_uniform and len(scopes) == 1
        self._devices: dict[_EqualDevices, list[int]] = {}
        for index, device_class in self._classified(free):
            self._devices.setdefault(device_class, []).append(index)
        self._free = free
        self._device_classes = list(self._devices)
        # The left side is the number of steps without an undone one.
        self._is_large = 3 * len(free) * len(self._sizes) > MAX_STEPS
        self._budget = budget
        self._steps = 0
        self._opens = 0
        self._bundles = [len(numbers) for numbers in self._parts.values()]
        self._left = [len(indices) for indices in self._devices.values()]
        self._failed: set[Hashable] = set()

    def _classified(
        self, free: Mapping[int, int]
    ) -> Iterator[tuple[int, _EqualDevices]]:
        """Yields each device with its class, the fullest first."""
        scopes = list(dict.fromkeys(size.allowed for size in self._sizes))
        sizes_within: dict[tuple[bool, ...], tuple[int, ...]] = {}
        usual, gain = tuple(size.units for size in self._sizes), (1, 1)
        gains: dict[object, tuple[int, int]] = {}
        for index in sorted(free, key=lambda index: (free[index], index)):
            within = tuple(scope is None or index in scope for scope in scopes)
            sizes = sizes_within.get(within)
            if sizes is None:
                allowed = {s for s, has in zip(scopes, within, strict=True) if has}
                each = enumerate(self._sizes)
                sizes = tuple(n for n, size in each if size.allowed in allowed)
                sizes_within[within] = sizes
            units = usual
            if not self._are_uniform:
                units = tuple(self._units_on(index, size) for size in self._sizes)
                if (sizes, units) not in gains:
                    gains[sizes, units] = self._gain(sizes, units)
                gain = gains[sizes, units]
            yield index, _EqualDevices(free[index] // self._unit, sizes, units, gain)

    def _units_on(self, index: int, size: _BundleSize) -> int:
        if size.on_device is None:
            return size.units
        return size.on_device.units.get(index, 0) // self._unit

    def _gain(self, sizes: Iterable[int], units: Sequence[int]) -> tuple[int, int]:
        """Computes ``_EqualDevices.gain``."""
        ratios = [(self._sizes[size].units, units[size]) for size in sizes]
        return max(ratios, key=lambda ratio: Fraction(*ratio), default=(1, 1))

    @property
    def fewest(self) -> int:
        """A lower bound of the number of devices that the bundles need."""
        total = sum(self._total())
        rooms = (
            device_class.least(device_class.free)
            for device_class, indices in self._devices.items()
            for _ in indices
        )
        sums = accumulate(sorted(rooms, reverse=True))
        return 1 + sum(1 for _ in takewhile(lambda units: units < total, sums))

    def run(self, opens: int | None = None) -> dict[int, list[int]] | None:
        """Returns the device of each bundle, by its number, or None.

        Args:
            opens: The maximum number of devices; None for any number.
        """
        if opens is None and self._is_large and (placement := self._best_fit()):
            return placement
        self._steps = self._budget.left
        self._opens = sum(self._left) if opens is None else opens
        fillings = first_solution(self, self._failed)
        self.is_certain = fillings is not None or not self.is_given_up
        self._budget.left = max(0, min(self._budget.left, self._steps))
        return None if fillings is None else self._placement(fillings)

    def _best_fit(self) -> dict[int, list[int]] | None:
        """Puts each bundle, the largest first, on the fullest device with room.

        Used devices come before unused ones, so that few are used.
        """
        used: list[tuple[int, int]] = []
        unused = sorted((free, index) for index, free in self._free.items())
        placement: dict[int, list[int]] = {}
        for size, numbers in self._parts.items():
            units = size.units * self._unit
            part = BundleShare(numbers[0], units, size.allowed, size.on_device)
            for number in numbers:
                for devices in (used, unused):
                    at = _fullest(devices, part)
                    if at is not None:
                        free, index = devices.pop(at)
                        insort(used, (free - part.units_on(index), index))
                        placement[number] = [index]
                        break
                else:
                    return None
        return placement

    # Problem.

    @property
    def is_solved(self) -> bool:
        return not any(self._bundles)

    @property
    def is_given_up(self) -> bool:
        return self._steps < 0

    def state(self) -> Hashable:
        return (self._opens, *self._bundles, *self._left)

    def choices(self) -> Iterator[Filling]:
        return self._fillings() if self._may_fit(self._opens) else iter(())

    def make(self, choice: Filling) -> None:
        self._opens -= 1
        self._fill(choice, -1)

    def undo(self, choice: Filling) -> None:
        self._opens += 1
        self._fill(choice, 1)

    def _fill(self, filling: Filling, sign: int) -> None:
        device_class, sizes = filling
        self._left[device_class] += sign
        for size, count in sizes:
            self._bundles[size] += sign * count

    def _total(self) -> Iterator[int]:
        return (s.units * n for s, n in zip(self._sizes, self._bundles, strict=True))

    def _may_fit(self, opens: int) -> bool:
        """Whether the remaining devices can take all bundles, judged by sums only."""
        fills: list[tuple[int, int]] = []
        of_scope: Counter[frozenset[int] | None] = Counter()
        sums: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        for number, device_class in enumerate(self._device_classes):
            if not self._left[number]:
                continue
            alike = device_class.sizes, device_class.units
            if alike not in sums:
                sums[alike] = self._sums(*alike)[0]
            fitting = sums[alike] & ((2 << device_class.free) - 1)
            best = device_class.least(fitting.bit_length() - 1)
            fills.append((best, self._left[number]))
            scopes = {self._sizes[size].allowed for size in device_class.sizes}
            of_scope.update(dict.fromkeys(scopes, best * self._left[number]))
        room = _most_room(sorted(fills, reverse=True), opens)
        need: Counter[frozenset[int] | None] = Counter()
        for size, total in zip(self._sizes, self._total(), strict=True):
            need[size.allowed] += total
        return room >= need.total() and all(
            of_scope[scope] >= units for scope, units in need.items()
        )

    def _sums(self, sizes: Sequence[int], units: Sequence[int]) -> list[int]:
        """Returns the sums of bundles as bits: of all sizes, all but the first, ..."""
        self._steps -= len(sizes)
        bits, sums = 1, [1]
        most = (2 << self._device_classes[-1].free) - 1
        for number in reversed(sizes):
            each, remaining, times = units[number], self._bundles[number], 1
            while remaining:
                bits |= bits << (each * min(times, remaining)) & most
                remaining -= min(times, remaining)
                times *= 2
            sums.append(bits)
        return sums[::-1]

    def _fillings(self) -> Iterator[Filling]:
        """Yields the fillings of the largest bundle's device, the best first."""
        first = next(size for size, count in enumerate(self._bundles) if count)
        rooms = [each.least(each.free) for each in self._device_classes]
        most = sorted(zip(rooms, self._left, strict=True), reverse=True)
        spare = _most_room(most, self._opens) - sum(self._total())
        smallest = _smallest(most, self._opens)
        for number, device_class in enumerate(self._device_classes):
            if not self._left[number] or device_class.free < device_class.units[first]:
                continue
            if smallest - rooms[number] > spare:
                continue  # used instead of a larger one, it leaves too little
            if first in device_class.sizes:
                for sizes in self._fills(device_class, first, spare):
                    yield number, sizes

    def _fills(
        self, device_class: _EqualDevices, first: int, spare: int
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yields fillings of a device that has one bundle of the first size.

        The fullest come first.
        """
        sizes = [
            size for size in device_class.sizes if size >= first and self._bundles[size]
        ]
        self._bundles[first] -= 1
        sums = self._sums(sizes, device_class.units)
        available = list(self._bundles)
        self._bundles[first] += 1
        rest = device_class.free - device_class.units[first]
        room = device_class.least(device_class.free)
        open_sums = sums[0] & ((2 << rest) - 1)
        while open_sums:
            units = open_sums.bit_length() - 1
            if room - device_class.least(device_class.free - rest + units) > spare:
                return
            open_sums ^= 1 << units
            for more in self._subsets(
                sizes, device_class.units, sums, available, units
            ):
                if self._is_full(
                    sizes, device_class.units, available, more, rest - units
                ):
                    counts = Counter({first: 1})
                    counts.update(dict(more))
                    yield tuple(counts.items())
                    if self._are_alike and sum(n for _, n in more) == 1:
                        return

    def _subsets(
        self,
        sizes: Sequence[int],
        units_of: Sequence[int],
        sums: Sequence[int],
        available: Sequence[int],
        units: int,
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yields the sets of bundles with a given sum, those with the largest first."""
        stack: list[tuple[int, int, tuple[tuple[int, int], ...]]] = [(0, units, ())]
        while stack:
            number, rest, chosen = stack.pop()
            self._steps -= 1
            if self._steps < 0:
                return
            if not rest:
                yield chosen
                continue
            size = sizes[number]
            each, most = units_of[size], available[size]
            for count in range(min(most, rest // each) + 1):
                remainder = rest - count * each
                if sums[number + 1] >> remainder & 1:
                    more = ((size, count),) if count else ()
                    stack.append((number + 1, remainder, (*chosen, *more)))

    def _is_full(
        self,
        sizes: Sequence[int],
        units_of: Sequence[int],
        available: Sequence[int],
        chosen: Iterable[tuple[int, int]],
        left: int,
    ) -> bool:
        """Whether no further bundle has room."""
        counts = dict(chosen)
        return not any(
            units_of[size] <= left and available[size] > counts.get(size, 0)
            for size in sizes
        )

    def _placement(self, filled: Iterable[Filling]) -> dict[int, list[int]]:
        numbers = {size: list(each) for size, each in self._parts.items()}
        devices = {
            device_class: list(each) for device_class, each in self._devices.items()
        }
        used: set[int] = set()
        placement: dict[int, list[int]] = {}

        def rank(index: int) -> tuple[int, int, int]:
            return self._free[index], self._rank(index, used), index

        for device_class, sizes in filled:
            indices = devices[self._device_classes[device_class]]
            index = min(indices, key=rank)
            indices.remove(index)
            used.add(index)
            for size, count in sizes:
                mine = numbers[self._sizes[size]]
                placement.update((number, [index]) for number in mine[:count])
                del mine[:count]
        return placement


def _all_units(parts: Iterable[BundleShare]) -> set[int]:
    units: set[int] = set()
    for part in parts:
        units.add(part.units)
        if part.on_device is not None:
            units.update(part.on_device.units.values())
    return units


def _fullest(devices: Sequence[tuple[int, int]], part: BundleShare) -> int | None:
    """Returns the position of the first device with room; ``devices`` are sorted."""
    for at in range(bisect_left(devices, (part.units,)), len(devices)):
        free, index = devices[at]
        if part.may_be_on(index) and free >= part.units_on(index):
            return at
    return None


def _smallest(frees: Iterable[tuple[int, int]], opens: int) -> int:
    """Returns the room of the device at position ``opens``; 0 if there are fewer."""
    for free, count in frees:
        opens -= min(opens, count)
        if not opens:
            return free
    return 0


def _most_room(frees: Iterable[tuple[int, int]], opens: int) -> int:
    """Returns the total room of the ``opens`` largest devices.

    ``frees`` contains rooms and how many devices have each, the largest first.
    """
    room = 0
    for free, count in frees:
        room += free * min(opens, count)
        opens -= min(opens, count)
    return room
