"""How many workers are kept forked ahead: demand over time in, a number out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._worker.template.demand import MEMORY, MOST, Demand, affordable

MIB = 1 << 20


def numbers(*asked: tuple[float, int]) -> list[int]:
    """The number after each of these bursts, given with their times."""
    demand, found = Demand(), list[int]()
    for now, burst in asked:
        demand = demand.after(burst, now)
        found.append(demand.number)
    return found


LATE = MEMORY - 0.1


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ([(1.0, 0), (100.0, 0)], [0, 0]),
        # A burst is kept as it is, up to a few.
        ([(1.0, 1)], [1]),
        ([(1.0, MOST)], [MOST]),
        ([(1.0, 1000)], [MOST]),
        # It is forgotten after a while, but for one.
        ([(0.0, 8), (LATE, 0), (MEMORY, 0), (3 * MEMORY, 0)], [8, 8, 1, 1]),
        ([(0.0, 8), (1.0, 5), (2.0, 3), (MEMORY, 0)], [8, 8, 8, 5]),
        ([(0.0, 8), *[(float(s), 1) for s in range(1, 31)]], [8] * 10 + [1] * 21),
        # The same burst again is remembered from then on.
        ([(0.0, 4), (LATE, 4), (LATE + LATE, 0)], [4, 4, 4]),
    ],
)
def test_number_after_bursts_is_that_of_the_largest_in_memory(
    asked: list[tuple[float, int]], kept: list[int]
) -> None:
    assert numbers(*asked) == kept


@pytest.mark.parametrize(
    ("bursts", "change"), [([], None), ([1], None), ([2], MEMORY), ([8, 1], MEMORY)]
)
def test_next_change_is_when_the_number_falls(
    bursts: list[int], change: float | None
) -> None:
    demand = Demand()
    for burst in bursts:
        demand = demand.after(burst, 0.0)

    assert demand.next_change() == (float("inf") if change is None else change)


steps = st.lists(st.tuples(st.floats(0.0, 3 * MEMORY), st.integers(0, 20)))


@given(steps)
def test_number_whatever_is_asked_is_small_and_comes_to_rest(
    steps: list[tuple[float, int]],
) -> None:
    demand, now = Demand(), 0.0
    for passed, asked in steps:
        now += passed
        demand = demand.after(asked, now)
        assert min(asked, MOST) <= demand.number <= MOST
    while (change := demand.next_change()) != float("inf"):
        before, demand = demand, demand.after(0, change)
        assert demand.number < before.number
    assert demand.number == any(asked for _, asked in steps)


@pytest.mark.parametrize(
    ("available", "open_files", "number"),
    [
        (64 * 1024 * MIB, 1024, 32),
        (64 * 1024 * MIB, None, MOST),
        (600 * MIB, 1024, 2),
        (200 * MIB, 1024, 0),
        (64 * 1024 * MIB, 64, 2),
        (64 * 1024 * MIB, 31, 0),
        (None, 1024, 1),
    ],
)
def test_room_is_what_memory_and_open_files_allow(
    available: int | None, open_files: int | None, number: int
) -> None:
    assert affordable(available, open_files) == number
