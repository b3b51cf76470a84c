"""Prints completions of words of the command line: ``actorlib completion``."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from actorlib._cli.completion_scripts import SCRIPTS
from actorlib._cli.pages import write_text
from actorlib._cli.recorded_parser import ACTORS, PIDS
from actorlib._queries.client import ask, find_runtimes
from actorlib._queries.protocol import OK
from actorlib.exceptions import ActorlibError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from actorlib._cli.recorded_parser import RecordedParser
    from actorlib._rows.snapshot import ActorInfo

WHAT: Final = (*SCRIPTS, ACTORS, PIDS)
"""The words of the command: scripts, or queries by scripts."""
_PATIENCE = 0.2
"""Seconds: the user has pressed a key and waits."""


def show(what: str, parser: Callable[[], RecordedParser]) -> None:
    """Prints the script of a shell, or words for it, one per line."""
    if what in SCRIPTS:
        write_text(SCRIPTS[what](parser().described()))
        return
    with suppress(ActorlibError, ValueError, OSError):  # there may be no names
        if what == PIDS:
            words = [str(address.pid) for address in find_runtimes()]
        else:
            words = _actors()
        write_text("".join(f"{word}\n" for word in words))


def _actors() -> list[str]:
    rows: list[ActorInfo] = []
    for address in find_runtimes():
        with suppress(ActorlibError, ValueError):
            answer = ask(address, "status", patience=_PATIENCE, grace=_PATIENCE)
            if answer.outcome == OK:
                rows += answer.value.snapshot.actors
    return sorted(set(words_for(rows)))


def words_for(rows: Sequence[ActorInfo]) -> Iterator[str]:
    """Yields a word for each actor by which it is found.

    That is its name, its class, its label among replicas, or its pid.
    """
    nameless = Counter(row.class_name for row in rows if row.name is None)
    named = {row.name for row in rows}
    for row in rows:
        if row.name is not None:
            if row.name.isprintable():
                yield row.name
        elif nameless[row.class_name] == 1 and row.class_name not in named:
            yield row.class_name
        elif row.slot is not None and row.label.isprintable():
            yield row.label
        elif row.pid:
            yield str(row.pid)
