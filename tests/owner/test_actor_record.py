from __future__ import annotations

import random

import pytest

from actorlib._base.ids import ACTOR_KIND, GROUP_KIND, ActorId, kind_of
from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import interface_of
from actorlib._owner.actors.actor_record import ActorRecord, ActorState, RuntimeIds


class Model:
    pass


NEXT = {
    "pending": "dead, starting",
    "starting": "alive, draining, restarting",
    "alive": "draining, restarting, suspended",
    "suspended": "alive, draining, restarting",
    "restarting": "dead, starting",
    "draining": "dead",
    "dead": "nothing",
}


def record_of(state: ActorState) -> ActorRecord:
    return ActorRecord(
        id=ActorId(b"\xab"),
        interface=interface_of(Model),
        options=ActorOptions(),
        state=state,
    )


@pytest.mark.parametrize("before", ActorState)
def test_move_when_tried_then_only_the_next_states_are_taken(
    before: ActorState,
) -> None:
    following = NEXT[before.value]
    for after in ActorState:
        record = record_of(before)
        if after.value in following.split(", "):
            record.move(after)
            assert record.state is after
        else:
            words = f"cannot become {after.value}.*it may become {following}"
            with pytest.raises(RuntimeError, match=words):
                record.move(after)
            assert record.state is before


def test_record_when_shown_then_class_id_and_state() -> None:
    assert repr(record_of(ActorState.PENDING)) == "<Model ab pending>"


def test_new_id_when_random_is_seeded_then_always_another() -> None:
    ids, found = RuntimeIds(b"run1"), set[ActorId]()
    for _ in range(1_000):
        random.seed(0)
        found.add(ids.new_id())

    assert len(found) == 1_000
    assert RuntimeIds(b"run2").new_id() not in found


def test_new_id_when_made_then_its_runtime_its_maker_and_its_kind_are_known() -> None:
    ids = RuntimeIds(b"run1")
    prefixes = {ids.prefix(maker) for maker in range(1_000)}

    assert ids.new_id().startswith(ids.prefix(0))
    assert kind_of(ids.new_id()) == ACTOR_KIND
    assert kind_of(ids.new_group_id()) == GROUP_KIND
    assert len(prefixes) == 1_000
    assert {(prefix[:4], len(prefix)) for prefix in prefixes} == {(b"run1", 8)}
