from __future__ import annotations

import itertools
import random

import pytest

from actorlib._base.ids import ACTOR_KIND, GROUP_KIND, ActorId, kind_of
from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import interface_of
from actorlib._owner.actors.actor_record import ActorRecord, ActorState, RuntimeIds


class Model:
    pass


LEGAL = [
    (ActorState.PENDING, ActorState.STARTING),
    (ActorState.PENDING, ActorState.DEAD),
    (ActorState.STARTING, ActorState.ALIVE),
    (ActorState.STARTING, ActorState.RESTARTING),
    (ActorState.STARTING, ActorState.DRAINING),
    (ActorState.ALIVE, ActorState.SUSPENDED),
    (ActorState.ALIVE, ActorState.RESTARTING),
    (ActorState.ALIVE, ActorState.DRAINING),
    (ActorState.SUSPENDED, ActorState.ALIVE),
    (ActorState.SUSPENDED, ActorState.RESTARTING),
    (ActorState.SUSPENDED, ActorState.DRAINING),
    (ActorState.RESTARTING, ActorState.STARTING),
    (ActorState.RESTARTING, ActorState.DEAD),
    (ActorState.DRAINING, ActorState.DEAD),
]
MOVES = list(itertools.product(ActorState, ActorState))


def record_of(
    actor: bytes = b"\xab", state: ActorState = ActorState.PENDING
) -> ActorRecord:
    return ActorRecord(
        id=ActorId(actor),
        interface=interface_of(Model),
        options=ActorOptions(),
        state=state,
    )


@pytest.fixture
def ids() -> RuntimeIds:
    return RuntimeIds(b"run1")


# States.


@pytest.mark.parametrize(
    ("before", "after"), LEGAL, ids=lambda state: getattr(state, "value", None)
)
def test_move_when_it_is_legal_then_the_state_is_new(
    before: ActorState, after: ActorState
) -> None:
    record = record_of(state=before)

    record.move(after)

    assert record.state is after


@pytest.mark.parametrize(
    ("before", "after"),
    [move for move in MOVES if move not in LEGAL],
    ids=lambda state: getattr(state, "value", None),
)
def test_move_when_it_is_not_legal_then_runtime_error_and_the_state_is_old(
    before: ActorState, after: ActorState
) -> None:
    record = record_of(state=before)

    with pytest.raises(RuntimeError, match=f"cannot become {after.value}"):
        record.move(after)

    assert record.state is before


def test_move_when_it_is_not_legal_then_the_error_says_what_is() -> None:
    with pytest.raises(RuntimeError, match="it may become alive, draining"):
        record_of(state=ActorState.STARTING).move(ActorState.PENDING)


def test_move_when_dead_then_the_error_says_that_nothing_follows() -> None:
    with pytest.raises(RuntimeError, match="it may become nothing"):
        record_of(state=ActorState.DEAD).move(ActorState.ALIVE)


def test_record_when_shown_then_class_id_and_state() -> None:
    assert repr(record_of()) == "<Model ab pending>"


# Ids.


def test_new_id_when_asked_again_then_always_another(ids: RuntimeIds) -> None:
    made = [ids.new_id() for _ in range(1_000)]

    assert len(set(made)) == 1_000


def test_new_id_when_random_is_seeded_alike_then_always_another(
    ids: RuntimeIds,
) -> None:
    made: list[ActorId] = []
    for _ in range(5):
        random.seed(0)
        made.append(ids.new_id())

    assert len(set(made)) == 5


def test_new_id_when_made_then_it_says_which_runtime_and_what_it_is_of(
    ids: RuntimeIds,
) -> None:
    made = ids.new_id()

    assert made.startswith(b"run1")
    assert kind_of(made) == ACTOR_KIND
    assert kind_of(ids.new_group_id()) == GROUP_KIND


def test_prefix_when_of_the_owner_then_its_ids_begin_with_it(
    ids: RuntimeIds,
) -> None:
    assert ids.new_id().startswith(ids.prefix(0))


def test_prefix_when_of_different_makers_then_different(ids: RuntimeIds) -> None:
    prefixes = [ids.prefix(maker) for maker in range(1_000)]

    assert len(set(prefixes)) == 1_000
    assert {len(prefix) for prefix in prefixes} == {8}


def test_new_id_when_of_another_runtime_then_different(ids: RuntimeIds) -> None:
    assert ids.new_id() != RuntimeIds(b"run2").new_id()
