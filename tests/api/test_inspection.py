"""What prevents a value from being sent is found, however deep it lies."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest

import actorlib
from actorlib._wire.errors import Failure
from actorlib.blocking import util

LOCK = threading.Lock()


class Config:
    def __init__(self, inner: object) -> None:
        self.name = "config"
        self.inner = inner


class Slotted:
    __slots__ = ("lock", "unset")

    def __init__(self) -> None:
        self.lock = LOCK


def inspected(value: object, **more: Any) -> tuple[bool, set[Failure], str]:
    out = io.StringIO()
    can, found = actorlib.inspect_serializability(value, print_file=out, **more)
    return can, found, out.getvalue()


def names(found: set[Failure]) -> set[str]:
    return {failure.name for failure in found}


def test_value_when_it_can_be_sent_then_true_and_nothing_found() -> None:
    assert inspected({"a": [1, 2]}) == (
        True,
        set(),
        "dict can be sent to another process\n",
    )


def test_object_when_a_member_of_a_member_fails_then_that_is_named() -> None:
    inner = Config(LOCK)

    can, found, told = inspected(Config([1, inner]), name="config")

    assert not can
    assert found == {Failure(LOCK, "config.inner[1].inner", inner)}
    assert "config cannot be sent to another process" in told
    assert "config.inner[1].inner, a lock: cannot pickle" in told


def test_function_when_it_uses_a_lock_then_by_which_variable() -> None:
    held = threading.Lock()

    def work() -> object:
        return LOCK, held

    can, found, _ = inspected(work, name="work")

    assert not can
    assert names(found) == {"work -> LOCK", "work -> held"}


def test_class_when_a_member_of_it_fails_then_that_is_named() -> None:
    class Broken:
        guard = threading.Lock()

        def work(self) -> int:
            return 1

    assert names(inspected(Broken, name="Broken")[1]) == {"Broken.guard"}


def test_slots_when_one_fails_then_it_is_named() -> None:
    assert names(inspected(Slotted(), name="it")[1]) == {"it.lock"}


class Reduced:
    """It says itself what is sent of it."""

    def __init__(self, sent: object) -> None:
        self.lock = LOCK
        self.sent = sent

    def __reduce__(self) -> tuple[Any, ...]:
        return Reduced, (self.sent,)


def test_object_when_it_says_what_is_sent_then_nothing_else_is_blamed() -> None:
    assert names(inspected([Reduced(LOCK)], name="it")[1]) == {"it[0]"}


def test_depth_when_it_is_reached_then_what_is_there_is_named() -> None:
    value = Config(Config(Config(LOCK)))

    assert names(inspected(value, name="it", depth=1)[1]) == {"it.inner"}


def test_circle_when_searched_then_it_ends() -> None:
    value = Config(LOCK)
    value.own = value  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]

    assert names(inspected(value, name="it")[1]) == {"it.inner"}


def test_script_when_it_looks_in_util_then_it_is_the_same() -> None:
    assert util.inspect_serializability is actorlib.inspect_serializability


@pytest.mark.parametrize(
    ("more", "error"),
    [({"depth": 0}, ValueError), ({"depth": "3"}, TypeError), ({"name": 3}, TypeError)],
)
def test_argument_when_it_is_wrong_then_it_is_named(
    more: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=next(iter(more))):
        actorlib.inspect_serializability(1, **more)
