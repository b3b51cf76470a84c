from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from helpers.cards import devices_of
from hypothesis import given
from hypothesis import strategies as st

from actorlib._scheduler.topology import aligned, components, linked
from actorlib.accelerators.base import Device

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))
QUADS = tuple(p for q in (range(4), range(4, 8)) for p in combinations(q, 2))
ALL_TO_ALL = tuple(combinations(range(8), 2))
DGX_1 = (
    (0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 5), (2, 3), (2, 6), (3, 7),
    (4, 5), (4, 6), (4, 7), (5, 6), (5, 7), (6, 7),
)  # fmt: skip
"""Two meshes of four V100s, each card linked to its like in the other one."""

MACHINES = {"pairs": PAIRS, "quads": QUADS, "DGX-1": DGX_1, "all to all": ALL_TO_ALL}


def cards(links: Iterable[tuple[int, int]], count: int = 8) -> tuple[Device, ...]:
    return devices_of(str(count), ",".join(f"{a}-{b}" for a, b in links))


def cores(numbers: Iterable[int], ids: Iterable[str] | None = None) -> list[Device]:
    numbers = list(numbers)
    return [
        Device(family="tpu", kind="TPU", index=index, id=name)
        for index, name in zip(numbers, ids or map(str, numbers), strict=True)
    ]


def places(devices: Sequence[Device]) -> list[int]:
    return [device.index for device in devices]


def links_among(devices: Iterable[Device]) -> int:
    return sum(a.key in b.peers for a, b in combinations(devices, 2))


@pytest.mark.parametrize(
    ("links", "count", "free", "chosen"),
    [
        (PAIRS, 2, (1, 2, 3), [2, 3]),
        (PAIRS, 2, (0, 3, 5), [0, 3]),
        (PAIRS, 4, range(2, 8), [2, 3, 4, 5]),
        (DGX_1, 4, range(1, 8), [4, 5, 6, 7]),
        (DGX_1, 2, (0, 4, 5, 6), [0, 4]),
        (DGX_1, 3, (0, 4, 5, 6), [4, 5, 6]),
        (ALL_TO_ALL, 3, (1, 4, 6, 7), [1, 4, 6]),
        ((), 2, (1, 4, 6), [1, 4]),
    ],
)
def test_linked_when_some_are_free_then_those_with_the_most_links(
    links: Sequence[tuple[int, int]],
    count: int,
    free: Sequence[int],
    chosen: list[int],
) -> None:
    devices = cards(links)

    assert places(linked(count, [devices[index] for index in free])) == chosen


@pytest.mark.parametrize("links", MACHINES.values(), ids=MACHINES)
def test_linked_when_any_are_free_then_no_set_has_more_links(
    links: Sequence[tuple[int, int]],
) -> None:
    devices = cards(links)
    worse = [
        (places(free), places(chosen))
        for size in range(2, 9)
        for free in combinations(devices, size)
        for count in range(2, size + 1)
        if links_among(chosen := linked(count, free))
        < max(map(links_among, combinations(free, count)))
    ]

    assert worse == []


@pytest.mark.parametrize(
    ("count", "free", "chosen"),
    [
        (2, (1, 2, 3), [2, 3]),
        (2, (1, 2, 5), [1, 2]),
        (2, (1, 3, 5), [1, 3]),
        (4, range(1, 8), [4, 5, 6, 7]),
        (4, (1, 2, 3, 4, 6), [1, 2, 3, 4]),
        (8, range(4, 16), [8, 9, 10, 11, 12, 13, 14, 15]),
        (3, (1, 2, 3, 4, 5, 6), [4, 5, 6]),
        (1, range(8), [0]),
        (1, (0, 1, 3), [3]),
        (1, (0, 1, 2, 3, 5, 6, 7), [5]),
        (1, (0, 1, 4, 5, 6, 7), [0]),
        (1, (0, 1, 2, 3, 8, 9), [8]),
    ],
)
def test_aligned_when_some_are_free_then_a_run_or_what_is_left_of_one(
    count: int, free: Sequence[int], chosen: list[int]
) -> None:
    assert places(aligned(count, cores(free))) == chosen


def test_aligned_when_ids_are_not_the_indices_then_by_id() -> None:
    devices = cores(range(4), ids=("3", "4", "5", "6"))

    assert places(aligned(2, devices)) == [1, 2]


@pytest.mark.parametrize(
    "ids", [("a", "b", "c", "d"), ("2", "b", "c", "d")], ids=["words", "clash"]
)
def test_aligned_when_ids_are_no_numbers_then_by_index(ids: Sequence[str]) -> None:
    assert places(aligned(2, cores(range(4), ids=ids))) == [0, 1]


@given(
    free=st.sets(st.integers(0, 20), min_size=1),
    count=st.integers(1, 8),
)
def test_aligned_when_any_are_free_then_an_aligned_run_if_there_is_one(
    free: set[int], count: int
) -> None:
    count = min(count, len(free))

    chosen = places(aligned(count, cores(sorted(free))))

    size = 1 << (count - 1).bit_length()
    runs = [list(range(start, start + count)) for start in range(21)]
    there = [run for run in runs if free.issuperset(run)]
    best = [run for run in there if run[0] % size == 0] or there
    assert len(set(chosen) & free) == len(chosen) == count
    assert count == 1 or not best or chosen in best


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ((), [[0], [1], [2], [3]]),
        (((0, 2), (1, 3)), [[0, 2], [1, 3]]),
        (((0, 3), (3, 1)), [[0, 1, 3], [2]]),
    ],
    ids=["none", "pairs", "by way of another"],
)
def test_components_when_linked_then_who_reaches_whom(
    links: tuple[tuple[int, int], ...], expected: list[list[int]]
) -> None:
    found = components(cards(links, 4), by_number=False)

    assert [places(piece) for piece in found] == expected


def test_components_when_the_machine_is_a_mesh_then_one() -> None:
    assert len(components(cards(DGX_1), by_number=False)) == 1


def test_components_when_by_number_then_runs() -> None:
    found = components(cores([0, 1, 3, 4, 5, 8]), by_number=True)

    assert [places(piece) for piece in found] == [[0, 1], [3, 4, 5], [8]]
