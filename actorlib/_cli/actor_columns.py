"""Makes columns of actors, as many as there is room for.

Texts may be folded, down to a width at which they can be read. Where that is not
enough, the least important columns are left out, so that no number is ever broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from actorlib._cli.pages import id_endings, in_time
from actorlib._core.resources import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actorlib._cli.listing import ActorFound

    Cell = Callable[[ActorFound], str]

NOTHING = "-"
_FOLDED = 16
"""As wide a column of text is left, before others are left out for it."""
_GAP = 2
"""Columns of text between two of the table."""


class Columns(NamedTuple):
    """A table of actors.

    Attributes:
        names: The headings.
        rows: The cells, row by row.
        right: The columns that are numbers.
    """

    names: tuple[str, ...]
    rows: list[tuple[str, ...]]
    right: frozenset[str]


_DROPPED = (
    "enforced",
    "restarts",
    "age",
    "id",
    "on device",
    "running",
    "devices",
    "rss",
    "pss",
    "cpu%",
    "waiting",
    "runtime",
    "calls/s",
    "state",
)
"""What is left out first, and then; an actor and its pid are always there."""
_TEXTS = frozenset({"actor", "devices", "on device"})
_RIGHT = frozenset(
    {
        "runtime",
        "pid",
        "cpu%",
        "pss",
        "rss",
        "running",
        "waiting",
        "calls/s",
        "restarts",
        "age",
    }
)


def actor_columns(
    actors: Sequence[ActorFound],
    width: int,
    rates: Mapping[str, float] | None = None,
    owners: Mapping[str, int] | None = None,
) -> Columns:
    """Makes a table of actors.

    Args:
        actors: Its rows.
        width: How many columns of text there are.
        rates: Calls a second by the id of the actor, if that is to be shown.
        owners: The pid of its runtime by the id of the actor, if that is to be shown.
    """
    cells = _cells(actors, rates)
    if owners is not None:
        first: dict[str, Cell] = {"runtime": lambda actor: str(owners[actor["id"]])}
        cells = first | cells
    if not any(a["device_nbytes"] or a["device_memory"] for a in actors):
        del cells["on device"]
    if not any(actor["enforced_by"] for actor in actors):
        del cells["enforced"]
    made = {name: [cell(actor) for actor in actors] for name, cell in cells.items()}
    widths = {
        name: max(len(name), *map(len, column)) if column else len(name)
        for name, column in made.items()
    }
    names = _fitting(widths, width)
    return Columns(
        names=names,
        rows=list(zip(*(made[name] for name in names), strict=True)),
        right=_RIGHT.intersection(names),
    )


def _cells(
    actors: Sequence[ActorFound], rates: Mapping[str, float] | None
) -> dict[str, Cell]:
    endings = id_endings([actor["id"] for actor in actors])
    is_fair = any(actor["pss"] is not None for actor in actors)
    cells: dict[str, Cell] = {
        "id": lambda actor: endings[actor["id"]],
        "actor": lambda actor: actor["label"],
        "pid": lambda actor: str(actor["pid"] or NOTHING),
        "state": lambda actor: actor["state"],
        "devices": _devices,
        "on device": on_device,
        "enforced": lambda actor: actor["enforced_by"] or NOTHING,
        "cpu%": lambda a: NOTHING if a["cpu"] is None else f"{a['cpu']:.0f}",
    }
    if is_fair:
        cells["pss"] = lambda actor: format_bytes(actor["pss"])
    else:
        cells["rss"] = lambda actor: format_bytes(actor["rss"])
    if rates is not None:
        cells["calls/s"] = lambda actor: in_rate(rates.get(actor["id"]))
    rest: dict[str, Cell] = {
        "running": lambda a: NOTHING if a["running"] is None else str(a["running"]),
        "waiting": lambda a: str(waiting_calls(a)),
        "restarts": lambda actor: str(actor["restarts"]),
        "age": lambda actor: in_time(actor["age"]),
    }
    return cells | rest


def waiting_calls(actor: ActorFound) -> int:
    """Counts the calls that wait; all of them where it is unknown which run."""
    return actor["pending"] if actor["waiting"] is None else actor["waiting"]


def on_device(actor: ActorFound) -> str:
    """Says how many bytes of its devices are in use, of those that it was granted."""
    granted, used = actor["device_nbytes"], actor["device_memory"]
    if not granted and not used:
        return NOTHING
    has = format_bytes(sum(used.values())) if used else NOTHING
    known = [nbytes for nbytes in granted.values() if nbytes is not None]
    if len(known) < len(granted) or not known:
        return has
    return f"{has} of {format_bytes(sum(known))}"


def in_rate(rate: float | None) -> str:
    """Says a number a second in few digits: ``0.5``, ``12``, ``3.4k``."""
    if rate is None:
        return NOTHING
    for unit in ("", "k", "M"):
        if rate < 999.5 or unit == "M":
            return f"{rate:.1f}{unit}" if 0 < rate < 9.95 else f"{rate:.0f}{unit}"
        rate /= 1000
    raise AssertionError


def _devices(actor: ActorFound) -> str:
    parts = [f"{device[:12]} ({part:g})" for device, part in actor["devices"].items()]
    return ", ".join(parts) or NOTHING


def _fitting(widths: Mapping[str, int], width: int) -> tuple[str, ...]:
    """Names the columns that have room, texts folded."""
    room = {
        name: min(needed, _FOLDED) if name in _TEXTS else needed
        for name, needed in widths.items()
    }
    for name in _DROPPED:
        if sum(room.values()) + _GAP * len(room) + 1 <= width:
            break
        room.pop(name, None)
    return tuple(room)
