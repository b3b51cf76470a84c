"""Spreads bundles: each on a device of its own, or as many as can be.

On devices of their own is a matching, which is found whenever there is one. If some
have to share, it is a search that places bundle after bundle, the largest first, and
takes steps back where it is stuck (``backtracking``). To lie apart is then preferred
and not promised: what it does not find within ``MAX_STEPS`` is arranged otherwise.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._scheduler.backtracking import first_solution

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from actorlib._scheduler.bundle_packing import BundleShare

MAX_STEPS = 2_000
"""How many placements of one bundle a search tries at the most."""


def match_devices(
    parts: Sequence[BundleShare], free: Mapping[int, int]
) -> dict[int, list[int]] | None:
    """Finds a device of its own for each bundle, by number; None if there are too few.

    Args:
        parts: The bundles, each of at most one device.
        free: What the devices that may be used have free, by index.
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
    """Finds one more bundle a device, if others on the way move to another one."""
    moves: dict[int, tuple[BundleShare, int | None]] = {}
    asking: deque[tuple[BundleShare, int | None]] = deque([(part, None)])
    while asking:
        mover, left = asking.popleft()
        for index in devices:
            if free[index] < mover.units:
                break  # the emptiest come first
            if index in moves or not mover.may_be_on(index):
                continue
            if free[index] < mover.units_on(index):
                continue
            moves[index] = mover, left
            if index in on:
                asking.append((on[index], index))
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
    """Places bundle after bundle on the emptiest device that has none; see Problem.

    Args:
        parts: The bundles, each of at most one device.
        free: What the devices that may be used have free, by index.
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
        # What tells two devices apart beyond what they have free.
        self._class_of = {
            i: (*(i in scope for scope in scopes), *(d.units.get(i) for d in differing))
            for i in free
        }

    def run(self, joins: int | None = None) -> dict[int, list[int]] | None:
        """Returns the device of each bundle, by its number, or None.

        Args:
            joins: How many may be on one that another is on; None for any.
        """
        self._joins = len(self._parts) if joins is None else joins
        found = first_solution(self, self._failed)
        if found is None:
            return None
        return {
            part.number: [choice.device]
            for part, choice in zip(self._parts, found, strict=True)
        }

    @property
    def is_solved(self) -> bool:
        """Whether every bundle has a device; see Problem."""
        return self._placed == len(self._parts)

    @property
    def is_given_up(self) -> bool:
        """Whether the search has taken too many steps; see Problem."""
        return self._steps <= 0

    def state(self) -> Hashable:
        """Returns all that matters of the devices: which of equal ones is which not."""
        each = (
            (free, index in self._on, self._class_of[index])
            for index, free in self._free.items()
            if free
        )
        return self._placed, self._joins, tuple(sorted(each))

    def choices(self) -> Iterator[_Choice]:
        """Yields devices for the next bundle; see Problem."""
        part = self._parts[self._placed]
        roomy = (
            index
            for index in self._free
            if part.may_be_on(index) and self._free[index] >= part.units_on(index)
        )
        seen: set[object] = set()
        for index in sorted(roomy, key=self._rank):
            joins = index in self._on
            mark = (self._free[index], joins, self._class_of[index])
            if mark not in seen and (self._joins or not joins):
                seen.add(mark)
                yield _Choice(index, joins)

    def make(self, choice: _Choice) -> None:
        """Makes a choice; see Problem."""
        self._steps -= 1
        part = self._parts[self._placed]
        self._free[choice.device] -= part.units_on(choice.device)
        self._on[choice.device] = self._on.get(choice.device, 0) + 1
        self._joins -= choice.joins
        self._placed += 1

    def undo(self, choice: _Choice) -> None:
        """Takes the last choice back; see Problem."""
        self._placed -= 1
        self._joins += choice.joins
        part = self._parts[self._placed]
        self._free[choice.device] += part.units_on(choice.device)
        self._on[choice.device] -= 1
        if not self._on[choice.device]:
            del self._on[choice.device]

    def _rank(self, index: int) -> tuple[object, ...]:
        """Puts the unused ones first, then the emptiest."""
        return index in self._on, -self._free[index], index
