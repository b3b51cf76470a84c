"""Draws devices that fill up, moment by moment, from lines of text.

    * three ask for half a GPU each
    GPU 0: m0 0.5, m1 0.5
    GPU 1: m2 0.5
    line: big 1

A moment begins with a star and its caption. ``line`` is the wait queue, in order.
"""

from __future__ import annotations

from typing import NamedTuple

from docs.building.svg import Canvas

_LABEL, _DEVICE, _ROW, _CAPTION = 60, 260, 34, 26
_GAP = 16
_WAITING = "line"
_COLOURS = 5


class Part(NamedTuple):
    """A share of a device, granted or requested.

    Attributes:
        name: The name of the actor.
        share: The fraction of a device.
    """

    name: str
    share: float


class Moment(NamedTuple):
    """The shares at one moment.

    Attributes:
        caption: The event before it.
        rows: The parts of each device by its name, and the wait queue.
    """

    caption: str
    rows: dict[str, list[Part]]


def read(source: str) -> list[Moment]:
    """Reads the lines.

    Raises:
        ValueError: A line is invalid, or the shares of a device exceed it.
    """
    moments: list[Moment] = []
    for line in filter(None, map(str.strip, source.splitlines())):
        if line.startswith("* "):
            moments.append(Moment(line[2:], {}))
            continue
        name, colon, text = line.partition(":")
        if not colon or not moments:
            raise ValueError(f"neither a caption nor a device: {line!r}")
        words = [part.rsplit(" ", 1) for part in text.split(",") if part.strip()]
        parts = [Part(actor.strip(), float(share)) for actor, share in words]
        if name != _WAITING and sum(part.share for part in parts) > 1:
            raise ValueError(f"more than a device: {line!r}")
        moments[-1].rows[name] = parts
    return moments


def draw(source: str) -> str:
    """Draws the lines of a block."""
    moments = read(source)
    names = [part.name for m in moments for row in m.rows.values() for part in row]
    colours = {name: n % _COLOURS for n, name in enumerate(dict.fromkeys(names))}
    canvas = Canvas()
    y = 8.0
    for moment in moments:
        canvas.text(8, y + 14, [moment.caption], of="start strong")
        y += _CAPTION
        devices = {n: parts for n, parts in moment.rows.items() if n != _WAITING}
        for name, parts in devices.items():
            canvas.text(8, y + 20, [name], of="start")
            canvas.box(_LABEL, y, _DEVICE, _ROW - 6, of="free")
            _fill(canvas, _LABEL, y, parts, colours)
            y += _ROW
        waiting = moment.rows.get(_WAITING, [])
        if waiting:
            left = _LABEL + _DEVICE + 40
            top = y - _ROW * len(devices)
            canvas.text(left, top + 20, ["waits:"], of="start")
            _fill(canvas, left + 50, top, waiting, colours)
        y += _GAP
    return canvas.picture("; ".join(line.strip("* ") for line in source.splitlines()))


def _fill(
    canvas: Canvas, x: float, y: float, parts: list[Part], colours: dict[str, int]
) -> None:
    for part in parts:
        width = part.share * _DEVICE
        canvas.box(x, y, width, _ROW - 6, of=f"share c{colours[part.name]}")
        canvas.text(x + width / 2, y + 19, [f"{part.name} ({part.share:g})"])
        x += width
