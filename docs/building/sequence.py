"""Draws the messages between processes, one after another, from lines of text.

    program, owner, worker
    program -> owner: ping.remote(1)
    owner: finds the worker
    owner --> program: a ref, at once

The first line names the processes from left to right. ``->`` is a message, ``-->`` one
without a wait, and a line with one name is an event in that process.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from docs.building.svg import LINE, Canvas, wrapped

_TOP, _SIDE, _BOX = 8, 8, 30
_WIDTH = 680
_GAP = 14


class Step(NamedTuple):
    """A message, or an event in one process.

    Attributes:
        sender: The number of the sender from the left.
        receiver: The number of the receiver; for an event the sender itself.
        text: The text.
        is_aside: Whether no process waits for it.
    """

    sender: int
    receiver: int
    text: str
    is_aside: bool


def read(source: str) -> tuple[list[str], list[Step]]:
    """Reads the lines: the names, and the steps.

    Raises:
        ValueError: A line is invalid, or has an unknown name.
    """
    first, *rest = [line.strip() for line in source.splitlines() if line.strip()]
    names = [name.strip() for name in first.split(",")]
    steps: list[Step] = []
    for line in rest:
        match = re.fullmatch(r"([^:]*?)(?: (--?>) ([^:]*?))?: (.*)", line)
        if match is None or {match[1], match[3] or match[1]} - {*names}:
            raise ValueError(f"no step of {', '.join(names)}: {line!r}")
        sender, receiver = names.index(match[1]), names.index(match[3] or match[1])
        steps.append(Step(sender, receiver, match[4], match[2] == "-->"))
    return names, steps


def draw(source: str) -> str:
    """Draws the lines of a block."""
    names, steps = read(source)
    column = (_WIDTH - 2 * _SIDE) / len(names)
    places = [_SIDE + column * (number + 0.5) for number in range(len(names))]
    canvas = Canvas()
    y = float(_TOP + _BOX + _GAP)
    rows: list[tuple[Step, list[str], float]] = []
    for step in steps:
        reach = max(abs(step.receiver - step.sender), 1) * column
        lines = wrapped(step.text, reach - (24 if step.receiver != step.sender else 20))
        rows.append((step, lines, y))
        y += len(lines) * LINE + _GAP + (8 if step.receiver != step.sender else 12)
    for name, x in zip(names, places, strict=True):
        canvas.line((x, _TOP + _BOX), (x, y), of="life")
        canvas.box(x - column / 2 + 10, _TOP, column - 20, _BOX, of="name")
        canvas.text(x, _TOP + 20, [name], of="middle strong")
    for step, lines, top in rows:
        start, end = places[step.sender], places[step.receiver]
        height = len(lines) * LINE
        if start == end:
            canvas.box(start - column / 2 + 6, top, column - 12, height + 10, of="note")
            canvas.text(start, top + LINE, lines)
        else:
            canvas.text((start + end) / 2, top + LINE - 6, lines, of="middle halo")
            of = "arrow aside" if step.is_aside else "arrow"
            canvas.line((start, top + height + 4), (end, top + height + 4), of=of)
    return canvas.picture("; ".join(source.splitlines()[1:]))
