"""What workers print: shown line by line, and the last of it remembered.

Each worker has a pipe of its own for standard output and one for standard error, so
what C code and child processes print is caught too. A line appears in one piece, behind
the name and the process id of the actor that printed it.
"""

from __future__ import annotations

import os
from collections import deque
from contextvars import Context
from typing import TYPE_CHECKING, Literal

from actorlib._local.last_words import FATAL, last_words

if TYPE_CHECKING:
    import asyncio

    from actorlib._local.terminal import Terminal

_READ = 64 * 1024
_LONGEST_LINE = 64 * 1024
_TAIL_LINES = 60
_REPORT_LINES = 1000
_FATAL = FATAL.encode()
_MOST_READS = 64


class OutputPipe:
    """The owner's end of one output stream of one worker.

    Args:
        stream: Where lines appear in this process.
        terminal: What shows them.

    Attributes:
        label: Behind which name.
    """

    def __init__(self, stream: Literal["stdout", "stderr"], terminal: Terminal) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stream = stream
        self._terminal = terminal
        self._rest = b""
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._report: list[str] = []  # of a fatal error: its beginning tells most
        self.label = ""
        self._pid = 0
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)  # the os API

    def begin(self, loop: asyncio.AbstractEventLoop, label: str, pid: int) -> None:
        """Shows lines from now on; before, nobody could have said whose they are."""
        self._loop = loop
        self.label = label
        self._pid = pid
        # In no context: that of whoever started this would be kept with all it holds.
        Context().run(loop.add_reader, self._read_end, self._read)

    def rename(self, label: str) -> None:
        """Shows lines behind another name; what was printed before has the old one."""
        if label != self.label:
            self._read_all()
            self.label = label

    @property
    def tail(self) -> str:
        """The last lines, for whoever asks why the worker is gone."""
        return last_words([*self._tail, *self._report])

    def close_write_end(self) -> None:
        """Closes what the worker has by now a copy of."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        """Shows what is there and closes; does not wait for a lasting writer."""
        if self._read_end < 0:
            return
        self._read_all()
        if self._rest:
            self._show([self._rest])
        if self._loop is not None:
            self._loop.remove_reader(self._read_end)
        os.close(self._read_end)
        self._read_end = -1
        self.close_write_end()

    def forsake(self) -> None:
        """Closes a fork's copies: what comes is for its parent to read."""
        if self._read_end >= 0:
            os.close(self._read_end)
            self._read_end = -1
        self.close_write_end()

    def _read_all(self) -> None:
        """Shows what is there; does not wait for a lasting writer."""
        for _ in range(_MOST_READS):  # more than the kernel keeps for a pipe
            if self._read_end < 0 or not self._read():
                break

    def _read(self) -> bool:
        try:
            data = os.read(self._read_end, _READ)
        except BlockingIOError:
            return False
        if not data:
            if self._loop is not None:
                self._loop.remove_reader(self._read_end)
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            cut = _character_boundary(self._rest)
            lines.append(self._rest[:cut])
            self._rest = self._rest[cut:]
        if lines:
            self._show(lines)
        return True

    def _show(self, lines: list[bytes]) -> None:
        if self._stream == "stderr":
            self._remember(lines)
        self._terminal.show(self._stream, self.label, self._pid, lines)

    def _remember(self, lines: list[bytes]) -> None:
        if len(self._report) >= _REPORT_LINES:  # and it lives on
            self._tail.extend(self._report)
            self._report = []
        if not self._report:
            begins = [n for n, line in enumerate(lines) if line.startswith(_FATAL)]
            begin = begins[0] if begins else len(lines)
            self._tail.extend(map(_text, lines[:begin][-_TAIL_LINES:]))
            lines = lines[begin:]
        self._report.extend(map(_text, lines[: _REPORT_LINES - len(self._report)]))


def _text(line: bytes) -> str:
    return line.decode(errors="replace")


def _character_boundary(data: bytes) -> int:
    """Where to cut text in UTF-8: before a last character that may not be whole."""
    for back in range(1, min(4, len(data)) + 1):
        if data[-back] & 0b1100_0000 != 0b1000_0000:  # where a character begins
            return len(data) - back if data[-back] >= 0b1100_0000 else len(data)
    return len(data)
