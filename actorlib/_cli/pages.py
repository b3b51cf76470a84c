"""Makes pages of tables, times and sizes, for people who ask about a runtime."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import Console, RenderableType
    from rich.text import Text

_WIDE = 200
_MANY = 100
"""Of more rows rich takes longer to make a table than all else that a command does."""
_SHORTEST = 6
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # but tabs and line ends

T = TypeVar("T")


def console() -> Console:
    """Makes what prints; wide where nobody looks, so that programs get whole lines."""
    from rich.console import Console  # noqa: PLC0415  # what is for machines needs none

    is_seen = sys.stdout.isatty() or "COLUMNS" in os.environ
    # Not markup: names and reasons are the user's own words.
    return Console(
        markup=False, emoji=False, highlight=False, width=None if is_seen else _WIDE
    )


def printable(told: T) -> T:
    r"""Shows what would steer a terminal by its escapes, ``\x1b`` for example.

    Names, reasons and errors have in them what programs were sent from anywhere.

    Args:
        told: A text, or a document, whose keys stay as they are.
    """
    value: Any = told
    if isinstance(value, str):
        value = _CONTROLS.sub(escaped, value)
    elif isinstance(value, dict):
        rows = cast("dict[object, object]", value)
        value = {key: printable(each) for key, each in rows.items()}
    elif isinstance(value, list):
        value = [*map(printable, cast("list[object]", value))]
    return cast("T", value)


def escaped(found: re.Match[str]) -> str:
    """Writes a control character that was found as its escape."""
    return f"\\x{ord(found[0]):02x}"


def width_of(out: Console) -> int | None:
    """Says how many columns of text there are; None where nobody looks."""
    return out.width if sys.stdout.isatty() or "COLUMNS" in os.environ else None


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[str] = (),
    widths: Sequence[int] = (),
) -> RenderableType:
    """Makes a table; of many rows one that is quick, whose lines are never broken.

    Args:
        columns: The headings.
        rows: Its rows.
        right: The columns that are numbers.
        widths: How wide each column may be; () for as wide as it takes.
    """
    if len(rows) > _MANY:
        return _plain(columns, rows, right, widths)
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415  # likewise
    from rich.table import Table  # noqa: PLC0415  # likewise

    made = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in columns:
        made.add_column(
            column,
            overflow="fold",
            justify="right" if column in right else "left",
            no_wrap=column in right,
        )
    for row in rows:
        made.add_row(*row)
    return made


def _plain(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[str],
    widths: Sequence[int],
) -> Text:
    from rich.text import Text  # noqa: PLC0415  # likewise

    lines = plain_lines(columns, rows, right, widths)
    return Text("\n".join(["", *lines, ""]), no_wrap=True, overflow="ignore")


def plain_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[str],
    widths: Sequence[int] = (),
    *,
    is_kept: bool = False,
) -> list[str]:
    """Makes a line of each row of a table, and one of its headings in front.

    Args:
        columns: The headings.
        rows: Its rows.
        right: The columns that are numbers.
        widths: How wide each column may be: what is longer is cut; () for as wide as
            it takes.
        is_kept: Whether each is as wide as that, also where its cells are shorter.
    """
    every = [columns, *rows]
    widest = [max(map(len, cells)) for cells in zip(*every, strict=True)]
    room = [min(each) for each in zip(widest, widths or widest, strict=True)]
    room = list(widths) if is_kept else room
    are_right = [column in right for column in columns]
    return [
        "  ".join(
            (
                cell.rjust(width)
                if is_right
                else cell.ljust(width)
                if len(cell) <= width
                else f"{cell[: width - 1]}…"
            )
            for cell, width, is_right in zip(row, room, are_right, strict=True)
        ).rstrip()
        for row in every
    ]


def in_time(seconds: float | None) -> str:
    """Says a time in its two largest units: ``3h 5m``, or in tenths: ``0.3s``."""
    if seconds is None:
        return "-"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def id_endings(ids: Sequence[str]) -> dict[str, str]:
    """Gives the shortest endings that tell ids apart, all of one length.

    Ids of one runtime begin alike; what they end with counts up.
    """
    longest = max(map(len, ids), default=0)
    for length in range(_SHORTEST, longest):
        if len({each[-length:] for each in ids}) == len(set(ids)):
            return {each: each[-length:] for each in ids}
    return {each: each for each in ids}
