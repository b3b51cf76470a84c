from __future__ import annotations

import threading

import pytest

from actorlib._shm.memory import SharedMemory
from actorlib._wire.arguments import encode_arguments
from actorlib._wire.serialization import decode_call
from actorlib.exceptions import SerializationError


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


# Arguments.


def test_arguments_when_they_can_be_sent_then_their_payload() -> None:
    payload = encode_arguments("Model.ping", (1, [2]), {"a": (3,)}, SharedMemory(), [])

    args, kwargs = decode_call(payload)
    assert (list(args), kwargs) == ([1, [2]], {"a": (3,)})


@pytest.mark.parametrize(
    ("args", "kwargs", "label"),
    [
        ((Stubborn(),), {}, "argument 1 of Model.ping, a Stubborn,"),
        ((1, "a", Stubborn()), {}, "argument 3 of Model.ping, a Stubborn,"),
        ((1,), {"a": 1, "b": Stubborn()}, "argument b= of Model.ping, a Stubborn,"),
        ((1, [Stubborn()]), {}, "argument 2 of Model.ping, a list,"),
        ((threading.Lock(),), {}, "argument 1 of Model.ping, a lock,"),
    ],
)
def test_arguments_when_one_cannot_be_sent_then_the_error_names_it(
    args: tuple[object, ...], kwargs: dict[str, object], label: str
) -> None:
    with pytest.raises(SerializationError) as caught:
        encode_arguments("Model.ping", args, kwargs, SharedMemory(), [])

    assert str(caught.value).startswith(label)
    assert "cannot be sent to another process" in str(caught.value)


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
        encode_arguments("Model.ping", (value,), {}, SharedMemory(), [])

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
        encode_arguments("Model.ping", ([*value, LOCK],), {}, SharedMemory(), [])

    assert Counted.tried < 3 * len(value)


def test_arguments_when_two_cannot_be_sent_then_the_error_names_the_first() -> None:
    with pytest.raises(SerializationError, match=r"^argument 2 of"):
        encode_arguments(
            "Model.ping", (1, Stubborn(), Stubborn()), {}, SharedMemory(), []
        )


def test_arguments_when_one_cannot_be_sent_then_the_error_is_a_type_error_with_the_reason() -> (  # noqa: E501  # one behaviour, one name
    None
):
    with pytest.raises(TypeError, match="never") as caught:
        encode_arguments("Model.ping", (Stubborn(),), {}, SharedMemory(), [])

    assert isinstance(caught.value.__cause__, LookupError)


def test_arguments_when_nobody_is_to_blame_afterwards_then_an_error_all_the_same() -> (
    None
):
    with pytest.raises(SerializationError, match=r"the arguments of Model\.ping"):
        encode_arguments("Model.ping", (Twice(),), {}, SharedMemory(), [])
