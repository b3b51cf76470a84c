"""Equal lines of several workers: shown once, then counted.

Digits are ignored, so ``step 7`` of one actor and ``step 9`` of another are equal. What
one process alone repeats is never held back. Nothing is lost: what is held back is told
with a count when its window is over, or earlier where there are too many windows.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

WINDOW = 5.0
"""Seconds for which equal lines are counted before they are told."""
_MOST = 1024
_LONGEST = 1000
_DIGITS = b"0123456789"


class Line(NamedTuple):
    """One line that a worker printed.

    Attributes:
        stream: ``stdout`` or ``stderr``.
        label: The name of the actor's class.
        pid: The worker's process.
        text: The line, without its end.
    """

    stream: str
    label: str
    pid: int
    text: bytes


@dataclass(slots=True)
class _Window:
    """Equal lines within some seconds.

    Attributes:
        since: When it began.
        first: Who printed the line that was shown, or None if none was.
        last: The last line.
        count: How many were held back.
        others: Who printed those.
    """

    since: float
    first: int | None
    last: Line
    count: int = 0
    others: set[int] = field(default_factory=set[int])


class Repeats:
    """Which lines are shown, and which are only counted.

    Args:
        window: Seconds for which equal lines are counted.
        most: How many different lines are remembered.

    Attributes:
        is_due: Whether something has to be told now, as there are too many.
    """

    def __init__(self, window: float = WINDOW, most: int = _MOST) -> None:
        self.is_due = False
        self._window = window
        self._most = most
        self._windows: OrderedDict[tuple[str, bytes], _Window] = OrderedDict()
        self._pushed_out: list[_Window] = []

    def admits(self, line: Line, now: float) -> bool:
        """Whether a line is shown now; else it is counted."""
        text = line.text
        if len(text) > _LONGEST or not text.strip():
            return True
        key = (line.stream, text.translate(None, _DIGITS))
        window = self._windows.get(key)
        if window is None or (not window.count and self._is_over(window, now)):
            self._windows[key] = _Window(now, line.pid, line)
            self._windows.move_to_end(key)
            self._make_room(now)
            return True
        if line.pid == window.first and not window.count:
            return True
        window.count += 1
        window.others.add(line.pid)
        window.last = line
        return False

    @property
    def due(self) -> float | None:
        """When something has to be told, or None if nothing is held back."""
        for window in self._windows.values():  # they stand in the order of their age
            if window.count:
                return window.since + self._window
        return None

    def tell(self, now: float) -> list[tuple[Line, int]]:
        """What was held back and is due, each with how often.

        Lines that several still print are counted for another window. What one alone
        prints is shown again.
        """
        told = [(window.last, window.count) for window in self._pushed_out]
        self._pushed_out, self.is_due = [], False
        for key, window in list(self._windows.items()):
            if not window.count or not self._is_over(window, now):
                continue
            told.append((window.last, window.count))
            del self._windows[key]
            if len(window.others) > 1:
                self._windows[key] = _Window(now, None, window.last)
        return told

    def tell_all(self) -> list[tuple[Line, int]]:
        """Everything that is held back, as nobody will ask later."""
        held = [*self._pushed_out, *(w for w in self._windows.values() if w.count)]
        self._windows.clear()
        self._pushed_out, self.is_due = [], False
        return [(window.last, window.count) for window in held]

    def _is_over(self, window: _Window, now: float) -> bool:
        return now >= window.since + self._window

    def _make_room(self, now: float) -> None:
        while self._windows:
            key, oldest = next(iter(self._windows.items()))
            is_idle = not oldest.count and self._is_over(oldest, now)
            if not is_idle and len(self._windows) <= self._most:
                return
            del self._windows[key]
            if oldest.count:
                self._pushed_out.append(oldest)
                self.is_due = True
