"""Whose the processes are that a driver lists, from what the kernel says of them."""

from __future__ import annotations

import pytest
from helpers.occupants import GIB, UUID, alive, gone, half, occupant

from actorlib._enforcement.gpu_processes import (
    Listed,
    Occupants,
    merged,
)


def test_merged_when_a_process_is_in_two_lists_then_once_with_the_most() -> None:
    compute, graphics, mps = [(1, 10), (2, None)], [(1, 30), (3, 5)], [(2, 7), (1, 20)]

    assert merged([compute, graphics, mps]) == {1: 30, 2: 7, 3: 5}


def test_merged_when_nobody_says_how_much_then_that_is_unknown() -> None:
    assert merged([[(1, None)], [(1, None)]]) == {1: None}


@pytest.mark.parametrize(
    ("seen", "listed", "is_own"),
    [
        (None, alive(812), True),
        (None, gone(812), True),
        (None, alive(900, 812), True),  # a child, or of its session
        (None, alive(900, 880, 870, 812), True),
        (None, alive(900, 1, 77), False),
        (None, gone(900), False),
        # A child is remembered, until another process has its number.
        (alive(900, 812), gone(900), True),
        (alive(900, 812, began=5), alive(900, 1, began=5), True),
        (alive(900, 812, began=5), alive(900, 1, began=6), False),
    ],
)
def test_owns_when_a_process_is_listed_then_its_lineage_says_it(
    seen: Listed | None, listed: Listed, *, is_own: bool
) -> None:
    worker = occupant(812)
    if seen is not None:
        worker.note(seen)

    assert worker.owns(listed) is is_own


def test_owns_when_the_worker_has_no_number_yet_then_nothing() -> None:
    assert not occupant(0).owns(gone(0))


def test_name_when_it_is_gone_then_it_is_that_of_its_life() -> None:
    worker = occupant(812)
    worker.note(alive(812, name="python"))

    assert worker.name_of(gone(812)) == "python"
    assert worker.name_of(gone(813)) == ""


class Seen:
    """Two workers on one device, and what is known of them."""

    def __init__(self) -> None:
        self.first, self.second = occupant(1), occupant(2)
        self.occupants = Occupants()
        self.occupants.enter("first", self.first)
        self.occupants.enter("second", self.second)

    @property
    def rows(self) -> tuple[Listed, ...]:
        return self.occupants.latest[UUID]

    def since(self, pid: int) -> float:
        (row,) = [row for row in self.rows if row.pid == pid]
        return row.since


def test_note_when_children_are_listed_then_each_tree_is_added_up() -> None:
    seen = Seen()
    listed = (alive(1, nbytes=GIB), alive(10, 1, nbytes=2 * GIB), alive(2, nbytes=GIB))

    seen.occupants.note({UUID: (*listed, alive(99, nbytes=50 * GIB))}, 0.0)

    assert seen.first.used == {UUID: 3 * GIB}
    assert seen.second.used == {UUID: GIB}


def test_note_when_one_of_a_tree_is_unknown_then_the_sum_is() -> None:
    seen = Seen()

    seen.occupants.note(
        {UUID: (alive(1, nbytes=GIB), Listed(10, None, frozenset({10, 1})))}, 0.0
    )

    assert seen.first.used == {UUID: None}
    assert seen.second.used == {UUID: 0}


def test_since_when_it_stays_then_of_the_first_look() -> None:
    seen = Seen()
    for now in (1.0, 2.0, 3.0):
        seen.occupants.note({UUID: (gone(77), alive(78))}, now)

    assert seen.since(77) == 1.0
    assert [row.is_strange for row in seen.rows] == [True, False]


def test_since_when_it_can_be_seen_no_more_then_it_is_new() -> None:
    seen = Seen()
    for now in (1.0, 2.0):
        seen.occupants.note({UUID: (alive(77),)}, now)
    assert seen.since(77) == 1.0

    seen.occupants.note({UUID: (gone(77),)}, 3.0)

    assert seen.since(77) == 3.0


def test_since_when_its_worker_is_forgotten_then_it_is_new() -> None:
    seen = Seen()
    for now in (1.0, 2.0):
        seen.occupants.note({UUID: (gone(1),)}, now)
    assert (seen.since(1), seen.rows[0].is_strange) == (1.0, False)

    seen.occupants.leave("first")
    seen.occupants.note({UUID: (gone(1),)}, 3.0)

    assert (seen.since(1), seen.rows[0].is_strange) == (3.0, True)


def test_since_when_it_has_left_and_comes_again_then_it_is_new() -> None:
    seen = Seen()
    seen.occupants.note({UUID: (gone(77),)}, 1.0)
    seen.occupants.note({"GPU-other": ()}, 1.5)
    assert seen.since(77) == 1.0

    seen.occupants.note({UUID: ()}, 2.0)
    seen.occupants.note({UUID: (gone(77),)}, 3.0)

    assert seen.since(77) == 3.0


def test_devices_when_a_share_is_of_nothing_that_nvml_knows_then_it_is_left_out() -> (
    None
):
    assert occupant(1, half(source="/dev")).devices == {}
    assert occupant(1, half(uuid=None)).devices == {}
    assert occupant(1).devices == {UUID: "GPU 0"}


def test_watched_when_the_worker_has_ended_then_nothing() -> None:
    worker = occupant(812)
    assert list(worker.watched_shares()) == [UUID]

    worker.has_ended = True

    assert worker.watched_shares() == {}


def test_who_has_what_when_several_are_there_then_the_most_first() -> None:
    occupants = Occupants()
    occupants.enter(812, occupant(812))
    listed = (
        alive(813, 812, nbytes=GIB, name="loader"),
        alive(812, nbytes=30 * GIB),
        alive(7, nbytes=2 * GIB, name="Xorg"),
    )

    assert occupants.describe({UUID: "GPU 0"}) == "GPU 0: nothing"
    occupants.note({UUID: listed}, 0.0)

    assert occupants.describe({UUID: "GPU 0"}) == (
        "GPU 0: Model (pid 812) 30 GiB, pid 7 (Xorg), not a worker of this "
        "program, 2 GiB, pid 813 (loader) of Model (pid 812) 1 GiB"
    )
