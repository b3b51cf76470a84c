"""Shows what workers print in the owner's own output.

Each worker has a pipe for standard output and one for standard error, so what C code
and child processes print is caught too. ``OutputPipe`` reads one. ``LogPrinter`` shows
the lines of all workers, each in one piece, behind the name and the process id of its
actor (``LogStyle``).

``LogDeduplicator`` shows equal lines of several workers once, then counts them. Digits
are ignored, so ``step 7`` of one actor and ``step 9`` of another are equal. What one
process alone repeats is never held back. Nothing is lost: what is held back is shown
with a count when its window is over, or earlier where there are too many windows.

What a process prints in one go, a burst, is shown as a whole or not at all: where one
line of it is new, those before it that were held back are shown first. What Python says
of an error is always shown, as its end alone says which error it was.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from contextvars import Context
from dataclasses import field
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO

from actorlib._core.value import dataclass

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping, Sequence


_READ = 64 * 1024
_LONGEST_LINE = 64 * 1024
_MOST_READS = 64


class OutputPipe:
    """Reads one output stream of one worker.

    Args:
        stream: Where lines appear in this process.
        printer: What shows them.
        keep: Keeps them, if anybody does; see WorkerProcess.

    Attributes:
        label: The name that its lines are shown behind.
        keep: As given.
    """

    def __init__(
        self,
        stream: Literal["stdout", "stderr"],
        printer: LogPrinter,
        keep: Callable[[str, str, int, list[bytes]], None] | None = None,
    ) -> None:
        self.keep = keep
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stream = stream
        self._printer = printer
        self._partial = b""
        self.label = ""
        self._pid = 0
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)  # the os API

    def start(self, loop: asyncio.AbstractEventLoop, label: str, pid: int) -> None:
        """Shows lines from now on; before, nobody could have said whose they are."""
        self._loop = loop
        self.label = label
        self._pid = pid
        # In no context: that of whoever started this would be kept with all it holds.
        Context().run(loop.add_reader, self._read_end, self._read)

    def rename(self, label: str) -> None:
        """Shows lines behind another name; what was printed before has the old one."""
        if label != self.label:
            self.read_all()
            self.label = label

    def show(self, text: str) -> None:
        """Shows lines that did not come through the pipe."""
        lines = text.encode(errors="backslashreplace").split(b"\n")
        self._printer.show(self._stream, self.label, self._pid, lines)

    def close_write_end(self) -> None:
        """Closes what the worker has by now a copy of."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        """Shows what is there and closes; does not wait for a lasting writer."""
        if self._read_end < 0:
            return
        self.read_all()
        if self._partial:
            self._show([self._partial])
        if self._loop is not None:
            self._loop.remove_reader(self._read_end)
        os.close(self._read_end)
        self._read_end = -1
        self.close_write_end()

    def close_in_fork(self) -> None:
        """Closes a fork's copies: what comes is for its parent to read."""
        if self._read_end >= 0:
            os.close(self._read_end)
            self._read_end = -1
        self.close_write_end()

    def read_all(self) -> None:
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
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > _LONGEST_LINE:
            cut = _character_boundary(self._partial)
            lines.append(self._partial[:cut])
            self._partial = self._partial[cut:]
        if lines:
            self._show(lines)
        return True

    def _show(self, lines: list[bytes]) -> None:
        if self.keep is not None:
            self.keep(self._stream, self.label, self._pid, lines)
        self._printer.show(self._stream, self.label, self._pid, lines)


def _character_boundary(data: bytes) -> int:
    """Finds where to cut UTF-8: before a last character that may not be whole."""
    for back in range(1, min(4, len(data)) + 1):
        if data[-back] & 0b1100_0000 != 0b1000_0000:  # where a character begins
            return len(data) - back if data[-back] >= 0b1100_0000 else len(data)
    return len(data)


WINDOW = 5.0
"""Seconds for which equal lines are counted before the count is shown."""
GAP = 0.1
"""Seconds without a line that end a burst."""
BURST = 1.0
"""Seconds after which a burst is taken to end in any case."""
_MOST = 1024
_LONGEST = 1000
_DIGITS = b"0123456789"
_REPORTS = (b"Traceback (most recent call last)", b"Fatal Python error")
"""How Python begins the report of an error."""


