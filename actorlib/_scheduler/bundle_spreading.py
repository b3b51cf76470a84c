"""Spreads bundles over as many devices as possible.

If each bundle can have its own device, a matching finds the devices whenever there are
any. If some have to share, a search places bundle after bundle, the largest first
(``backtracking``). Separate devices are then preferred and not guaranteed: a result
that the search does not find within ``MAX_STEPS`` is not used.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._scheduler.backtracking import first_solution

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from actorlib._scheduler.bundle_packing import BundleShare

MAX_STEPS = 2_000
"""How many placements of one bundle a search tries at most."""


def match_devices(
    parts: Sequence[BundleShare], free: Mapping[int, int]
) -> dict[int, list[int]] | None:
    """Assigns a separate device to each bundle, by number; None if there are too few.

    Each bundle requests at most one device. ``free`` contains the free units of the
    usable devices, by index.
    """
    if len(parts) > len(free):
        return None
    emptiest = sorted(free, key=lambda index: (-free[index], index))
    on: dict[int, BundleShare] = {}
    for part in sorted(parts, key=lambda part: (-part.units, part.number)):
        if not _reassign(part, emptiest, free, on):
            return None
    return {part.number: [index] for index, part in on.items()}


def _reassign(
    part: BundleShare,
    devices: Sequence[int],
    free: Mapping[int, int],
    on: dict[int, BundleShare],
) -> bool:
    """Assigns a device to one more bundle, if necessary by moving other bundles."""
    moves: dict[int, tuple[BundleShare, int | None]] = {}
    movers: deque[tuple[BundleShare, int | None]] = deque([(part, None)])
    while movers:
        mover, old = movers.popleft()
        for index in devices:
            if free[index] < mover.units:
                break  # the emptiest come first
            if index in moves or not mover.may_be_on(index):
                continue
            if free[index] < mover.units_on(index):
                continue
            moves[index] = mover, old
            if index in on:
                movers.append((on[index], index))
                continue
            to: int | None = index
            while to is not None:
                on[to], to = moves[to]
            return True
    return False


class _Choice(NamedTuple):
    """A device for a bundle, and whether another bundle is on it."""

    device: int
    joins: bool


@final
class Spreading:
    """Places bundle after bundle on the emptiest unused device; see Problem.

    The arguments are those of ``match_devices``.
    """

    def __init__(self, parts: Sequence[BundleShare], free: Mapping[int, int]) -> None:
        self._parts = sorted(parts, key=lambda part: (-part.units, part.number))
        self._steps = MAX_STEPS + len(parts)
        self._placed = 0
        self._joins = 0
        self._free = dict(free)
        self._on: dict[int, int] = {}
        self._failed: set[Hashable] = set()
        scopes = list(dict.fromkeys(part.allowed for part in parts if part.allowed))
        differing = list(dict.fromkeys(p.on_device for p in parts if p.on_device))
        # The differences between devices beyond their free units.
        self._class_of = {
            i: (*(i in scope for scope in scopes), *(d.units.get(i) for d in differing))
            for i in free
        }

    def run(self, joins: int | None = None) -> dict[int, list[int]] | None:
        """Returns the device of each bundle, by its number, or None.

        Args:
            joins: How many may share a device with an earlier one; None for any number.
        """
        self._joins = len(self._parts) if joins is None else joins
        choices = first_solution(self, self._failed)
        if choices is None:
            return None
        return {
            part.number: [choice.device]
            for part, choice in zip(self._parts, choices, strict=True)
        }

    @property
    def is_solved(self) -> bool:
        return self._placed == len(self._parts)

    @property
    def is_given_up(self) -> bool:
        return self._steps <= 0

    def state(self) -> Hashable:
        """Returns the state of the devices; equal ones are interchangeable."""
        each = (
            (free, index in self._on, self._class_of[index])
            for index, free in self._free.items()
            if free
        )
        return self._placed, self._joins, tuple(sorted(each))

    def choices(self) -> Iterator[_Choice]:
        part = self._parts[self._placed]
        roomy = (
            index
            for index in self._free
            if part.may_be_on(index) and self._free[index] >= part.units_on(index)
        )
        marks: set[object] = set()
        for index in sorted(roomy, key=self._rank):
            joins = index in self._on
            mark = (self._free[index], joins, self._class_of[index])
            if mark not in marks and (self._joins or not joins):
                marks.add(mark)
                yield _Choice(index, joins)

    def make(self, choice: _Choice) -> None:
        self._steps -= 1
        part = self._parts[self._placed]
        self._free[choice.device] -= part.units_on(choice.device)
        self._on[choice.device] = self._on.get(choice.device, 0) + 1
        self._joins -= choice.joins
        self._placed += 1

    def undo(self, choice: _Choice) -> None:
        self._placed -= 1
        self._joins += choice.joins
        part = self._parts[self._placed]
        self._free[choice.device] += part.units_on(choice.device)
        self._on[choice.device] -= 1
        if not self._on[choice.device]:
            del self._on[choice.device]

    def _rank(self, index: int) -> tuple[object, ...]:
        """Ranks unused devices first, then the emptiest."""
        return index in self._on, -self._free[index], index
