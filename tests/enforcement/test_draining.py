"""What of a worker that has ended is still on its devices."""

from __future__ import annotations

import pytest
from helpers.occupants import GIB, UUID, alive, gone, occupant

from actorlib._enforcement.drains import LIMIT, describe, pause
from actorlib._enforcement.gpu_processes import Holder, Listed, Occupants

ENDED = 100.0


@pytest.mark.parametrize(
    ("before", "listed", "left"),
    [
        ([], [], []),
        ([], [gone(812)], [812]),
        ([], [gone(812, None)], [812]),  # of which nobody knows the memory
        ([], [gone(900), alive(901, 900), alive(77)], []),  # others
        # A child that was seen while it lived, and one that came with the end.
        ([alive(812), alive(813, 812)], [gone(813)], [813]),
        ([alive(812)], [gone(814)], [814]),
        # One that could not be seen before the end, and one of the other worker.
        ([alive(812), gone(4242)], [gone(812), gone(4242)], [812]),
        ([alive(905, 900)], [gone(900), gone(905)], []),
    ],
)
def test_holders_when_a_worker_has_ended_then_its_processes_that_are_listed(
    before: list[Listed], listed: list[Listed], left: list[int]
) -> None:
    ended, other = occupant(812), occupant(900)
    occupants = Occupants()
    occupants.enter("ended", ended)
    occupants.enter("other", other)
    if before:
        occupants.note({UUID: tuple(before)}, ENDED - 1)
    occupants.note({UUID: tuple(listed)}, ENDED + 1)

    assert [each.pid for each in occupants.holders(ended, ENDED)] == left


def test_words_when_something_is_left_then_who_and_how_much() -> None:
    left = [Holder("GPU 0", 812, "python", 3 * GIB), Holder("GPU 1", 9, "", None)]

    assert describe(left) == (
        "pid 812 (python) still holds 3 GiB of GPU 0, "
        "pid 9 still holds an unknown amount of GPU 1"
    )
    assert "has not listed" in describe([])


def test_pause_when_it_takes_longer_then_looks_are_rarer() -> None:
    pauses = [pause(elapsed) for elapsed in (0.0, 0.05, 0.2, 1.0, LIMIT)]

    assert pauses == sorted(pauses)
    assert 0 < pauses[0] < pauses[-1] < LIMIT
