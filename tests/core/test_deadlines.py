from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actorlib._base.deadlines import Deadlines


def test_due_when_time_passes_then_the_earliest_first_and_each_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for call, when in [("late", 9.0), ("early", 1.0), ("middle", 5.0)]:
        deadlines.add(call, when)

    assert deadlines.due(0.5) == []
    assert deadlines.due(5.0) == ["early", "middle"]
    assert deadlines.due(9.5) == ["late"]
    assert deadlines.due(99.0) == []


def test_due_when_two_are_at_one_time_then_the_one_that_was_added_first() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for call in (3, 1, 2):
        deadlines.add(call, 1.0)

    assert deadlines.due(1.0) == [3, 1, 2]


def test_discard_when_answered_then_it_is_never_due() -> None:
    deadlines: Deadlines[int] = Deadlines()
    deadlines.add(1, 1.0)
    deadlines.add(2, 2.0)

    deadlines.discard(1)
    deadlines.discard(7)

    assert deadlines.next() == 2.0
    assert deadlines.due(9.0) == [2]


def test_add_when_again_then_the_newer_time_counts() -> None:
    deadlines: Deadlines[int] = Deadlines()
    deadlines.add(1, 1.0)
    deadlines.add(1, 3.0)

    assert deadlines.due(2.0) == []
    assert deadlines.due(3.0) == [1]


def test_next_when_nothing_has_a_deadline_then_none() -> None:
    assert Deadlines[int]().next() is None


def test_heap_when_calls_are_answered_long_before_their_time_then_it_stays_small() -> (
    None
):
    deadlines: Deadlines[int] = Deadlines()
    largest = 0

    for call in range(20_000):
        deadlines.add(call, 60.0 + call)
        deadlines.discard(call - 100)
        largest = max(largest, len(deadlines))

    assert len(deadlines.live) == 100
    assert largest <= 2 * 101 + 65


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20), st.booleans())))
def test_deadlines_when_anything_happens_then_as_a_plain_dict_would_say(
    steps: list[tuple[int, int, bool]],
) -> None:
    deadlines: Deadlines[int] = Deadlines()
    known: dict[int, float] = {}
    for call, when, is_added in steps:
        if is_added:
            deadlines.add(call, when)
            known[call] = when
        else:
            deadlines.discard(call)
            known.pop(call, None)
        assert deadlines.next() == min(known.values(), default=None)

    due = deadlines.due(10)

    assert sorted(due) == sorted(call for call, when in known.items() if when <= 10)
    assert deadlines.live == {c: when for c, when in known.items() if when > 10}
