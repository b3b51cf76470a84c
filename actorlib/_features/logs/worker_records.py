"""Sends the log records of a worker to the owner, whose loggers get them.

A handler of the root logger takes what the user's code logs, from whatever thread, and
it is sent at once, as plain values: formatted text, and what ``extra=`` brought. So a
record that was made before a crash is on its way by then. It never waits:

* What the pipe does not take now waits here. A thread, which is there only then, sends
  it when there is room.
* A worker has a budget (``LogBudget``), so that a flood neither blocks nor drowns the
  owner. It is not refilled while records wait, so it bounds these, too. Other records
  are dropped, the less severe first, and counted in a record of its own.

What cannot be had: records of a process that a worker has forked or started, of the
last moments of one that is killed while its pipe is full, and what an actor with an
event loop logs when that has ended. For these Python's own last resort writes to
standard error, from WARNING on, and such lines are shown as all others.

An actor that configures logging itself has it its way. A handler of its own that writes
to its output shows the record there, and then it is not sent: nothing appears twice.
``basicConfig()`` does its work as in any process, which it would not where the root
logger has a handler.

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
"""Records of a KiB or less that a worker may send in a second, in the long run."""
BURST: Final = 2000.0
"""How many of them it may send at once."""
_RESERVE = 500.0
"""What is left of these for warnings and errors."""
LONGEST: Final = 32 * 1024
"""Characters of a message, and of a traceback."""
_PAUSE = 0.05
_TOLD = 2.0
"""Seconds for which what is dropped is counted before that is told."""
_LAST = 1.0
"""Seconds in which what waits may still leave when the process ends."""
_DEEPEST = 6
_MOST_ITEMS = 200
_GREATEST = (1 << 63) - 1
_PLAIN = frozenset({type(None), bool, float})
_STANDARD = frozenset(
    vars(logging.LogRecord("", 0, "", 0, "", (), None)) | {"message": "", "asctime": ""}
) | {"taskName"}
"""The attributes of every record; the others are the user's own."""
_CROSSING = (
    "pathname",
    "lineno",
    "funcName",
    "thread",
    "threadName",
    "taskName",
    "stack_info",
)
"""Those that cross as they are."""


class RecordChannel(Protocol):
    """The engine of a worker, as far as records need it."""

    def offer(self, frame: Frame) -> bool:
        """Sends a frame if that does not wait, from any thread.

        Raises:
            EOFError: Nothing can be sent any more.
            OSError: Likewise.
        """
        ...


@final
class LogBudget:
    """Says whether one more record may be sent: so many a second, with a burst.

    Args:
        now: The time.
    """

    def __init__(self, now: float) -> None:
        self._left = BURST
        self._at = now

    def refill(self, now: float) -> None:
        """Adds what the time since the last call allows."""
        self._left = min(BURST, self._left + max(0.0, now - self._at) * RATE)
        self._at = now

    def take(self, cost: float, *, is_severe: bool) -> bool:
        """Takes what a record costs, if there is as much.

        Args:
            cost: 1 and what it has in KiB.
            is_severe: Whether it is a warning or worse, for which some is kept.
        """
        if self._left - cost < (0.0 if is_severe else _RESERVE):
            return False
        self._left -= cost
        return True


@final
class RecordSender:
    """Sends records to the owner; see the module.

    Args:
        lock: That of the handler, which holds it where it has a record sent.
        find: Finds the engine of this worker, once there is one.
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

        Args:
            record: The record.

        Raises:
            Exception: What the user's objects raise in it.
        """
        if self._is_written_here(record):
            return
        client = self._client_here()
        if client is None or self._is_over.is_set():
            _last_resort(record)
            return
        self._send(client, self._frame_of(record), record)

    def close(self) -> None:
        """Sends what waits as the process ends, and says what could not be sent."""
        with self._lock:
            client = self._client_here()
            if client is not None and not self._is_over.is_set():
                end = time.monotonic() + _LAST
                while not self._send_rest(client, is_last=True):
                    if time.monotonic() > end:
                        _tell(f"{self._lost()} could not be sent as the process ended")
                        break
                    time.sleep(_PAUSE)
            self._is_over.set()

    def _lost(self) -> str:
        return f"{len(self._waiting) + self._dropped} log records"

    def _client_here(self) -> RecordChannel | None:
        """Gives what sends, once there is something; the template has nothing."""
        if self._client is None:
            self._client = cast("RecordChannel | None", self._find())
        return self._client

    def _is_written_here(self, record: logging.LogRecord) -> bool:
        """Whether a handler of the user's writes a record to this process's output."""
        found = logging.root.manager.loggerDict.get(record.name, logging.root)
        logger: Any = found if isinstance(found, logging.Logger) else logging.root
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
        about = {
            name: _plain(value)
            for name in _CROSSING
            if (value := getattr(record, name, None)) is not None
        }
        for name, value in vars(record).items():
            if name not in _STANDARD:
                about[_text(name)] = _plain(value)
        if isinstance(record.msg, dict):  # an event of structlog's, to be formatted
            about["msg"] = _plain(cast("object", record.msg))
        said = record.exc_text
        if record.exc_info and not said:
            said = self._formatter.formatException(record.exc_info)
        if said and len(said) > LONGEST:  # its end says which error it was
            said = f"({len(said) - LONGEST} characters more)\n{said[-LONGEST:]}"
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
            about,
            str(said) if said else None,
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
            if now > self._dropped_since + _TOLD:  # the thread seldom gets the lock
                self._send_rest(client)
        else:
            try:
                if not self._waiting and client.offer(frame):
                    return
            except (EOFError, OSError):  # nobody is there any more, or never again
                _last_resort(record)
                return
            self._waiting.append(frame)
        if not self._has_thread:
            # threading.Thread would wait here until it runs.
            with suppress(RuntimeError):  # there can be no more; the next one tries
                start_new_thread(self._see_to_rest, ())
                self._has_thread = True

    def _drop(self, now: float) -> None:
        self._dropped_since = self._dropped_since if self._dropped else now
        self._dropped += 1

    def _see_to_rest(self) -> None:
        """Sends what waits, and says what was dropped; on a thread of its own."""
        while not self._is_over.wait(_PAUSE):
            with self._lock:
                client = self._client_here()
                if client is None or self._send_rest(client):
                    self._has_thread = False
                    return

    def _send_rest(self, client: RecordChannel, *, is_last: bool = False) -> bool:
        """Sends what waits, as far as there is room; says whether that was all."""
        try:
            while self._waiting:
                if not client.offer(self._waiting[0]):
                    return False
                self._waiting.popleft()
            if not self._dropped:
                return True
            if not is_last and time.monotonic() < self._dropped_since + _TOLD:
                return False
            if not client.offer(self._of_dropped()):
                return False
        except (EOFError, OSError):
            _tell(f"{self._lost()} could not be sent: the pipe is closed")
            self._waiting.clear()
        self._dropped = 0
        return True

    def _of_dropped(self) -> Frame:
        text = (
            f"{self._dropped} log records of this process were dropped: it has made "
            f"more than {RATE:g} a second, or the program did not take them"
        )
        return (LOG, logging.WARNING, "actorlib", time.time(), 0, "", {}, None, text)


def _last_resort(record: logging.LogRecord) -> None:
    """Does what Python does with a record that no handler takes."""
    handler = logging.lastResort
    if handler is not None and record.levelno >= handler.level:
        handler.handle(record)


def _tell(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")


def _text(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _plain(value: object, depth: int = 0) -> object:
    """Gives a value as it may cross, or the text of one that may not."""
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