class OutputLine(NamedTuple):
    """Holds one line that a worker printed.

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
    """Counts equal lines within some seconds.

    Attributes:
        since: When it began.
        first: Who printed the line that was shown, or None if none was.
        last: The last line.
        count: How many were held back.
        others: Who printed those.
    """

    since: float
    first: int | None
    last: OutputLine
    count: int = 0
    others: set[int] = field(default_factory=set[int])


@dataclass(slots=True)
class _Burst:
    """Gathers the lines that one process prints in one go.

    Attributes:
        since: When it began.
        last: When its last line came.
        held: Its lines so far, all of which were held back.
        is_shown: Whether it is shown, and so is what follows.
    """

    since: float
    last: float
    held: list[OutputLine] = field(default_factory=list[OutputLine])
    is_shown: bool = False


class LogDeduplicator:
    """Decides which lines are shown, and which are only counted.

    Args:
        window: Seconds for which equal lines are counted.
        most: How many different lines are remembered.

    Attributes:
        has_evicted: Whether counts have to be shown now, as there are too many.
    """

    def __init__(self, window: float = WINDOW, most: int = _MOST) -> None:
        self.has_evicted = False
        self._window = window
        self._most = most
        self._windows: OrderedDict[tuple[str, bytes], _Window] = OrderedDict()
        self._evicted: list[_Window] = []
        self._bursts: OrderedDict[tuple[str, int], _Burst] = OrderedDict()

    def admit(self, lines: Sequence[OutputLine], now: float) -> list[OutputLine]:
        """Gives the lines that are shown now; the others are counted.

        Args:
            lines: What one process has printed, as far as it has come.
            now: The time.

        Returns:
            None of these lines; or all, behind those of the same burst that were held
            back before.
        """
        burst = self._burst_of(lines[0], now)
        are_new = [self._is_new(line, now) for line in lines]
        is_report = any(line.text.startswith(_REPORTS) for line in lines)
        is_held = not any(are_new) and (burst.held or False in are_new)
        if is_held and not is_report and not burst.is_shown:
            burst.held += lines
            return []
        held, burst.held = burst.held, []
        burst.is_shown = True
        counted = [line for line, new in zip(lines, are_new, strict=True) if not new]
        for line in (*held, *counted):
            self._uncount(line)
        return [*held, *lines]

    def _burst_of(self, line: OutputLine, now: float) -> _Burst:
        source = line.stream, line.pid
        burst = self._bursts.get(source)
        if burst is None or now > min(burst.last + GAP, burst.since + BURST):
            burst = self._bursts[source] = _Burst(now, now)
            self._bursts.move_to_end(source)
            while len(self._bursts) > self._most:
                self._bursts.popitem(last=False)
        burst.last = now
        return burst

    def _is_new(self, line: OutputLine, now: float) -> bool | None:
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

    def _uncount(self, line: OutputLine) -> None:
        """Takes back the count of a line that is shown after all."""
        window = self._windows.get(_key(line))
        if window is not None and window.count:
            window.count -= 1

    @property
    def next_due(self) -> float | None:
        """The time to show a count at; None if nothing is held back."""
        for window in self._windows.values():  # they stand in the order of their age
            if window.count:
                return window.since + self._window
        return None

    def take_due(self, now: float) -> list[tuple[OutputLine, int]]:
        """Takes the lines that were held back and are due, each with its count.

        Lines that several still print are counted for another window. What one alone
        prints is shown again.
        """
        due = [(window.last, window.count) for window in self._evicted]
        self._evicted, self.has_evicted = [], False
        for key, window in list(self._windows.items()):
            if not window.count or not self._is_over(window, now):
                continue
            due.append((window.last, window.count))
            del self._windows[key]
            if len(window.others) > 1:
                self._windows[key] = _Window(now, None, window.last)
        return due

    def flush(self) -> list[tuple[OutputLine, int]]:
        """Takes everything that is held back, each line with its count."""
        held = [*self._evicted, *(w for w in self._windows.values() if w.count)]
        self._windows.clear()
        self._evicted, self.has_evicted = [], False
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
                self._evicted.append(oldest)
                self.has_evicted = True


def _key(line: OutputLine) -> tuple[str, bytes]:
    """Gives what equal lines have in common."""
    return line.stream, line.text.translate(None, _DIGITS)


class LogPrinter:
    """Prints the lines of all workers of a runtime on this process's own output.

    Args:
        loop: The owner's loop.
        style: How lines look.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, style: LogStyle) -> None:
        self._loop = loop
        self._style = style
        self._deduplicator = LogDeduplicator() if style.merges else None
        self._timer: asyncio.TimerHandle | None = None
        self._broken: dict[str, object] = {}

    def show(self, stream: str, label: str, pid: int, texts: Iterable[bytes]) -> None:
        """Shows lines of a worker, but for those that others have just printed.

        Args:
            stream: ``stdout`` or ``stderr``.
            label: The name of the actor's class.
            pid: The worker's process.
            texts: Lines without their ends.
        """
        if not self._style.is_shown:
            return
        lines = [OutputLine(stream, label, pid, text) for text in texts]
        if self._deduplicator is not None and lines:
            now = self._loop.time()
            lines = self._deduplicator.admit(lines, now)
            if self._deduplicator.has_evicted:
                self._show_counts(self._deduplicator.take_due(now))
            if not lines:
                self._set_timer()
        self._write(stream, "".join(map(self._style.format, lines)))

    def flush(self) -> None:
        """Shows what was held back; what comes later is compared with nothing."""
        if self._deduplicator is not None:
            self._show_counts(self._deduplicator.flush())

    def close(self) -> None:
        """Shows what was held back; what comes later is shown as it comes."""
        if self._timer is not None:
            self._timer.cancel()
        deduplicator, self._deduplicator = self._deduplicator, None
        if deduplicator is not None:
            self._show_counts(deduplicator.flush())

    def _set_timer(self) -> None:
        due = self._deduplicator.next_due if self._deduplicator is not None else None
        if self._timer is None and due is not None:
            self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._deduplicator is not None:
            self._show_counts(self._deduplicator.take_due(self._loop.time()))
            self._set_timer()

    def _show_counts(self, held: Iterable[tuple[OutputLine, int]]) -> None:
        for line, count in held:
            self._write(line.stream, self._style.format(line, count))

    def _write(self, name: str, text: str) -> None:
        stream = getattr(sys, name)
        if not text or stream is None or stream is self._broken.get(name):
            return
        try:
            # Whoever started what calls this, the output is not theirs: a notebook asks
            # the context which cell it belongs to, and without one shows it in the
            # cell that runs.
            Context().run(_put, stream, text)
        except (OSError, ValueError):  # it is closed: there is nobody left to read it
            self._broken[name] = stream


