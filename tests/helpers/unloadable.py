"""Values that arrive and cannot be loaded, each for a reason of its own.

Workers import this module.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import actorlib
from actorlib.exceptions import SerializationError, TaskError

if TYPE_CHECKING:
    from collections.abc import Generator


class OwnBaseError(BaseException):
    """What is no ``Exception``, and nobody's but the user's."""


REASONS: dict[str, type[BaseException]] = {
    reason.__name__: reason
    for reason in (
        ValueError,
        asyncio.CancelledError,
        GeneratorExit,
        SystemExit,
        OwnBaseError,
    )
}
"""What loading may raise."""


class Unloadable:
    """What can be loaded only in the process that made it.

    Args:
        reason: What loading it raises anywhere else, by name.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (self.reason, os.getpid())


def _load(reason: str, made_in: int) -> Unloadable:
    if made_in != os.getpid():
        raise REASONS[reason](reason)
    return Unloadable(reason)


class UnloadableError(Exception):
    """An error with such a value."""


def kind_of(value: object) -> str:
    """The name of a value's class."""
    return type(value).__name__


def listed(reason: str) -> list[Any]:
    """A value that cannot be loaded, beside one that is counted."""
    return [actorlib.put(1), Unloadable(reason)]


def fail(reason: str) -> None:
    """Raises an error that cannot be loaded."""
    raise UnloadableError(reason, Unloadable(reason))


def items(reason: str) -> Generator[Any]:
    """A value that cannot be loaded as one of two items."""
    yield Unloadable(reason)
    yield 7


def _describe(error: Exception, reason: str) -> list[Any]:
    """Which error it is, and whether it has the reason."""
    kind: type[Exception] = type(error)
    for known in (SerializationError, TaskError):
        kind = known if isinstance(error, known) else kind
    return [kind.__name__, reason in str(error)]


def outcome(run: Any, stream: Any, role: str, reason: str) -> Generator[Any, Any, Any]:
    """Calls a callee, and describes the result.

    Args:
        run: The method ``run`` of a callee; see ``helpers.callees``.
        stream: Its method ``items``.
        role: What in the call cannot be loaded.
        reason: Why.
    """
    calls = {
        "argument": lambda: run.remote(kind_of, Unloadable(reason)),
        "result": lambda: run.remote(Unloadable, reason),
        "listed": lambda: run.remote(listed, reason),
        "error": lambda: run.remote(fail, reason),
    }
    if role in calls:
        try:
            return [(yield calls[role]())]
        except Exception as error:  # noqa: BLE001  # it is described
            return _describe(error, reason)
    results: list[Any] = []
    reading = stream.remote(items, reason)
    while (ref := (yield reading)) is not None:
        try:
            results.append((yield ref))
        except SerializationError as error:
            results += _describe(error, reason)
    return results


EXPECTED: dict[str, list[Any]] = {
    "argument": ["TaskError", True],
    "result": ["SerializationError", True],
    "items": ["SerializationError", True, 7],
    "error": ["TaskError", True],
    "listed": ["SerializationError", True],
}
"""What ``outcome`` returns, by what in the call cannot be loaded."""
