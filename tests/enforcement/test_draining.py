"""What of a worker that has ended is still on its devices."""

from __future__ import annotations

from helpers.occupants import GIB, UUID, alive, gone, occupant

from actorlib._enforcement.draining import (
    LIMIT,
    Holder,
    describe,
    holders,
    pause,
)
from actorlib._enforcement.gpu_processes import Listed, Occupants

ENDED = 100.0


class Room:
    """One worker that has ended, another that lives, and the looks at both."""

    def __init__(self) -> None:
        self.ended, self.other = occupant(812), occupant(900)
        self.occupants = Occupants()
        self.occupants.enter("ended", self.ended)
        self.occupants.enter("other", self.other)

    def look(self, *listed: Listed, at: float = ENDED + 1) -> list[int]:
        """The processes that are waited for after one more look."""
        self.occupants.note({UUID: listed}, at)
        found = holders(self.ended, self.occupants, ENDED)
        return [holder.pid for holder in found]


def test_holders_when_nothing_is_listed_then_none() -> None:
    assert Room().look() == []


def test_holders_when_the_worker_is_still_listed_then_it_is() -> None:
    assert Room().look(gone(812)) == [812]


def test_holders_when_others_are_on_the_device_then_they_are_not() -> None:
    assert Room().look(gone(900), alive(901, 900), alive(77)) == []


def test_holders_when_a_child_was_seen_while_it_lived_then_it_is() -> None:
    room = Room()
    room.look(alive(812), alive(813, 812), at=ENDED - 1)

    assert room.look(gone(813)) == [813]


def test_holders_when_nobody_saw_it_and_it_came_with_the_end_then_it_is() -> None:
    room = Room()
    room.look(alive(812), at=ENDED - 1)

    assert room.look(gone(814)) == [814]


def test_holders_when_it_could_not_be_seen_before_the_end_then_it_is_not() -> None:
    room = Room()
    room.look(alive(812), gone(4242), at=ENDED - 1)

    assert room.look(gone(812), gone(4242)) == [812]


def test_holders_when_it_is_of_another_that_drains_then_it_is_not() -> None:
    room = Room()
    room.look(alive(905, 900), at=ENDED - 1)

    assert room.look(gone(900), gone(905)) == []


def test_holders_when_the_memory_is_unknown_then_it_is_waited_for_all_the_same() -> (
    None
):
    assert Room().look(gone(812, None)) == [812]


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
