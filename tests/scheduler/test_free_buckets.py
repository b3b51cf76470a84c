from __future__ import annotations

import random

import pytest
from helpers.invariants import check_buckets, members
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorlib._scheduler.free_buckets import FreeBuckets, _Bucket


def test_indices_when_one_comes_and_goes_then_stay_small() -> None:
    indices = _Bucket(range(100))

    for _ in range(1_000):
        indices.remove(50)
        indices.add(50)

    assert len(indices.heap) <= 2 * 100 + 17


def test_indices_when_many_have_left_then_the_lowest_is_known() -> None:
    members = random.Random(0).sample(range(100_000), 100)
    indices = _Bucket(())
    for index in members:
        indices.add(index)

    while len(members) > 1:
        indices.remove(members.pop())
        assert indices.lowest() == min(members)


class LevelsMachine(RuleBasedStateMachine):
    """Levels beside a plain mapping that is searched for every answer."""

    def __init__(self) -> None:
        super().__init__()
        self.buckets = FreeBuckets()
        self.at: dict[int, int] = {}

    @rule(index=st.integers(0, 40), free=st.sampled_from([0, 1, 2, 63, 64, 10_000]))
    def put(self, index: int, free: int) -> None:
        if index in self.at:
            self.buckets.move(index, self.at[index], free)
        else:
            self.buckets.put(index, free)
        self.at[index] = free

    @rule(index=st.integers(0, 40))
    def drop(self, index: int) -> None:
        if index in self.at:
            self.buckets.drop(index, self.at.pop(index))
        else:
            with pytest.raises(KeyError):
                self.buckets.drop(index, 1)

    @rule(units=st.integers(0, 10_000), count=st.integers(0, 50))
    def look(self, units: int, count: int) -> None:
        free = self.buckets.tightest(units)

        roomy = [at for at in self.at.values() if at >= units]
        assert free == min(roomy, default=-1)
        there = sorted(index for index, at in self.at.items() if at == free)
        assert self.buckets.first(free, count) == there[:count]
        if there:
            assert self.buckets.lowest(free) == there[0]

    @invariant()
    def agree(self) -> None:
        check_buckets(self.buckets)
        assert self.buckets.highest == max(self.at.values(), default=-1)
        assert self.buckets.units() == sum(self.at.values())
        there: dict[int, set[int]] = {}
        for index, free in self.at.items():
            there.setdefault(free, set()).add(index)
        assert members(self.buckets) == there


LevelsMachine.TestCase.settings = settings(stateful_step_count=40)
TestLevelsAgainstAMapping = LevelsMachine.TestCase
