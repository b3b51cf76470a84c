"""Which value cannot be sent: found out only after sending has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib._wire.memory import shared
from actorlib._wire.payload import encode, encode_call, kept
from actorlib.exceptions import SerializationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actorlib._wire.frames import Payload
    from actorlib._wire.memory import Memory


def encode_arguments(
    where: str,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    memory: Memory,
    loans: list[Any],
) -> Payload:
    """The payload of a call's arguments, as they are now.

    Args:
        where: What is called, for messages.
        args: The positional arguments.
        kwargs: The keyword arguments.
        memory: Where large ones may go.
        loans: Gets the id of their block, if they do.

    Raises:
        SerializationError: One cannot be sent; the message says which.
        ObjectStoreFullError: They have no room, and may not go another way.
    """
    try:
        payload = encode_call(args, kwargs)
    except Exception as error:
        named: list[tuple[int | str, object]] = [*enumerate(args), *kwargs.items()]
        raise SerializationError(blame(where, named, error)) from error
    return kept(shared(memory, payload, loans))


def encode_value(value: object) -> Payload:
    """The payload of one value; its buffers may be the value's own.

    Raises:
        SerializationError: It cannot be sent.
    """
    try:
        return encode(value)
    except Exception as error:
        raise SerializationError(
            f"the value, a {type(value).__qualname__}, cannot be sent to another "
            f"process: {error}"
        ) from error


def blame(
    where: str, arguments: Iterable[tuple[int | str, object]], error: Exception
) -> str:
    """Says which argument of a call cannot be sent, and why.

    Args:
        where: What is called.
        arguments: Each with its place, counted from 0, or its name.
        error: What came of the attempt to send all of them.
    """
    for place, value in arguments:
        label = f"argument {place}="
        if isinstance(place, int):
            label = f"argument {place + 1}"
        try:
            encode_call((value,), {})
        except Exception as own:  # noqa: BLE001  # any reason will do
            return (
                f"{label} of {where}, a {type(value).__qualname__}, cannot be sent to "
                f"another process: {own}"
            )
    return f"the arguments of {where} cannot be sent to another process: {error}"
