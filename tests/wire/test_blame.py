from __future__ import annotations

import threading
from typing import cast

import pytest
from helpers.engine import FakeEngine

from actorlib._futures.object_ref import immediate_loop
from actorlib._wire.arguments import encode_arguments
from actorlib._wire.errors import blame_argument
from actorlib.exceptions import SerializationError


def engine() -> FakeEngine:
    return FakeEngine(loop=immediate_loop())


class Stubborn:
    def __reduce__(self) -> str:
        raise LookupError("never")


class Twice:
    """It can be sent as often as it was not asked before."""

    def __init__(self) -> None:
        self.asked = 0

    def __reduce__(self) -> tuple[object, ...]:
        self.asked += 1
        if self.asked == 1:
            raise LookupError("not at first")
        return int, ()


@pytest.mark.parametrize(
    ("args", "kwargs", "label"),
    [
        ((Stubborn(),), {}, "argument 1 of Model.ping, a Stubborn,"),
        ((1, "a", Stubborn()), {}, "argument 3 of Model.ping, a Stubborn,"),
        ((1,), {"a": 1, "b": Stubborn()}, "argument b= of Model.ping, a Stubborn,"),
        ((1, [Stubborn()]), {}, "argument 2 of Model.ping, a list,"),
        ((threading.Lock(),), {}, "argument 1 of Model.ping, a lock,"),
        ((1, Stubborn(), Stubborn()), {}, "argument 2 of Model.ping, a Stubborn,"),
        # Nobody is to blame afterwards.
        ((Twice(),), {}, "the arguments of Model.ping"),
    ],
)
def test_arguments_when_one_cannot_be_sent_then_the_error_names_it(
    args: tuple[object, ...], kwargs: dict[str, object], label: str
) -> None:
    with pytest.raises(SerializationError) as caught:
        encode_arguments(engine(), "Model.ping", args, kwargs)

    assert str(caught.value).startswith(label)
    assert "cannot be sent to another process" in str(caught.value)
    assert isinstance(caught.value, TypeError)
    if "Stubborn" in label:
        assert "never" in str(caught.value)
        assert isinstance(caught.value.__cause__, LookupError)


class Config:
    def __init__(self, inner: object) -> None:
        self.inner = inner


LOCK = threading.Lock()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"cfg": {"conn": [LOCK]}}, "dict['cfg']['conn'][0], a lock: cannot pickle"),
        ([1, Config((2, LOCK))], "list[1].inner[1], a lock: cannot pickle"),
        ([LOCK, LOCK], "list[0], a lock; list[1], a lock: cannot pickle"),
        ([LOCK] * 5, "list[2], a lock and 2 more: cannot pickle"),
        ([[[[[[[LOCK]]]]]]], "list[0][0][0][0][0], a list: cannot pickle"),
    ],
)
def test_arguments_when_something_in_one_cannot_be_sent_then_the_error_says_where(
    value: object, path: str
) -> None:
    with pytest.raises(SerializationError) as caught:
        encode_arguments(engine(), "Model.ping", (value,), {})

    kind = type(value).__name__
    told = f"argument 1 of Model.ping, a {kind}, cannot be sent to another process: "
    assert str(caught.value).startswith(told)
    assert path in str(caught.value)


def test_arguments_when_one_is_vast_then_the_search_for_what_is_in_it_ends() -> None:
    class Counted:
        tried = 0

        def __reduce__(self) -> tuple[object, ...]:
            Counted.tried += 1
            return int, ()

    value = [Counted() for _ in range(5_000)]
    with pytest.raises(SerializationError, match="a list, cannot be sent"):
        encode_arguments(engine(), "Model.ping", ([*value, LOCK],), {})

    assert Counted.tried < 3 * len(value)


def test_blame_when_another_pickler_sends_then_it_is_asked_for_what_is_inside() -> None:
    def attempt(value: object) -> None:
        if value == "bad" or "bad" in cast("tuple[str, ...]", value):
            raise TypeError("not this one")

    said = blame_argument(
        "M.f", [(0, ("good",)), ("b", ("bad",))], ValueError(), attempt
    )

    assert said == (
        "argument b= of M.f, a tuple, cannot be sent to another process: "
        "tuple[0], a str: not this one"
    )
