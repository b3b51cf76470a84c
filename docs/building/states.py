"""Draws states and the transitions between them, from lines of text.

    pending   starting   alive
    dead      .          draining
    pending -> starting: its share is there

The lines before the first arrow are the rows of the picture; a dot is an empty place.
"""

from __future__ import annotations

import re

from docs.building.svg import LINE, Canvas, wrapped

_BOX_WIDTH, _BOX_HEIGHT = 96, 34
_WIDTH, _ROW = 680, 130
_STEP = 250
"""The least distance of two columns: texts are written between them."""
_SIDE = 8
_APART = 7
"""Half of the distance of two arrows between the same states."""

Point = tuple[float, float]


def read(source: str) -> tuple[dict[str, tuple[int, int]], list[tuple[str, str, str]]]:
    """Reads the lines: the column and row of each state, and the arrows.

    Raises:
        ValueError: An arrow begins or ends at an unknown state.
    """
    places: dict[str, tuple[int, int]] = {}
    arrows: list[tuple[str, str, str]] = []
    rows = 0
    for line in filter(None, map(str.strip, source.splitlines())):
        match = re.fullmatch(r"(\w+) -> (\w+): (.*)", line)
        if match is None:
            words = enumerate(line.split())
            places |= {word: (x, rows) for x, word in words if word != "."}
            rows += 1
        elif {match[1], match[2]} <= places.keys():
            arrows.append((match[1], match[2], match[3]))
        else:
            raise ValueError(f"an arrow between unknown states: {line!r}")
    return places, arrows


def draw(source: str) -> str:
    """Draws the lines of a block."""
    places, arrows = read(source)
    columns = 1 + max(x for x, _ in places.values())
    room = _WIDTH - 2 * _SIDE - _BOX_WIDTH
    step = max(room / max(columns - 1, 1), _STEP)
    centres = {
        name: (_SIDE + _BOX_WIDTH / 2 + x * step, _SIDE + 40 + y * _ROW)
        for name, (x, y) in places.items()
    }
    pairs = {(a, b) for a, b, _ in arrows}
    canvas = Canvas()
    for start, end, text in arrows:
        shift = _APART if (end, start) in pairs else 0
        _arrow(canvas, centres[start], centres[end], text, shift)
    for name, (x, y) in centres.items():
        left, top = x - _BOX_WIDTH / 2, y - _BOX_HEIGHT / 2
        canvas.box(left, top, _BOX_WIDTH, _BOX_HEIGHT, of="name")
        canvas.text(x, y + 5, [name], of="middle strong")
    return canvas.picture("; ".join(f"{a} to {b}: {text}" for a, b, text in arrows))


def _arrow(canvas: Canvas, start: Point, end: Point, text: str, shift: float) -> None:
    """Draws an arrow between the edges of two boxes, with its text beside it."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = (dx * dx + dy * dy) ** 0.5
    aside = (-dy / length * shift, dx / length * shift)
    tail = _edge(start, (dx, dy), aside)
    head = _edge(end, (-dx, -dy), aside)
    canvas.line(tail, head, of="arrow")
    x, y = (tail[0] + head[0]) / 2, (tail[1] + head[1]) / 2
    if abs(dy) < 1:
        lines = wrapped(text, abs(dx) - _BOX_WIDTH - 8)
        below = (dx < 0) is not bool(shift)  # of two, each is on its line's side
        canvas.text(x, y + (18 if below else 4 - LINE * len(lines) - 2 + 8), lines)
    elif abs(dx) < 1:
        right = dy < 0 or not shift
        lines = wrapped(text, 90)
        top = y - (len(lines) - 1) * LINE / 2 + 4
        canvas.text(
            tail[0] + (8 if right else -8),
            top,
            lines,
            of="start halo" if right else "end halo",
        )
    else:
        lines = wrapped(text, 150)
        if abs(dy) <= _ROW:  # nearer to where it begins: it may cross another
            x, y = x - 0.1 * (head[0] - tail[0]), y - 0.1 * dy
        top = y - (len(lines) - 1) * LINE / 2 + 4
        canvas.text(x, top, lines, of="middle halo")


def _edge(centre: Point, towards: Point, aside: Point) -> Point:
    """Returns the point where a line from the centre of a box leaves the box."""
    dx, dy = towards
    scale = min(
        _BOX_WIDTH / 2 / abs(dx) if dx else float("inf"),
        _BOX_HEIGHT / 2 / abs(dy) if dy else float("inf"),
    )
    return centre[0] + dx * scale + aside[0], centre[1] + dy * scale + aside[1]
