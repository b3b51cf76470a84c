"""Selects devices that belong together: linked ones, and aligned runs of numbers.

The devices of one actor communicate with each other. If some are linked (NVLink, XGMI),
those with the most links among them are chosen. If a kind shares hardware by number
(the cores of a Neuron device, Gaudi's groups of two and four, the rows of a TPU board),
an aligned run is chosen. Both are preferences: if there is no such set, any set is
used.

Choosing the best of all sets would take time that grows with their number. Instead, a
set is grown device by device, from each of the first free ones, which finds the cliques
that machines have; and only a limited number of free devices is considered.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actorlib.accelerators.base import Device

MAX_CONSIDERED = 64
"""How many free devices are considered, so that the time of a decision is bounded."""


def linked(count: int, free: Sequence[Device]) -> list[Device]:
    """Returns ``count`` free devices that have the most links among them.

    ``free`` is in index order, and has at least ``count`` devices.

    Returns:
        The devices in index order; the lowest ones if several sets are equal.
    """
    most = count * (count - 1) // 2
    places = {device.key: place for place, device in enumerate(free)}
    linked_to = [
        {places[key] for key in device.peers & places.keys()} for device in free
    ]
    linked_by: list[list[int]] = [[] for _ in free]
    for place, others in enumerate(linked_to):
        for other in others:
            linked_by[other].append(place)
    best: tuple[int, list[int]] | None = None
    # For two devices, looking ahead finds nothing more.
    passes = (False, True) if count > 2 else (False,)
    for looks_ahead, start in product(passes, range(len(free))):
        grown = _grow(count, start, linked_to, linked_by, looks_ahead=looks_ahead)
        if best is None or grown[0] > best[0]:
            best = grown
        if best[0] == most:
            break
    chosen = best[1] if best is not None else []
    return [free[place] for place in sorted(chosen)]


def aligned(count: int, free: Sequence[Device]) -> list[Device]:
    """Returns an aligned run of free devices by number, or the nearest to it.

    A single device is chosen where its neighbours are taken, so that runs stay whole.

    ``free`` is in index order, and has at least ``count`` devices.

    Returns:
        ``count`` devices in index order.
    """
    by_number = {_number(device): device for device in free}
    if len(by_number) < len(free):
        return list(free[:count])
    numbers = sorted(by_number)
    if count == 1:
        return [by_number[min(numbers, key=lambda n: (*_free_nearby(n, by_number), n))]]
    size = 1 << (count - 1).bit_length()
    runs = [n for n in numbers if all(n + step in by_number for step in range(count))]
    starts = [n for n in runs if not n % size] or runs
    start = min(starts, key=lambda n: (*_free_nearby(n, by_number), n), default=None)
    chosen = numbers[:count] if start is None else range(start, start + count)
    return sorted(
        (by_number[number] for number in chosen), key=lambda device: device.index
    )


def components(devices: Sequence[Device], *, by_number: bool) -> list[list[Device]]:
    """Splits devices into connected components.

    ``devices`` are in index order. With ``by_number``, neighbours by number are
    connected, instead of linked devices.

    Returns:
        Each component in index order; a device without neighbours is one component.
    """
    near = neighbours(devices, by_number=by_number)
    rest = set(near)
    connected: list[list[Device]] = []
    for start in near:
        component, edge = set[int](), {start} & rest
        while edge:
            component |= edge
            rest -= edge
            edge = set[int]().union(*(near[place] for place in edge)) & rest
        if component:
            connected.append([devices[place] for place in sorted(component)])
    return connected


def neighbours(devices: Sequence[Device], *, by_number: bool) -> dict[int, set[int]]:
    """Returns the neighbours of each device, by their positions in ``devices``."""
    near: dict[int, set[int]] = {place: set() for place in range(len(devices))}
    names: dict[tuple[str, str | int], int] = {
        (device.family, _number(device) if by_number else device.key): place
        for place, device in enumerate(devices)
    }
    for place, device in enumerate(devices):
        others = (_number(device) + 1,) if by_number else device.peers
        for other in others:
            neighbour = names.get((device.family, other))
            if neighbour is not None:
                near[place].add(neighbour)
                near[neighbour].add(place)
    return near


def _grow(
    count: int,
    start: int,
    linked_to: Sequence[set[int]],
    linked_by: Sequence[Sequence[int]],
    *,
    looks_ahead: bool,
) -> tuple[int, list[int]]:
    """Grows a set from one position; returns its number of links and the positions."""
    chosen, links, added = [start], 0, start
    links_to: dict[int, int] = {}
    while len(chosen) < count:
        for place in linked_by[added]:
            if place not in chosen:
                links_to[place] = links_to.get(place, 0) + 1
        most = max(links_to.values(), default=0)
        best = [place for place, ties in links_to.items() if ties == most]
        if not best:
            rest = (place for place in range(len(linked_to)) if place not in chosen)
            best = list(rest) if looks_ahead else [next(rest)]
        if looks_ahead:
            added = max(best, key=lambda p: (len(linked_to[p].difference(chosen)), -p))
        else:
            added = min(best)
        links_to.pop(added, None)
        links += most
        chosen.append(added)
    return links, chosen


def _free_nearby(number: int, free: Collection[int]) -> tuple[int, ...]:
    """Counts the free devices in the aligned blocks of 2, 4 and 8 around a number."""
    return tuple(
        sum(block + step in free for step in range(size))
        for size in (2, 4, 8)
        for block in (number - number % size,)
    )


def _number(device: Device) -> int:
    return int(device.id) if device.id.isdecimal() else device.index
