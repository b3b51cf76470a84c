"""Equal lines of several workers: shown once, then counted.

Digits are ignored, so ``step 7`` of one actor and ``step 9`` of another are equal. What
one process alone repeats is never held back. Nothing is lost: what is held back is told
with a count when its window is over, or earlier where there are too many windows.

What a process prints in one go, a burst, is shown as a whole or not at all: where one
line of it is new, those before it that were held back are shown first. What Python says
of an error is always shown, as its end alone says which error it was.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW = 5.0
"""Seconds for which equal lines are counted before they are told."""
GAP = 0.1
"""Seconds without a line that end a burst."""
BURST = 1.0
"""Seconds after which a burst is taken to end in any case."""
_MOST = 1024
_LONGEST = 1000
_DIGITS = b"0123456789"
_REPORTS = (b"Traceback (most recent call last)", b"Fatal Python error")
"""How Python begins to tell of an error."""


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


@dataclass(slots=True)
class _Burst:
    """What one process prints in one go.

    Attributes:
        since: When it began.
        last: When its last line came.
        held: Its lines so far, all of which were held back.
        is_shown: Whether it is shown, and so is what follows.
    """

    since: float
    last: float
    held: list[Line] = field(default_factory=list[Line])
    is_shown: bool = False


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
        self._bursts: OrderedDict[tuple[str, int], _Burst] = OrderedDict()

    def admit(self, lines: Sequence[Line], now: float) -> list[Line]:
        """Which lines are shown now; the others are counted.

        Args:
            lines: What one process has printed, as far as it has come.
            now: The time.

        Returns:
            None of these lines; or all, behind those of the same burst that were held
            back before.
        """
        burst = self._burst_of(lines[0], now)
        news = [self._is_news(line, now) for line in lines]
        is_report = any(line.text.startswith(_REPORTS) for line in lines)
        is_held = not any(news) and (burst.held or False in news)
        if is_held and not is_report and not burst.is_shown:
            burst.held += lines
            return []
        held, burst.held = burst.held, []
        burst.is_shown = True
        counted = [line for line, is_new in zip(lines, news, strict=True) if not is_new]
        for line in (*held, *counted):
            self._uncount(line)
        return [*held, *lines]

    def _burst_of(self, line: Line, now: float) -> _Burst:
        source = line.stream, line.pid
        burst = self._bursts.get(source)
        if burst is None or now > min(burst.last + GAP, burst.since + BURST):
            burst = self._bursts[source] = _Burst(now, now)
            self._bursts.move_to_end(source)
            while len(self._bursts) > self._most:
                self._bursts.popitem(last=False)
        burst.last = now
        return burst

    def _is_news(self, line: Line, now: float) -> bool | None:
        """Whether a line says something new, else it is counted; None for no matter."""
        text = line.text
        if not text.strip():
            return None
        if len(text) > _LONGEST:
            return True
        key = _key(line)
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

    def _uncount(self, line: Line) -> None:
        """A line that was counted is shown after all."""
        window = self._windows.get(_key(line))
        if window is not None and window.count:
            window.count -= 1

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


def _key(line: Line) -> tuple[str, bytes]:
    """What equal lines have in common."""
    return line.stream, line.text.translate(None, _DIGITS)
