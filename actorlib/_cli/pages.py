"""Makes pages of tables, times and sizes, for people who ask about a runtime."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import RenderableType

_WIDE = 200
_MANY = 100
"""Of more rows rich takes longer to make a table than all else that a command does."""
_SHORTEST = 6


def console() -> Console:
    """Makes what prints; wide where nobody looks, so that programs get whole lines."""
    is_seen = sys.stdout.isatty() or "COLUMNS" in os.environ
    # Not markup: names and reasons are the user's own words.
    return Console(
        markup=False, emoji=False, highlight=False, width=None if is_seen else _WIDE
    )


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> RenderableType:
    """Makes a table; of many rows one that is quick, whose lines are never broken.

    Args:
        columns: The headings.
        rows: Its rows.
        right: The columns that are numbers.
    """
    if len(rows) > _MANY:
        return _plain(columns, rows, right)
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
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str]
) -> Text:
    every = [columns, *rows]
    widths = [max(map(len, cells)) for cells in zip(*every, strict=True)]
    are_right = [column in right for column in columns]
    lines = (
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, are_right, strict=True)
        )
        for row in every
    )
    return Text("\n".join(["", *lines, ""]), no_wrap=True, overflow="ignore")


def in_bytes(nbytes: int | None) -> str:
    """Says a size in three digits or so: ``1.5 GiB``."""
    if nbytes is None:
        return "-"
    size, unit = float(nbytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):  # where it stops
        if size < 1000 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"


def in_time(seconds: float | None) -> str:
    """Says a time in its two largest units: ``3h 5m``."""
    if seconds is None:
        return "-"
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
