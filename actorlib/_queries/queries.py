"""The interface of queries, which a runtime answers to clients outside its program.

A query has a name, parameters and an answer: a row, several rows, or a plain value. It
is a function of the engine and its parameters. One part reads the state on the owner's
loop and has to be quick. The other makes the answer, on the thread of the server.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, final

from actorlib._base.ids import ID_SIZE, ActorId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._core.engine import RuntimeEngine


SLACK: Final = 2.0
"""Seconds that a busy loop may be late with a timer."""


class Asked(NamedTuple):
    """A query with its parameters.

    Attributes:
        on_loop: Reads the state on the owner's loop; None if that is not needed. If it
            returns a future, the future is awaited, and cancelled when no client waits.
        finish: Makes the answer from the result of ``on_loop``.
        takes: Seconds that such a future may take.
    """

    on_loop: Callable[[], Any] | None
    finish: Callable[[Any], Any]
    takes: float = 0.0


@final
class Parameters:
    """The parameters of one query, by name. They come from any client."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def take(self, name: str, default: object) -> Any:
        return self._values.pop(name, default)

    def flag(self, name: str) -> bool:
        """Removes and returns a parameter that is False by default.

        Raises:
            ValueError: It is not a bool.
        """
        value = self.take(name, False)  # noqa: FBT003  # the default
        if not isinstance(value, bool):
            raise ValueError(f"{name} takes true or false, not {value!r}")  # noqa: TRY004  # a value of the client
        return value

    def count(self, name: str, default: int, most: int, unit: str) -> int:
        """Removes and returns a whole number from 1 to ``most``.

        Raises:
            ValueError: It is not such a number.
        """
        value = self.take(name, default)
        if type(value) is not int or not 1 <= value <= most:
            raise ValueError(f"{name} takes 1 to {most} {unit}, not {value!r}")
        return value

    def actor(self) -> ActorId:
        """Removes and returns the parameter ``actor``.

        Raises:
            ValueError: It is not the id of an actor.
        """
        value = self.take("actor", None)
        with suppress(ValueError, TypeError):
            actor = bytes.fromhex(value)
            if len(actor) == ID_SIZE:
                return ActorId(actor)
        raise ValueError(f"actor takes the id of an actor in hex, not {value!r}")

    def actor_if_any(self) -> ActorId | None:
        return self.actor() if "actor" in self._values else None

    def refuse_rest(self) -> None:
        """Raises ValueError if a parameter is left."""
        if self._values:
            name = next(iter(self._values))
            raise ValueError(f"this query takes no parameter {name!r}")


Query: TypeAlias = "Callable[[RuntimeEngine, Parameters], Asked]"
FindQuery: TypeAlias = "Callable[[str], Query | None]"


def begin_query(
    find: FindQuery, engine: RuntimeEngine, name: str, values: Mapping[str, Any]
) -> Asked:
    """Applies the query of a name to its parameters.

    Raises:
        ValueError: There is no such query, or it has no such parameters.
    """
    query = find(name)
    if query is None:
        raise ValueError(f"this runtime has no query {name!r}")
    parameters = Parameters(values)
    begun = query(engine, parameters)
    parameters.refuse_rest()
    return begun
