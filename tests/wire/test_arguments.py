from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.engine import FakeEngine
from helpers.turns import next_turn
from hypothesis import assume, given
from hypothesis import strategies as st

from actorlib import ActorHandle, ObjectRef
from actorlib._base.ids import ActorId
from actorlib._core.engine import HandlePin, set_engine
from actorlib._core.runtime_context import RuntimeContext
from actorlib._futures.object_ref import immediate_loop
from actorlib._options.interface import interface_of
from actorlib._wire.arguments import (
    Arguments,
    call_when_done,
    encode_arguments,
    with_values,
    without_refs,
)
from actorlib._wire.serialization import (
    decode_call,
    encode_array_call,
    encode_plain_call,
)
from actorlib.exceptions import SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("on_both_loops")


@pytest.fixture
async def engine() -> FakeEngine:
    return FakeEngine()


class Bell:
    """Counts how often it was rung."""

    def __init__(self) -> None:
        self.rung = 0

    def ring(self) -> None:
        self.rung += 1


def arguments_of(engine: FakeEngine, *args: Any, **kwargs: Any) -> Arguments:
    return Arguments(engine, "Model.ping", args, kwargs)


def sent(arguments: Arguments) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as they arrive."""
    payload, _ = arguments.payload()
    args, kwargs = decode_call(payload)
    return list(args), kwargs


def handle_of(engine: FakeEngine, actor: bytes) -> ActorHandle[Any]:
    return ActorHandle(HandlePin(engine, ActorId(actor), interface_of(object)))


# Which are refs.


async def test_refs_when_some_are_given_by_themselves_then_those_in_order(
    engine: FakeEngine,
) -> None:
    first, second, third = (engine.new_ref() for _ in range(3))

    arguments = arguments_of(engine, first, 1, second, a=2, b=third)

    assert list(map(id, arguments.refs)) == list(map(id, [first, second, third]))


async def test_refs_when_one_is_inside_another_value_then_nothing_waits_for_it(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()

    arguments = arguments_of(engine, 1, "a", [ref], b=3)

    assert arguments.refs == []
    assert arguments.are_ready
    assert arguments.borrowed == [ref.object_id]


async def test_refs_when_not_all_are_done_then_not_ready(engine: FakeEngine) -> None:
    first, second = engine.new_ref(), engine.new_ref()
    arguments = arguments_of(engine, first, a=second)
    seen = [arguments.are_ready]

    first.set_result(1)
    seen.append(arguments.are_ready)
    second.set_result(2)
    seen.append(arguments.are_ready)

    assert seen == [False, False, True]


# What is sent.


async def test_payload_when_refs_are_done_then_their_values_are_in_their_places(
    engine: FakeEngine,
) -> None:
    first, second, none = (engine.new_ref() for _ in range(3))
    arguments = arguments_of(
        engine, first, 5, first, none, (2,), a=second, b=[3], c=first
    )

    first.set_result("one")
    second.set_result({"a": {1, 2}})  # which is not plain
    none.set_result(None)

    assert sent(arguments) == (
        ["one", 5, "one", None, (2,)],
        {"a": {"a": {1, 2}}, "b": [3], "c": "one"},
    )


async def test_payload_when_everything_is_plain_then_it_is_that_of_a_plain_call(
    engine: FakeEngine,
) -> None:
    ref, items = engine.new_ref(), [2]
    arguments = arguments_of(engine, 1, ref, items)

    items.append(3)  # which the call is not to see
    ref.set_result("one")

    assert arguments.payload() == (encode_plain_call((1, "one", [2])), None)


async def test_payload_when_arguments_change_meanwhile_then_they_are_as_they_were(
    engine: FakeEngine,
) -> None:
    ref, mutable, array = engine.new_ref(), {"a": [1]}, np.zeros(100_000)
    arguments = arguments_of(engine, ref, mutable, array)

    mutable["a"].append(2)
    array += 1
    ref.set_result(0)

    (value, arrived, numbers), _ = sent(arguments)
    assert (value, arrived, numbers.max()) == (0, {"a": [1]}, 0)


# What cannot be sent.


async def test_payload_when_the_value_of_a_ref_cannot_be_sent_then_it_is_named(
    engine: FakeEngine,
) -> None:
    ref = engine.new_ref()
    arguments = arguments_of(engine, 1, a=ref)

    ref.set_result(threading.Lock())

    with pytest.raises(SerializationError, match=r"argument a= of Model\.ping, a lock"):
        arguments.payload()


# Handles among them.


@pytest.fixture
def running(engine: FakeEngine) -> Iterator[FakeEngine]:
    """The engine of this process."""
    set_engine(engine)
    yield engine
    set_engine(None)


async def test_loans_when_they_are_behind_a_ref_then_all_of_the_payload_and_held_once(
    running: FakeEngine,
) -> None:
    ref, one, two = (
        running.new_ref(),
        handle_of(running, b"1"),
        handle_of(running, b"2"),
    )
    arguments = arguments_of(running, [one], ref)
    ref.set_result([two])

    _, loans = arguments.payload()

    assert set(loans or []) == {b"1", b"2"}
    assert running.holders[b"1"] == 1


async def test_loans_when_a_handle_is_of_another_runtime_then_refused(
    running: FakeEngine,
) -> None:
    other = FakeEngine()
    other.context = RuntimeContext(job_id="another")
    with pytest.raises(SerializationError, match="another runtime"):
        arguments_of(running, handle_of(other, b"1"))


# When they are there.


async def test_when_done_when_all_are_then_it_is_called_at_once(
    engine: FakeEngine,
) -> None:
    bell, ref = Bell(), engine.new_ref()
    ref.set_result(1)

    call_when_done([], bell.ring)
    call_when_done([ref], bell.ring)

    assert bell.rung == 2


ENDS: dict[str, Callable[[ObjectRef[Any]], object]] = {
    "result": lambda ref: ref.set_result(2),
    "exception": lambda ref: (ref.set_exception(KeyError()), ref.exception()),
    "cancelled": lambda ref: ref.cancel(),
}


@pytest.mark.parametrize("last", ENDS)
async def test_when_done_when_the_last_is_done_in_any_way_then_once_and_not_before(
    engine: FakeEngine, last: str
) -> None:
    bell, first, second = Bell(), engine.new_ref(), engine.new_ref()
    call_when_done([first, second, second], bell.ring)

    first.set_result(1)
    await next_turn()
    assert bell.rung == 0

    ENDS[last](second)
    await next_turn()
    assert bell.rung == 1


async def test_refs_when_they_leave_holes_then_their_values_fill_them(
    engine: FakeEngine,
) -> None:
    first, second = engine.new_ref(), engine.new_ref()

    args, kwargs, places, refs = without_refs((1, first), {"a": second, "b": 2})

    assert (args, kwargs, places) == ((1, None), {"a": None, "b": 2}, [1, "a"])
    assert list(map(id, refs)) == [id(first), id(second)]
    filled = with_values(args, kwargs, places, [3, 4])
    assert filled == ((1, 3), {"a": 4, "b": 2})


# The short way of arrays.

_LONG = 70_000
one_argument = st.sampled_from(
    [
        *(1, "text", [1, 2.5], {"a": 1}, b"short", 1 << 70, (1,), object),
        *(b"x" * _LONG, bytearray(_LONG), np.arange(3), np.zeros(_LONG)),
        *(np.zeros((300, 300), order="F"), np.zeros(_LONG)[::2], np.array(["a"])),
    ]
)


@given(st.lists(one_argument, max_size=4))
def test_arguments_when_they_go_the_short_way_then_they_are_what_the_long_way_gives(
    args: list[Any],
) -> None:
    engine = FakeEngine(loop=immediate_loop())
    assume(encode_plain_call(tuple(args)) is None)
    shared = encode_arguments(engine, "Model.ping", tuple(args), {}, may_be_plain=False)
    payload, loans = Arguments(engine, "Model.ping", tuple(args), {}).payload()

    assert shared == (payload, loans or [])


async def test_arguments_when_something_may_hold_a_ref_then_there_is_no_short_way(
    engine: FakeEngine,
) -> None:
    array, ref = np.zeros(_LONG), engine.new_ref()
    handle = handle_of(engine, b"actor")

    assert encode_array_call((array, b"x" * _LONG, 1, [2]), {}) is not None
    for other in (ref, handle, [ref], (array,), object()):
        assert encode_array_call((array, other), {}) is None
    assert encode_array_call((1, "plain"), {}) is None
    assert encode_array_call((array,), {"name": 1}) is None
