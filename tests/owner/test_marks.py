"""When calls were made, as a few marks tell."""

from __future__ import annotations

from actorlib._owner.calls.call_table import Marks


def test_when_nothing_is_marked_then_unknown() -> None:
    assert Marks().when(1) is None


def test_when_numbers_were_marked_then_each_has_the_time_of_its_turn() -> None:
    marks = Marks()
    marks.mark(1, 10.0, 1)
    due = marks.mark(3, 20.0, 1)

    assert [marks.when(number) for number in (1, 2, 3, 4)] == [10.0, 10.0, 20.0, 20.0]
    assert 20.0 < due < 20.1


def test_marks_when_the_oldest_is_answered_then_forgotten() -> None:
    marks = Marks()
    for turn in range(100):
        marks.mark(turn + 1, float(turn), turn + 1)

    assert len(marks) <= 2
    assert marks.when(100) == 99.0


def test_marks_when_one_stays_for_ever_then_few_are_kept() -> None:
    marks, turns, due = Marks(), 3_000, 0.0
    for turn in range(turns):
        if turn >= due:
            due = marks.mark(turn + 1, float(turn), 1)

    assert len(marks) <= 256
    told = [marks.when(turn + 1) for turn in range(turns)]
    assert None not in told
    assert all(0 <= turn - (when or 0) <= turns / 64 for turn, when in enumerate(told))


def test_marks_when_what_was_old_is_answered_then_they_are_fine_again() -> None:
    marks = Marks()
    for turn in range(300):
        marks.mark(turn + 1, float(turn), 1)
    marks.mark(301, 300.0, 300)

    assert marks.mark(302, 301.0, 300) < 301.1
