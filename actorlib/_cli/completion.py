"""Prints completions of words of the command line: ``actorlib completion``."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from actorlib._cli.completion_scripts import SCRIPTS
from actorlib._cli.documents import write_text
from actorlib._cli.recorded_parser import ACTORS, PIDS
from actorlib._queries.client import ask, find_runtimes
from actorlib._queries.protocol import OK
from actorlib.exceptions import ActorlibError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from actorlib._cli.recorded_parser import Command
    from actorlib._rows.snapshot import ActorInfo

WHAT: Final = (*SCRIPTS, ACTORS, PIDS)
"""The words of the command: scripts, or queries by scripts."""
_PATIENCE = 0.2
"""Seconds: the user has pressed a key and waits."""


def show(what: str, parser: Command) -> int:
    """Prints a script, or names for it, one a line.

    Args:
        what: The name of a shell, or ``"actors"`` or ``"pids"``.
        parser: What the command line takes.

    Returns:
        The exit code, 0, even if there are no names.
    """
    if what in SCRIPTS:
        write_text(SCRIPTS[what](parser))
        return 0
    with suppress(ActorlibError, ValueError, OSError):
        words = _pids() if what == PIDS else _actors()
        write_text("".join(f"{word}\n" for word in words))
    return 0


def _pids() -> list[str]:
    return [str(address.pid) for address in find_runtimes()]


def _actors() -> list[str]:
    rows: list[ActorInfo] = []
    for address in find_runtimes():
        with suppress(ActorlibError, ValueError):
            answer = ask(address, "status", patience=_PATIENCE, grace=_PATIENCE)
            if answer.outcome == OK:
                rows += answer.value.snapshot.actors
    return sorted(set(words_for(rows)))


def words_for(rows: Sequence[ActorInfo]) -> Iterator[str]:
    """Yields a word for each actor by which it is found: its name, class or pid.

    Args:
        rows: What is known of the actors.
    """
    nameless = Counter(row.class_name for row in rows if row.name is None)
    named = {row.name for row in rows}
    for row in rows:
        if row.name is not None:
            if row.name.isprintable():
                yield row.name
        elif nameless[row.class_name] == 1 and row.class_name not in named:
            yield row.class_name
        elif row.pid:
            yield str(row.pid)
