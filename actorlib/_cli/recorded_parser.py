"""Describes the options and commands of a command line, for completion.

``argparse`` has no public way to list them, but ``add_argument`` and ``add_subparsers``
return an ``Action``, whose attributes are public. So the parser keeps the actions, and
completion needs no further code for a new command.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast, final

if TYPE_CHECKING:
    from collections.abc import Iterable

ACTORS = "actors"
PIDS = "pids"
FILES = "files"
_SOURCES = {"ACTOR": ACTORS, "DIR": FILES, "FILE": FILES, "PATH": FILES}


class Values(NamedTuple):
    """The values of an option or an argument.

    Attributes:
        words: The possible words; () if they are not fixed.
        source: Where they come from then: ``ACTORS``, ``PIDS`` or ``FILES``; empty if
            they cannot be completed.
    """

    words: tuple[str, ...] = ()
    source: str = ""


class Option(NamedTuple):
    """An option: its spellings, its description, and its values if it takes one."""

    flags: tuple[str, ...]
    about: str
    values: Values | None


class Command(NamedTuple):
    """A command, or the whole command line, whose name is empty.

    Attributes:
        places: Its positional arguments, in order.
        commands: Its subcommands.
    """

    name: str
    about: str
    options: tuple[Option, ...]
    places: tuple[Values, ...] = ()
    commands: tuple[Command, ...] = ()


@final
class RecordedParser(argparse.ArgumentParser):
    """A parser that keeps its actions; the parsers of its commands do, too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._added: list[argparse.Action] = []
        super().__init__(*args, **kwargs)

    def add_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        """Adds an argument: see argparse."""
        action = super().add_argument(*args, **kwargs)
        self._added.append(action)
        return action

    def add_subparsers(self, **kwargs: Any) -> Any:
        """Adds commands: see argparse."""
        action = super().add_subparsers(**kwargs)
        self._added.append(action)
        return action

    def described(self, name: str = "") -> Command:
        """Describes the parser as the command of a name."""
        options: list[Option] = []
        places: list[Values] = []
        commands: list[Command] = []
        for action in self._added:
            parsers = _parsers(action)
            if parsers:
                commands += [each.described(called) for called, each in parsers.items()]
            elif action.option_strings:
                options.append(_option(action))
            else:
                places.append(_values(action))
        about = re.split(r"[.:;,]", self.description or "")[0]
        return Command(name, about, tuple(options), tuple(places), tuple(commands))


def _parsers(action: argparse.Action) -> dict[str, RecordedParser]:
    """Returns the parsers of subcommands, if the action has any."""
    if not isinstance(action.choices, dict):
        return {}
    parsers = cast("dict[str, object]", action.choices)
    return {n: p for n, p in parsers.items() if isinstance(p, RecordedParser)}


def _option(action: argparse.Action) -> Option:
    takes_none = action.nargs == 0
    about = re.split(r"[.:;(]", action.help or "")[0].strip()
    return Option(
        tuple(action.option_strings), about, None if takes_none else _values(action)
    )


def _values(action: argparse.Action) -> Values:
    if action.choices is not None:
        return Values(tuple(map(str, cast("Iterable[object]", action.choices))))
    if action.dest == "pid":
        return Values(source=PIDS)
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    return Values(source=_SOURCES.get(metavar, ""))
