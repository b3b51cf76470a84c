"""Loads pickled values of workers that the owner itself reads.

There are few of these, as the owner relays most payloads without loading them. A worker
may send any object, and loading it runs code that may raise anything. So the functions
here return an object of the expected class, or raise a ProtocolError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from actorlib._wire.serialization import decode
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from actorlib._shm.memory import Payload

T = TypeVar("T")


def load_items(payload: Payload, *kinds: type) -> tuple[Any, ...]:
    """Loads a tuple of a worker, and checks the class of each item.

    Raises:
        ProtocolError: It cannot be loaded, or is something else.
    """
    value = _load(payload)
    kind = type(value)
    items = cast("tuple[object, ...]", value) if kind is tuple else ()
    if len(items) != len(kinds) or not all(map(isinstance, items, kinds)):
        expected = ", ".join(kind.__name__ for kind in kinds)
        raise ProtocolError(f"a worker sent {kind!r} instead of {expected}")
    return items


def load_one(payload: Payload, kind: type[T]) -> T:
    """Loads an object of a worker, and checks its class.

    Raises:
        ProtocolError: It cannot be loaded, or is something else.
    """
    value = _load(payload)
    if not isinstance(value, kind):
        raise ProtocolError(f"a worker sent {type(value)!r} instead of {kind.__name__}")
    return value


def _load(payload: Payload) -> object:
    try:
        value: object = decode(payload)
    except Exception as error:
        raise ProtocolError(
            f"a value that a worker sent cannot be loaded: {error!r}"
        ) from error
    return value
