"""Pickles functions and classes for the processes that run them, once each.

What their globals and their closures hold of actors and objects is counted, as in
arguments: whoever has the code holds them.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from actorlib._base.ids import LINKED
from actorlib._core.engine import Engine, collecting_ids
from actorlib._wire.errors import unsendable_reason
from actorlib._wire.serialization import decode, dump
from actorlib.exceptions import SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from actorlib._base.ids import CountedId

ADD_FUNCTION = "add_function"
"""Names the call that brings a worker a function; other calls of it have a number."""
NO_CALL = LINKED - 1
"""The number of such a call, which no other has: its answer is for nobody."""


class ClassDefinition:
    """Holds the pickled class of an actor, and what the class captures.

    Args:
        engine: Counts what is captured, from now on and while this exists.
        source: The pickled class.
        loans: The actors and the objects that are in it.

    Attributes:
        source: The same.
        loans: The same.
    """

    __slots__ = ("__weakref__", "_engine", "loans", "source")

    def __init__(
        self, engine: Engine, source: bytes, loans: Collection[CountedId] = ()
    ) -> None:
        self.source = source
        self.loans = tuple(loans)
        self._engine = engine
        for loan in self.loans:
            engine.retain(loan)

    def __del__(self) -> None:
        # An interpreter that is going down may have taken the engine apart already.
        with suppress(AttributeError):
            for loan in self.loans:
                self._engine.release(loan)


class ClassDefinitions:
    """Pickles classes of actors, each once for as long as it exists.

    Args:
        engine: Counts what they capture.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: weakref.WeakKeyDictionary[object, ClassDefinition] = (
            weakref.WeakKeyDictionary()
        )

    def of(self, name: str, source: object, sent: object) -> ClassDefinition:
        """Gives the pickled class of an actor.

        Args:
            name: What it is called, for messages.
            source: The key that it is cached by.
            sent: What is pickled.

        Raises:
            SerializationError: It cannot be sent, for example because a method uses a
                global that cannot.
        """
        found = self._known.get(source)
        if found is None:
            made = _pickle(self._engine, f"the actor class {name}", sent, sent)
            found = self._known[source] = ClassDefinition(self._engine, *made)
        return found


def pickle_function(
    engine: Engine, label: str, source: object
) -> tuple[bytes, list[CountedId]]:
    """Pickles a function; gives its bytes and its loans.

    Raises:
        SerializationError: It cannot be sent, for example because it uses a global that
            cannot.
    """
    plain = getattr(source, "__wrapped__", source)
    return _pickle(engine, f"the function {label}", source, plain)


def _pickle(
    engine: Engine, what: str, source: object, blamed: object
) -> tuple[bytes, list[CountedId]]:
    """Pickles code; gives its bytes and its loans.

    Raises:
        SerializationError: It cannot be sent; the message says what in ``blamed``
            prevents that.
    """
    with collecting_ids(engine) as loans:
        try:
            return dump(source), loans
        except Exception as error:
            raise SerializationError(
                f"{what} cannot be sent to another process: "
                f"{unsendable_reason(blamed, error)}"
            ) from error


class PickledFunction:
    """Wraps a pickled function inside of a payload; it arrives as the function.

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
        return _BrokenFunction(error)
    return cast("Callable[..., Any]", getattr(function, "__wrapped__", function))


class _BrokenFunction:
    """Stands for a function that could not be loaded; calling it raises why."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self, *_: object, **__: object) -> None:
        raise self._error
