"""Shows what the object store of a runtime holds: ``actorlib objects``.

``Objects`` is the document that ``actorlib objects --json`` prints, with the columns of
``DOCUMENT``: their names are promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from actorlib._cli.pages import console, in_time, printable, write_document
from actorlib._options.resources import format_bytes
from actorlib._queries.client import ask_loop, the_runtime
from actorlib._rows.rows import RowEncoder
from actorlib._rows.snapshot import ObjectInfo
from actorlib._rows.tables import Column, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from actorlib._queries.rows import Objects
    from actorlib._rows.snapshot import ObjectOrder

DOCUMENT: Final = RowEncoder(
    {
        ObjectInfo: (
            "id=object_id kind state nbytes age maker holders arguments_of block"
        )
    }
)
"""The columns of the document."""


def show(*, as_json: bool, sort: ObjectOrder, limit: int, pid: int | None) -> None:
    """Prints the first ``limit`` objects of the object store, in the order ``sort``."""
    answer: Objects = ask_loop(the_runtime(pid), "objects", sort=sort, limit=limit)
    if as_json:
        write_document(DOCUMENT.encode(answer))
    else:
        console().print(draw(answer), crop=False)


def draw(answer: Objects) -> RenderableType:
    answer = printable(answer)
    store = answer.object_store
    totals = (
        f"Shared memory: {format_bytes(store.live)} of values, "
        f"{format_bytes(store.warm)} kept warm; the limit is "
        f"{format_bytes(store.limit)}."
        if store.limit
        else "Nothing is shared: object_store_memory is 0."
    )
    if not answer.objects:
        return Group(Text("The object store holds nothing."), Text(totals))
    rows = table(_columns(answer.objects), enumerate(answer.objects, 1))
    if not answer.has_more:
        return Group(rows, Text(totals))
    return Group(rows, Text("More are not shown: -n says how many are."), Text(totals))


def _columns(objects: Sequence[ObjectInfo]) -> list[Column[tuple[int, ObjectInfo]]]:
    # Ids of blocks are long, and no command takes one: here they have numbers.
    numbers = {info.object_id: number for number, info in enumerate(objects, 1)}
    return [
        Column("", lambda row: str(row[0]), is_number=True),
        Column("kind", lambda row: row[1].kind),
        Column("state", lambda row: row[1].state),
        Column("size", lambda row: _size(row[1], numbers), is_number=True),
        Column("age", lambda row: in_time(row[1].age), is_number=True),
        Column("made by", lambda row: row[1].maker),
        Column("held by", lambda row: _holders(row[1])),
        Column("argument of", lambda row: ", ".join(row[1].arguments_of) or "-"),
    ]


def _size(info: ObjectInfo, numbers: Mapping[str, int]) -> str:
    """Returns the size of an object, or the number of the row of its block."""
    if not info.block:
        return format_bytes(info.nbytes)
    number = numbers.get(info.block)
    return "in a block" if number is None else f"in {number}"


def _holders(info: ObjectInfo) -> str:
    holders = (
        f"{holder} ({count} times)" if count > 1 else holder
        for holder, count in info.holders.items()
    )
    return ", ".join(holders) or "-"
