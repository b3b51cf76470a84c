"""Pickles functions and classes for the processes that run them, once each.

References to actors and objects in their globals and closures are counted, as in
arguments: a holder of the code holds them.
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
"""The callee of the call that sends a function to a worker."""
NO_CALL = LINKED - 1
"""The number of such a call, whose result has no recipient."""


class ClassDefinition:
    """The pickled class of an actor, and the references that the class captures.

    Args:
        engine: Counts the references, from now on and while this object exists.
        borrowed: The ids of the actors and the objects in it.
    """

    __slots__ = ("__weakref__", "_engine", "borrowed", "source")

    def __init__(
        self, engine: Engine, source: bytes, borrowed: Collection[CountedId] = ()
    ) -> None:
        self.source = source
        self.borrowed = tuple(borrowed)
        self._engine = engine
        for reference in self.borrowed:
            engine.retain(reference)

    def __del__(self) -> None:
        # While the interpreter shuts down, the engine may be cleared already.
        with suppress(AttributeError):
            for reference in self.borrowed:
                self._engine.release(reference)


class ClassDefinitions:
    """Pickles classes of actors, each once for as long as it exists."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._definitions: weakref.WeakKeyDictionary[object, ClassDefinition] = (
            weakref.WeakKeyDictionary()
        )

    def of(self, name: str, source: object, sent: object) -> ClassDefinition:
        """Returns the pickled class of an actor: ``sent``, cached by ``source``."""
        definition = self._definitions.get(source)
        if definition is None:
            pickled = _pickle(self._engine, f"the actor class {name}", sent, sent)
            definition = ClassDefinition(self._engine, *pickled)
            self._definitions[source] = definition
        return definition


def pickle_function(
    engine: Engine, label: str, source: object
) -> tuple[bytes, list[CountedId]]:
    """Pickles a function; see ``_pickle``."""
    plain = getattr(source, "__wrapped__", source)
    return _pickle(engine, f"the function {label}", source, plain)


def _pickle(
    engine: Engine, what: str, source: object, blamed: object
) -> tuple[bytes, list[CountedId]]:
    """Pickles code; returns its bytes and its borrowed references.

    Raises:
        SerializationError: It cannot be sent, for example because it uses a global that
            cannot. The message names the part of ``blamed`` that prevents it.
    """
    with collecting_ids(engine) as borrowed:
        try:
            return dump(source), borrowed
        except Exception as error:
            raise SerializationError(
                f"{what} cannot be sent to another process: "
                f"{unsendable_reason(blamed, error)}"
            ) from error


def load_function(source: bytes) -> Callable[..., Any]:
    """Loads a function; one that cannot be loaded raises the error when called."""
    try:
        function = decode(source)
    except Exception as error:  # noqa: BLE001  # the user's modules: every call of it raises the error
        return _BrokenFunction(error)
    return cast("Callable[..., Any]", getattr(function, "__wrapped__", function))


class _BrokenFunction:
    """Replaces a function that could not be loaded; a call of it raises the error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self, *_: object, **__: object) -> None:
        raise self._error
