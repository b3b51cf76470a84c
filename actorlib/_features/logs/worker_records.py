"""Sends the log records of a worker to the owner, whose loggers get them.

A handler of the root logger receives the records of the user's code, from any thread.
It sends them at once as plain values: formatted text, and the values of ``extra=``. So
a record that was made before a crash is sent by then. It never waits:

* Records that the pipe does not accept wait here. A thread, which exists only then,
  sends them when there is room.
* A worker has a budget (``LogBudget``), so that a flood neither blocks nor overloads
  the owner. It is not refilled while records wait, so it bounds these, too. Other
  records are dropped, the less severe first, and counted in a separate record.

These records are not sent: those of a process that a worker has forked or started, the
last records of a worker that is killed while its pipe is full, and those of an actor
with an event loop after the loop has ended. Python's last resort writes them to
standard error, from WARNING on, and such lines are shown like all others.

An actor may configure logging itself. If its own handler writes a record to its output,
the record is not sent: it does not appear twice. ``basicConfig()`` works as in any
process, although it does nothing if the root logger has a handler.

The handler itself (``worker``) is in every worker, and loads this with the first
record.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from _thread import start_new_thread
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, final

from actorlib._core.current_call import running
from actorlib._wire.messages import LOG

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.messages import Frame

RATE: Final = 1000.0
"""Records of at most a KiB that a worker may send in a second, on average."""
BURST: Final = 2000.0
"""The most records that it may send at once."""
_RESERVE = 500.0
"""The part of these that is reserved for warnings and errors."""
LONGEST: Final = 32 * 1024
"""The most characters of a message, and of a traceback."""
_PAUSE = 0.05
_COUNTING = 2.0
"""Seconds for which dropped records are counted before they are reported."""
_LAST = 1.0
"""Seconds to send waiting records when the process ends."""
_DEEPEST = 6
_MOST_ITEMS = 200
_GREATEST = (1 << 63) - 1
_PLAIN = frozenset({type(None), bool, float})
_STANDARD = frozenset(
    vars(logging.LogRecord("", 0, "", 0, "", (), None)) | {"message": "", "asctime": ""}
) | {"taskName"}
"""The attributes of every record; the others are the user's own."""
_SENT = (
    "pathname",
    "lineno",
    "funcName",
    "thread",
    "threadName",
    "taskName",
    "stack_info",
)
"""The standard attributes that are sent unchanged."""


class RecordChannel(Protocol):
    """The part of a worker's engine that records need."""

    def offer(self, frame: Frame) -> bool:
        """Sends a frame if that does not wait, from any thread.

        Raises:
            EOFError: The pipe is closed.
            OSError: The pipe is closed.
        """
        ...


@final
class LogBudget:
    """Limits the rate of records, with a burst."""

    def __init__(self, now: float) -> None:
        self._rest = BURST
        self._at = now

    def refill(self, now: float) -> None:
        """Adds the budget for the time since the last call."""
        self._rest = min(BURST, self._rest + max(0.0, now - self._at) * RATE)
        self._at = now

    def take(self, cost: float, *, is_severe: bool) -> bool:
        """Subtracts the cost of a record if the rest of the budget suffices.

        Args:
            cost: 1 plus the size of the record in KiB.
            is_severe: Whether it is a warning or worse: these have a reserve.
        """
        if self._rest - cost < (0.0 if is_severe else _RESERVE):
            return False
        self._rest -= cost
        return True


