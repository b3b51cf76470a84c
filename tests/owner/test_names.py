from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorlib._base.ids import ActorId
from actorlib._options.actor_options import ActorOptions
from actorlib._owner.actors.names import ActorNames, advice
from actorlib.exceptions import ActorAlreadyExistsError, ActorNotFoundError

ONE, TWO, THREE = ActorId(b"1"), ActorId(b"2"), ActorId(b"3")


class Actor:
    """A supervisor, as names use it; its title is that of its record."""

    def __init__(self, actor: ActorId) -> None:
        self.record = self
        self.id = actor
        self.title = f"Model {actor.decode()}"
        self.answers = True
        self.end_reason = ""
        self.exit = None


class Names:
    """Names, and the actors that have them."""

    def __init__(self) -> None:
        self.actors = {actor: Actor(actor) for actor in (ONE, TWO, THREE)}
        self.names = ActorNames("here", cast("Any", self.actors.get))

    def enter(self, actor: ActorId, name: str, namespace: str | None = None) -> None:
        options = ActorOptions(name=name, namespace=namespace)
        self.names.vacant(options)
        self.names.enter(actor, name, options)

    def find(self, name: str, namespace: str | None = None) -> object:
        return self.names.find(name, namespace)


@pytest.fixture
def names() -> Names:
    return Names()


def test_name_when_its_actor_answers_then_no_other_gets_it(names: Names) -> None:
    names.enter(ONE, "a")

    with pytest.raises(ActorAlreadyExistsError, match="by Model 1: get_actor"):
        names.enter(TWO, "a")


def test_name_when_its_actor_was_ended_then_another_gets_it(names: Names) -> None:
    names.enter(ONE, "a")
    names.actors[ONE].answers = False

    with pytest.raises(ActorNotFoundError):
        names.find("a")
    names.enter(TWO, "a")
    names.names.leave(cast("Any", names.actors[ONE]))

    assert names.find("a") is names.actors[TWO]


@pytest.mark.parametrize(
    ("answering", "said"),
    [
        ([], "no actor"),
        ([("there", "count")], "'there'"),
        ([("here", "counter"), ("there", "other")], "did you mean 'counter'?"),
        ([("here", "zebra")], "there is 'zebra'"),
        ([("here", f"z{n}") for n in range(7)], "and 2 more"),
        ([("there", "zebra")], "no actor"),
    ],
)
def test_advice_when_a_name_is_not_there_then_what_is(
    answering: list[tuple[str, str]], said: str
) -> None:
    assert said in advice("count", "here", answering)


class Entries(RuleBasedStateMachine):
    """Names against a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.names = Names()
        self.model: dict[tuple[str, str], ActorId] = {}

    @rule(
        space=st.sampled_from(["here", "there"]),
        name=st.sampled_from("abc"),
        actor=st.sampled_from([ONE, TWO, THREE]),
    )
    def enter(self, space: str, name: str, actor: ActorId) -> None:
        if actor in self.model.values():
            return
        if (space, name) in self.model:
            with pytest.raises(ActorAlreadyExistsError):
                self.names.enter(actor, name, space)
        else:
            own = None if space == "here" else space
            self.names.enter(actor, name, own)
            self.model[space, name] = actor

    @rule(actor=st.sampled_from([ONE, TWO, THREE]))
    def leave(self, actor: ActorId) -> None:
        self.names.names.leave(cast("Any", self.names.actors[actor]))
        self.model = {k: v for k, v in self.model.items() if v != actor}

    @invariant()
    def same(self) -> None:
        assert self.names.names.names() == list(self.model)
        for (space, name), actor in self.model.items():
            assert self.names.find(name, space) is self.names.actors[actor]


Entries.TestCase.settings = settings(stateful_step_count=20)
TestEntries = Entries.TestCase
