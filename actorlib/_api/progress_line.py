"""Shows progress in one line of the terminal, below what the program prints.

While a line is there, ``sys.stdout`` and ``sys.stderr`` are streams that wipe it before
they write and show it again behind the end of a line. So it breaks neither what actors
print, which the owner writes there, nor what the program prints in its loop. Handlers
of the root logger that write to one of the two are given the same streams meanwhile.
Rejected: to tell the printer of workers' output alone, which a ``print`` of the
program's does not pass.

The row is drawn over with spaces, so any terminal will do. What writes to the
descriptor itself, such as C code, may leave half a line, which the next one repairs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, TextIO, cast

from actorlib._api.progress_text import fitted, progress_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actorlib._api.progress_text import ProgressState

PERIOD = 0.1
"""Seconds between two drawings, at the least."""
_COLUMNS = 80


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody sees a stream on a terminal; False for one that is closed."""
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, OSError, ValueError):
        return False


class ProgressLine:
    """Shows one progress on the terminal; several share its last row."""

    def __init__(self) -> None:
        self._row: TerminalRow | None = None

    def show(self, state: ProgressState) -> None:
        """Shows how far it is."""
        if self._row is None:
            self._row = TerminalRow.here()
        if self._row is not None:
            self._row.put(self, progress_text(state))

    def hide(self) -> None:
        """Wipes it, until it is shown again."""
        row, self._row = self._row, None
        if row is not None:
            row.remove(self)


class TerminalRow:
    """The row of a terminal that the lines stand in.

    Args:
        terminal: The program's standard error.
    """

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._lock = threading.RLock()  # a signal's handler may print in the middle
        self._pid = os.getpid()
        self._texts: dict[ProgressLine, str] = {}
        self._columns = 0
        self._drawn = 0.0
        self._is_begun = False
        self._given: list[GuardedStream] = []

    @classmethod
    def here(cls) -> TerminalRow | None:
        """The row of this process, with its streams guarded; None if there is none."""
        found: object = sys.stderr
        while isinstance(found, GuardedStream):
            if found.row.is_shown:
                return found.row
            found = found.stream  # somebody has put back one that was over
        terminal = cast("TextIO | None", found)
        if terminal is None or not is_terminal(terminal):
            return None
        row = cls(terminal)
        row._guard()
        return row

    @property
    def is_shown(self) -> bool:
        """Whether a line stands in it, in this process."""
        return bool(self._texts) and os.getpid() == self._pid

    def put(self, line: ProgressLine, text: str) -> None:
        """Shows a line, or another text of it."""
        with self._lock:
            self._texts[line] = text
            self._draw()

    def remove(self, line: ProgressLine) -> None:
        """Removes a line; with the last one the streams are what they were."""
        if os.getpid() != self._pid:  # a fork: the row is its parent's
            return
        with self._lock:
            self._texts.pop(line, None)
            if self._texts:
                self._draw()
            else:
                self._wipe()
                self._unguard()

    def write(self, stream: TextIO, text: str) -> int:
        """Writes what the program prints, above the row."""
        if not self.is_shown:
            return stream.write(text)
        with self._lock:
            self._wipe()
            written = stream.write(text)
            if text:
                self._is_begun = not text.endswith("\n")
            if time.monotonic() - self._drawn >= PERIOD:
                stream.flush()
                self._draw()
            return written

    def _draw(self) -> None:
        if self._is_begun:  # a line of the program's stands there, which has no end yet
            return
        self._drawn = time.monotonic()
        text = " | ".join(tuple(self._texts.values()))
        text, columns = fitted(text, _columns_of(self._terminal) - 1)
        before, self._columns = self._columns, columns
        self._send(f"\r{text}{' ' * (before - columns)}")

    def _wipe(self) -> None:
        columns, self._columns = self._columns, 0
        if columns:
            self._send(f"\r{' ' * columns}\r")

    def _send(self, text: str) -> None:
        # Whoever looks may be gone, and that is no matter of the program's.
        with contextlib.suppress(OSError, ValueError):
            coding = getattr(self._terminal, "encoding", None) or "utf-8"
            self._terminal.write(text.encode(coding, "replace").decode(coding))
            self._terminal.flush()

    def _guard(self) -> None:
        for name in ("stdout", "stderr"):
            stream: Any = getattr(sys, name)
            while isinstance(stream, GuardedStream):
                stream = stream.stream
            if not is_terminal(stream):
                continue
            guarded = GuardedStream(stream, self)
            self._given.append(guarded)
            setattr(sys, name, guarded)
            _log_to(stream, guarded)

    def _unguard(self) -> None:
        for name in ("stdout", "stderr"):
            stream: Any = getattr(sys, name)
            if stream in self._given:  # else somebody else has set it meanwhile
                setattr(sys, name, stream.stream)
        for guarded in self._given:
            _log_to(guarded, guarded.stream)
        self._given.clear()


class GuardedStream:
    """A stream of the program's that writes above the row; else it is that stream.

    Args:
        stream: The stream.
        row: The row.
    """

    def __init__(self, stream: TextIO, row: TerminalRow) -> None:
        self.stream = stream
        self.row = row

    def write(self, text: str) -> int:
        """Writes a text; see TextIO."""
        return self.row.write(self.stream, text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes texts; see TextIO."""
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _log_to(before: object, after: object) -> None:
    """Has the handlers that write to a stream write to another one."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            given = cast("logging.StreamHandler[Any]", handler)
            if given.stream is before:
                given.setStream(after)


def _columns_of(terminal: TextIO) -> int:
    try:
        return os.get_terminal_size(terminal.fileno()).columns or _COLUMNS
    except (AttributeError, OSError, ValueError):
        return _COLUMNS
