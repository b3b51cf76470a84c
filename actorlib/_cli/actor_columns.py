"""The columns of actors that fit into a width.

Texts may be folded, down to a readable width. If that is not enough, the least
important columns are left out, so that no number is ever broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from actorlib._cli.pages import id_endings, in_time, printable
from actorlib._options.resources import format_bytes
from actorlib._rows.tables import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actorlib._queries.rows import ActorStatus

NOTHING = "-"
_FOLDED = 16
"""The least width of a folded column; below it, other columns are left out."""
_GAP = 2
"""Columns of text between two of the table."""
_TEXTS = frozenset({"actor", "devices", "on device"})
"""The columns that may be folded."""
_ALWAYS = 100
"""The importance of the columns that are never left out."""


class ActorTable(NamedTuple):
    """The columns of a table of actors that fit, and their printable cells by row."""

    columns: list[Column[ActorStatus]]
    cells: list[tuple[str, ...]]


def actor_table(
    actors: Sequence[ActorStatus],
    width: int,
    owners: Mapping[str, int] | None = None,
    *,
    has_rates: bool = False,
) -> ActorTable:
    """Makes a table of actors for a page of a width in characters.

    Args:
        actors: Its rows.
        width: The width.
        owners: The pid of the runtime by the id of the actor, to show it.
        has_rates: Whether to show calls per second.
    """
    columns = _columns(actors, owners, has_rates=has_rates)
    cells = {
        column: [printable(str(column.cell(actor))) for actor in actors]
        for column in columns
    }
    fitting = _fitting(cells, width)
    rows = list(zip(*(cells[column] for column in fitting), strict=True))
    return ActorTable(fitting, rows)


def _columns(
    actors: Sequence[ActorStatus],
    owners: Mapping[str, int] | None,
    *,
    has_rates: bool,
) -> list[Column[ActorStatus]]:
    endings = id_endings([actor.actor_id for actor in actors])
    has_devices = any(one.device_nbytes or one.device_memory for one in actors)
    if any(actor.process.pss is not None for actor in actors):
        memory = _number("pss", lambda actor: format_bytes(actor.process.pss), 9)
    else:
        memory = _number("rss", lambda actor: format_bytes(actor.process.rss), 8)
    of_runtime = owners or {}
    columns = {
        _number("runtime", lambda one: str(of_runtime[one.actor_id]), 12): bool(owners),
        _text("id", lambda actor: endings[actor.actor_id], 4): True,
        _text("actor", lambda actor: actor.label, _ALWAYS): True,
        _number("pid", lambda actor: str(actor.pid or NOTHING), _ALWAYS): True,
        _text("state", lambda actor: actor.state, 14): True,
        _text("devices", _devices, 7): True,
        _text("on device", on_device, 5): has_devices,
        _text("enforced", lambda actor: actor.enforced_by or NOTHING, 1): any(
            actor.enforced_by for actor in actors
        ),
        _number("cpu%", lambda actor: in_percent(actor.process.cpu), 10): True,
        memory: True,
        _number("calls/s", lambda actor: in_rate(actor.rate), 13): has_rates,
        _number("running", lambda actor: in_count(actor.running_calls), 6): True,
        _number("waiting", lambda actor: str(waiting_calls(actor)), 11): True,
        _number("restarts", lambda actor: str(actor.restarts), 2): True,
        _number("age", lambda actor: in_time(actor.age), 3): True,
    }
    return [column for column, is_shown in columns.items() if is_shown]


def _text(
    heading: str, cell: Callable[[ActorStatus], str], importance: int
) -> Column[ActorStatus]:
    return Column(heading, cell, importance=importance)


def _number(
    heading: str, cell: Callable[[ActorStatus], str], importance: int
) -> Column[ActorStatus]:
    return Column(heading, cell, is_number=True, importance=importance)


def waiting_calls(actor: ActorStatus) -> int:
    """Counts the waiting calls, or all calls if the running ones are unknown."""
    waiting = actor.waiting_calls
    return actor.pending_calls if waiting is None else waiting


def on_device(actor: ActorStatus) -> str:
    """Describes the bytes in use on its devices, of those that it was granted."""
    granted, used = actor.device_nbytes, actor.device_memory
    if not granted and not used:
        return NOTHING
    has = format_bytes(sum(used.values())) if used else NOTHING
    sizes = [nbytes for nbytes in granted.values() if nbytes is not None]
    if len(sizes) < len(granted) or not sizes:
        return has
    return f"{has} of {format_bytes(sum(sizes))}"


def in_count(count: int | None) -> str:
    return NOTHING if count is None else str(count)


def in_percent(part: float | None) -> str:
    return NOTHING if part is None else f"{part:.0f}"


def in_rate(rate: float | None) -> str:
    """Formats a rate with few digits: ``0.5``, ``12``, ``3.4k``."""
    if rate is None:
        return NOTHING
    for unit in ("", "k", "M"):
        if rate < 999.5 or unit == "M":
            return f"{rate:.1f}{unit}" if 0 < rate < 9.95 else f"{rate:.0f}{unit}"
        rate /= 1000
    raise AssertionError


def _devices(actor: ActorStatus) -> str:
    parts = [f"{device[:12]} ({part:g})" for device, part in actor.devices.items()]
    return ", ".join(parts) or NOTHING


def _fitting(
    cells: Mapping[Column[ActorStatus], Sequence[str]], width: int
) -> list[Column[ActorStatus]]:
    room: dict[Column[ActorStatus], int] = {}
    for column, texts in cells.items():
        needed = max(map(len, (column.heading, *texts)))
        room[column] = min(needed, _FOLDED) if column.heading in _TEXTS else needed
    for column in sorted(cells, key=lambda column: column.importance):
        is_enough = sum(room.values()) + _GAP * len(room) + 1 <= width
        if is_enough or column.importance == _ALWAYS:
            break
        del room[column]
    return list(room)
