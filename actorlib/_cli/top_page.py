"""Lays out the page of ``actorlib top``: lines of text, made of values alone."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple

from actorlib._cli.actor_columns import NOTHING, actor_columns, in_rate
from actorlib._cli.pages import plain_lines
from actorlib._cli.runtime_words import heading, stuck_text
from actorlib._cli.top_figures import (
    all_actors,
    bar,
    device_lines,
    is_answering,
    sparkline,
)
from actorlib._cli.top_screen import SORT_KEYS, selected, settled
from actorlib._core.resources import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from actorlib._cli.device_meters import DeviceMeter
    from actorlib._cli.listing import ActorFound, Listing, RuntimeFound
    from actorlib._cli.top_figures import DeviceLine, Rates
    from actorlib._cli.top_screen import Screen

_MOST_DEVICES = 8
_MOST_REASONS = 4
_STUCK_LINES = 6
_BAR = 10
_SPARK = 60


class Line(NamedTuple):
    """A line of the page; ``style`` is one of rich's, or empty."""

    text: str
    style: str = ""


class View(NamedTuple):
    """What is known at one look.

    Attributes:
        listing: The runtimes.
        rates: Calls a second since the look before.
        history: Calls a second of each runtime at the last looks, by its pid.
        meters: What NVML says of devices.
        remarks: What there is to say besides.
    """

    listing: Listing
    rates: Rates
    history: Mapping[int, Sequence[float]]
    meters: Sequence[DeviceMeter]
    remarks: Sequence[str] = ()


class Page(NamedTuple):
    """A page.

    Attributes:
        lines: Its lines.
        screen: The state of the screen, moved to where the rows fill the page.
        rows: How many actors have room at once.
    """

    lines: list[Line]
    screen: Screen
    rows: int


def page(
    view: View,
    screen: Screen,
    width: int | None,
    height: int | None = None,
    *,
    is_plain: bool = False,
) -> Page:
    """Lays out a page.

    Args:
        view: What is shown.
        screen: What the user wants to see of it.
        width: How many columns of text there are; None for as many as it takes.
        height: How many lines there are; None for as many as it takes, and without
            the words for who presses keys.
        is_plain: Whether ASCII has to do.
    """
    top = list(_above(view, width, height, is_plain=is_plain))
    bottom = list(_below(view, screen, height))
    actors = selected(screen, all_actors(view.listing), view.rates.actors)
    rows = len(actors) if height is None else max(1, height - len(top + bottom) - 1)
    screen = settled(screen, len(actors), rows)
    shown = slice(screen.first, screen.first + rows)
    table = _table(view, actors, shown, width)
    if height is not None:  # what is below stays at the bottom
        table += [Line("")] * (rows + 1 - len(table))
    return Page([*top, *table, *bottom], screen, rows)


def _above(
    view: View, width: int | None, height: int | None, *, is_plain: bool
) -> Iterator[Line]:
    for found in view.listing["runtimes"]:
        yield from _heading(found, width)
        if not is_answering(found):
            yield from _silent(found)
            continue
        rate = in_rate(view.rates.runtimes.get(found["pid"]))
        values = view.history.get(found["pid"], ())
        room = _SPARK if width is None else min(_SPARK, width - 20)
        spark = sparkline(values, room, is_plain=is_plain)
        yield Line(f"{rate:>6} calls/s  {spark}", "cyan")
    lines = device_lines(view.listing["runtimes"], view.meters)
    lines.sort(key=lambda line: not line.granted)  # those in use before the others
    most = _MOST_DEVICES if height is None else min(_MOST_DEVICES, height // 4)
    for line in lines[:most]:
        yield Line(_device(line, is_plain=is_plain))
    if len(lines) > most:
        yield Line(f"and {len(lines) - most} devices more")


def _heading(found: RuntimeFound, width: int | None) -> Iterator[Line]:
    """Says what a runtime is; in two lines where that takes more than one."""
    said = heading(found)
    wrapped = [said] if width is None else textwrap.wrap(said, max(1, width))
    first, rest = wrapped[:1], said[len(wrapped[0]) :].strip()
    yield from (Line(text, "bold") for text in (*first, rest) if text)


def _silent(found: RuntimeFound) -> Iterator[Line]:
    if found["error"]:
        yield Line(found["error"], "red")
    elif found["stuck"] is not None:
        lines = stuck_text(found["stuck"]).rstrip().splitlines()
        # Where it stands is told at the end.
        rest = lines[1:] if len(lines) <= _STUCK_LINES else lines[1 - _STUCK_LINES :]
        yield from (Line(text, "red") for text in (lines[0], *rest))


def _device(line: DeviceLine, *, is_plain: bool) -> str:
    device, meter = line.device, line.meter
    name = "logical" if device["is_logical"] else device["model"] or "unknown model"
    held = f"{bar(line.granted, _BAR, is_plain=is_plain)} {line.granted:.0%} granted"
    parts = [f"{device['kind']} {device['id'][:12]} {held}"]
    if meter is not None:
        busy = NOTHING if meter["busy"] is None else f"{meter['busy']}%"
        parts.append(f"busy {busy}")
        if meter["used"] is not None:
            parts.append(
                f"{format_bytes(meter['used'])} of {format_bytes(meter['total'])}"
            )
    elif device["nbytes"] is not None:
        parts.append(format_bytes(device["nbytes"]))
    return ", ".join([*parts, name])


def _table(
    view: View, actors: Sequence[ActorFound], shown: slice, width: int | None
) -> list[Line]:
    runtimes = view.listing["runtimes"]
    if not actors:
        everyone = any(found["actors"] for found in runtimes)
        said = "No actor has that in it." if everyone else "No actor lives."
        return [Line(said if any(map(is_answering, runtimes)) else "")]
    owners = None
    if len(runtimes) > 1:
        owners = {a["id"]: found["pid"] for found in runtimes for a in found["actors"]}
    # Widths are those of all rows, so that columns stay where they are.
    made = actor_columns(actors, width, view.rates.actors, owners)
    head, *rows = plain_lines(
        made.names, made.rows[shown], made.right, made.widths, is_kept=True
    )
    return [Line(head, "reverse"), *(Line(row) for row in rows)]


def _below(view: View, screen: Screen, height: int | None) -> Iterator[Line]:
    reasons = [actor["why"] for actor in all_actors(view.listing) if actor["why"]]
    most = len(reasons) if height is None else min(_MOST_REASONS, height // 6)
    for why in reasons[:most]:
        first, *rest = why.splitlines()
        yield Line(f"waits: {first}{' ...' if rest else ''}", "yellow")
    if len(reasons) > most:
        yield Line(f"and {len(reasons) - most} wait besides", "yellow")
    yield from (Line(remark, "red") for remark in view.remarks)
    if height is not None:
        yield Line(_keys(screen), "dim")


def _keys(screen: Screen) -> str:
    if screen.is_typing:
        return f"filter: {screen.needle}_  (Enter keeps it, Esc drops it)"
    needle = f" {screen.needle!r} (Esc drops it)" if screen.needle else ""
    sorts = ", ".join(f"{key} {name}" for name, key in SORT_KEYS.items())
    turned = " reversed" if screen.is_reversed else ""
    return f"by {screen.sort}{turned}; q quit, / filter{needle}; {sorts}"
