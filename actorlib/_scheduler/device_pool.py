"""Which devices a request gets: best fit, lowest index first, and what it wishes.

A share of one device comes from the device that it leaves with the least, so that
devices fill one after another and whole ones stay whole for those who ask for whole
ones; who asks to be spread gets the device with the most free. Several devices are
wholly free ones of one make if there are enough, of one vendor at the least; where
devices are linked or share by number, those that belong together (``topology``). A
share never spans two devices: half of one card and half of another are no card.

Guarantees: the choice depends only on what is free now, never on how it came about.
Without wishes a decision takes the same time for ten devices as for 100 000
(``levels``); a wish costs what it names: the makes of a type, the devices it is to be
near to or apart from.

Which devices of a kind a wish leaves, whatever is free of them.

A wish that names devices, or an actor to be near to, leaves a few, the best first. One
that names a type or an actor to be apart from leaves makes, and devices out.

Which devices a request may get, and which are spoken for: by makes where it can be.

Who asks for an H100 may get all of them, and bars them all to those behind. Said device
by device, each look at the line would take as long as there are devices.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, cast, final

from actorlib._core.kinds import UNITS
from actorlib._core.resources import format_amount
from actorlib._scheduler.bundle_arrangement import Arrangement, arrange
from actorlib._scheduler.free_levels import FreeLevels
from actorlib._scheduler.request import (
    ANYWHERE,
    DeviceConstraints,
    DeviceModel,
    model_of,
)
from actorlib._scheduler.topology import LOOK, aligned, linked
from actorlib.accelerators.base import Share

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from actorlib._core.kinds import Kind
    from actorlib._scheduler.request import Gang
    from actorlib.accelerators.base import Device


class Candidates(NamedTuple):
    """Devices that a request may get: all of some makes, or single ones.

    Of a hundred thousand devices of four makes the makes are four.

    Attributes:
        makes: The makes.
        indices: The indices of the others.
    """

    models: frozenset[DeviceModel]
    indices: frozenset[int]


@final
class Reserved(Collection[int]):
    """The indices of devices that are spoken for, kept by makes where it can be.

    Args:
        by_make: The indices of the devices of each make.
        make_of: The make of each device.

    Attributes:
        makes: The makes of which no device is left.
        indices: Single devices, of any make.
    """

    __slots__ = ("_by_make", "_left", "_make_of", "indices", "models")

    def __init__(
        self,
        by_make: Mapping[DeviceModel, Sequence[int]],
        make_of: Mapping[int, DeviceModel],
    ) -> None:
        self._by_make = by_make
        self._make_of = make_of
        self._left = {make: len(each) for make, each in by_make.items()}
        self.models: set[DeviceModel] = set()
        self.indices: set[int] = set()

    def __contains__(self, index: object) -> bool:
        return (
            index in self.indices
            or self._make_of.get(cast("int", index)) in self.models
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[int]:
        for make in self.models:
            yield from self._by_make[make]
        yield from (i for i in self.indices if self._make_of[i] not in self.models)

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left."""
        return len(self.models) == len(self._left)

    def add(self, reach: Candidates) -> None:
        """Bars what a request may get."""
        self.models |= reach.models
        for index in reach.indices - self.indices:
            self.indices.add(index)
            make = self._make_of[index]
            self._left[make] -= 1
            if not self._left[make]:
                self.models.add(make)

    def covers(self, reach: Candidates) -> bool:
        """Whether nothing is left of what a request may get."""
        return reach.models <= self.models and all(i in self for i in reach.indices)


