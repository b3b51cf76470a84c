"""Which devices of a kind a wish leaves, whatever is free of them.

A wish that names devices, or an actor to be near to, leaves a few, the best first. One
that names a type or an actor to be apart from leaves makes, and devices out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from actorlib._kinds import UNITS
from actorlib._local.reach import Barred, Reach
from actorlib._local.where import Make, Where, make_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from actorlib._kinds import Kind
    from actorlib.accelerators.base import Device


@final
class Scopes:
    """What wishes leave of the devices of one kind.

    Args:
        kind: What they count as.
        devices: In index order.

    Attributes:
        by_make: The indices of the devices of each make, ascending; the makes in the
            order of their first devices.
        make_of: The make of each device, by index.
    """

    __slots__ = ("_devices", "_kind", "_linked_to", "by_make", "make_of")

    def __init__(self, kind: Kind, devices: Sequence[Device]) -> None:
        self._kind = kind
        self._devices = devices
        self._linked_to: dict[tuple[str, str], list[int]] = {}
        self.by_make: dict[Make, list[int]] = {}
        for device in devices:
            self.by_make.setdefault(make_of(device), []).append(device.index)
            for key in device.peers:
                whom = device.family, key
                self._linked_to.setdefault(whom, []).append(device.index)
        # One object for each make: a look-up is far cheaper than a make anew.
        self.make_of = {
            index: make for make, indices in self.by_make.items() for index in indices
        }

    def has(self, device: Device) -> bool:
        """Whether a device is one of these."""
        return device.kind == self._kind.name

    def makes(self, where: Where) -> Collection[Make]:
        """The makes that are wished for; a wish for other kinds is none of ours."""
        wanted = where.makes
        if wanted is None or all(make.kind != self._kind.name for make in wanted):
            return self.by_make
        return [make for make in self.by_make if make in wanted]

    def of_makes(self, makes: Collection[Make] | None) -> frozenset[int] | None:
        """The devices of some makes; None for every one, if they are of other kinds."""
        mine = [make for make in makes or () if make.kind == self._kind.name]
        if not mine:
            return None
        return frozenset(i for make in mine for i in self.by_make.get(make, ()))

    def apart(self, where: Where) -> set[int]:
        """The devices that it is to be apart from."""
        return {device.index for device in where.apart if self.has(device)}

    def has_room(self, units: int, where: Where) -> bool:
        """Whether a request would find room if nothing were taken."""
        count = -(-units // UNITS)
        named = self.named(where)
        if named is not None:
            usable = self.joinable(count, named, where)
            return any(len(there) >= count for there in self.by_family(usable))
        gone = [make_of(self._devices[index]) for index in self.apart(where)]
        left: dict[str, int] = {}
        for make in self.makes(where):
            if count == 1 or not make.is_part:
                there = len(self.by_make[make]) - gone.count(make)
                left[make.family] = left.get(make.family, 0) + there
        return max(left.values(), default=0) >= count

    def reach(self, where: Where) -> Reach:
        """The devices that a request may get at all, makes by makes where it can be."""
        if self.named(where) is None and not self.apart(where):
            return Reach(frozenset(self.makes(where)), frozenset())
        return Reach(frozenset(), self.scope(where) or frozenset())

    def barred(self) -> Barred:
        """A set of devices that are spoken for, with none in it."""
        return Barred(self.by_make, self.make_of)

    def scope(self, where: Where) -> frozenset[int] | None:
        """The devices that a request may get at all; None for every one."""
        named = self.named(where)
        if named is not None:
            return frozenset(named)
        apart, makes = self.apart(where), self.makes(where)
        if not apart and len(makes) == len(self.by_make):
            return None
        wished = (index for make in makes for index in self.by_make[make])
        return frozenset(wished).difference(apart)

    def named(self, where: Where) -> list[int] | None:
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
        apart, makes = self.apart(where), self.makes(where)
        wished = [
            index
            for index in sorted(ranks)
            if index not in apart and self.make_of[index] in makes
        ]
        return sorted(wished, key=ranks.__getitem__)

    def joinable(self, count: int, named: Sequence[int], where: Where) -> list[int]:
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
