from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actorlib._base.deadlines import Deadlines


def test_due_when_two_are_at_one_time_then_the_one_that_was_added_first() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for call in (3, 1, 2):
        deadlines.add(call, 1.0)

    assert deadlines.due(1.0) == [3, 1, 2]


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


STEPS = st.sampled_from(["add", "discard", "pass"])


@given(st.lists(st.tuples(STEPS, st.integers(0, 9), st.integers(0, 20))))
def test_deadlines_when_anything_happens_then_as_a_plain_dict_would_say(
    steps: list[tuple[str, int, int]],
) -> None:
    deadlines: Deadlines[int] = Deadlines()
    known: dict[int, float] = {}
    for step, call, when in steps:
        if step == "add":
            deadlines.add(call, when)
            known[call] = when
        elif step == "discard":
            deadlines.discard(call)
            known.pop(call, None)
        else:
            due = deadlines.due(when)
            expected = [call for call, then in known.items() if then <= when]
            assert sorted(due) == sorted(expected)
            assert [known[call] for call in due] == sorted(known[c] for c in due)
            known = {call: then for call, then in known.items() if then > when}
        assert deadlines.next() == min(known.values(), default=None)
        assert deadlines.live == known
