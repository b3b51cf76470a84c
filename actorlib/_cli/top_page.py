"""Lays out the page of ``actorlib top``, made of values alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.console import Group
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from actorlib._cli.actor_columns import NOTHING, actor_table, in_rate
from actorlib._cli.listing import heading, stuck_text
from actorlib._cli.pages import printable
from actorlib._cli.top_figures import (
    all_actors,
    device_lines,
    sparkline,
)
from actorlib._cli.top_screen import SORT_KEYS, selected, settled
from actorlib._options.resources import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from actorlib._cli.listing import RuntimeRow
    from actorlib._cli.top_figures import DeviceLine, Sample
    from actorlib._cli.top_screen import Screen
    from actorlib._queries.rows import ActorStatus

_MOST_DEVICES = 8
_MOST_REASONS = 4
_STUCK_LINES = 6
_BAR = 10
_SPARK = 60


class Page(NamedTuple):
    """A page, and the number of actors that have room at once.

    Attributes:
        screen: The state of the screen, moved to where the rows fill the page.
    """

    content: RenderableType
    screen: Screen
    rows: int


def page(
    sample: Sample, screen: Screen, out: Console, height: int | None = None
) -> Page:
    """Lays out a page.

    Args:
        sample: What is shown.
        screen: The state of the screen.
        out: Where it is drawn.
        height: The number of lines; None for as many as needed, without the list of
            the keys.
    """
    top = Group(*_above(sample, out, height))
    bottom = Group(*_below(sample, screen, height))
    actors = selected(screen, all_actors(sample.listing))
    if height is None:
        rows = len(actors)
    else:
        rows = height - sum(len(out.render_lines(part)) for part in (top, bottom)) - 1
        rows = max(1, rows)
    screen = settled(screen, len(actors), rows)
    visible = slice(screen.first, screen.first + rows)
    # What is below stays at the bottom.
    blank = rows - len(actors[visible])
    table = _table(sample, actors, visible, out.width)
    table = Padding(table, (0, 0, blank, 0), expand=False)
    return Page(Group(top, table, bottom), screen, rows)


def _above(
    sample: Sample, out: Console, height: int | None
) -> Iterator[RenderableType]:
    for runtime in sample.listing.runtimes:
        yield Text(printable(heading(runtime)), "bold")
        if not runtime.is_answering:
            yield from _silent(runtime)
            continue
        rate = in_rate(sample.rates.runtimes.get(runtime.pid))
        values = sample.history.get(runtime.pid, ())
        room = min(_SPARK, out.width - 20)
        spark = sparkline(values, room, is_plain=out.options.ascii_only)
        yield _line(f"{rate:>6} calls/s  {spark}", "cyan")
    lines = device_lines(sample.listing.runtimes, sample.meters)
    lines.sort(key=lambda line: not line.granted)  # those in use before the others
    most = _MOST_DEVICES if height is None else min(_MOST_DEVICES, height // 4)
    devices = Table.grid(padding=(0, 1))
    for line in lines[:most]:
        name = printable(f"{line.device.kind} {line.device.device[:12]}")
        bar = ProgressBar(total=1, completed=line.granted, width=_BAR)
        devices.add_row(name, bar, _line(_device(line)))
    if lines:
        yield devices
    if len(lines) > most:
        yield _line(f"and {len(lines) - most} devices more")


def _line(text: str, style: str = "") -> Text:
    return Text(printable(text), style, no_wrap=True, overflow="ellipsis")


def _silent(runtime: RuntimeRow) -> Iterator[Text]:
    if runtime.error:
        yield _line(runtime.error, "red")
    elif runtime.stuck is not None:
        lines = stuck_text(runtime.stuck).rstrip().splitlines()
        # The latest calls are at the end.
        rest = lines[1:] if len(lines) <= _STUCK_LINES else lines[1 - _STUCK_LINES :]
        yield from (_line(text, "red") for text in (lines[0], *rest))


def _device(line: DeviceLine) -> str:
    device, meter = line.device, line.meter
    name = "logical" if device.is_logical else device.model or "unknown model"
    parts = [f"{line.granted:.0%} granted"]
    if meter is not None:
        busy = NOTHING if meter.busy is None else f"{meter.busy}%"
        parts.append(f"busy {busy}")
        if meter.used is not None:
            used, total = format_bytes(meter.used), format_bytes(meter.total)
            parts.append(f"{used} of {total}")
    elif device.nbytes is not None:
        parts.append(format_bytes(device.nbytes))
    return ", ".join([*parts, name])


def _table(
    sample: Sample, actors: Sequence[ActorStatus], visible: slice, width: int
) -> RenderableType:
    runtimes = sample.listing.runtimes
    if not actors:
        everyone = any(runtime.actors for runtime in runtimes)
        text = "No actor has that in it." if everyone else "No actor lives."
        return _line(text if any(runtime.is_answering for runtime in runtimes) else "")
    owners = None
    if len(runtimes) > 1:
        owners = {
            a.actor_id: runtime.pid for runtime in runtimes for a in runtime.actors
        }
    # The columns fit for all rows, so that scrolling does not change them.
    columns, cells = actor_table(actors, width, owners, has_rates=True)
    result = Table(box=None, padding=(0, 2, 0, 0), header_style="reverse")
    for column in columns:
        result.add_column(
            column.heading,
            justify="right" if column.is_number else "left",
            no_wrap=column.is_number,
        )
    for row in cells[visible]:
        result.add_row(*map(_line, row))
    return result


def _below(sample: Sample, screen: Screen, height: int | None) -> Iterator[Text]:
    reasons = [actor.why for actor in all_actors(sample.listing) if actor.why]
    most = len(reasons) if height is None else min(_MOST_REASONS, height // 6)
    for why in reasons[:most]:
        first, *rest = why.splitlines()
        yield _line(f"waits: {first}{' ...' if rest else ''}", "yellow")
    if len(reasons) > most:
        yield _line(f"and {len(reasons) - most} wait besides", "yellow")
    yield from (_line(remark, "red") for remark in sample.remarks)
    if height is not None:
        yield _line(_keys(screen), "dim")


def _keys(screen: Screen) -> str:
    if screen.is_typing:
        return f"filter: {screen.needle}_  (Enter keeps it, Esc drops it)"
    needle = f" {screen.needle!r} (Esc drops it)" if screen.needle else ""
    sorts = ", ".join(f"{key} {name}" for name, key in SORT_KEYS.items())
    turned = " reversed" if screen.is_reversed else ""
    return f"by {screen.sort}{turned}; q quit, / filter{needle}; {sorts}"
