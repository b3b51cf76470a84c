"""Puts the runtimes of this user on a page: what ``actorlib ps`` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from actorlib._cli.actor_columns import NOTHING, actor_columns
from actorlib._cli.pages import in_time, printable
from actorlib._cli.runtime_words import heading, stuck_text
from actorlib._core.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from actorlib._cli.listing import FunctionsFound, Listing, RuntimeFound


def draw(listing: Listing, width: int) -> RenderableType:
    """Puts a listing on a page for people.

    Args:
        listing: What is shown.
        width: How many columns of text there are.
    """
    runtimes = printable(listing["runtimes"])
    return Group(*(part for found in runtimes for part in _runtime(found, width)))


def _runtime(found: RuntimeFound, width: int) -> Iterable[RenderableType]:
    yield Text(heading(found), style="bold")
    if found["error"]:
        yield Text(f"{found['error']}\n")
        return
    if found["stuck"] is not None:
        yield Text(stuck_text(found["stuck"]))
        return
    if found["actors"]:
        yield table(*actor_columns(found["actors"], width))
    else:
        yield Text("No actor lives.\n")
    if found["functions"]:
        yield _functions(found["functions"])
    if found["clients"]:
        rows = [
            (str(client["pid"]), in_time(client["age"]), client["program"] or NOTHING)
            for client in found["clients"]
        ]
        yield table(["clients", "since", "program"], rows, right={"clients", "since"})
    yield from _reasons(found)


def _functions(groups: Sequence[FunctionsFound]) -> RenderableType:
    rows = [
        (
            group["resources"] or "nothing",
            str(group["running"]),
            str(group["waiting"]),
            " ".join(map(str, group["pids"])) or NOTHING,
        )
        for group in groups
    ]
    return table(
        ["functions that ask", "running", "waiting", "pids"],
        rows,
        right={"running", "waiting"},
    )


def _reasons(found: RuntimeFound) -> Iterable[RenderableType]:
    """Says who waits, for what, and who has it."""
    said = [actor["why"] for actor in found["actors"] if actor["why"]]
    if said:
        yield Text("\n".join(["Who waits:", *(f"  {why}" for why in said), ""]))
    # What has a reason of its own is told above.
    told = {actor["label"] for actor in found["actors"] if actor["why"]}
    others = [f"  {w}" for w in found["in_line"] if w.partition(": ")[0] not in told]
    if others:
        more = found["in_line_count"] - len(found["in_line"])
        rest = [f"  and {more} more"] if more else []
        yield Text("\n".join(["In line:", *others, *rest, ""]))
    deaths = [
        f"  {actor['label']}: {actor['death'].splitlines()[0]}"
        for actor in found["actors"]
        if actor["death"]
    ]
    if deaths:
        yield Text("\n".join(["How they ended:", *deaths, ""]))
