"""The calls that have no answer: every way that one may take from its making."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers.invariants import check_calls
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorlib._owner.calls.call_table import CallTable, Marks, UnderWay

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def calls() -> Iterator[CallTable[str, str]]:
    table: CallTable[str, str] = CallTable()
    yield table
    check_calls(table)


def test_defer_when_looked_at_then_what_waits_and_since_when(
    calls: CallTable[str, str],
) -> None:
    calls.defer("me", "ping", 1.0)
    calls.take(calls.defer("you", "ping", 2.0))

    assert [*calls.unanswered(None, lambda _, what: (what, "sent"))] == [
        UnderWay(0, "ping", "pending_arguments", "me", None, 1.0)
    ]


def test_renumber_when_it_goes_again_then_behind_all_others(
    calls: CallTable[str, str],
) -> None:
    first, second = calls.begin("me", "a", {"name": "n"}), calls.begin("you", "b")

    again = calls.renumber(first)

    assert again > second
    assert calls.target(first) is None  # a late answer of the first try is to nobody
    assert list(calls.posted.values()) == [
        ("you", "b", None),
        ("me", "a", {"name": "n"}),
    ]


def test_since_when_marked_then_the_time_of_the_turn(
    calls: CallTable[str, str],
) -> None:
    first = calls.begin("me", "a")
    assert calls.since(first) is None
    calls.mark(10.0)
    second = calls.begin("me", "b")

    calls.mark(10.01)  # too soon for another mark
    third = calls.begin("me", "c")
    calls.mark(10.1)

    numbers = first, second, third
    assert [calls.since(number) for number in numbers] == [10.0, 10.0, 10.1]


class CallTableMachine(RuleBasedStateMachine):
    """Against a naive model: who wants which call, in the order of their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: CallTable[int, str] = CallTable()
        self.deferred: dict[int, int] = {}
        self.posted: dict[int, int | None] = {}
        self.over: set[int] = set()

    def choose(self, data: st.DataObject) -> int:
        strange = 10**6
        numbers = [*self.deferred, *self.posted, *sorted(self.over), strange, -strange]
        return data.draw(st.sampled_from(numbers))

    @rule(who=st.integers())
    def defer(self, who: int) -> None:
        number = self.calls.defer(who, "x", 0.0)
        assert number not in self.deferred.keys() | self.posted.keys() | self.over
        self.deferred[number] = who

    @rule(who=st.integers())
    def begin(self, who: int) -> None:
        number = self.calls.begin(who, "x")
        assert number > max([0, *self.posted, *self.over])
        self.posted[number] = who

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        number = self.choose(data)
        assert self.calls.take(number) == self.deferred.pop(number, None)

    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        number = self.choose(data)
        assert self.calls.abandon(number) == self.posted.get(number)
        if number in self.posted:
            self.posted[number] = None

    @rule(data=st.data(), who=st.integers())
    def replace(self, data: st.DataObject, who: int) -> None:
        number = self.choose(data)
        self.calls.replace(number, who)
        for calls in (self.posted, self.deferred):
            if number in calls:
                calls[number] = who

    @precondition(lambda self: self.posted)
    @rule(data=st.data())
    def renumber(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.posted)))
        again = self.calls.renumber(number)
        assert again > max([*self.posted, *self.over])
        self.posted[again] = self.posted.pop(number)
        self.over.add(number)

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        number = self.choose(data)
        if number in self.posted or number in self.deferred:
            self.over.add(number)
        wanted = self.posted.pop(number, None)
        wanted = self.deferred.pop(number, wanted)
        assert self.calls.drop(number) == wanted

    @rule()
    def clear(self) -> None:
        wanted = [target for target in self.posted.values() if target is not None]
        assert self.calls.clear() == wanted
        self.over |= self.posted.keys()
        self.posted = {}

    @invariant()
    def all_is_as_in_the_model(self) -> None:
        check_calls(self.calls)
        assert len(self.calls) == len(self.deferred) + len(self.posted)
        assert list(self.calls.posted) == list(self.posted)
        for number, who in (self.posted | self.deferred).items():
            assert self.calls.target(number) == who
        assert all(self.calls.target(number) is None for number in self.over)
        abandoned = list(self.posted.values()).count(None)
        assert repr(self.calls) == (
            f"<CallTable {len(self.deferred)} deferred, {len(self.posted)} posted, "
            f"{abandoned} of them abandoned>"
        )


CallTableMachine.TestCase.settings = settings(stateful_step_count=30)
TestCallTable = CallTableMachine.TestCase


# When calls were made, as a few marks tell.


def test_marks_when_nothing_is_marked_then_unknown() -> None:
    assert Marks().when(1) is None


def test_marks_when_numbers_were_marked_then_each_has_the_time_of_its_turn() -> None:
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
