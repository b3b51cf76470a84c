"""Which devices the bundles of a gang get, all of them or none.

What a strategy means on the devices of one machine, for each kind by itself:

* ``PACK``: as few devices as possible.
* ``SPREAD``: as few bundles as possible on a device that another bundle is on.
* ``STRICT_PACK``: all on one device; if they need more than one even when nothing is
  taken, on that many which belong together (``topology``): linked ones, or neighbours
  by number where the kind shares things by number. On a machine where no such number
  of them does, on any that many: there, all are as close as can be.
* ``STRICT_SPREAD``: no bundle on a device that another bundle is on.
"""

from __future__ import annotations

from itertools import combinations, islice
from typing import TYPE_CHECKING

from actorlib._bundles import PACK, STRICT_PACK, STRICT_SPREAD
from actorlib._kinds import UNITS
from actorlib._local.packing import Found, Part, Pool, Search
from actorlib._local.topology import pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from actorlib._local.where import Gang
    from actorlib.accelerators.base import Device

_TRIES = 2_000
"""How many sets of devices that belong together are tried at the most."""


def arrange(pool: Pool, gang: Gang, free: Mapping[int, int]) -> list[list[int]] | None:
    """The devices of each bundle.

    Args:
        pool: All devices of the kind.
        gang: The bundles, and how they are to lie.
        free: What the devices that may be used have free, by index.

    Returns:
        Indices, ascending, for each bundle: none where it asks for none of the kind.
        None if they do not fit.
    """
    amounts = gang.units(pool.kind.name)
    if any(pool.kind.fault(units) for units in amounts):
        return None
    parts = [
        Part(place, units, pool.of_makes(makes))
        for place, (units, makes) in enumerate(zip(amounts, gang.makes, strict=True))
        if units
    ]
    found = _arranged(pool, parts, gang.strategy, free)
    if found is None:
        return None
    return [found.get(place, []) for place in range(len(amounts))]


def _arranged(
    pool: Pool, parts: Sequence[Part], strategy: str, free: Mapping[int, int]
) -> Found | None:
    if strategy == PACK:
        return _packed(pool, parts, free)
    if strategy == STRICT_PACK:
        return _strictly_packed(pool, parts, free)
    search = Search(pool, parts, free, spreads=True)
    if strategy == STRICT_SPREAD:
        return search.run(joins=0)
    first = search.run()
    if first is not None:
        small = sum(part.units <= UNITS for part in parts)
        worst = small - len(_opened(first, parts))
        for joins in range(max(0, small - len(free)), worst):
            better = search.run(joins=joins)
            if better is not None:
                return better
    return first


def _packed(pool: Pool, parts: Sequence[Part], free: Mapping[int, int]) -> Found | None:
    search = Search(pool, parts, free, spreads=False)
    first = search.run()
    if first is not None:
        small = sum(part.units for part in parts if part.units <= UNITS)
        for opens in range(-(-small // UNITS), len(_opened(first, parts))):
            better = search.run(opens=opens)
            if better is not None:
                return better
    return first


def _strictly_packed(
    pool: Pool, parts: Sequence[Part], free: Mapping[int, int]
) -> Found | None:
    idle = _packed(pool, parts, dict.fromkeys(range(len(pool.devices)), UNITS))
    if idle is None:
        return None
    count = len({index for chosen in idle.values() for index in chosen})
    if count <= 1:
        return Search(pool, parts, free, spreads=False).run(opens=1)
    if all(len(piece) < count for piece in _pieces(pool, pool.devices)):
        found = _packed(pool, parts, free)
        used = {index for chosen in (found or {}).values() for index in chosen}
        return found if len(used) == count else None
    least = min(min(part.units, UNITS) for part in parts)
    roomy = [pool.devices[index] for index in sorted(free) if free[index] >= least]
    for chosen in islice(_belonging(pool, count, roomy), _TRIES):
        there = {device.index: free[device.index] for device in chosen}
        found = Search(pool, parts, there, spreads=False).run()
        if found is not None:
            return found
    return None


def _belonging(
    pool: Pool, count: int, devices: Sequence[Device]
) -> Iterator[Sequence[Device]]:
    """So many devices that belong together, the closest first."""
    for piece in _pieces(pool, devices):
        if len(piece) >= count:
            yield pool.closest(count, piece)
            for chosen in combinations(piece, count):
                if len(_pieces(pool, chosen)) == 1:
                    yield chosen


def _pieces(pool: Pool, devices: Sequence[Device]) -> Sequence[Sequence[Device]]:
    return pieces(devices, by_number=pool.kind.aligned)


def _opened(found: Found, parts: Sequence[Part]) -> set[int]:
    """The devices of which bundles have a share that others may share."""
    small = [part.place for part in parts if part.units <= UNITS]
    return {index for place in small for index in found[place]}
