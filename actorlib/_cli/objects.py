"""Shows what the object store of a runtime holds: ``actorlib objects``.

``Objects`` is the document that ``actorlib objects --json`` prints: its names are
promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from rich.console import Group
from rich.text import Text

from actorlib._cli.documents import write_document
from actorlib._cli.pages import console, in_time, printable
from actorlib._core.resources import format_bytes
from actorlib._core.tables import table
from actorlib._door.client import ask_loop, the_runtime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

_PATIENCE = 5.0


class ObjectFound(TypedDict):
    """Something that is kept; see ``actorlib.ObjectInfo``.

    ``id`` is empty for warm memory; ``nbytes`` and ``age`` are null where they are
    unknown; ``block`` is the id of the block that the value of a ref lies in, or empty.
    """

    id: str
    kind: Literal["block", "ref"]
    state: Literal["live", "pending", "warm"]
    nbytes: int | None
    age: float | None
    maker: str
    holders: dict[str, int]
    arguments_of: list[str]
    block: str


class Totals(TypedDict):
    """Bytes of shared memory: of values, kept warm, and the most that there may be."""

    live: int
    warm: int
    limit: int


class Objects(TypedDict):
    """What a runtime keeps; ``has_more`` says whether some of it was left out."""

    pid: int
    objects: list[ObjectFound]
    has_more: bool
    object_store: Totals


def show(
    *,
    as_json: bool,
    sort: Literal["size", "age"] = "size",
    limit: int = 50,
    pid: int | None = None,
) -> int:
    """Prints what the object store holds.

    Args:
        as_json: Whether to print one JSON document instead of a table.
        sort: Which come first.
        limit: How many are shown, 1 to 10,000.
        pid: The process of the runtime, if there are several.

    Returns:
        The exit code, 0.

    Raises:
        RuntimeNotFoundError: There is no such runtime.
        RuntimeUnreachableError: It does not answer.
        ValueError: The limit is above 10,000.
    """
    address = the_runtime(pid)
    told = ask_loop(address, "objects", patience=_PATIENCE, sort=sort, limit=limit)
    found = described(told)
    if as_json:
        write_document(found)
    else:
        console().print(draw(found), crop=False)
    return 0


def described(told: Mapping[str, Any]) -> Objects:
    """Makes the document of what a runtime has told."""
    return {
        "pid": told["pid"],
        "objects": [
            {
                "id": row["object_id"],
                "kind": row["kind"],
                "state": row["state"],
                "nbytes": row["nbytes"],
                "age": row["age"],
                "maker": row["maker"],
                "holders": row["holders"],
                "arguments_of": list(row["arguments_of"]),
                "block": row["block"],
            }
            for row in told["objects"]
        ],
        "has_more": told["has_more"],
        "object_store": told["object_store"],
    }


def draw(found: Objects) -> RenderableType:
    """Puts what is kept on a page for people."""
    found = printable(found)
    store = found["object_store"]
    totals = (
        f"Shared memory: {format_bytes(store['live'])} of values, "
        f"{format_bytes(store['warm'])} kept warm; the limit is "
        f"{format_bytes(store['limit'])}."
        if store["limit"]
        else "Nothing is shared: object_store_memory is 0."
    )
    if not found["objects"]:
        return Group(Text("The object store holds nothing."), Text(totals))
    # Ids of blocks are long, and no command asks for one: here they are numbered.
    numbers = {row["id"]: n for n, row in enumerate(found["objects"], 1)}
    rows = [
        (
            str(number),
            row["kind"],
            row["state"],
            _size(row, numbers),
            in_time(row["age"]),
            row["maker"],
            ", ".join(_counted(*holder) for holder in row["holders"].items()) or "-",
            ", ".join(row["arguments_of"]) or "-",
        )
        for number, row in enumerate(found["objects"], 1)
    ]
    made = table(
        ["", "kind", "state", "size", "age", "made by", "held by", "argument of"],
        rows,
        right={"", "size", "age"},
    )
    if not found["has_more"]:
        return Group(made, Text(totals))
    return Group(made, Text("More are not shown: -n says how many are."), Text(totals))


def _size(row: ObjectFound, numbers: Mapping[str, int]) -> str:
    """Says the size of a row, or in which of them its value lies."""
    if not row["block"]:
        return format_bytes(row["nbytes"])
    number = numbers.get(row["block"])
    return "in a block" if number is None else f"in {number}"


def _counted(holder: str, count: int) -> str:
    return f"{holder} ({count} times)" if count > 1 else holder
