"""Refs given as arguments: a call that has some waits until they have their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from actorlib._ref import ObjectRef
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def refs_among(
    args: tuple[object, ...], kwargs: Mapping[str, object]
) -> list[ObjectRef[Any]]:
    """The refs given by themselves, not those inside of other values."""
    if ObjectRef not in map(type, args) and not kwargs:  # the usual case, and quick
        return []
    return [
        value for value in (*args, *kwargs.values()) if isinstance(value, ObjectRef)
    ]


def with_values(
    args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """The arguments with every ref replaced by its value; all of them are done.

    Raises:
        Exception: What the first failed one raised.
    """
    return (
        tuple(_value(value) for value in args),
        {name: _value(value) for name, value in kwargs.items()},
    )


def when_done(refs: Iterable[ObjectRef[Any]], then: Callable[[], None]) -> None:
    """Calls once when all refs are done, at once if they are."""
    pending = [ref for ref in refs if not ref.done()]
    left = len(pending)

    def one_done(_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            then()

    for ref in pending:
        ref.add_done_callback(one_done)
    if not pending:
        then()


def _value(value: object) -> object:
    if not isinstance(value, ObjectRef):
        return value
    if value.cancelled():
        raise TaskCancelledError("a ref given as an argument was cancelled")
    return cast("ObjectRef[Any]", value).result()
