from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorlib._wire.ordering import CallOrder

LANES = ["a", "b", "c"]


class LanesMachine(RuleBasedStateMachine):
    """Against a naive model: each lane is the list of its calls that have not gone.

    A call of the model is ``[number, is_ready]``; whenever something changes, those at
    the head of a lane that are ready go.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lanes: CallOrder[str, int] = CallOrder()
        self.model: dict[str, list[list[int | bool]]] = defaultdict(list)
        self.posted: dict[str, list[int]] = defaultdict(list)
        self.went: dict[str, list[int]] = defaultdict(list)
        self.count = 0

    def unready(self) -> list[tuple[str, int]]:
        return [
            (lane, int(number))
            for lane, calls in self.model.items()
            for number, is_ready in calls
            if not is_ready
        ]

    def head_goes(self, lane: str) -> list[int]:
        calls, gone = self.model[lane], []
        while calls and calls[0][1]:
            gone.append(int(calls.pop(0)[0]))
        return gone

    @rule(lane=st.sampled_from(LANES), ready=st.booleans())
    def post(self, lane: str, ready: bool) -> None:  # noqa: FBT001  # hypothesis gives it by name
        self.count += 1
        self.posted[lane].append(self.count)
        self.model[lane].append([self.count, ready])
        expected = self.head_goes(lane)

        if self.lanes.add(lane, self.count, ready=ready):
            self.went[lane].append(self.count)
            assert expected == [self.count]
        else:
            assert expected == []

    @precondition(lambda self: self.unready())
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        lane, call = data.draw(st.sampled_from(self.unready()))
        self.model[lane] = [
            [number, is_ready or number == call]
            for number, is_ready in self.model[lane]
        ]

        free = self.lanes.resolve(lane, call)

        assert free == self.head_goes(lane)
        self.went[lane] += free

    @precondition(lambda self: any(self.went.values()))
    @rule(data=st.data())
    def settle_what_has_gone(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from([k for k, v in self.went.items() if v]))
        call = data.draw(st.sampled_from(self.went[lane]))

        assert self.lanes.resolve(lane, call) == []

    @invariant()
    def each_goes_once_and_in_order(self) -> None:
        for lane, went in self.went.items():
            held = {number for number, _ in self.model[lane]}
            assert went == [n for n in self.posted[lane] if n not in held]

    @invariant()
    def a_lane_is_blocked_while_a_call_waits(self) -> None:
        assert bool(self.lanes) == any(self.model.values())


LanesMachine.TestCase.settings = settings(stateful_step_count=40)
TestLanes = LanesMachine.TestCase


@pytest.fixture
def lanes() -> CallOrder[str, int]:
    return CallOrder()


def test_post_when_nothing_waits_and_ready_then_it_goes(
    lanes: CallOrder[str, int],
) -> None:
    assert lanes.add("a", 1, ready=True)
    assert not lanes


def test_post_when_not_ready_then_it_waits(lanes: CallOrder[str, int]) -> None:
    assert not lanes.add("a", 1, ready=False)
    assert lanes


def test_post_when_one_before_it_waits_then_it_waits_too(
    lanes: CallOrder[str, int],
) -> None:
    lanes.add("a", 1, ready=False)

    assert not lanes.add("a", 2, ready=True)


def test_post_when_another_lane_is_blocked_then_it_goes(
    lanes: CallOrder[str, int],
) -> None:
    lanes.add("a", 1, ready=False)

    assert lanes.add("b", 2, ready=True)


def test_settled_when_the_first_is_ready_then_those_behind_it_go_too(
    lanes: CallOrder[str, int],
) -> None:
    lanes.add("a", 1, ready=False)
    lanes.add("a", 2, ready=True)
    lanes.add("a", 3, ready=False)
    lanes.add("a", 4, ready=True)

    assert lanes.resolve("a", 1) == [1, 2]
    assert lanes.resolve("a", 3) == [3, 4]


def test_settled_when_one_in_the_middle_is_ready_then_nothing_goes(
    lanes: CallOrder[str, int],
) -> None:
    lanes.add("a", 1, ready=False)
    lanes.add("a", 2, ready=False)

    assert lanes.resolve("a", 2) == []
    assert lanes.resolve("a", 1) == [1, 2]


def test_settled_when_the_lane_is_not_there_then_nothing(
    lanes: CallOrder[str, int],
) -> None:
    assert lanes.resolve("a", 1) == []


def test_call_when_it_passes_and_is_ready_then_it_goes_at_once() -> None:
    lanes: CallOrder[str, int] = CallOrder()

    assert not lanes.add("a", 1, ready=False, passes=True)
    assert lanes.add("a", 2, ready=True, passes=True)


def test_call_when_it_passes_then_it_goes_as_soon_as_it_is_settled() -> None:
    lanes: CallOrder[str, int] = CallOrder()
    for call in (1, 2, 3):
        lanes.add("a", call, ready=False, passes=True)

    assert lanes.resolve("a", 2) == [2]
    assert lanes.resolve("a", 1) == [1]
    assert lanes
    assert lanes.resolve("a", 3) == [3]
    assert not lanes


def test_call_when_it_does_not_pass_then_it_waits_for_those_that_do() -> None:
    lanes: CallOrder[str, int] = CallOrder()
    lanes.add("a", 1, ready=False, passes=True)
    assert not lanes.add("a", 2, ready=True)
    lanes.add("a", 3, ready=False, passes=True)

    assert lanes.resolve("a", 3) == [3]
    assert lanes.resolve("a", 1) == [1, 2]
    assert not lanes


def test_call_when_it_is_settled_twice_then_it_goes_once() -> None:
    lanes: CallOrder[str, int] = CallOrder()
    lanes.add("a", 1, ready=False)
    lanes.add("a", 2, ready=False, passes=True)

    assert lanes.resolve("a", 1) == [1]
    assert lanes.resolve("a", 1) == []
    assert lanes.resolve("a", 2) == [2]
    assert lanes.resolve("a", 2) == []
