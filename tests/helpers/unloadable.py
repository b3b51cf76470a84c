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
    from collections.abc import AsyncGenerator, Generator


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


def _said(error: Exception, reason: str) -> list[Any]:
    """Which error it is, and whether it says why."""
    kind: type[Exception] = type(error)
    for known in (SerializationError, TaskError):
        kind = known if isinstance(error, known) else kind
    return [kind.__name__, reason in str(error)]


def outcome(target: Any, role: str, reason: str) -> list[Any]:
    """What comes of one call of a target, where code may block."""
    method = getattr(target, role)
    try:
        if role == "argument":
            return [method.remote(Unloadable(reason)).get()]
        if role != "items":
            return [method.remote(reason).get()]
        found: list[Any] = []
        for ref in method.remote(reason):
            try:
                found.append(ref.get())
            except SerializationError as error:
                found += _said(error, reason)
    except Exception as error:  # noqa: BLE001  # it is what is asked
        return _said(error, reason)
    return found


async def outcome_awaited(target: Any, role: str, reason: str) -> list[Any]:
    """The same where it may await."""
    method = getattr(target, role)
    try:
        if role == "argument":
            return [await method.remote(Unloadable(reason))]
        if role != "items":
            return [await method.remote(reason)]
        found: list[Any] = []
        async for ref in method.remote(reason):
            try:
                found.append(await ref)
            except SerializationError as error:
                found += _said(error, reason)
    except Exception as error:  # noqa: BLE001  # it is what is asked
        return _said(error, reason)
    return found


EXPECTED: dict[str, list[Any]] = {
    "argument": ["TaskError", True],
    "result": ["SerializationError", True],
    "items": ["SerializationError", True, 7],
    "error": ["TaskError", True],
    "listed": ["SerializationError", True],
}
"""What comes of a call, by what in it cannot be loaded."""


class Blocking:
    """Gives and takes in plain methods."""

    def argument(self, value: object) -> str:
        """Never runs with what cannot be loaded."""
        return type(value).__name__

    def result(self, reason: str) -> Unloadable:
        """Gives what cannot be loaded."""
        return Unloadable(reason)

    def listed(self, reason: str) -> list[Any]:
        """The same beside what is counted."""
        return [actorlib.put(1), Unloadable(reason)]

    def items(self, reason: str) -> Generator[Any]:
        """The same as one of two items."""
        yield Unloadable(reason)
        yield 7

    def error(self, reason: str) -> None:
        """The same in an error."""
        raise UnloadableError(reason, Unloadable(reason))

    def outcome(self, target: Any, role: str, reason: str) -> list[Any]:
        """Calls a target."""
        return outcome(target, role, reason)


Plain = actorlib.remote(Blocking)


@actorlib.remote
class Mixed(Blocking):
    """The same on an event loop."""

    async def idle(self) -> None:
        """Has it have a loop."""


@actorlib.remote
class Async:
    """Gives and takes in async methods."""

    async def argument(self, value: object) -> str:
        """Never runs with what cannot be loaded."""
        return type(value).__name__

    async def result(self, reason: str) -> Unloadable:
        """Gives what cannot be loaded."""
        return Unloadable(reason)

    async def listed(self, reason: str) -> list[Any]:
        """The same beside what is counted."""
        return [actorlib.put(1), Unloadable(reason)]

    async def items(self, reason: str) -> AsyncGenerator[Any]:
        """The same as one of two items."""
        yield Unloadable(reason)
        yield 7

    async def error(self, reason: str) -> None:
        """The same in an error."""
        raise UnloadableError(reason, Unloadable(reason))

    async def outcome(self, target: Any, role: str, reason: str) -> list[Any]:
        """Calls a target."""
        return await outcome_awaited(target, role, reason)


_BLOCKING = Blocking()


@actorlib.remote
def argument(value: object) -> str:
    """Never runs with what cannot be loaded."""
    return _BLOCKING.argument(value)


@actorlib.remote
def result(reason: str) -> Unloadable:
    """Gives what cannot be loaded."""
    return _BLOCKING.result(reason)


@actorlib.remote
def listed(reason: str) -> list[Any]:
    """The same beside what is counted."""
    return _BLOCKING.listed(reason)


@actorlib.remote
def items(reason: str) -> Generator[Any]:
    """The same as one of two items."""
    yield from _BLOCKING.items(reason)


@actorlib.remote
def error(reason: str) -> None:
    """The same in an error."""
    _BLOCKING.error(reason)


class Functions:
    """A target whose calls are calls of functions."""

    argument, result, listed, items, error = argument, result, listed, items, error


@actorlib.remote
def outcome_in_function(target: Any, role: str, reason: str) -> list[Any]:
    """Calls a target from a function."""
    return outcome(target, role, reason)


ACTORS: dict[str, Any] = {
    "plain": Plain,
    "threaded": Plain.options(max_concurrency=2),
    "mixed": Mixed,
    "async": Async,
}
"""Makes an actor, by its kind."""
