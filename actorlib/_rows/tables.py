"""Makes what people see of rows: a few lines of text, or tables that rich draws.

Rich is imported where something is drawn: few programs ask for that.
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
"""How long a line of text may be."""

_HTML = '<pre style="white-space:pre;overflow-x:auto;line-height:normal">{code}</pre>'
"""What a notebook gets. It is dark or light as its user likes, whatever the system
says; so the page has no colours of its own."""


@dataclass(frozen=True, slots=True)
class Column(Generic[RowT]):
    """A column of a table.

    Attributes:
        heading: What stands above it.
        cell: Makes the cell of a row.
        is_number: True for numbers: they stand at the right and are never folded.
        importance: How long it stays where there is no room for all columns.
    """

    heading: str
    cell: Callable[[RowT], RenderableType]
    is_number: bool = False
    importance: int = 0


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


def console(**options: Any) -> Console:
    """Makes what prints; see ``rich.console.Console`` for the options."""
    from rich.console import Console  # noqa: PLC0415  # few look

    # Not markup: names and reasons are the user's own words.
    return Console(markup=False, emoji=False, highlight=False, **options)


def table(
    columns: Sequence[Column[RowT]],
    rows: Iterable[RowT],
    title: str | None = None,
    left_out: int = 0,
) -> Table:
    """Makes a table, whose texts are folded where they have no room.

    Args:
        columns: Its columns.
        rows: Its rows.
        title: What it is of.
        left_out: How many rows more there are, which is said below.
    """
    cells = ([column.cell(row) for column in columns] for row in rows)
    return table_of(columns, cells, title, left_out)


def table_of(
    columns: Sequence[Column[Any]],
    cells: Iterable[Sequence[RenderableType]],
    title: str | None = None,
    left_out: int = 0,
) -> Table:
    """Makes a table of cells that are known already; see ``table``."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415  # see above
    from rich.table import Table  # noqa: PLC0415  # see above

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
    """Draws parts below one another, for a notebook."""
    # Without force_jupyter=False it would be shown in a notebook at once.
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
