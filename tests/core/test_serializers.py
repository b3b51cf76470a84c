"""What cannot be pickled, unless somebody says how."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.marks import USES_RUNTIME, in_processes

import actorlib
from actorlib._core.serializers import REDUCERS
from actorlib.exceptions import SerializationError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [*in_processes(), USES_RUNTIME]


class Guarded:
    """Has a lock, which no other process can have."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.lock = threading.Lock()


class Reader:
    def value_of(self, guarded: Any) -> tuple[int, bool]:
        with guarded.lock:
            return guarded.value, guarded.lock.locked()

    def say_how(self) -> None:
        say_how()

    def make(self, value: int) -> Guarded:
        return Guarded(value)


def say_how() -> None:
    actorlib.register_serializer(
        Guarded, serializer=lambda it: it.value, deserializer=Guarded
    )


def reader() -> Any:
    return actorlib.remote(Reader).remote()


@pytest.fixture(autouse=True)
def nothing_is_registered() -> Iterator[None]:
    yield
    REDUCERS.clear()


async def test_a_lock_cannot_be_sent_unless_somebody_says_how() -> None:
    actor = reader()
    with pytest.raises(TypeError, match=r"argument 1 of Reader\.value_of, a Guarded"):
        actor.value_of.remote(Guarded(1))
    with pytest.raises(SerializationError, match="the value, a list, cannot be sent"):
        actorlib.put([Guarded(1)])

    say_how()

    assert await actor.value_of.remote(Guarded(1)) == (1, True)
    assert (await actorlib.put([Guarded(2)]))[0].value == 2


async def test_serializer_when_code_captures_an_instance_then_it_holds_too() -> None:
    guarded = Guarded(3)

    @actorlib.remote
    class Holder:
        def value(self) -> int:
            return guarded.value

    @actorlib.remote
    def value() -> int:
        return guarded.value

    say_how()

    assert await Holder.remote().value.remote() == 3
    assert await value.remote() == 3


async def test_serializer_when_deregistered_then_it_is_as_before() -> None:
    say_how()
    actorlib.deregister_serializer(Guarded)
    actorlib.deregister_serializer(Guarded)

    with pytest.raises(TypeError, match="a Guarded"):
        reader().value_of.remote(Guarded(1))


async def test_serializer_when_an_actor_sends_then_it_has_to_say_so_itself() -> None:
    say_how()
    actor = reader()
    with pytest.raises(TypeError, match="returned a Guarded"):
        await actor.make.remote(3)

    await actor.say_how.remote()

    assert (await actor.make.remote(3)).value == 3


@pytest.mark.parametrize(
    ("cls", "functions", "says"),
    [
        (3, {}, "for a class, not 3"),
        (Guarded, {"serializer": 3}, "serializer takes a function"),
        (Guarded, {"deserializer": None}, "deserializer takes a function"),
    ],
)
async def test_serializer_when_it_makes_no_sense_then_type_error(
    cls: Any, functions: dict[str, Any], says: str
) -> None:
    given: dict[str, Any] = {"serializer": id, "deserializer": id, **functions}
    with pytest.raises(TypeError, match=says):
        actorlib.register_serializer(cls, **given)


async def test_deregister_when_given_no_class_then_type_error() -> None:
    with pytest.raises(TypeError, match="for a class"):
        actorlib.deregister_serializer(Guarded(1))  # type: ignore[arg-type]
