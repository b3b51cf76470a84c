"""Puts the runtimes of this user on a page: what ``actorlib ps`` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from actorlib._cli.actor_columns import NOTHING, actor_table
from actorlib._cli.pages import in_time, printable
from actorlib._cli.runtime_words import heading, stuck_text
from actorlib._rows.tables import Column, table, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from actorlib._cli.listing import ClientStatus, Listing, RuntimeRow
    from actorlib._rows.snapshot import WorkerGroupInfo

_FUNCTIONS: list[Column[WorkerGroupInfo]] = [
    Column("functions that ask", lambda group: group.resources or "nothing"),
    Column("running", lambda group: str(group.running), is_number=True),
    Column("waiting", lambda group: str(group.waiting), is_number=True),
    Column("pids", lambda group: " ".join(map(str, group.pids)) or NOTHING),
]
_CLIENTS: list[Column[ClientStatus]] = [
    Column("clients", lambda client: str(client.pid), is_number=True),
    Column("since", lambda client: in_time(client.age), is_number=True),
    Column("program", lambda client: client.words or NOTHING),
]


def draw(listing: Listing, width: int) -> RenderableType:
    """Puts a listing on a page for people.

    Args:
        listing: What is shown.
        width: How many columns of text there are.
    """
    parts = (part for found in listing.runtimes for part in _runtime(found, width))
    return Group(*parts)


def _runtime(found: RuntimeRow, width: int) -> Iterable[RenderableType]:
    yield Text(printable(heading(found)), style="bold")
    if found.error:
        yield Text(printable(f"{found.error}\n"))
        return
    if found.stuck is not None:
        yield Text(printable(stuck_text(found.stuck)))
        return
    if found.actors:
        yield table_of(*actor_table(found.actors, width))
    else:
        yield Text("No actor lives.\n")
    if found.snapshot.worker_groups:
        yield table(_FUNCTIONS, printable(found.snapshot.worker_groups))
    if found.clients:
        yield table(_CLIENTS, printable(found.clients))
    yield from _reasons(found)


def _reasons(found: RuntimeRow) -> Iterable[RenderableType]:
    """Says who waits, for what, and who has it."""
    reasons = [actor.why for actor in found.actors if actor.why]
    if reasons:
        yield _lines("Who waits:", [f"  {why}" for why in reasons])
    # What has a reason of its own is told above.
    above = {actor.label for actor in found.actors if actor.why}
    in_line = found.snapshot.waiting
    others = [f"  {row}" for row in in_line if row.partition(": ")[0] not in above]
    if others:
        more = found.in_line_count - len(in_line)
        rest = [f"  and {more} more"] if more else []
        yield _lines("In line:", [*others, *rest])
    deaths = [
        f"  {actor.label}: {actor.death.splitlines()[0]}"
        for actor in found.actors
        if actor.death
    ]
    if deaths:
        yield _lines("How they ended:", deaths)


def _lines(head: str, lines: Sequence[str]) -> Text:
    return Text(printable("\n".join([head, *lines, ""])))
