"""Untrusted payloads: what workers send pickled for the owner itself to read.

Such payloads are few, as most pass by unread. A worker may send any object in their
place, and loading one runs code that may raise anything, so each is opened here: it is
what it should be, or a ProtocolError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from actorlib._wire.serialization import decode
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from actorlib._shm.memory import Payload

T = TypeVar("T")


def opened_as(payload: Payload, *kinds: type) -> tuple[Any, ...]:
    """Opens a tuple that a worker has sent, checked item by item.

    Args:
        payload: The tuple, pickled.
        *kinds: The classes of its items, in order.

    Raises:
        ProtocolError: It cannot be loaded, or is something else.
    """
    loaded = _loaded(payload)
    kind = type(loaded)
    items = cast("tuple[object, ...]", loaded) if kind is tuple else ()
    if len(items) != len(kinds) or not all(map(isinstance, items, kinds)):
        expected = ", ".join(kind.__name__ for kind in kinds)
        raise ProtocolError(f"a worker sent {kind!r} in the place of {expected}")
    return items


def opened_one(payload: Payload, kind: type[T]) -> T:
    """Opens an object that a worker has sent, checked.

    Args:
        payload: The object, pickled.
        kind: Its class.

    Raises:
        ProtocolError: It cannot be loaded, or is something else.
    """
    value = _loaded(payload)
    if not isinstance(value, kind):
        raise ProtocolError(
            f"a worker sent {type(value)!r} in the place of {kind.__name__}"
        )
    return value


def _loaded(payload: Payload) -> object:
    try:
        value: object = decode(payload)
    except Exception as error:
        raise ProtocolError(
            f"what a worker sent cannot be loaded: {error!r}"
        ) from error
    return value
