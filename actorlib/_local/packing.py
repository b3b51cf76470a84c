"""Where the bundles of a gang find room: a search that goes back where it is stuck.

Shares of different sizes on devices that have different amounts left are a packing
problem: whoever takes the first device that fits can fail where there is room. So it is
a search that goes back, over devices that differ: two with the same amount free are
one choice. Machines have a few dozen devices and groups of a few sizes, for which the
first way down is nearly always right; ``STEPS`` bounds the rest, and what is not found
by then is taken not to be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, final

from actorlib._kinds import UNITS
from actorlib._local.topology import neighbours

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from actorlib._kinds import Kind
    from actorlib._local.where import Make
    from actorlib.accelerators.base import Device

STEPS = 5_000
"""How many placements of one bundle a search tries at the most."""


class Pool(Protocol):
    """The devices of one kind."""

    kind: Kind
    devices: tuple[Device, ...]

    def of_makes(self, makes: Collection[Make] | None) -> frozenset[int] | None:
        """The devices of some makes; None for every one."""
        ...

    def sets(self, count: int, free: Sequence[int]) -> Iterator[list[int]]:
        """So many of the free devices, the best of each make and of each family."""
        ...

    def closest(self, count: int, devices: Sequence[Device]) -> Sequence[Device]:
        """Of some devices, so many that belong together as far as can be."""
        ...


class Part(NamedTuple):
    """What one bundle asks of this kind.

    Attributes:
        place: Which bundle.
        units: How much.
        open_to: The devices that it may be on, or None for every one.
    """

    place: int
    units: int
    open_to: frozenset[int] | None


Found = dict[int, list[int]]
Choice = tuple[list[int], int, int]

_NO_CHOICE: Choice = ([], 0, 0)


@final
class _Step:
    """One bundle on the way: where it is, and where else it might be.

    Attributes:
        state: What was there before it.
        choices: The choices that are left.
        opens: Devices that may still be opened.
        joins: Bundles that may still join others.
        chosen: Where it is now.
    """

    __slots__ = ("choices", "chosen", "joins", "opens", "state")

    def __init__(
        self,
        state: object,
        choices: Iterator[Choice],
        opens: int,
        joins: int,
    ) -> None:
        self.state = state
        self.choices = choices
        self.opens = opens
        self.joins = joins
        self.chosen: list[int] = []


@final
class Search:
    """Places bundle after bundle, the largest first, and goes back where it is stuck.

    Args:
        pool: All devices of the kind.
        parts: What the bundles ask.
        free: What the devices that may be used have free, by index.
        spreads: Whether a device that no bundle is on is tried first.
    """

    def __init__(
        self,
        pool: Pool,
        parts: Sequence[Part],
        free: Mapping[int, int],
        *,
        spreads: bool,
    ) -> None:
        self._pool = pool
        self._parts = sorted(parts, key=lambda part: (-part.units, part.place))
        self._all_free = free
        self._spreads = spreads
        self._steps = STEPS
        self._free: dict[int, int] = {}
        self._used: dict[int, int] = {}
        self._failed: set[object] = set()
        scopes = list(dict.fromkeys(part.open_to for part in parts if part.open_to))
        # What tells two devices apart beyond what they have free.
        self._sort = {
            index: (
                pool.devices[index].family,
                pool.devices[index].model,
                pool.devices[index].parent is None,
                *(index in scope for scope in scopes),
            )
            for index in free
        }
        near = neighbours(
            [pool.devices[index] for index in free], by_number=pool.kind.aligned
        )
        indices = list(free)
        self._linked = {
            indices[place]: {indices[other] for other in others}
            for place, others in near.items()
        }

    def run(self, opens: int | None = None, joins: int | None = None) -> Found | None:
        """The devices of each bundle, by its place, or None.

        Args:
            opens: On how many devices those may be that share them; None for any.
            joins: How many may be on one that another is on; None for any.
        """
        self._free = dict(self._all_free)
        self._used = {}
        self._failed = set()
        most = len(self._parts)
        # Not by recursion: a group may have more bundles than Python has frames.
        way = [self._step(most if opens is None else opens, joins=joins)]
        while way:
            step = way[-1]
            each = min(self._parts[len(way) - 1].units, UNITS)
            self._give(step.chosen, each)
            step.chosen, opened, joined = next(step.choices, _NO_CHOICE)
            if not step.chosen:
                self._failed.add(step.state)
                way.pop()
                continue
            self._steps -= 1
            if self._steps < 0:
                return None
            self._take(step.chosen, each)
            if len(way) == most:
                found = zip(self._parts, way, strict=True)
                return {part.place: done.chosen for part, done in found}
            way.append(self._step(step.opens - opened, step.joins - joined, len(way)))
        return None

    def _step(self, opens: int, joins: int | None, number: int = 0) -> _Step:
        if joins is None:
            joins = len(self._parts)
        state = (number, opens, joins, self._state())
        is_new = state not in self._failed
        choices = self._choices(self._parts[number], opens, joins)
        return _Step(state, choices if is_new else iter(()), opens, joins)

    def _choices(self, part: Part, opens: int, joins: int) -> Iterator[Choice]:
        """Where a bundle may go, the best first; devices that it opens, and joins."""
        roomy = [
            index
            for index in sorted(self._free)
            if self._free[index] >= min(part.units, UNITS)
            and (part.open_to is None or index in part.open_to)
        ]
        if part.units > UNITS:
            for chosen in self._pool.sets(part.units // UNITS, self._whole(roomy)):
                yield chosen, 0, 0
            return
        seen: set[object] = set()
        for index in sorted(roomy, key=self._spread if self._spreads else self._pack):
            is_used = index in self._used
            mark = (self._free[index], is_used, self._sort[index])
            if mark not in seen and (joins if is_used else opens):
                seen.add(mark)
                yield [index], not is_used, is_used

    def _whole(self, indices: Sequence[int]) -> list[int]:
        """Without parts of cards: several of them are never one bundle's."""
        devices = self._pool.devices
        return [index for index in indices if devices[index].parent is None]

    def _pack(self, index: int) -> tuple[object, ...]:
        """The used ones first, then the fullest, then those linked to used ones."""
        ties = len(self._linked[index] & self._used.keys())
        return index not in self._used, self._free[index], -ties, index

    def _spread(self, index: int) -> tuple[object, ...]:
        """The unused ones first, then the emptiest."""
        return index in self._used, -self._free[index], index

    def _take(self, chosen: Sequence[int], each: int) -> None:
        for index in chosen:
            self._free[index] -= each
            self._used[index] = self._used.get(index, 0) + 1

    def _give(self, chosen: Sequence[int], each: int) -> None:
        for index in chosen:
            self._free[index] += each
            self._used[index] -= 1
            if not self._used[index]:
                del self._used[index]

    def _state(self) -> tuple[object, ...]:
        """All that tells what can still be placed; which device is which does not."""
        each = (
            (free, index in self._used, hash(self._sort[index]))
            for index, free in self._free.items()
            if free
        )
        return tuple(sorted(each))
