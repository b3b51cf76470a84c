"""The calls that have no answer: every way that one may take from its making."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers.invariants import check_calls
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorlib._owner.calls.call_table import CallTable
from actorlib._owner.calls.calls_under_way import UnderWay

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def calls() -> Iterator[CallTable[str, str]]:
    table: CallTable[str, str] = CallTable()
    yield table
    check_calls(table)


# Waiting for arguments.


def test_defer_when_the_arguments_come_then_whoever_wants_the_answer(
    calls: CallTable[str, str],
) -> None:
    number = calls.defer("me", "ping", 1.0)

    assert number < 0  # so that it is never that of a posted call
    assert calls.target(number) == "me"
    assert calls.take(number) == "me"
    assert (calls.take(number), len(calls)) == (None, 0)


def test_defer_when_it_is_cancelled_meanwhile_then_the_arguments_are_for_nobody(
    calls: CallTable[str, str],
) -> None:
    number = calls.defer("me", "ping", 1.0)

    assert calls.drop(number) == "me"
    assert calls.take(number) is None


def test_defer_when_looked_at_then_what_waits_and_since_when(
    calls: CallTable[str, str],
) -> None:
    calls.defer("me", "ping", 1.0)
    calls.take(calls.defer("you", "ping", 2.0))

    assert [*calls.unanswered(None, lambda _, what: (what, "sent"))] == [
        UnderWay(0, "ping", "pending_arguments", "me", None, 1.0)
    ]


def test_numbers_when_calls_are_deferred_and_posted_then_none_twice(
    calls: CallTable[str, str],
) -> None:
    numbers = [calls.defer("a", "x", 0.0), calls.begin("b", "x")]
    calls.drop(numbers[1])
    calls.take(numbers[0])
    numbers += [calls.defer("c", "x", 0.0), calls.begin("d", "x")]

    assert len(set(numbers)) == 4
    assert 0 not in numbers  # it stands for what was refused


# Posted, until it is over.


def test_begin_when_it_is_answered_then_it_is_over_once(
    calls: CallTable[str, str],
) -> None:
    number = calls.begin("me", "ping", {"name": "n"})

    assert calls.posted == {number: ("me", "ping", {"name": "n"})}
    assert calls.drop(number) == "me"
    assert calls.drop(number) is None
    assert calls.target(number) is None


def test_abandon_when_a_worker_has_it_then_it_stays_for_nobody(
    calls: CallTable[str, str],
) -> None:
    number = calls.begin("me", "ping")

    assert calls.abandon(number) == "me"
    assert calls.target(number) is None
    assert repr(calls) == "<CallTable 0 deferred, 1 posted, 1 of them abandoned>"
    assert calls.drop(number) is None
    assert len(calls) == 0


@pytest.mark.parametrize("times", [1, 2])
def test_abandon_when_it_is_over_or_done_before_then_nobody(
    calls: CallTable[str, str], times: int
) -> None:
    number = calls.begin("me", "ping")
    for _ in range(times):
        calls.abandon(number)
    calls.drop(number)

    assert calls.abandon(number) is None
    assert len(calls) == 0


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


def test_replace_when_it_is_posted_deferred_or_over_then_only_what_there_is(
    calls: CallTable[str, str],
) -> None:
    posted, deferred = calls.begin("a", "x"), calls.defer("b", "x", 0.0)
    over = calls.begin("c", "x")
    calls.drop(over)

    for number in (posted, deferred, over):
        calls.replace(number, "you")

    assert [calls.drop(number) for number in (posted, deferred, over)] == [
        "you",
        "you",
        None,
    ]


def test_clear_when_all_is_over_then_those_who_want_an_answer_in_order(
    calls: CallTable[str, str],
) -> None:
    first, _, third = (calls.begin(who, "x") for who in ("a", "b", "c"))
    calls.renumber(first)
    calls.abandon(third)
    place = calls.defer("d", "x", 0.0)

    assert calls.clear() == ["b", "a"]
    assert not calls.posted
    assert calls.take(place) == "d"  # it is refused when its arguments are there


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


CallTableMachine.TestCase.settings = settings(stateful_step_count=30)
TestCallTable = CallTableMachine.TestCase