@final
class RecordSender:
    """Sends records to the owner; see the module.

    The handler holds ``lock`` during ``send``. ``find`` returns the engine of this
    worker, or None before it exists.
    """

    def __init__(self, lock: Any, find: Callable[[], object]) -> None:
        self._lock = lock
        self._find = find
        self._client: RecordChannel | None = None
        self._budget = LogBudget(time.monotonic())
        self._waiting: deque[Frame] = deque()
        self._dropped = 0
        self._dropped_since = 0.0
        self._has_thread = False
        self._is_over = threading.Event()
        self._formatter = logging.Formatter()

    def send(self, record: logging.LogRecord) -> None:
        """Sends a record, unless this process shows it.

        Raises:
            Exception: The error of a user's object in the record.
        """
        if self._is_written_here(record):
            return
        client = self._client_here()
        if client is None or self._is_over.is_set():
            _last_resort(record)
            return
        self._send(client, self._frame_of(record), record)

    def close(self) -> None:
        """Sends waiting records as the process ends, and reports the others."""
        with self._lock:
            client = self._client_here()
            if client is not None and not self._is_over.is_set():
                end = time.monotonic() + _LAST
                while not self._send_rest(client, is_last=True):
                    if time.monotonic() > end:
                        _print(f"{self._lost()} could not be sent as the process ended")
                        break
                    time.sleep(_PAUSE)
            self._is_over.set()

    def _lost(self) -> str:
        return f"{len(self._waiting) + self._dropped} log records"

    def _client_here(self) -> RecordChannel | None:
        if self._client is None:
            self._client = cast("RecordChannel | None", self._find())
        return self._client

    def _is_written_here(self, record: logging.LogRecord) -> bool:
        """Whether a handler of the user's writes a record to this process's output."""
        entry = logging.root.manager.loggerDict.get(record.name, logging.root)
        logger: Any = entry if isinstance(entry, logging.Logger) else logging.root
        while logger is not None:
            for handler in logger.handlers:
                stream = getattr(handler, "stream", None)
                if (
                    stream is not None
                    and (stream is sys.stderr or stream is sys.stdout)
                    and record.levelno >= handler.level
                    and handler.filter(record)
                ):
                    return True
            if not logger.propagate:
                break
            logger = logger.parent
        return False

    def _frame_of(self, record: logging.LogRecord) -> Frame:
        call = running.get()
        number, method = (0, "") if call is None else call[:2]
        attributes = {
            name: _plain(value)
            for name in _SENT
            if (value := getattr(record, name, None)) is not None
        }
        for name, value in vars(record).items():
            if name not in _STANDARD:
                attributes[_text(name)] = _plain(value)
        if isinstance(record.msg, dict):  # an event of structlog, to be formatted
            attributes["msg"] = _plain(cast("object", record.msg))
        trace = record.exc_text
        if record.exc_info and not trace:
            trace = self._formatter.formatException(record.exc_info)
        if trace and len(trace) > LONGEST:  # its end names the error
            trace = f"({len(trace) - LONGEST} characters more)\n{trace[-LONGEST:]}"
        message = record.getMessage()
        if len(message) > LONGEST:
            more = len(message) - LONGEST
            message = f"{message[:LONGEST]} ({more} characters more)"
        level = min(max(0, record.levelno), _GREATEST)
        return (
            LOG,
            level,
            str(record.name),
            record.created,
            number,
            method,
            attributes,
            str(trace) if trace else None,
            message,
        )

    def _send(
        self, client: RecordChannel, frame: Frame, record: logging.LogRecord
    ) -> None:
        cost = 1 + (len(frame[-1]) + len(frame[-2] or "")) / 1024
        is_severe = record.levelno >= logging.WARNING
        now = time.monotonic()
        if not self._waiting:
            self._budget.refill(now)
        if not self._budget.take(cost, is_severe=is_severe):
            self._drop(now)
            if now > self._dropped_since + _COUNTING:  # the thread seldom gets the lock
                self._send_rest(client)
        else:
            try:
                if not self._waiting and client.offer(frame):
                    return
            except (EOFError, OSError):  # the owner has ended, or the pipe is broken
                _last_resort(record)
                return
            self._waiting.append(frame)
        if not self._has_thread:
            # threading.Thread would wait here until it runs.
            with suppress(RuntimeError):  # too many threads; the next record tries
                start_new_thread(self._send_later, ())
                self._has_thread = True

    def _drop(self, now: float) -> None:
        self._dropped_since = self._dropped_since if self._dropped else now
        self._dropped += 1

    def _send_later(self) -> None:
        """Sends waiting records, and reports dropped ones; runs in a thread."""
        while not self._is_over.wait(_PAUSE):
            with self._lock:
                client = self._client_here()
                if client is None or self._send_rest(client):
                    self._has_thread = False
                    return

    def _send_rest(self, client: RecordChannel, *, is_last: bool = False) -> bool:
        """Sends waiting records while there is room; returns whether all are sent."""
        try:
            while self._waiting:
                if not client.offer(self._waiting[0]):
                    return False
                self._waiting.popleft()
            if not self._dropped:
                return True
            if not is_last and time.monotonic() < self._dropped_since + _COUNTING:
                return False
            if not client.offer(self._count_of_dropped()):
                return False
        except (EOFError, OSError):
            _print(f"{self._lost()} could not be sent: the pipe is closed")
            self._waiting.clear()
        self._dropped = 0
        return True

    def _count_of_dropped(self) -> Frame:
        text = (
            f"{self._dropped} log records of this process were dropped: it has made "
            f"more than {RATE:g} a second, or the program did not take them"
        )
        return (LOG, logging.WARNING, "actorlib", time.time(), 0, "", {}, None, text)


def _last_resort(record: logging.LogRecord) -> None:
    """Handles a record like Python if no handler accepts it."""
    handler = logging.lastResort
    if handler is not None and record.levelno >= handler.level:
        handler.handle(record)


def _print(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")


def _text(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _plain(value: object, depth: int = 0) -> object:
    """Returns a value that may be sent: the value itself, or its text."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is int:
        return value if -_GREATEST <= cast("int", value) <= _GREATEST else str(value)
    if depth < _DEEPEST:
        if isinstance(value, dict):
            items = list(cast("dict[object, object]", value).items())[:_MOST_ITEMS]
            return {_text(name): _plain(item, depth + 1) for name, item in items}
        if isinstance(value, list | tuple | set | frozenset):
            listed = list(cast("list[object]", value))[:_MOST_ITEMS]
            return [_plain(item, depth + 1) for item in listed]
    return _text(value)
