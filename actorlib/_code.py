"""The code of a function on its way to the processes that run it.

It is pickled once. What its globals and its closure hold of actors and objects is
counted, as in arguments: whoever has the code holds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from actorlib._engine import Engine, LoanId, collecting
from actorlib._wire.payload import decode, dump
from actorlib.exceptions import SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable


def pickled(engine: Engine, label: str, source: object) -> tuple[bytes, list[LoanId]]:
    """A function as bytes, and what is in it and counted.

    Raises:
        SerializationError: It cannot be sent, for example because it uses a global that
            cannot.
    """
    with collecting(engine) as loans:
        try:
            return dump(source), loans
        except Exception as error:
            raise SerializationError(
                f"the function {label} cannot be sent to another process: {error}"
            ) from error


class Sent:
    """A pickled function inside of a payload; it arrives as the function.

    Args:
        source: The pickled function.
    """

    def __init__(self, source: bytes) -> None:
        self._source = source

    def __reduce__(self) -> tuple[object, ...]:
        return _load, (self._source,)


def _load(source: bytes) -> Callable[..., Any]:
    try:
        function = decode(source)
    except Exception as error:  # noqa: BLE001  # the user's modules: every call of it tells
        return _Unloaded(error)
    return cast("Callable[..., Any]", getattr(function, "__wrapped__", function))


class _Unloaded:
    """A function that could not be loaded: whoever calls it learns why."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self, *_: object, **__: object) -> None:
        raise self._error
