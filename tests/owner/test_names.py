from __future__ import annotations

import pytest
from helpers.invariants import check_names
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorlib._base.ids import ActorId
from actorlib._owner.actors.names import NameTable, advice

ONE, TWO = ActorId(b"1"), ActorId(b"2")


@pytest.fixture
def names() -> NameTable:
    return NameTable()


def test_claim_when_free_then_it_is_found(names: NameTable) -> None:
    names.claim("here", "a", ONE)

    assert names.find("here", "a") == ONE
    assert names.name_of(ONE) == ("here", "a")


def test_claim_when_taken_in_another_namespace_then_both_are_found(
    names: NameTable,
) -> None:
    names.claim("here", "a", ONE)
    names.claim("there", "a", TWO)

    assert (names.find("here", "a"), names.find("there", "a")) == (ONE, TWO)


@pytest.mark.parametrize(("name", "actor"), [("a", TWO), ("b", ONE)])
def test_claim_when_the_name_or_the_actor_is_taken_then_refused(
    names: NameTable, name: str, actor: ActorId
) -> None:
    names.claim("here", "a", ONE)

    with pytest.raises(LookupError):
        names.claim("here", name, actor)
    check_names(names)


def test_free_when_it_has_no_name_then_nothing_happens(names: NameTable) -> None:
    names.claim("here", "a", ONE)

    names.free(TWO)

    assert list(names) == [("here", "a", ONE)]


def test_free_when_it_has_a_name_then_another_may_have_it(names: NameTable) -> None:
    names.claim("here", "a", ONE)

    names.free(ONE)
    names.claim("here", "a", TWO)

    assert names.find("here", "a") == TWO
    assert names.name_of(ONE) is None


@pytest.mark.parametrize(
    ("answering", "said"),
    [
        ([], "nobody"),
        ([("there", "count")], "'there'"),
        ([("here", "counter"), ("there", "other")], "did you mean 'counter'?"),
        ([("here", "zebra")], "there is 'zebra'"),
        ([("here", f"z{n}") for n in range(7)], "and 2 more"),
        ([("there", "zebra")], "nobody"),
    ],
)
def test_advice_when_a_name_is_not_there_then_what_is(
    answering: list[tuple[str, str]], said: str
) -> None:
    assert said in advice("count", "here", answering)


class Claims(RuleBasedStateMachine):
    """Names against a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.names = NameTable()
        self.model: dict[tuple[str, str], ActorId] = {}

    @rule(
        space=st.sampled_from("xy"),
        name=st.sampled_from("abc"),
        actor=st.sampled_from([ONE, TWO, ActorId(b"3")]),
    )
    def claim(self, space: str, name: str, actor: ActorId) -> None:
        if (space, name) in self.model or actor in self.model.values():
            with pytest.raises(LookupError):
                self.names.claim(space, name, actor)
        else:
            self.names.claim(space, name, actor)
            self.model[space, name] = actor

    @rule(actor=st.sampled_from([ONE, TWO, ActorId(b"3")]))
    def free(self, actor: ActorId) -> None:
        self.names.free(actor)
        self.model = {k: v for k, v in self.model.items() if v != actor}

    @invariant()
    def same(self) -> None:
        check_names(self.names)
        assert {(s, n): actor for s, n, actor in self.names} == self.model


TestClaims = Claims.TestCase
