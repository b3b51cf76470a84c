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


def test_number_when_nobody_has_asked_is_none() -> None:
    assert numbers((1.0, 0), (100.0, 0)) == [0, 0]


@pytest.mark.parametrize(
    ("burst", "kept"), [(1, 1), (3, 3), (MOST, MOST), (1000, MOST)]
)
def test_number_after_a_burst_is_its_size_up_to_a_few(burst: int, kept: int) -> None:
    assert numbers((1.0, burst)) == [kept]


def test_number_when_nobody_asks_any_more_falls_to_one() -> None:
    looks = [(step * MEMORY, 0) for step in range(1, 4)]

    assert numbers((0.0, 8), *looks) == [8, 1, 1, 1]


def test_number_when_a_look_comes_early_stays() -> None:
    assert numbers((0.0, 8), (MEMORY - 0.1, 0), (MEMORY, 0)) == [8, 8, 1]


def test_number_when_smaller_bursts_follow_falls_to_theirs() -> None:
    assert numbers((0.0, 8), (1.0, 5), (2.0, 3), (MEMORY, 0)) == [8, 8, 8, 5]


def test_number_when_single_workers_follow_falls_to_one() -> None:
    singles = [(float(second), 1) for second in range(1, 31)]

    assert numbers((0.0, 8), *singles)[9::10] == [8, 1, 1]
    assert numbers((0.0, 8), *singles)[-1] == 1


def test_number_when_the_burst_comes_again_is_remembered_anew() -> None:
    late = MEMORY - 0.1

    assert numbers((0.0, 4), (late, 4), (late + MEMORY - 0.1, 0))[-1] == 4


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
