"""Lays out runtimes as tables, for ``actorlib ps``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from actorlib._cli.actor_columns import NOTHING, actor_table
from actorlib._cli.listing import heading, stuck_text
from actorlib._cli.pages import in_time, printable
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
    """Lays out a listing for a page of a width in characters."""
    parts = (part for runtime in listing.runtimes for part in _runtime(runtime, width))
    return Group(*parts)


def _runtime(runtime: RuntimeRow, width: int) -> Iterable[RenderableType]:
    yield Text(printable(heading(runtime)), style="bold")
    if runtime.error:
        yield Text(printable(f"{runtime.error}\n"))
        return
    if runtime.stuck is not None:
        yield Text(printable(stuck_text(runtime.stuck)))
        return
    if runtime.actors:
        yield table_of(*actor_table(runtime.actors, width))
    else:
        yield Text("No actor lives.\n")
    if runtime.snapshot.worker_groups:
        yield table(_FUNCTIONS, printable(runtime.snapshot.worker_groups))
    if runtime.clients:
        yield table(_CLIENTS, printable(runtime.clients))
    yield from _reasons(runtime)


def _reasons(runtime: RuntimeRow) -> Iterable[RenderableType]:
    reasons = [actor.why for actor in runtime.actors if actor.why]
    if reasons:
        yield _lines("Waiting:", [f"  {why}" for why in reasons])
    # Actors with a reason of their own are listed already.
    above = tuple(f"{actor.label}: " for actor in runtime.actors if actor.why)
    in_line = runtime.snapshot.waiting
    others = [f"  {row}" for row in in_line if not row.startswith(above)]
    if others:
        more = runtime.in_line_count - len(in_line)
        rest = [f"  and {more} more"] if more else []
        yield _lines("In line:", [*others, *rest])
    deaths = [
        f"  {actor.label}: {actor.death.splitlines()[0]}"
        for actor in runtime.actors
        if actor.death
    ]
    if deaths:
        yield _lines("How they ended:", deaths)


def _lines(head: str, lines: Sequence[str]) -> Text:
    return Text(printable("\n".join([head, *lines, ""])))
