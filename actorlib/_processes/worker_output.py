"""Shows the output of workers in the owner's own output.

Each worker has a pipe for standard output and one for standard error, so the output of
C code and of child processes is included. ``OutputPipe`` reads one pipe. ``LogPrinter``
shows the lines of all workers with the name and the process id of the actor
(``LogStyle``). The output that is read at once stays together.

Nothing is dropped here: if the owner does not read, the pipe is full, and the process
waits.
"""

from __future__ import annotations

import os
import sys
from contextvars import Context
from typing import TYPE_CHECKING, Literal, TextIO

from actorlib._base.value import dataclass

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence


_READ = 64 * 1024
_LONGEST_LINE = 64 * 1024
_MOST_READS = 64
_LINE_WAIT = 0.5
"""Seconds without the end of a line after which its beginning is shown; the beginning
may be as old again when they begin."""


class OutputPipe:
    """Reads one output stream of one worker.

    Attributes:
        keep: Gets the lines, too; see WorkerProcess.
        label: The name in the prefix of its lines, or a function that returns it.
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
        self._is_cut = False  # a long line was cut just before the next data
        self.label: str | Callable[[], str] = ""
        self._pid = 0
        self._line_count = 0
        self._partial_timer: asyncio.TimerHandle | None = None
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)  # the os API

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        label: str | Callable[[], str],
        pid: int,
    ) -> None:
        """Shows lines from now on: the prefix needs the process id."""
        self._loop = loop
        self.label = label
        self._pid = pid
        # In an empty context: that of the caller would be kept alive.
        Context().run(loop.add_reader, self._read_end, self._read)

    def rename(self, label: str | Callable[[], str]) -> None:
        """Shows lines behind another name; what was printed before has the old one."""
        if label != self.label:
            self.read_all()
            self.label = label

    def show(self, text: str) -> None:
        """Shows lines that did not come through the pipe."""
        lines = text.encode(errors="backslashreplace").split(b"\n")
        self._printer.show(self._stream, self._current_label(), self._pid, lines)

    def close_write_end(self) -> None:
        """Closes the write end; the worker has a copy."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        """Shows the data in the pipe and closes it; waits for no remaining writer."""
        if self._read_end < 0:
            return
        self.read_all()
        if self._partial:
            self._show([self._partial])
        if self._partial_timer is not None:
            self._partial_timer.cancel()
        if self._loop is not None:
            self._loop.remove_reader(self._read_end)
        os.close(self._read_end)
        self._read_end = -1
        self.close_write_end()

    def close_in_fork(self) -> None:
        """Closes the descriptors in a fork, without reading: the parent reads."""
        if self._read_end >= 0:
            os.close(self._read_end)
            self._read_end = -1
        self.close_write_end()

    def read_all(self) -> None:
        """Shows the data in the pipe; waits for no remaining writer."""
        for _ in range(_MOST_READS):  # more than the size of a pipe
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
        if lines and self._is_cut and not lines[0]:
            del lines[0]  # the end of the line that was cut
        self._is_cut = False
        if len(self._partial) > _LONGEST_LINE:
            self._take_partial(lines)
        if lines:
            self._show(lines)
            self._line_count += len(lines)
        if self._partial and self._partial_timer is None:
            self._watch_partial()
        return True

    def _watch_partial(self) -> None:
        """Shows the beginning of a line as a line, unless its end comes in time."""
        if self._loop is not None:
            later, count = self._loop.call_later, self._line_count
            # In no context, as in start().
            timer = Context().run(later, _LINE_WAIT, self._show_partial, count)
            self._partial_timer = timer

    def _show_partial(self, line_count: int) -> None:
        self.read_all()  # the owner may have been busy
        self._partial_timer = None
        if self._line_count != line_count:
            self._watch_partial()
            return
        lines: list[bytes] = []
        self._take_partial(lines)
        if lines:
            self._show(lines)

    def _take_partial(self, lines: list[bytes]) -> None:
        """Moves the beginning of a line to the lines, as far as it can be decoded."""
        cut = _character_boundary(self._partial)
        if cut:
            lines.append(self._partial[:cut])
            self._partial = self._partial[cut:]
            self._is_cut = not self._partial

    def _current_label(self) -> str:
        return self.label if isinstance(self.label, str) else self.label()

    def _show(self, lines: list[bytes]) -> None:
        label = self._current_label()
        if self.keep is not None:
            self.keep(self._stream, label, self._pid, lines)
        self._printer.show(self._stream, label, self._pid, lines)


def _character_boundary(data: bytes) -> int:
    """Returns where to cut UTF-8: before a last character that may be incomplete."""
    for back in range(1, min(4, len(data)) + 1):
        if data[-back] & 0b1100_0000 != 0b1000_0000:  # the first byte of a character
            return len(data) - back if data[-back] >= 0b1100_0000 else len(data)
    return len(data)


WINDOW = 5.0
"""Seconds for which equal output is counted before the count is shown."""
_MOST = 1024
_LONGEST = 1000
_DIGITS = b"0123456789"


class LogPrinter:
    """Prints the lines of all workers of a runtime on this process's own output.

    With ``LogStyle.merges``, standard output that another process has printed within
    the last seconds is counted instead, and shown once with the count. Digits are
    ignored. The output that is read at once is compared as a whole.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, style: LogStyle) -> None:
        self._loop = loop
        self._style = style
        # The first process that printed it, the count of others, and the last text.
        self._windows: dict[bytes, tuple[int, int, str]] = {}
        self._broken: dict[str, object] = {}

    def show(self, stream: str, label: str, pid: int, lines: Sequence[bytes]) -> None:
        """Shows lines of a worker that were read at once, without their ends."""
        if not self._style.is_shown:
            return
        text = self._style.format(label, pid, lines)
        merges = self._style.merges and stream == "stdout"
        if not (merges and self._count(pid, lines, text)):
            self._write(stream, text)

    def flush(self) -> None:
        """Shows the output that was only counted."""
        for key in list(self._windows):
            self._end_window(key)

    def _count(self, pid: int, lines: Sequence[bytes], text: str) -> bool:
        """Counts output if another process has just printed the same; True if so."""
        key = b"\n".join(lines).translate(None, _DIGITS)
        first, count, _ = self._windows.get(key, (0, 0, ""))
        if first not in (0, pid):
            self._windows[key] = first, count + 1, text
            return True
        has_room = len(key) <= _LONGEST and len(self._windows) < _MOST
        if not first and key.strip() and has_room:
            self._windows[key] = pid, 0, ""
            self._loop.call_later(WINDOW, self._end_window, key)
        return False

    def _end_window(self, key: bytes) -> None:
        _, count, text = self._windows.pop(key, (0, 0, ""))
        if count > 1:
            text = f"{text[:-1]} [repeated {count}x across actors]\n"
        self._write("stdout", text)

    def _write(self, name: str, text: str) -> None:
        stream = getattr(sys, name)
        if not text or stream is None or stream is self._broken.get(name):
            return
        try:
            # In an empty context: a notebook shows output in the cell that the context
            # names, and without one in the running cell.
            Context().run(_put, stream, text)
        except BlockingIOError:  # non-blocking and full: later output appears
            pass
        except (OSError, ValueError):  # it is closed
            self._broken[name] = stream
        except Exception as error:  # noqa: BLE001  # the user's own object
            message = f"sys.{name} has failed to show the output of a worker"
            self._loop.call_exception_handler({"message": message, "exception": error})


