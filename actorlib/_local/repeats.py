"""Equal lines of several workers: shown once, then counted.

Digits are ignored, so ``step 7`` of one actor and ``step 9`` of another are equal. What
one process alone repeats is never held back. Nothing is lost: what is held back is told
with a count when its window is over, or earlier where there are too many windows.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    """Equal lines since the first of them was shown.

    Attributes:
        since: When that was.
        pids: Who printed it.
        last: The last one.
        count: How many were held back.
    """

    since: float
    pids: set[int]
    last: Line
    count: int = 0


class Repeats:
    """Which lines are shown, and which are only counted.

    Args:
        window: Seconds for which equal lines are counted.
        most: How many different lines are remembered.
    """

    def __init__(self, window: float = WINDOW, most: int = _MOST) -> None:
        self._window = window
        self._most = most
        self._windows: dict[tuple[str, bytes], _Window] = {}
        self._pushed_out: list[_Window] = []

    def admits(self, line: Line, now: float) -> bool:
        """Whether a line is shown now; else it is counted."""
        key = (line.stream, line.text.translate(None, _DIGITS))
        if len(line.text) > _LONGEST or not line.text.strip():
            return True
        window = self._windows.get(key)
        if window is None or (not window.count and self._is_over(window, now)):
            self._windows.pop(key, None)
            self._windows[key] = _Window(now, {line.pid}, line)
            self._make_room(now)
            return True
        window.pids.add(line.pid)
        if len(window.pids) == 1:
            return True
        window.count += 1
        window.last = line
        return False

    @property
    def due(self) -> float | None:
        """When something has to be told, or None if nothing is held back."""
        if self._pushed_out:
            return self._pushed_out[0].since
        for window in self._windows.values():  # they stand in the order of their age
            if window.count:
                return window.since + self._window
        return None

    def tell(self, now: float) -> list[tuple[Line, int]]:
        """What was held back until now, each with how often; it is counted anew."""
        over = [w for w in self._windows.values() if w.count and self._is_over(w, now)]
        told = [(w.last, w.count) for w in (*self._pushed_out, *over)]
        self._pushed_out = []
        for key, window in list(self._windows.items()):
            if window.count and self._is_over(window, now):
                del self._windows[key]  # so that it stands last again
                window.since, window.count = now, 0
                self._windows[key] = window
        return told

    def tell_all(self) -> list[tuple[Line, int]]:
        """Everything that is held back, as nobody will ask later."""
        held = [*self._pushed_out, *(w for w in self._windows.values() if w.count)]
        self._windows, self._pushed_out = {}, []
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
