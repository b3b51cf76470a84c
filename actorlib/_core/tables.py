"""Makes what people see of rows: a few lines of text, or tables for a notebook.

A notebook is dark or light as its user likes, whatever the system says; so tables there
have no colours of their own but greys and one hue that one can see through.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from actorlib._core.resources import format_counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

WIDTH: Final = 100
"""How long a line of text may be."""

_LONGEST = 200
"""How long a text in a table may be."""
_TABLE = "border-collapse:collapse;border:0;margin:0 0 .6em;font-size:inherit"
_CELL = "padding:2px 12px 2px 0;text-align:left"
_ROW = "background:none;border-top:1px solid rgba(128,128,128,.25)"
_SOFT = "opacity:.65"
_BAR = (
    "display:inline-block;width:120px;height:8px;border-radius:3px;"
    "background:rgba(128,128,128,.22);overflow:hidden"
)


def clipped(line: str, width: int = WIDTH) -> str:
    """Makes one line of a text, and no longer than it may be."""
    flat = " ".join(line.split("\n"))
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"


def some_of(rows: Sequence[str], most: int) -> list[str]:
    """Gives the first of some rows, and how many more there are."""
    more = len(rows) - most
    return [*rows[:most], *([f"and {more:,} more"] if more > 0 else [])]


def in_words(amounts: Mapping[str, float], total: Mapping[str, float]) -> str:
    """Says how much there is of how much: ``GPU 0.5 of 2, memory 1 GiB of 4 GiB``."""
    return ", ".join(
        f"{name} {format_counted(name, amounts.get(name, 0.0))} of "
        f"{format_counted(name, all_of_it)}"
        for name, all_of_it in total.items()
        if all_of_it and not name.startswith("accelerator_type:")
    )


def html_title(title: str, said: str = "") -> str:
    """Makes a heading of HTML of two texts, the second softer."""
    soft = f' <span style="{_SOFT}">{escape(said)}</span>' if said else ""
    return f'<div style="margin:.5em 0 .2em"><b>{escape(title)}</b>{soft}</div>'


def html_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], left_out: int = 0
) -> str:
    """Makes a table of HTML of texts, none of which is taken for markup.

    Args:
        columns: Its headings; none if they are empty.
        rows: Its rows.
        left_out: How many more there are, which is said below.
    """
    heads = "".join(
        f'<th style="{_CELL};font-weight:600;{_SOFT}">{escape(column)}</th>'
        for column in columns
    )
    head = f"<thead><tr>{heads}</tr></thead>" if columns else ""
    body = "".join(
        f'<tr style="{_ROW}">{"".join(map(_cell, row))}</tr>' for row in rows
    )
    return (
        f'<div style="overflow-x:auto"><table style="{_TABLE}">{head}<tbody>{body}'
        f"</tbody></table>{_more(left_out)}</div>"
    )


def _more(left_out: int) -> str:
    return f'<div style="{_SOFT}">and {left_out:,} more</div>' if left_out > 0 else ""


def _cell(text: str) -> str:
    return f'<td style="{_CELL}">{escape(clipped(text, _LONGEST))}</td>'


def html_bars(parts: Iterable[tuple[str, float, str]], left_out: int = 0) -> str:
    """Makes bars of HTML: each with its name, how full it is from 0 to 1, and words.

    Args:
        parts: What each is.
        left_out: How many more there are, which is said below.
    """
    rows = "".join(
        f'<tr style="{_ROW}">{_cell(name)}<td style="{_CELL}">'
        f'<span style="{_BAR}"><span style="display:block;height:8px;'
        f"width:{min(1.0, max(0.0, part)) * 100:.1f}%;"
        f'background:rgba(64,128,200,.65)"></span></span></td>{_cell(words)}</tr>'
        for name, part, words in parts
    )
    return f'<table style="{_TABLE}"><tbody>{rows}</tbody></table>{_more(left_out)}'
