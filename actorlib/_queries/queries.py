"""Queries: what can be asked of a runtime from outside of its program.

A query has a name, parameters and an answer: a row, several, or a plain value. It is a
function of the engine and its parameters. One part reads the state, briefly, on the
owner's loop; the other makes the answer from it, on the thread of the server.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, final

from actorlib._base.ids import ID_SIZE, ActorId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._core.engine import RuntimeEngine


SLACK: Final = 2.0
"""Seconds that a busy loop may be late with what it was to do by then."""


class Asked(NamedTuple):
    """A query that is about to be answered.

    Attributes:
        on_loop: Looks, on the owner's loop; None if that need not be asked. A future
            that it gives is waited for, and cancelled if nobody waits any more.
        finish: Makes the answer of what that gave.
        takes: Seconds that such a future may take.
    """

    on_loop: Callable[[], Any] | None
    finish: Callable[[Any], Any]
    takes: float = 0.0


@final
class Parameters:
    """The parameters of one query, which may come from anybody.

    Args:
        values: What was sent, by name.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def take(self, name: str, default: object) -> Any:
        """Takes a parameter as it was sent."""
        return self._values.pop(name, default)

    def flag(self, name: str) -> bool:
        """Takes a parameter that is false by default.

        Raises:
            ValueError: It is neither true nor false.
        """
        value = self.take(name, False)  # noqa: FBT003  # the default
        if not isinstance(value, bool):
            raise ValueError(f"{name} takes true or false, not {value!r}")  # noqa: TRY004  # of who asks
        return value

    def count(self, name: str, default: int, most: int, unit: str) -> int:
        """Takes a whole number from 1 on.

        Raises:
            ValueError: It is something else.
        """
        value = self.take(name, default)
        if type(value) is not int or not 1 <= value <= most:
            raise ValueError(f"{name} takes 1 to {most} {unit}, not {value!r}")
        return value

    def actor(self) -> ActorId:
        """Takes the parameter ``actor``.

        Raises:
            ValueError: It is no id of an actor.
        """
        value = self.take("actor", None)
        with suppress(ValueError, TypeError):
            actor = bytes.fromhex(value)
            if len(actor) == ID_SIZE:
                return ActorId(actor)
        raise ValueError(f"actor takes the id of an actor in hex, not {value!r}")

    def actor_if_any(self) -> ActorId | None:
        """Takes the parameter ``actor``; None if there is none."""
        return self.actor() if "actor" in self._values else None

    def refuse_rest(self) -> None:
        """Makes sure that each was taken.

        Raises:
            ValueError: The query has no such parameter.
        """
        if self._values:
            name = next(iter(self._values))
            raise ValueError(f"{name!r} cannot be said in this question")


Query: TypeAlias = "Callable[[RuntimeEngine, Parameters], Asked]"
FindQuery: TypeAlias = "Callable[[str], Query | None]"


def begin_query(
    find: FindQuery, engine: RuntimeEngine, name: str, values: Mapping[str, Any]
) -> Asked:
    """Prepares the answer to a query.

    Args:
        find: Finds queries by their names.
        engine: Whom it asks.
        name: The name of the query.
        values: Its parameters.

    Raises:
        ValueError: There is no such query, or it has no such parameters.
    """
    query = find(name)
    if query is None:
        raise ValueError(f"this runtime is not asked {name!r}")
    parameters = Parameters(values)
    asked = query(engine, parameters)
    parameters.refuse_rest()
    return asked
