from __future__ import annotations

import gc
import pickle
import threading
import weakref
from typing import Any

import pytest
from helpers.engine import FakeEngine

from actorlib._api.actor_handle import ActorHandle
from actorlib._base.ids import ActorId
from actorlib._core.engine import HandlePin
from actorlib._options.interface import READY, Interface
from actorlib._wire.function_code import ClassDefinition, ClassDefinitions
from actorlib.exceptions import SerializationError


class Twice:
    x = 2


@pytest.fixture
async def engine() -> FakeEngine:
    return FakeEngine()


def handle_of(engine: FakeEngine) -> ActorHandle[Any]:
    return ActorHandle(HandlePin(engine, ActorId(b"it"), Interface("It", READY, {})))


async def test_definition_when_asked_for_then_the_class_can_be_loaded_and_it_is_kept(
    engine: FakeEngine,
) -> None:
    class Local:
        x = 3

    definitions = ClassDefinitions(engine)
    made = definitions.of("Local", Local, Local)

    assert pickle.loads(made.source).x == 3
    assert made.borrowed == ()
    assert definitions.of("Local", Local, Local) is made
    assert definitions.of("Twice", Twice, Twice).source != made.source


async def test_definition_when_the_class_cannot_be_sent_then_the_error_names_it(
    engine: FakeEngine,
) -> None:
    lock, definitions = threading.Lock(), ClassDefinitions(engine)

    class Local:
        def ping(self) -> object:
            return lock

    for _ in range(2):
        with pytest.raises(SerializationError, match="the actor class Local cannot be"):
            definitions.of("Local", Local, Local)


async def test_definition_when_it_captures_a_handle_then_it_holds_the_actor(
    engine: FakeEngine,
) -> None:
    handle = handle_of(engine)

    def local(captured: object) -> type:
        class Local:
            def ping(self) -> object:
                return captured

        return Local

    made = ClassDefinitions(engine).of("Local", Twice, local(handle))
    assert made.borrowed == (b"it",)

    del handle
    gc.collect()
    assert engine.holders[ActorId(b"it")] == 1
    del made
    gc.collect()
    assert not engine.holders


async def test_definition_when_others_have_it_then_what_it_captures_is_held(
    engine: FakeEngine,
) -> None:
    first = ClassDefinition(engine, b"", [ActorId(b"it")])
    second = ClassDefinition(engine, b"", [ActorId(b"it")])

    del first
    assert engine.holders[ActorId(b"it")] == 1
    del second
    assert not engine.holders


async def test_definitions_when_nobody_holds_the_class_then_neither_do_they(
    engine: FakeEngine,
) -> None:
    definitions = ClassDefinitions(engine)

    class Handed:
        """What is handed over is the decorated name: an object, no class."""

    source = Handed()
    definitions.of("Handed", source, source)
    gone = weakref.ref(source)

    del source
    gc.collect()

    assert gone() is None
