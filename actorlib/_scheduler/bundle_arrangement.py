"""Which devices the bundles of a gang get, all of them or none.

What a strategy means on the devices of one machine, for each kind by itself:

* ``PACK``: as few devices as possible.
* ``SPREAD``: as few bundles as possible on a device that another bundle is on.
* ``STRICT_PACK``: all on one device; if they need more than one even when nothing is
  taken, on that many which belong together (``topology``): linked ones, or neighbours
  by number where the kind shares things by number. On a machine where no such number
  of them does, on any that many: there, all are as close as can be.
* ``STRICT_SPREAD``: no bundle on a device that another bundle is on.

Bundles of several devices take theirs first, the others share what is left.

Packing is a search with a bound. What is not found within it may be there all the
same: then ``Arranged.is_certain`` is false, and nobody may be told that it never fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple, Protocol

from actorlib._core.group_spec import PACK, STRICT_PACK, STRICT_SPREAD
from actorlib._core.kinds import UNITS
from actorlib._scheduler.bundle_packing import BundleShare, Packing, SearchBudget
from actorlib._scheduler.bundle_spreading import Spreading, match_devices
from actorlib._scheduler.request import Gang, model_of
from actorlib._scheduler.topology import neighbours, pieces

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from actorlib._core.kinds import Kind
    from actorlib._scheduler.request import DeviceModel
    from actorlib.accelerators.base import Device

TRIES = 2_000
"""How many sets of devices are tried at the most: that belong together, or of makes."""


class Arrangement(NamedTuple):
    """What a search has come to.

    Attributes:
        devices: Indices, ascending, for each bundle: none where it asks for none of the
            kind. None if no way was found.
        is_certain: Whether there is none then.
    """

    devices: list[list[int]] | None
    is_certain: bool = True


class Pool(Protocol):
    """The devices of one kind."""

    kind: Kind
    devices: tuple[Device, ...]

    def of_makes(self, makes: Collection[DeviceModel] | None) -> frozenset[int] | None:
        """The devices of some makes; None for every one."""
        ...

    def sets(self, count: int, free: Sequence[int]) -> Iterator[list[int]]:
        """So many of the free devices, the best of each make and of each family."""
        ...

    def closest(self, count: int, devices: Sequence[Device]) -> Sequence[Device]:
        """Of some devices, so many that belong together as far as can be."""
        ...

    def idle(self, gang: Gang) -> Arrangement:
        """Where a gang would be if nothing were taken."""
        ...


Mixture = Counter["DeviceModel"]
"""How many devices of which makes."""

_Found = dict[int, list[int]]


class _Outcome(NamedTuple):
    """The devices of each part by its place; if not found, whether there are none."""

    found: _Found | None
    is_certain: bool = True


_NOWHERE = _Outcome(None)
_OUT_OF_STEPS = _Outcome(None, is_certain=False)


def arrange(pool: Pool, gang: Gang, free: Mapping[int, int]) -> Arrangement:
    """The devices of each bundle.

    Args:
        pool: All devices of the kind.
        gang: The bundles, and how they are to lie.
        free: What the devices that may be used have free, by index.
    """
    amounts = gang.units(pool.kind.name)
    if any(pool.kind.fault(units) for units in amounts):
        return Arrangement(None)
    parts = [
        BundleShare(place, units, pool.of_makes(makes))
        for place, (units, makes) in enumerate(zip(amounts, gang.models, strict=True))
        if units
    ]
    if sum(amounts) > sum(free.values()):
        return Arrangement(None)
    if gang.strategy == STRICT_PACK:
        found, is_certain = _strictly_packed(pool, gang, parts, free)
    else:
        share = _SHARES.get(gang.strategy, _spread)
        found, is_certain = _placed(pool, parts, free, share, SearchBudget())
    if found is None:
        return Arrangement(None, is_certain)
    return Arrangement([found.get(place, []) for place in range(len(amounts))])


def _placed(
    pool: Pool,
    parts: Sequence[BundleShare],
    free: Mapping[int, int],
    share: _Share,
    steps: SearchBudget,
) -> _Outcome:
    """Those of several devices first; the others share what is left."""
    large = [part for part in parts if part.units > UNITS]
    small = [part for part in parts if part.units <= UNITS]
    is_certain = True
    for tried, (chosen, left) in enumerate(_wholes(pool, large, free)):
        if tried >= TRIES:
            return _OUT_OF_STEPS
        outcome = (
            share(_SharedBundles(pool, small, left, chosen, steps))
            if small
            else _Outcome({})
        )
        if outcome.found is not None:
            return _Outcome({**chosen, **outcome.found})
        is_certain &= outcome.is_certain
    return _Outcome(None, is_certain)


# Bundles of several devices.


def _wholes(
    pool: Pool, large: Sequence[BundleShare], free: Mapping[int, int]
) -> Iterator[tuple[_Found, Mapping[int, int]]]:
    """The ways to give them devices, and what is left: once for each mixture."""
    if not large:
        yield {}, free
        return
    order = sorted(large, key=lambda part: (-part.units, part.place))
    left = {i for i in free if free[i] == UNITS and pool.devices[i].parent is None}
    seen: set[object] = set()
    # Not by recursion: a group may have more bundles than Python has frames.
    ways, chosen = [_sets(pool, order[0], left)], list[list[int]]()
    while ways:
        if len(chosen) == len(ways):
            left.update(chosen.pop())
        devices = next(ways[-1], None)
        if devices is None:
            ways.pop()
            continue
        chosen.append(devices)
        left.difference_update(devices)
        state = len(chosen), frozenset(_makes(pool, left).items())
        if state in seen:
            continue
        seen.add(state)
        if len(chosen) < len(order):
            ways.append(_sets(pool, order[len(chosen)], left))
            continue
        taken = {index for devices in chosen for index in devices}
        found = {part.place: each for part, each in zip(order, chosen, strict=True)}
        yield found, {index: free[index] for index in free if index not in taken}


def _sets(pool: Pool, part: BundleShare, free: Collection[int]) -> Iterator[list[int]]:
    """The devices that one of several may get: the best, then the other mixtures."""
    usable = sorted(i for i in free if part.open_to is None or i in part.open_to)
    count, seen = part.units // UNITS, list[Mixture]()
    for devices in pool.sets(count, usable):
        seen.append(_makes(pool, devices))
        yield devices
    families: dict[str, dict[DeviceModel, list[Device]]] = {}
    for index in usable:
        device = pool.devices[index]
        makes = families.setdefault(device.family, {})
        makes.setdefault(model_of(device), []).append(device)
    for makes in families.values():
        if len(makes) == 1:
            continue
        for counts in product(*(range(min(count, len(m)) + 1) for m in makes.values())):
            mixture = Counter(dict(zip(makes, counts, strict=True)))
            if sum(counts) == count and mixture not in seen:
                each = zip(counts, makes.values(), strict=True)
                found = [d.index for n, m in each if n for d in pool.closest(n, m)]
                yield sorted(found)


def _makes(pool: Pool, indices: Iterable[int]) -> Mixture:
    return Counter(model_of(pool.devices[index]) for index in indices)


# Bundles that may share a device.


class _SharedBundles(NamedTuple):
    """Bundles that may share devices, these, beside those that are taken."""

    pool: Pool
    parts: Sequence[BundleShare]
    free: Mapping[int, int]
    taken: _Found
    steps: SearchBudget

    def packing(self) -> Packing:
        """A search for as few devices as possible, that belong together."""
        gone = {index for devices in self.taken.values() for index in devices}
        near = _linked(self.pool, [*self.free, *gone])

        def rank(index: int, used: set[int]) -> int:
            return -len(near[index] & (used | gone)) if near else 0

        return Packing(self.parts, self.free, rank, self.steps)


_Share = Callable[[_SharedBundles], _Outcome]


def _fit(shared: _SharedBundles) -> _Outcome:
    """Anywhere."""
    packing = shared.packing()
    return _Outcome(packing.run(), packing.is_certain)


def _pack(shared: _SharedBundles) -> _Outcome:
    """On as few devices as possible."""
    packing = shared.packing()
    first = packing.run()
    if first is None:
        return _Outcome(None, packing.is_certain)
    for opens in range(packing.fewest, len(_used(first))):
        fewer = packing.run(opens)
        if fewer is not None:
            return _Outcome(fewer)
        if not packing.is_certain:
            break
    return _Outcome(first)


def _spread(shared: _SharedBundles) -> _Outcome:
    """As few as possible on a device that another one is on."""
    _, parts, free, _, _ = shared
    found = match_devices(parts, free)
    if found is not None:
        return _Outcome(found)
    somewhere = _fit(shared)
    if somewhere.found is None:
        return somewhere
    spreading = Spreading(parts, free)
    best = spreading.run() or somewhere.found
    for joins in range(max(1, len(parts) - len(free)), len(parts) - len(_used(best))):
        better = spreading.run(joins)
        if better is not None:
            return _Outcome(better)
    return _Outcome(best)


def _strictly_spread(shared: _SharedBundles) -> _Outcome:
    """Each on a device of its own."""
    return _Outcome(match_devices(shared.parts, shared.free))


_SHARES: Mapping[str, _Share] = {PACK: _pack, STRICT_SPREAD: _strictly_spread}


# All on one device, or on some that belong together.


def _strictly_packed(
    pool: Pool, gang: Gang, parts: Sequence[BundleShare], free: Mapping[int, int]
) -> _Outcome:
    idle = pool.idle(Gang(gang.bundles, PACK, gang.models))
    if idle.devices is None:
        return _Outcome(None, idle.is_certain)
    count = len({index for devices in idle.devices for index in devices})
    if count == 1:
        return _on_one(parts, free)
    steps = SearchBudget()
    if all(len(piece) < count for piece in _pieces(pool, pool.devices)):
        outcome = _placed(pool, parts, free, _pack, steps)
        return outcome if len(_used(outcome.found or {})) == count else _NOWHERE
    asked, is_certain = sum(part.units for part in parts), True
    least = min(min(part.units, UNITS) for part in parts)
    roomy = [pool.devices[index] for index in sorted(free) if free[index] >= least]
    for tried, chosen in enumerate(_belonging(pool, count, roomy)):
        if tried >= TRIES:
            return _OUT_OF_STEPS
        there = {device.index: free[device.index] for device in chosen}
        if sum(there.values()) < asked or len(_pieces(pool, chosen)) > 1:
            continue
        outcome = _placed(pool, parts, there, _fit, steps)
        if outcome.found is not None:
            return outcome
        is_certain &= outcome.is_certain
    return _Outcome(None, is_certain)


def _on_one(parts: Sequence[BundleShare], free: Mapping[int, int]) -> _Outcome:
    asked = sum(part.units for part in parts)
    for index in sorted(free, key=lambda index: (free[index], index)):
        may = all(part.open_to is None or index in part.open_to for part in parts)
        if may and free[index] >= asked:
            return _Outcome({part.place: [index] for part in parts})
    return _NOWHERE


def _belonging(
    pool: Pool, count: int, devices: Sequence[Device]
) -> Iterator[Sequence[Device]]:
    """So many devices that may belong together, the closest first."""
    for piece in _pieces(pool, devices):
        if len(piece) >= count:
            yield pool.closest(count, piece)
            yield from combinations(piece, count)


def _pieces(pool: Pool, devices: Sequence[Device]) -> Sequence[Sequence[Device]]:
    return pieces(devices, by_number=pool.kind.aligned)


def _linked(pool: Pool, indices: Iterable[int]) -> Mapping[int, set[int]]:
    """By index, those that each device belongs to; nothing if none belongs to any."""
    devices = [pool.devices[index] for index in sorted(indices)]
    if not (pool.kind.aligned or any(device.peers for device in devices)):
        return {}
    near = neighbours(devices, by_number=pool.kind.aligned)
    return {
        devices[place].index: {devices[other].index for other in others}
        for place, others in near.items()
    }


def _used(found: _Found) -> set[int]:
    return {index for devices in found.values() for index in devices}
