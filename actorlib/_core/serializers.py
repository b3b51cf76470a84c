"""Serializers that users register for classes which pickle cannot handle.

They are for what this process sends. The receiving process needs none: the function
that makes the instance again is sent along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from actorlib._base.public import public

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
S = TypeVar("S")

REDUCERS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
"""By class: the function that reduces an instance for pickle."""


@public("actorlib")
def register_serializer(
    cls: type[T], *, serializer: Callable[[T], S], deserializer: Callable[[S], T]
) -> None:
    """Says how instances of a class are sent to other processes, from now on.

    It holds for the class itself and not for those derived from it, and in the process
    that says so: an actor that is to send such instances says it too, for example in
    the module that the class is of.

    Args:
        cls: The class.
        serializer: Takes an instance apart: gives something that can be sent.
        deserializer: Makes an instance of that, in the process that it was sent to. A
            function of a module is found there by its name; any other is sent.

    Raises:
        TypeError: ``cls`` is no class, or one of the others cannot be called.

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
            raise TypeError(
                f"{name} takes a function of one argument, not {function!r} "
                f"({type(function).__name__})"
            )

    def reduce(value: T) -> tuple[Any, ...]:
        return deserializer, (serializer(value),)

    REDUCERS[cls] = reduce


@public("actorlib")
def deregister_serializer(cls: type) -> None:
    """Undoes register_serializer for a class; harmless if there is nothing to undo.

    Args:
        cls: The class.

    Raises:
        TypeError: ``cls`` is no class.

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
        raise TypeError(
            f"a serializer is for a class, not {cls!r} ({type(cls).__name__})"
        )
