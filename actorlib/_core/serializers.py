"""Serializers that users register for classes that pickle cannot handle.

They apply to the values that this process sends. The receiving process needs none: the
function that creates the instance again is sent with the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from actorlib._base.public import public
from actorlib._base.validation import wrong_type

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
S = TypeVar("S")

REDUCERS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
"""The function that reduces an instance for pickle, by class."""


@public("actorlib")
def register_serializer(
    cls: type[T], *, serializer: Callable[[T], S], deserializer: Callable[[S], T]
) -> None:
    """Sets how instances of a class are sent to other processes, from now on.

    It applies to the class itself, not to derived classes, and to this process only. An
    actor that sends such instances has to register the serializer too, for example in
    the module of the class.

    Args:
        cls: The class.
        serializer: Converts an instance into a value that can be sent.
        deserializer: Creates an instance from that value, in the receiving process. A
            function of a module is found there by its name; any other function is sent.

    Raises:
        TypeError: ``cls`` is not a class, or one of the others is not callable.

    Example:
        >>> class Connection:
        ...     def __init__(self, url):
        ...         self.url = url
        ...         self.take = lambda: None  # cannot be pickled
        >>> actorlib.register_serializer(
        ...     Connection, serializer=lambda c: c.url, deserializer=Connection
        ... )
        >>> ref = actorlib.put(Connection("db:1"))
        >>> (await ref).url
        'db:1'
    """
    _check(cls)
    for name, function in (("serializer", serializer), ("deserializer", deserializer)):
        if not callable(function):
            raise wrong_type(f"{name} takes a function of one argument", function)

    def reduce(value: T) -> tuple[Any, ...]:
        return deserializer, (serializer(value),)

    REDUCERS[cls] = reduce


@public("actorlib")
def deregister_serializer(cls: type) -> None:
    """Removes the serializer of a class, if there is one.

    Args:
        cls: The class.

    Raises:
        TypeError: ``cls`` is not a class.

    Example:
        >>> class Point:
        ...     pass
        >>> actorlib.register_serializer(
        ...     Point, serializer=lambda point: None, deserializer=lambda _: Point()
        ... )
        >>> actorlib.deregister_serializer(Point)
    """
    _check(cls)
    REDUCERS.pop(cls, None)


def _check(cls: object) -> None:
    if not isinstance(cls, type):
        raise wrong_type("a serializer is for a class", cls)