@final
class ConstraintResolver:
    """What wishes leave of the devices of one kind.

    Args:
        kind: What they count as.
        devices: In index order.

    Attributes:
        by_make: The indices of the devices of each make, ascending; the makes in the
            order of their first devices.
        make_of: The make of each device, by index.
    """

    __slots__ = ("_devices", "_kind", "_linked_to", "by_model", "model_of")

    def __init__(self, kind: Kind, devices: Sequence[Device]) -> None:
        self._kind = kind
        self._devices = devices
        self._linked_to: dict[tuple[str, str], list[int]] = {}
        self.by_model: dict[DeviceModel, list[int]] = {}
        for device in devices:
            self.by_model.setdefault(model_of(device), []).append(device.index)
            for key in device.peers:
                whom = device.family, key
                self._linked_to.setdefault(whom, []).append(device.index)
        # One object for each make: a look-up is far cheaper than a make anew.
        self.model_of = {
            index: make for make, indices in self.by_model.items() for index in indices
        }

    def has(self, device: Device) -> bool:
        """Whether a device is one of these."""
        return device.kind == self._kind.name

    def models(self, where: DeviceConstraints) -> Collection[DeviceModel]:
        """The makes that are wished for; a wish for other kinds is none of ours."""
        wanted = where.models
        if wanted is None or all(make.kind != self._kind.name for make in wanted):
            return self.by_model
        return [make for make in self.by_model if make in wanted]

    def of_makes(self, makes: Collection[DeviceModel] | None) -> frozenset[int] | None:
        """The devices of some makes; None for every one, if they are of other kinds."""
        mine = [make for make in makes or () if make.kind == self._kind.name]
        if not mine:
            return None
        return frozenset(i for make in mine for i in self.by_model.get(make, ()))

    def apart(self, where: DeviceConstraints) -> set[int]:
        """The devices that it is to be apart from."""
        return {device.index for device in where.apart if self.has(device)}

    def has_room(self, units: int, where: DeviceConstraints) -> bool:
        """Whether a request would find room if nothing were taken."""
        count = -(-units // UNITS)
        named = self.named(where)
        if named is not None:
            usable = self.joinable(count, named, where)
            return any(len(there) >= count for there in self.by_family(usable))
        gone = [model_of(self._devices[index]) for index in self.apart(where)]
        left: dict[str, int] = {}
        for make in self.models(where):
            if count == 1 or not make.is_part:
                there = len(self.by_model[make]) - gone.count(make)
                left[make.family] = left.get(make.family, 0) + there
        return max(left.values(), default=0) >= count

    def candidates(self, where: DeviceConstraints) -> Candidates:
        """The devices that a request may get at all, makes by makes where it can be."""
        if self.named(where) is None and not self.apart(where):
            return Candidates(frozenset(self.models(where)), frozenset())
        return Candidates(frozenset(), self.scope(where) or frozenset())

    def nothing_reserved(self) -> Reserved:
        """A set of devices that are spoken for, with none in it."""
        return Reserved(self.by_model, self.model_of)

    def scope(self, where: DeviceConstraints) -> frozenset[int] | None:
        """The devices that a request may get at all; None for every one."""
        named = self.named(where)
        if named is not None:
            return frozenset(named)
        apart, makes = self.apart(where), self.models(where)
        if not apart and len(makes) == len(self.by_model):
            return None
        wished = (index for make in makes for index in self.by_model[make])
        return frozenset(wished).difference(apart)

    def named(self, where: DeviceConstraints) -> list[int] | None:
        """The devices that are wished for one by one, the best first; None for all."""
        ranks: dict[int, int] | None = None
        near = [device for device in where.near or () if self.has(device)]
        if near:
            ranks = {
                index: 1
                for device in near
                for index in self._linked_to.get((device.family, device.key), ())
            }
            ranks.update((device.index, 0) for device in near)
        only = {device.index for device in where.only or () if self.has(device)}
        if only:
            near_to = ranks or dict.fromkeys(only, 0)
            ranks = {i: near_to[i] for i in only if i in near_to}
        if ranks is None:
            return None
        apart, makes = self.apart(where), self.models(where)
        wished = [
            index
            for index in sorted(ranks)
            if index not in apart and self.model_of[index] in makes
        ]
        return sorted(wished, key=ranks.__getitem__)

    def joinable(
        self, count: int, named: Sequence[int], where: DeviceConstraints
    ) -> list[int]:
        """Without the parts of cards, unless one is asked or they are named."""
        is_meant = any(self.has(device) for device in where.only or ())
        return [
            index
            for index in named
            if count == 1 or is_meant or self._devices[index].parent is None
        ]

    def by_family(self, indices: Iterable[int]) -> list[list[Device]]:
        found: dict[str, list[Device]] = {}
        for index in sorted(indices):
            device = self._devices[index]
            found.setdefault(device.family, []).append(device)
        return list(found.values())


NOBODY: frozenset[int] = frozenset()

_REMEMBERED = 64
"""Of how many gangs it is kept where they would be if nothing were taken."""

LISTED = 8
"""What a message names one by one; the rest is counted."""


def listed(texts: Iterable[str], count: int) -> str:
    """The first few of so many, and how many more there are."""
    some = ", ".join(islice(texts, LISTED))
    return f"{some} and {count - LISTED} more" if count > LISTED else some


@final
class DevicePool:
    """The free units of every device of one kind.

    Args:
        kind: What may be asked for.
        devices: In index order, numbered from 0.

    Attributes:
        kind: As given.
        devices: As given.
        scopes: Which of them a wish leaves.

    Raises:
        ValueError: The devices are not numbered 0, 1, 2, ...
    """

    __slots__ = (
        "_free",
        "_has_links",
        "_idle",
        "_levels",
        "_levels_of",
        "_sole",
        "devices",
        "kind",
        "scopes",
    )

    def __init__(self, kind: Kind, devices: Sequence[Device]) -> None:
        if any(device.index != place for place, device in enumerate(devices)):
            raise ValueError("devices have to come in index order, numbered from 0")
        self.kind = kind
        self.devices = tuple(devices)
        self._free = [UNITS] * len(devices)
        self._idle: dict[Gang, Arrangement] = {}
        self._has_links = any(device.peers for device in devices)
        self.scopes = ConstraintResolver(kind, self.devices)
        self._levels: dict[DeviceModel, FreeLevels] = {}
        self._levels_of: list[FreeLevels] = [FreeLevels()] * len(devices)
        for make, indices in self.scopes.by_model.items():
            levels = self._levels[make] = FreeLevels()
            levels.fill(UNITS, indices)
            for index in indices:
                self._levels_of[index] = levels
        # The usual machine: one make, and any share or single device will do.
        is_usual = len(self._levels) == 1 and kind.divisible and not kind.counts
        self._sole = next(iter(self._levels.values())) if is_usual else None

    def choose(
        self,
        units: int,
        where: DeviceConstraints = ANYWHERE,
        barred: Collection[int] = NOBODY,
    ) -> list[int] | None:
        """The devices that :meth:`take` would take now; nothing is taken.

        Args:
            units: Positive. Up to one whole device, or a multiple of whole ones.
            where: Which of them are wished for.
            barred: Indices of devices that are spoken for.

        Returns:
            Indices, ascending; None if there is no room.
        """
        if where.gang is not None:
            found = self._arranged(where.gang, barred)
            return None if found is None else sorted({i for p in found for i in p})
        if self.kind.fault(units):
            return None
        named = None if where is ANYWHERE else self.scopes.named(where)
        if named is not None:
            usable = [index for index in named if index not in barred]
            return self._of_named(units, usable, where, self._free)
        if isinstance(barred, Reserved) and barred.models:
            left = frozenset(self.scopes.models(where)).difference(barred.models)
            if not left:
                return None
            where, barred = replace(where, models=left), barred.indices
        if not barred and not where.apart:
            return self._of_makes(units, where)
        with self._without({*barred, *self.scopes.apart(where)}):
            return self._of_makes(units, where)

    def take(
        self,
        units: int,
        where: DeviceConstraints = ANYWHERE,
        barred: Collection[int] = NOBODY,
    ) -> tuple[Share, ...] | None:
        """Takes a share of one device, or several whole ones.

        Args:
            units: As for :meth:`choose`, and the rest likewise.
            where: Which of them are wished for.
            barred: Indices of devices that are spoken for.

        Returns:
            The shares in index order, those of a gang bundle by bundle, or None if
            there is no room: nothing is taken.
        """
        is_plain = where is ANYWHERE and not barred and units <= UNITS
        if is_plain and self._sole is not None:
            return self._take_share(self._sole, units)
        if where.gang is not None:
            return self._take_gang(where.gang, barred)
        chosen = self.choose(units, where, barred)
        if chosen is None:
            return None
        return self._take_of(chosen, units)

    def _take_of(self, chosen: Iterable[int], units: int) -> tuple[Share, ...]:
        each = min(units, UNITS)
        for index in chosen:
            self._move(index, self._free[index] - each)
        return tuple(Share(self.devices[index], each) for index in chosen)

    def _take_share(self, levels: FreeLevels, units: int) -> tuple[Share, ...] | None:
        level = levels.tightest(units)
        if level < 0:
            return None
        index = levels.lowest(level)
        levels.move(index, level, level - units)
        self._free[index] = level - units
        return (Share(self.devices[index], units),)

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

    def could_fit(self, units: int, where: DeviceConstraints = ANYWHERE) -> bool:
        """Whether :meth:`take` would find room if nothing were taken."""
        if where.gang is not None:
            return self.idle(where.gang).devices is not None
        return not self.kind.fault(units) and self.scopes.has_room(units, where)

    def never_fits(self, units: int, where: DeviceConstraints = ANYWHERE) -> bool:
        """Whether it is certain that :meth:`could_fit` is right in saying no."""
        if where.gang is not None:
            idle = self.idle(where.gang)
            return idle.devices is None and idle.is_certain
        return not self.could_fit(units, where)

    def choose_within(
        self, units: int, free: Mapping[int, int], where: DeviceConstraints = ANYWHERE
    ) -> list[int] | None:
        """The devices that a request gets of some that are set apart from the rest.

        Args:
            units: As for :meth:`choose`.
            free: What is free of each of them there, by index.
            where: Which of them are wished for.

        Returns:
            Indices, ascending; None if there is no room.
        """
        if self.kind.fault(units):
            return None
        named, scope = self.scopes.named(where), self.scope(where)
        usable = [
            index
            for index in (sorted(free) if named is None else named)
            if index in free and (scope is None or index in scope)
        ]
        return self._of_named(units, usable, where, free)

    def could_fit_within(
        self, units: int, free: Mapping[int, int], where: DeviceConstraints = ANYWHERE
    ) -> bool:
        """Whether a request finds room where so much is free, by index."""
        if where.gang is not None:
            there = {index: level for index, level in free.items() if level}
            return arrange(self, where.gang, there).devices is not None
        return self.choose_within(units, free, where) is not None

    # Choosing for a gang.

    def _take_gang(
        self, gang: Gang, barred: Collection[int]
    ) -> tuple[Share, ...] | None:
        found = self._arranged(gang, barred)
        if found is None:
            return None
        each = zip(found, gang.units(self.kind.name), strict=True)
        return tuple(
            share for chosen, units in each for share in self._take_of(chosen, units)
        )

    def idle(self, gang: Gang) -> Arrangement:
        """Where a gang would be if nothing were taken."""
        known = self._idle.get(gang)
        if known is None:
            if len(self._idle) >= _REMEMBERED:
                self._idle.clear()
            every = dict.fromkeys(range(len(self.devices)), UNITS)
            known = self._idle[gang] = arrange(self, gang, every)
        return known

    def _arranged(
        self, gang: Gang, barred: Collection[int] = NOBODY
    ) -> list[list[int]] | None:
        """The devices of each bundle, or None if they do not fit."""
        free = {
            index: level
            for index, level in enumerate(self._free)
            if level and index not in barred
        }
        if sum(free.values()) == UNITS * len(self.devices):
            return self.idle(gang).devices
        return arrange(self, gang, free).devices

    def scope(self, where: DeviceConstraints) -> frozenset[int] | None:
        """The devices that a request may get at all; None for every one."""
        return self.scopes.scope(where)

    def of_makes(self, makes: Collection[DeviceModel] | None) -> frozenset[int] | None:
        """The devices of some makes; None for every one, if they are of other kinds."""
        return self.scopes.of_makes(makes)

    def could_meet(self, one: DeviceConstraints, other: DeviceConstraints) -> bool:
        """Whether there is a device that two requests may both get."""
        mine, theirs = self.scope(one), self.scope(other)
        return mine is None or theirs is None or not mine.isdisjoint(theirs)

    def free(self, device: Device) -> int:
        """The units of one device that nobody has taken."""
        return self._free[device.index]

    @property
    def free_units(self) -> int:
        """The units free on all devices together."""
        return sum(levels.units() for levels in self._levels.values())

    def state(self) -> str:
        """What every device has free, by id: ``0: 0.5, 1: 1``."""
        each = (
            f"{device.id}: {format_amount(device.kind, self._free[device.index])}"
            for device in self.devices
        )
        return listed(each, len(self.devices))

    def check(self) -> None:
        """Raises AssertionError unless every device is found under what it has free."""
        for index, level in enumerate(self._free):
            if not 0 <= level <= UNITS or not self._levels_of[index].has(index, level):
                raise AssertionError(f"device {index} is not on its level, {level}")
        if sum(map(len, self._levels.values())) != len(self.devices):
            raise AssertionError("a device is on a level that it has left")
        for levels in self._levels.values():
            levels.check()

    # Choosing among all devices, by make.

    def _of_makes(self, units: int, where: DeviceConstraints) -> list[int] | None:
        if units > UNITS:
            return self._several(units, where)
        best: tuple[int, int] | None = None
        for make in self.scopes.models(where):
            levels = self._levels[make]
            level = levels.highest if where.spread else levels.tightest(units)
            if level < units:
                continue
            found = (-level if where.spread else level, levels.lowest(level))
            if best is None or found < best:
                best = found
        if best is None:
            return None
        if units == UNITS and self.kind.aligned:
            return self._together(1, self._wholly_free(where, LOOK))
        return [best[1]]

    def _several(self, units: int, where: DeviceConstraints) -> list[int] | None:
        count, part = divmod(units, UNITS)
        if part:
            return None
        if self._sole is not None and not self._has_links:
            (make,) = self.scopes.models(where) or (None,)
            found = self._sole.first(UNITS, count) if make and not make.is_part else []
            return found if len(found) == count else None
        look = max(count, LOOK) if self._has_links or self.kind.aligned else count
        free = self._wholly_free(where, look, with_parts=False)
        return self._together(count, free)

    def _wholly_free(
        self, where: DeviceConstraints, count: int, *, with_parts: bool = True
    ) -> list[int]:
        """The first wholly free devices of every make, ascending."""
        return sorted(
            index
            for make in self.scopes.models(where)
            if with_parts or not make.is_part
            for index in self._levels[make].first(UNITS, count)
        )

    def _together(self, count: int, free: Sequence[int]) -> list[int] | None:
        """So many of the free devices: of one make, else of one family, or None."""
        return next(self.sets(count, free), None)

    def sets(self, count: int, free: Sequence[int]) -> Iterator[list[int]]:
        """So many of the free devices, the best of each make, and then of each family.

        Args:
            count: How many.
            free: Their indices, ascending.
        """
        alike: dict[object, list[Device]] = {}
        for index in free:
            make = self.scopes.model_of[index]
            alike.setdefault(make, []).append(self.devices[index])
        for group in (*alike.values(), *self.scopes.by_family(free)):
            if len(group) >= count:
                best = self.closest(count, group)
                yield sorted(device.index for device in best)

    def closest(self, count: int, devices: Sequence[Device]) -> Sequence[Device]:
        """Of some devices of this kind, so many that belong together as far as can be.

        Args:
            count: How many; at most as many as there are.
            devices: In index order.
        """
        if self.kind.aligned:
            return aligned(count, devices)
        if self._has_links and count > 1:
            return linked(count, devices)
        return devices[:count]

    # Choosing among a few that are named.

    def _of_named(
        self,
        units: int,
        named: Sequence[int],
        where: DeviceConstraints,
        levels: Sequence[int] | Mapping[int, int],
    ) -> list[int] | None:
        if units > UNITS:
            count = units // UNITS
            usable = self.scopes.joinable(count, named, where)
            free = [index for index in usable if levels[index] == UNITS]
            return self._together(count, free)
        roomy = [index for index in named if levels[index] >= units]
        if not roomy:
            return None
        if where.near is not None:  # the same device is best, then a linked one
            mine = {device.index for device in where.near if self.scopes.has(device)}
            roomy = [index for index in roomy if index in mine] or roomy
        sign = -1 if where.spread else 1
        return [min(roomy, key=lambda index: (sign * levels[index], index))]

    # Moving.

    @contextmanager
    def _without(self, indices: Iterable[int]) -> Generator[None]:
        """Nobody finds these devices inside the block."""
        gone = list(indices)
        for index in gone:
            self._levels_of[index].drop(index, self._free[index])
        try:
            yield
        finally:
            for index in gone:
                self._levels_of[index].put(index, self._free[index])

    def _move(self, index: int, level: int) -> None:
        self._levels_of[index].move(index, self._free[index], level)
        self._free[index] = level