def _put(stream: TextIO, text: str) -> None:
    coding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(coding, "backslashreplace").decode(coding))
    stream.flush()


_COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)
_OFF = ("0", "false", "no")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStyle:
    """Formats lines of workers.

    Attributes:
        is_shown: Whether they appear at all.
        merges: Whether equal lines of several actors are shown once and counted.
        is_prefixed: Whether each says whose it is.
        is_coloured: Whether the prefix has a colour, one for each process.
    """

    is_shown: bool = True
    merges: bool = True
    is_prefixed: bool = True
    is_coloured: bool = False

    def format(self, line: OutputLine, count: int = 0) -> str:
        """Formats a line as it appears.

        Args:
            line: The line.
            count: How many equal ones it stands for; one or none is itself alone.
        """
        text = line.text.decode(errors="replace")
        if count > 1:
            text = f"{text} [repeated {count}x across actors]"
        if not self.is_prefixed:
            return f"{text}\n"
        prefix = f"({line.label} pid={line.pid})"
        if self.is_coloured:
            prefix = f"\033[{_COLOURS[line.pid % len(_COLOURS)]}m{prefix}\033[0m"
        return f"{prefix} {text}\n"


def style_of(environ: Mapping[str, str], *, is_shown: bool) -> LogStyle:
    """Reads the style from the environment; Ray's variables hold where ours are unset.

    Args:
        environ: The owner's environment.
        is_shown: What ``init(log_to_driver=...)`` says.
    """

    def is_on(name: str, rays: str, *, default: bool) -> bool:
        value = environ.get(f"ACTORLIB_{name}") or environ.get(rays)
        return default if not value else value.lower() not in _OFF

    rays_none = environ.get("RAY_DISABLE_WORKER_LOG_PREFIX", "0").lower() not in _OFF
    return LogStyle(
        is_shown=is_shown and is_on("LOG_TO_DRIVER", "RAY_LOG_TO_DRIVER", default=True),
        merges=is_on("DEDUP_LOGS", "RAY_DEDUP_LOGS", default=True),
        is_prefixed=is_on("LOG_PREFIX", "", default=not rays_none),
        is_coloured=is_on("COLOR_PREFIX", "RAY_COLOR_PREFIX", default=False),
    )
