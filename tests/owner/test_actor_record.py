from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest
from helpers.invariants import check_registry

from actorlib._base.ids import ACTOR_KIND, GROUP_KIND, ActorId, kind_of
from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import interface_of
from actorlib._owner.actors.actor_record import ActorRecord, ActorState, Registry
from actorlib.accelerators.base import Lease

if TYPE_CHECKING:
    from collections.abc import Iterator


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
def registry() -> Iterator[Registry]:
    made = Registry(b"run1")
    yield made
    check_registry(made)


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


def test_new_id_when_asked_again_then_always_another(registry: Registry) -> None:
    made = [registry.new_id() for _ in range(1_000)]

    assert len(set(made)) == 1_000


def test_new_id_when_random_is_seeded_alike_then_always_another(
    registry: Registry,
) -> None:
    made: list[ActorId] = []
    for _ in range(5):
        random.seed(0)
        made.append(registry.new_id())

    assert len(set(made)) == 5


def test_new_id_when_made_then_it_says_which_runtime_and_what_it_is_of(
    registry: Registry,
) -> None:
    made = registry.new_id()

    assert made.startswith(b"run1")
    assert kind_of(made) == ACTOR_KIND
    assert kind_of(registry.new_group_id()) == GROUP_KIND


def test_prefix_when_of_the_owner_then_its_ids_begin_with_it(
    registry: Registry,
) -> None:
    assert registry.new_id().startswith(registry.prefix(0))


def test_prefix_when_of_different_makers_then_different(registry: Registry) -> None:
    prefixes = [registry.prefix(maker) for maker in range(1_000)]

    assert len(set(prefixes)) == 1_000
    assert {len(prefix) for prefix in prefixes} == {8}


def test_new_id_when_of_another_runtime_then_different(registry: Registry) -> None:
    assert registry.new_id() != Registry(b"run2").new_id()


# Records.


def test_add_when_registered_then_it_is_found(registry: Registry) -> None:
    record = record_of()

    registry.add(record)

    assert registry.find(record.id) is record
    assert list(registry) == [record]


def test_add_when_the_id_is_taken_then_lookup_error(registry: Registry) -> None:
    registry.add(record_of())

    with pytest.raises(LookupError, match="registered already"):
        registry.add(record_of())


def test_find_when_of_another_runtime_then_none(registry: Registry) -> None:
    assert registry.find(ActorId(b"elsewhere")) is None


def test_forget_when_registered_then_it_is_not_found_any_more(
    registry: Registry,
) -> None:
    record = record_of()
    registry.add(record)

    registry.forget(record.id)

    assert registry.find(record.id) is None


def test_forget_when_it_is_not_there_then_nothing(registry: Registry) -> None:
    registry.forget(ActorId(b"elsewhere"))

    assert list(registry) == []


def test_iteration_when_a_record_is_forgotten_meanwhile_then_it_goes_on(
    registry: Registry,
) -> None:
    for actor in (b"a", b"b"):
        registry.add(record_of(actor))

    for record in registry:
        registry.forget(record.id)

    assert list(registry) == []


def test_repr_when_empty_then_it_says_so(registry: Registry) -> None:
    assert repr(registry) == "<Registry empty>"


def test_repr_when_there_are_actors_then_how_many_in_each_state(
    registry: Registry,
) -> None:
    for actor in (b"a", b"b"):
        registry.add(record_of(actor))
    starting = record_of(b"c", ActorState.STARTING)
    starting.lease = Lease(amounts={}, shares=())
    registry.add(starting)

    assert repr(registry) == "<Registry 2 pending, 1 starting>"
