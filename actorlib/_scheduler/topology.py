"""Finds devices that belong together: linked ones, and aligned runs of numbers.

Several devices of one actor talk to each other. Where some of them are linked (NVLink,
XGMI) the ones with the most links among them are chosen; where a kind shares things by
number (the cores of a Neuron device, Gaudi's groups of two and four, the rows of a TPU
board) an aligned run is. Both are preferences: if there is no such set, any will do.

To choose the best of all sets would take time that grows with their number. A set is
grown device by device instead, from each of the first free ones, which finds the
cliques that machines have; and only so many free devices are looked at.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actorlib.accelerators.base import Device

MAX_CONSIDERED = 64
"""How many free devices are considered, so that a decision has an end."""


def linked(count: int, free: Sequence[Device]) -> list[Device]:
    """Returns free devices that have the most links among them.

    Args:
        count: How many; at most as many as there are free ones.
        free: In index order.

    Returns:
        So many, in index order; the lowest ones where several sets are as good.
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
    # Of two, looking ahead finds nothing more.
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
    """Returns an aligned run of free devices by number, or what comes nearest to it.

    One device is taken where its neighbours are taken already, so that runs stay whole.

    Args:
        count: How many; at most as many as there are free ones.
        free: In index order.

    Returns:
        So many, in index order.
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
    return sorted((by_number[number] for number in chosen), key=_index)


def components(devices: Sequence[Device], *, by_number: bool) -> list[list[Device]]:
    """Splits devices into components: linked ones, if only by way of others.

    Args:
        devices: In index order.
        by_number: Whether neighbours by number belong together, and not linked ones.

    Returns:
        Each component in index order; a device without neighbours is one by itself.
    """
    near = neighbours(devices, by_number=by_number)
    left = set(near)
    found: list[list[Device]] = []
    for start in near:
        component, edge = set[int](), {start} & left
        while edge:
            component |= edge
            left -= edge
            edge = set[int]().union(*(near[place] for place in edge)) & left
        if component:
            found.append([devices[place] for place in sorted(component)])
    return found


def neighbours(devices: Sequence[Device], *, by_number: bool) -> dict[int, set[int]]:
    """Returns the neighbours of each device, all of them by their places.

    Args:
        devices: In index order.
        by_number: As for :func:`components`.
    """
    near: dict[int, set[int]] = {place: set() for place in range(len(devices))}
    names: dict[tuple[str, str | int], int] = {
        (device.family, _number(device) if by_number else device.key): place
        for place, device in enumerate(devices)
    }
    for place, device in enumerate(devices):
        others = (_number(device) + 1,) if by_number else device.peers
        for other in others:
            found = names.get((device.family, other))
            if found is not None:
                near[place].add(found)
                near[found].add(place)
    return near


def _grow(
    count: int,
    start: int,
    linked_to: Sequence[set[int]],
    linked_by: Sequence[Sequence[int]],
    *,
    looks_ahead: bool,
) -> tuple[int, list[int]]:
    """Grows a set from one place; returns how many links it has, and the places."""
    chosen, links, added = [start], 0, start
    links_to: dict[int, int] = {}
    while len(chosen) < count:
        for place in linked_by[added]:
            if place not in chosen:
                links_to[place] = links_to.get(place, 0) + 1
        most = max(links_to.values(), default=0)
        best = [place for place, ties in links_to.items() if ties == most]
        if not best:
            left = (place for place in range(len(linked_to)) if place not in chosen)
            best = list(left) if looks_ahead else [next(left)]
        if looks_ahead:
            added = max(best, key=lambda p: (len(linked_to[p].difference(chosen)), -p))
        else:
            added = min(best)
        links_to.pop(added, None)
        links += most
        chosen.append(added)
    return links, chosen


def _free_nearby(number: int, free: Collection[int]) -> tuple[int, ...]:
    """Counts the free ones in the aligned blocks of 2, 4 and 8 around a number."""
    return tuple(
        sum(block + step in free for step in range(size))
        for size in (2, 4, 8)
        for block in (number - number % size,)
    )


def _number(device: Device) -> int:
    return int(device.id) if device.id.isdecimal() else device.index


def _index(device: Device) -> int:
    return device.index
