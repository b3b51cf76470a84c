"""Lists and removes the results that maps have cached: ``actorlib cache``.

``actorlib cache --json`` prints a list of ``CachedVersion``, whose field names are
stable.
"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from actorlib._api.cache_folder import CachedVersion, list_entries, remove_entries
from actorlib._cli.pages import console, printable, write_document
from actorlib._options.resources import format_bytes
from actorlib._rows.rows import encode_row
from actorlib._rows.tables import Column, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

_DAY = 86400.0
_COLUMNS: list[Column[CachedVersion]] = [
    Column("function", lambda row: row.function),
    Column("version", lambda row: row.version),
    Column("results", lambda row: f"{row.count:,}", is_number=True),
    Column("size", lambda row: format_bytes(row.nbytes), is_number=True),
    Column("first", lambda row: _in_local_time(row.first)),
    Column("last", lambda row: _in_local_time(row.last)),
]


def show(
    what: str,
    folder: str,
    *,
    function: str | None,
    older_than: float | None,
    as_json: bool,
) -> None:
    """Lists the cached results in a folder, or removes them and lists what was removed.

    Args:
        what: ``ls`` or ``rm``.
        folder: The folder.
        function: Only those of this function.
        older_than: Only those that are at least this old, in days.
        as_json: Whether to print one document.
    """
    if not folder:  # an unset variable of a shell: Path would take this folder
        raise NotADirectoryError("'' is not a folder")
    before = None if older_than is None else time.time() - older_than * _DAY
    is_removal = what == "rm"
    select = remove_entries if is_removal else list_entries
    rows = select(Path(folder), function, before)
    if as_json:
        write_document([encode_row(row) for row in rows])
    else:
        console().print(draw(rows, is_removal=is_removal), crop=False)


def draw(rows: Sequence[CachedVersion], *, is_removal: bool) -> RenderableType:
    if not rows:
        return Text("There are no such results." if is_removal else "There are none.")
    count = sum(row.count for row in rows)
    size = format_bytes(sum(row.nbytes for row in rows))
    end = "removed" if is_removal else "in all"
    total = Text(f"{count:,} results of {size} {'were ' * is_removal}{end}.")
    return Group(table(_COLUMNS, printable(list(rows))), total)


def _in_local_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
