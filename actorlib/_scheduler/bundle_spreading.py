"""Where bundles lie apart: each on a device of its own, or as many as can be.

On devices of their own is a matching, which is found whenever there is one. If some
have to share, it is a search that places bundle after bundle, the largest first, and
goes back where it is stuck. To lie apart is a wish then: what it does not find within
``MAX_STEPS`` is arranged otherwise.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from actorlib._scheduler.bundle_packing import BundleShare

MAX_STEPS = 2_000
"""How many placements of one bundle a search tries at the most."""


def match_devices(
    parts: Sequence[BundleShare], free: Mapping[int, int]
) -> dict[int, list[int]] | None:
    """A device of its own for each bundle, by its place; None if there are too few.

    Args:
        parts: The bundles, each of at most one device.
        free: What the devices that may be used have free, by index.
    """
    if len(parts) > len(free):
        return None
    emptiest = sorted(free, key=lambda index: (-free[index], index))
    on: dict[int, BundleShare] = {}
    for part in sorted(parts, key=lambda part: (-part.units, part.place)):
        if not _reassign(part, emptiest, free, on):
            return None
    return {part.place: [index] for index, part in on.items()}


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
            if index in moves or not (mover.open_to is None or index in mover.open_to):
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
class _SpreadingStep:
    """One bundle on the way.

    Attributes:
        state: What was there before it.
        choices: The choices that are left.
        joins: Bundles that may still join others.
        chosen: Where it is now, if anywhere.
    """

    __slots__ = ("choices", "chosen", "joins", "state")

    def __init__(self, state: object, choices: Iterator[_Choice], joins: int) -> None:
        self.state = state
        self.choices = choices
        self.joins = joins
        self.chosen: _Choice | None = None


@final
class Spreading:
    """Places bundle after bundle, on the emptiest device that nobody is on.

    Args:
        parts: The bundles, each of at most one device.
        free: What the devices that may be used have free, by index.
    """

    def __init__(self, parts: Sequence[BundleShare], free: Mapping[int, int]) -> None:
        self._parts = sorted(parts, key=lambda part: (-part.units, part.place))
        self._steps = MAX_STEPS + len(parts)
        self._free = dict(free)
        self._on: dict[int, int] = {}
        self._failed: set[object] = set()
        scopes = list(dict.fromkeys(part.open_to for part in parts if part.open_to))
        # What tells two devices apart beyond what they have free.
        self._sort = {i: tuple(i in scope for scope in scopes) for i in free}

    def run(self, joins: int | None = None) -> dict[int, list[int]] | None:
        """The device of each bundle, by its place, or None.

        Args:
            joins: How many may be on one that another is on; None for any.
        """
        most = len(self._parts)
        # Not by recursion: a group may have more bundles than Python has frames.
        way = [self._step(0, most if joins is None else joins)]
        found: dict[int, list[int]] | None = None
        while way and found is None and self._steps > 0:
            step, units = way[-1], self._parts[len(way) - 1].units
            self._leave(step, units)
            choice = next(step.choices, None)
            if choice is None:
                self._failed.add(step.state)
                way.pop()
                continue
            self._steps -= 1
            step.chosen = choice
            self._free[choice.device] -= units
            self._on[choice.device] = self._on.get(choice.device, 0) + 1
            if len(way) < most:
                way.append(self._step(len(way), step.joins - choice.joins))
                continue
            found = {
                part.place: [done.chosen.device]
                for part, done in zip(self._parts, way, strict=True)
                if done.chosen is not None
            }
        for part, step in zip(self._parts, way, strict=False):
            self._leave(step, part.units)
        return found

    def _leave(self, step: _SpreadingStep, units: int) -> None:
        if step.chosen is not None:
            index = step.chosen.device
            step.chosen = None
            self._free[index] += units
            self._on[index] -= 1
            if not self._on[index]:
                del self._on[index]

    def _step(self, number: int, joins: int) -> _SpreadingStep:
        state = (number, joins, self._state())
        is_new = state not in self._failed
        choices = self._choices(self._parts[number], joins) if is_new else iter(())
        return _SpreadingStep(state, choices, joins)

    def _choices(self, part: BundleShare, joins: int) -> Iterator[_Choice]:
        roomy = (
            index
            for index in self._free
            if self._free[index] >= part.units
            and (part.open_to is None or index in part.open_to)
        )
        seen: set[object] = set()
        for index in sorted(roomy, key=self._rank):
            joins_another = index in self._on
            mark = (self._free[index], joins_another, self._sort[index])
            if mark not in seen and (joins or not joins_another):
                seen.add(mark)
                yield _Choice(index, joins_another)

    def _rank(self, index: int) -> tuple[object, ...]:
        """The unused ones first, then the emptiest."""
        return index in self._on, -self._free[index], index

    def _state(self) -> tuple[object, ...]:
        """All that tells what can still be placed; which device is which does not."""
        each = (
            (free, index in self._on, self._sort[index])
            for index, free in self._free.items()
            if free
        )
        return tuple(sorted(each))
