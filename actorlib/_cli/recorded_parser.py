"""Tells which words a command line takes, for those who complete them.

``argparse`` says of a parser neither its options nor its commands; but each is given to
``add_argument`` or ``add_subparsers`` and comes back as an ``Action``, whose attributes
are public. So they are kept where they are added, and a new command is completed
without anything else being written for it.
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
_SOURCES = {"ACTOR": ACTORS, "FILE": FILES, "PATH": FILES}


class Values(NamedTuple):
    """What may stand in a place.

    Attributes:
        words: The words that may; () where that is not known beforehand.
        source: What is asked for them then: ``ACTORS``, ``PIDS`` or ``FILES``; empty
            if nobody knows.
    """

    words: tuple[str, ...] = ()
    source: str = ""


class Option(NamedTuple):
    """An option.

    Attributes:
        flags: How it is written, all its ways.
        about: What it does.
        values: What stands behind it; None if nothing does.
    """

    flags: tuple[str, ...]
    about: str
    values: Values | None


class Command(NamedTuple):
    """A command, or what stands before any.

    Attributes:
        name: Its name; empty for what stands before any.
        about: What it does.
        options: Its options.
        places: What its words are that are no options, one after another.
        commands: The commands that may follow.
    """

    name: str
    about: str
    options: tuple[Option, ...]
    places: tuple[Values, ...] = ()
    commands: tuple[Command, ...] = ()


@final
class RecordedParser(argparse.ArgumentParser):
    """A parser that keeps what was added to it; those of its commands are alike."""

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
        """Says what words it takes.

        Args:
            name: What it is called; empty for what stands before any command.
        """
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
    """Gives the parsers of commands, if an action stands for some."""
    if not isinstance(action.choices, dict):
        return {}
    found = cast("dict[str, object]", action.choices)
    return {n: p for n, p in found.items() if isinstance(p, RecordedParser)}


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
