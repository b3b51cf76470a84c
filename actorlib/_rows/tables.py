"""Formats rows for people: a few lines of text, or tables that rich draws.

Rich is imported where a table is drawn: few programs need it.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from actorlib._base.value import dataclass
from actorlib._options.resources import format_counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import Console, RenderableType
    from rich.table import Table

RowT = TypeVar("RowT")

WIDTH: Final = 100
"""The maximum length of a line of text."""

_HTML = '<pre style="white-space:pre;overflow-x:auto;line-height:normal">{code}</pre>'
"""The HTML for a notebook. The user of a notebook chooses a dark or a light theme,
whatever the system's theme is, so the page sets no colours."""


@dataclass(frozen=True, slots=True)
class Column(Generic[RowT]):
    """A column of a table.

    Attributes:
        is_number: True for numbers: they are aligned at the right and never folded.
        importance: The higher, the longer it stays where there is no room for all
            columns.
    """

    heading: str
    cell: Callable[[RowT], RenderableType]
    is_number: bool = False
    importance: int = 0


def clipped(line: str, width: int = WIDTH) -> str:
    """Joins the lines of a text, and truncates it to the width."""
    flat = " ".join(line.split("\n"))
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"


def some_of(rows: Sequence[str], most: int) -> list[str]:
    """Returns the first rows, and a text with the number of the others."""
    more = len(rows) - most
    return [*rows[:most], *([f"and {more:,} more"] if more > 0 else [])]


def in_words(amounts: Mapping[str, float], total: Mapping[str, float]) -> str:
    """Formats amounts and their totals: ``GPU 0.5 of 2, memory 1 GiB of 4 GiB``."""
    return ", ".join(
        f"{name} {format_counted(name, amounts.get(name, 0.0))} of "
        f"{format_counted(name, whole)}"
        for name, whole in total.items()
        if whole and not name.startswith("accelerator_type:")
    )


def console(**options: Any) -> Console:
    from rich.console import Console  # noqa: PLC0415  # rarely needed

    # No markup: names and reasons are text of the user.
    return Console(markup=False, emoji=False, highlight=False, **options)


def table(
    columns: Sequence[Column[RowT]],
    rows: Iterable[RowT],
    title: str | None = None,
    left_out: int = 0,
) -> Table:
    """Makes a table, whose texts are folded where they have no room.

    The caption names the number of rows that were left out.
    """
    cells = ([column.cell(row) for column in columns] for row in rows)
    return table_of(columns, cells, title, left_out)


def table_of(
    columns: Sequence[Column[Any]],
    cells: Iterable[Sequence[RenderableType]],
    title: str | None = None,
    left_out: int = 0,
) -> Table:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415  # rarely needed
    from rich.table import Table  # noqa: PLC0415  # rarely needed

    result = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=title,
        title_justify="left",
        caption=f"and {left_out:,} more" if left_out > 0 else None,
        caption_justify="left",
    )
    for column in columns:
        result.add_column(
            column.heading,
            overflow="fold",
            justify="right" if column.is_number else "left",
            no_wrap=column.is_number,
        )
    for row in cells:
        result.add_row(*row)
    return result


def html_of(*parts: RenderableType) -> str:
    # Without force_jupyter=False a notebook would show it at once.
    page = console(
        file=io.StringIO(),
        record=True,
        width=WIDTH,
        color_system="truecolor",
        force_jupyter=False,
    )
    for part in parts:
        page.print(part)
    return page.export_html(inline_styles=True, code_format=_HTML)
