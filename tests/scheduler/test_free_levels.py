from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorlib._scheduler.free_levels import FreeLevels, _Indices


def levels_of(**there: tuple[int, ...]) -> FreeLevels:
    levels = FreeLevels()
    for level, indices in there.items():
        levels.fill(int(level.removeprefix("at_")), indices)
    return levels


def test_levels_when_nothing_is_here_then_there_is_none() -> None:
    levels = FreeLevels()

    assert (levels.highest, levels.tightest(0), len(levels)) == (-1, -1, 0)
    assert levels.first(1, 3) == []


@pytest.mark.parametrize(
    ("units", "level"), [(0, 0), (1, 5), (5, 5), (6, 10_000), (10_000, 10_000)]
)
def test_tightest_when_several_are_in_use_then_the_lowest_that_is_enough(
    units: int, level: int
) -> None:
    levels = levels_of(at_0=(1,), at_5=(2,), at_10000=(0, 3))

    assert levels.tightest(units) == level


def test_tightest_when_all_are_lower_then_there_is_none() -> None:
    assert levels_of(at_5=(0,)).tightest(6) == -1


def test_first_when_there_are_fewer_then_all_of_them_ascending() -> None:
    levels = levels_of(at_7=(1, 4))
    levels.put(2, 7)

    assert levels.first(7, 2) == [1, 2]
    assert levels.first(7, 9) == [1, 2, 4]


def test_drop_when_it_is_not_there_then_refused() -> None:
    levels = levels_of(at_7=(1,))

    with pytest.raises(KeyError):
        levels.drop(2, 7)


def test_check_when_a_level_is_lost_then_raises() -> None:
    levels = levels_of(at_7=(1,))
    levels._in_use = 0

    with pytest.raises(AssertionError, match="levels in use"):
        levels.check()


def test_indices_when_one_comes_and_goes_then_stay_small() -> None:
    indices = _Indices(range(100))

    for _ in range(1_000):
        indices.remove(50)
        indices.add(50)

    assert len(indices.heap) <= 2 * 100 + 17


def test_indices_when_many_have_left_then_the_lowest_is_known() -> None:
    members = random.Random(0).sample(range(100_000), 100)
    indices = _Indices(())
    for index in members:
        indices.add(index)

    while len(members) > 1:
        indices.remove(members.pop())
        assert indices.lowest() == min(members)


class LevelsMachine(RuleBasedStateMachine):
    """Levels beside a plain mapping that is searched for every answer."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = FreeLevels()
        self.at: dict[int, int] = {}

    @rule(index=st.integers(0, 40), level=st.sampled_from([0, 1, 2, 63, 64, 10_000]))
    def put(self, index: int, level: int) -> None:
        if index in self.at:
            self.levels.move(index, self.at[index], level)
        else:
            self.levels.put(index, level)
        self.at[index] = level

    @rule(index=st.integers(0, 40))
    def drop(self, index: int) -> None:
        if index in self.at:
            self.levels.drop(index, self.at.pop(index))

    @rule(units=st.integers(0, 10_000), count=st.integers(0, 50))
    def look(self, units: int, count: int) -> None:
        level = self.levels.tightest(units)

        roomy = [at for at in self.at.values() if at >= units]
        assert level == min(roomy, default=-1)
        there = sorted(index for index, at in self.at.items() if at == level)
        assert self.levels.first(level, count) == there[:count]
        assert self.levels.count(level) == len(there)
        if there:
            assert self.levels.lowest(level) == there[0]

    @invariant()
    def agree(self) -> None:
        self.levels.check()
        assert self.levels.highest == max(self.at.values(), default=-1)
        assert self.levels.units() == sum(self.at.values())
        assert len(self.levels) == len(self.at)
        assert all(self.levels.has(index, at) for index, at in self.at.items())
        assert not any(self.levels.has(41, at) for at in self.at.values())


LevelsMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestLevelsAgainstAMapping = LevelsMachine.TestCase
