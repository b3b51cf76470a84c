"""Selects an actor of a runtime by a word of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._base.labels import with_pid
from actorlib._queries.client import ask_loop
from actorlib._rows.tables import some_of
from actorlib.exceptions import RuntimeNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from actorlib._queries.addresses import Address
    from actorlib._queries.rows import Status
    from actorlib._rows.snapshot import ActorInfo

_SHORTEST = 4
_SHOWN = 8


def ask_actor(
    address: Address, word: str, patience: float = 5.0
) -> tuple[Status, ActorInfo]:
    """Asks a runtime for the actor of a word; see ``find_actor``."""
    status: Status = ask_loop(address, "status", patience=patience, dead=True)
    return status, find_actor(status.snapshot.actors, word)


def find_actor(rows: Sequence[ActorInfo], word: str) -> ActorInfo:
    """Returns the actor of a word, a living one before a dead one.

    Args:
        rows: The actors.
        word: A name, the pid of a process, an id or the beginning or the end of one, or
            the class of the only actor of that class.

    Raises:
        RuntimeNotFoundError: There is none, or there are several.
    """
    living = [row for row in rows if row.state != "dead"]
    dead = [row for row in rows if row.state == "dead"]
    for among in (living, dead):
        for means in _list_meanings(word):
            matches = [row for row in among if means(row)]
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise RuntimeNotFoundError(
                    f"{word!r} may be any of {_titles(matches)}: "
                    "write its id or its pid"
                )
    if not rows:
        raise RuntimeNotFoundError(f"there is no actor {word!r}, and no other either")
    raise RuntimeNotFoundError(
        f"there is no actor {word!r}: there are {_titles(living or dead)}"
    )


def title_of(actor: ActorInfo) -> str:
    """Describes an actor with its process: ``Model 'm1' (pid 812)``."""
    return with_pid(actor.label, actor.pid)


def _list_meanings(word: str) -> Iterator[Callable[[ActorInfo], bool]]:
    """Returns the meanings of a word, the likeliest first."""
    yield lambda row: row.name == word
    yield lambda row: row.slot is not None and row.label == word
    if word.isdecimal() and not word.startswith("0"):
        yield lambda row: row.pid == int(word)
    if len(word) >= _SHORTEST:
        yield lambda row: row.actor_id.startswith(word)
        yield lambda row: row.actor_id.endswith(word)
    yield lambda row: row.class_name == word


def _titles(rows: Iterable[ActorInfo]) -> str:
    titles = [f"{title_of(row)} {row.actor_id}" for row in rows]
    return ", ".join(some_of(titles, _SHOWN))