def _put(stream: TextIO, text: str) -> None:
    coding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(coding, "backslashreplace").decode(coding))
    flush = getattr(stream, "flush", None)  # print() does not need it either
    if flush is not None:
        flush()


_COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)
_OFF = ("0", "false", "no")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStyle:
    """Formats lines of workers.

    Attributes:
        is_shown: Whether they appear at all.
        merges: Whether equal output of several actors is shown once with a count.
        is_prefixed: Whether each line begins with its actor and process.
        is_coloured: Whether the prefix has a colour, one for each process.
    """

    is_shown: bool = True
    merges: bool = False
    is_prefixed: bool = True
    is_coloured: bool = False

    def format(self, label: str, pid: int, lines: Sequence[bytes]) -> str:
        prefix = f"({label} pid={pid})"
        if self.is_coloured:
            prefix = f"\033[{_COLOURS[pid % len(_COLOURS)]}m{prefix}\033[0m"
        prefix = f"{prefix} " if self.is_prefixed else ""
        return "".join(f"{prefix}{line.decode(errors='replace')}\n" for line in lines)


def style_of(environ: Mapping[str, str], *, is_shown: bool) -> LogStyle:
    """Reads the style from the environment; Ray's variables apply if ours are unset.

    ``is_shown`` is the value of ``init(log_to_driver=...)``.
    """

    def is_on(name: str, rays: str, *, default: bool) -> bool:
        value = environ.get(f"ACTORLIB_{name}") or environ.get(rays)
        return default if not value else value.lower() not in _OFF

    rays_none = environ.get("RAY_DISABLE_WORKER_LOG_PREFIX", "0").lower() not in _OFF
    return LogStyle(
        is_shown=is_shown and is_on("LOG_TO_DRIVER", "RAY_LOG_TO_DRIVER", default=True),
        merges=is_on("DEDUP_LOGS", "RAY_DEDUP_LOGS", default=False),
        is_prefixed=is_on("LOG_PREFIX", "", default=not rays_none),
        is_coloured=is_on("COLOR_PREFIX", "RAY_COLOR_PREFIX", default=False),
    )
