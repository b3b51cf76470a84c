"""Makes what people see of rows: a few lines of text, or tables that rich draws.

Rich is imported where something is drawn: few programs ask for that.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

from actorlib._core.resources import format_counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rich.console import Console, RenderableType
    from rich.table import Table

WIDTH: Final = 100
"""How long a line of text may be."""

_HTML = '<pre style="white-space:pre;overflow-x:auto;line-height:normal">{code}</pre>'
"""What a notebook gets. It is dark or light as its user likes, whatever the system
says; so the page has no colours of its own."""


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
    columns: Sequence[str],
    rows: Iterable[Sequence[RenderableType]],
    right: Collection[str] = (),
    title: str | None = None,
    left_out: int = 0,
) -> Table:
    """Makes a table, whose texts are folded where they have no room.

    Args:
        columns: The headings.
        rows: Its rows.
        right: The columns that are numbers, which are never folded.
        title: What it is of.
        left_out: How many rows more there are, which is said below.
    """
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
            column,
            overflow="fold",
            justify="right" if column in right else "left",
            no_wrap=column in right,
        )
    for row in rows:
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
