from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorlib._base.ids import ActorId
from actorlib._owner.objects.refcount import OWNER, RefCount

ONE, TWO, THREE = (ActorId(bytes([n])) for n in (1, 2, 3))


@pytest.fixture
def holders() -> RefCount:
    return RefCount()


actors = st.sampled_from([ONE, TWO, THREE])
ids = st.integers(0, 3)


class HoldersMachine(RuleBasedStateMachine):
    """Against a naive model: a bag of (actor, holder)."""

    def __init__(self) -> None:
        super().__init__()
        self.holders = RefCount()
        self.model: Counter[tuple[ActorId, int]] = Counter()

    def held(self) -> set[ActorId]:
        return {actor for actor, _ in self.model}

    def had(self) -> list[tuple[ActorId, int]]:
        return sorted(self.model)

    @rule(actor=actors, holder=ids)
    def add(self, actor: ActorId, holder: int) -> None:
        self.holders.add(actor, holder)
        self.model[actor, holder] += 1

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        actor, holder = data.draw(st.sampled_from(self.had()))
        count = data.draw(st.integers(1, self.model[actor, holder]))
        self.model[actor, holder] -= count
        self.model = +self.model

        is_last = self.holders.remove(actor, holder, count)

        assert is_last == (actor not in self.held())

    @rule(actor=actors, holder=ids, more=st.integers(1, 3))
    def remove_too_much(self, actor: ActorId, holder: int, more: int) -> None:
        had = self.model[actor, holder]
        words = f"gives back {had + more} references to {actor.hex()}, and had {had}"
        with pytest.raises(LookupError, match=words):
            self.holders.remove(actor, holder, had + more)
        self.model = +self.model

    @rule(moved=st.lists(actors, max_size=4), holder=st.integers(1, 3))
    def move(self, moved: list[ActorId], holder: int) -> None:
        for actor in moved:
            self.holders.add(actor, OWNER)
        before = self.held()

        self.holders.lent(moved, holder)

        for actor in moved:
            self.model[actor, holder] += 1
        assert self.held() == before | set(moved)

    @rule(holder=st.integers(1, 3))
    def forget(self, holder: int) -> None:
        before = self.held()
        for actor, one in self.had():
            if one == holder:
                del self.model[actor, one]

        assert set(self.holders.forget(holder)) == before - self.held()

    @invariant()
    def held_is_what_the_model_says(self) -> None:
        assert {a for a in (ONE, TWO, THREE) if self.holders.is_held(a)} == self.held()
        assert repr(self.holders) == f"<RefCount of {len(self.held())} actors>"


HoldersMachine.TestCase.settings = settings(stateful_step_count=30)
TestHolders = HoldersMachine.TestCase


def test_add_when_it_holds_itself_then_nobody_holds_it(holders: RefCount) -> None:
    holders.enter(5, ONE)

    holders.add(ONE, OWNER)
    holders.lent([ONE], 5)

    assert not holders.is_held(ONE)
    assert holders.add(TWO, 5)


def test_remove_when_only_itself_is_left_then_nobody_holds_it(
    holders: RefCount,
) -> None:
    holders.enter(5, ONE)
    holders.add(ONE, 5)
    holders.add(ONE, OWNER)

    assert holders.remove(ONE, OWNER)
    assert holders.add(ONE, 6)
    assert not holders.remove(ONE, 5)


def test_forget_when_a_worker_is_gone_then_its_number_is_nobody(
    holders: RefCount,
) -> None:
    holders.enter(5, ONE)
    holders.add(ONE, 5)
    holders.forget(5)
    holders.add(ONE, 5)

    assert holders.is_held(ONE)
