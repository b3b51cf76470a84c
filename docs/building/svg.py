"""Writes SVG: a canvas with shapes, styled by docs/site.css.

Colours are those of the page's theme, so a picture reads well on light and dark.
"""

from __future__ import annotations

from html import escape
from textwrap import wrap

LETTER = 6.6
"""The width of a letter of 13 pixels, about."""
LINE = 16
"""The height of a line of text."""


class Canvas:
    """Collects shapes, and makes a picture of the size that they need."""

    def __init__(self) -> None:
        self._shapes: list[str] = []
        self._texts: list[str] = []  # on top of all shapes
        self._right = 0.0
        self._bottom = 0.0

    def line(
        self, start: tuple[float, float], end: tuple[float, float], *, of: str
    ) -> None:
        """Draws a straight line; of the class ``arrow`` with a head at its end."""
        head = ' marker-end="url(#head)"' if "arrow" in of.split() else ""
        (x1, y1), (x2, y2) = start, end
        self._shapes.append(
            f'<line class="{of}" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
            f"{head}/>"
        )
        self._reach(max(x1, x2), max(y1, y2))

    def box(self, x: float, y: float, width: float, height: float, *, of: str) -> None:
        """Draws a rectangle from its upper left corner."""
        self._shapes.append(
            f'<rect class="{of}" x="{x:g}" y="{y:g}" width="{width:g}" '
            f'height="{height:g}" rx="4"/>'
        )
        self._reach(x + width, y + height)

    def text(self, x: float, y: float, lines: list[str], *, of: str = "middle") -> None:
        """Writes lines; ``y`` is the baseline of the first one."""
        for number, line in enumerate(lines):
            width = len(line) * LETTER
            reach = width if "start" in of else width / 2 if "middle" in of else 0
            self._texts.append(
                f'<text class="{of}" x="{x:g}" y="{y + number * LINE:g}">'
                f"{escape(line)}</text>"
            )
            self._reach(x + reach, y + number * LINE + 4)

    def picture(self, about: str) -> str:
        """Returns the picture as HTML.

        Args:
            about: Its content as text, for screen readers.
        """
        width, height = self._right + 8, self._bottom + 8
        return (
            f'<div class="picture"><svg role="img" aria-label="{escape(about)}" '
            f'viewBox="0 0 {width:g} {height:g}" style="max-width: {width:g}px">'
            '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" '
            'markerWidth="8" markerHeight="8" orient="auto-start-reverse">'
            '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>'
            f"{''.join(self._shapes + self._texts)}</svg></div>"
        )

    def _reach(self, right: float, bottom: float) -> None:
        self._right = max(self._right, right)
        self._bottom = max(self._bottom, bottom)


def wrapped(text: str, width: float) -> list[str]:
    """Breaks a text into lines that fit a width, at least a word each."""
    return wrap(text, max(6, int(width / LETTER)), break_long_words=False)
