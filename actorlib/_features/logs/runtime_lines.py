"""Keeps the last lines and log records of each actor in memory.

The owner's loop adds them. Any thread reads them, for example the server's while the
loop is blocked. Each actor has a ring buffer with a budget in bytes. The reason of an
actor's end is read from there, too.

The lines of all functions share one buffer: their workers come and go.
"""

from __future__ import annotations

import sys
import threading
import time
from bisect import bisect_right
from collections import defaultdict, deque
from heapq import merge
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from actorlib._owner.actors.exit_reason import log_tail
from actorlib._rows.snapshot import LogLine, LogPage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actorlib._base.ids import ActorId

BUDGET: Final = 256 * 1024
"""The budget of one actor in bytes: about 1,000 lines."""
BUDGET_OF_FORGOTTEN: Final = 16 * 1024
"""The budget of a dead actor without handles. By default 1,000 are listed."""
_LONGEST_PAGE = 8 * 1024 * 1024
_OF_LINE = 200
"""Bytes of a line besides its text."""


class Kept(NamedTuple):
    """A line, as it is kept; see ``LogLine`` for the other fields.

    Attributes:
        number: Counts the lines of the runtime.
        place: Counts the lines of its actor.
        text: The line without its end: bytes for printed lines.
    """

    number: int
    place: int
    time: float
    source: str
    label: str
    pid: int
    text: bytes | str
    level: int = 0
    logger: str = ""
    method: str = ""
    call: str = ""
    traceback: str = ""

    @property
    def nbytes(self) -> int:
        return _OF_LINE + len(self.text) + len(self.traceback)


_Owned = tuple["ActorId | None", Kept]
"""A line and its actor."""


@final
class RingBuffer:
    """The last lines of one actor; ``count`` includes the lines that were dropped."""

    def __init__(self) -> None:
        self.lines: deque[Kept] = deque()
        self.nbytes = 0
        self.count = 0

    def add(self, line: Kept) -> None:
        self.lines.append(line)
        self.count += 1
        self.nbytes += line.nbytes
        self.limit(BUDGET)

    def limit(self, budget: int) -> None:
        """Drops the oldest lines that exceed a budget."""
        while self.nbytes > budget and len(self.lines) > 1:
            self.nbytes -= self.lines.popleft().nbytes

    def copied(self, most: int) -> list[Kept]:
        """Copies the last lines, up to a number."""
        if most >= len(self.lines):
            return list(self.lines)
        return [*islice(reversed(self.lines), most)][::-1]


@final
class ActorLogs:
    """The last lines of each actor of a runtime."""

    def __init__(self) -> None:
        self.number = 0
        self._logs: defaultdict[ActorId | None, RingBuffer] = defaultdict(RingBuffer)
        self._lock = threading.Lock()

    def add_printed(
        self,
        actor: ActorId | None,
        source: str,
        label: str,
        pid: int,
        lines: Iterable[bytes],
    ) -> None:
        """Adds lines that a worker has just printed, without their ends."""
        now = time.time()
        with self._lock:
            for line in lines:
                self._add(actor, now, source, label, pid, line)

    def add_record(self, actor: ActorId | None, *values: Any) -> None:
        """Adds a log record: the fields of ``Kept`` from ``time`` on."""
        with self._lock:
            self._add(actor, *values)

    def _add(self, actor: ActorId | None, *values: Any) -> None:
        log = self._logs[actor]
        self.number += 1
        log.add(Kept(self.number, log.count + 1, *values))

    def shorten(self, actor: ActorId) -> None:
        """Shortens the lines of a dead actor without handles."""
        with self._lock:
            if actor in self._logs:
                self._logs[actor].limit(BUDGET_OF_FORGOTTEN)

    def forget(self, actor: ActorId) -> None:
        """Drops the lines of an actor that is no longer listed."""
        with self._lock:
            self._logs.pop(actor, None)

    def tail(self, actor: ActorId | None, pid: int) -> str:
        """Returns the last lines that a process has written to its standard error.

        It is called on the owner's loop, where lines are added.
        """
        log = self._logs.get(actor)
        lines = () if log is None else log.lines
        return log_tail(
            [
                _text(line)
                for line in lines
                if (line.pid, line.source) == (pid, "stderr")
            ]
        )

    def read(
        self,
        actor: ActorId | None = None,
        *,
        after: int = 0,
        most: int = 1000,
        since: float = 0.0,
        is_newest: bool = False,
    ) -> LogPage:
        """Returns lines in the order of their arrival; from any thread.

        Each says how many lines were lost directly before it. That follows from the
        places of the remaining lines, so dropped lines need not be remembered.

        Args:
            actor: The actor; None for all actors and functions.
            after: The position before the first line: 0, or that of a page of the same
                actor.
            most: The most lines; there may be fewer if they are long.
            since: The earliest time of the lines.
            is_newest: Whether to return the last lines instead of the first after
                ``after``.
        """
        place_of = _number if actor is None else _place
        # A time is searched in all lines: a record may be older than its place.
        copied = most + 1 if is_newest and not since else sys.maxsize
        with self._lock:  # only while references are copied
            position = self.number if actor is None else self._count_of(actor)
            logs = [
                (owner, log.copied(copied))
                for owner, log in self._logs.items()
                if actor in (None, owner) and place_of(log.lines[-1]) > after
            ]
        position = max(position, after)
        later: list[Iterable[_Owned]] = []
        for owner, lines in logs:
            recent = lines[bisect_right(lines, after, key=place_of) :]
            in_order = reversed(recent) if is_newest else recent
            later.append(zip(repeat(owner), in_order, strict=False))
        merged = merge(*later, key=_number_of, reverse=is_newest)
        rows, rest = _first(merged, most, since)
        previous = after
        if is_newest:
            rows.reverse()
            previous = after if rest is None else place_of(rest)
        elif rest is not None:
            position = place_of(rows[-1][1])
        page: list[LogLine] = []
        lost = 0
        for owner, line in rows:
            lost += place_of(line) - previous - 1
            previous = place_of(line)
            if _is_recent(line, since):
                page.append(_log_line(owner, line, lost))
            lost = 0  # or older than a line that is too old
        return LogPage(page, lost + position - previous, position)

    def _count_of(self, actor: ActorId) -> int:
        log = self._logs.get(actor)
        return 0 if log is None else log.count


def _first(
    rows: Iterable[_Owned], most: int, since: float
) -> tuple[list[_Owned], Kept | None]:
    """Returns the first rows up to a page of recent lines, and the next line."""
    first: list[_Owned] = []
    count = nbytes = 0
    for owner, line in rows:
        if _is_recent(line, since):
            nbytes += line.nbytes
            if count == most or (count and nbytes > _LONGEST_PAGE):
                return first, line
            count += 1
        first.append((owner, line))
    return first, None


def _is_recent(line: Kept, since: float) -> bool:
    return not since or line.time >= since


def _number(line: Kept) -> int:
    return line.number


def _place(line: Kept) -> int:
    return line.place


def _number_of(row: _Owned) -> int:
    return row[1].number


def _text(line: Kept) -> str:
    text = line.text
    return text if isinstance(text, str) else text.decode(errors="replace")


def _log_line(actor: ActorId | None, line: Kept, lost: int) -> LogLine:
    return LogLine(
        number=line.number,
        time=line.time,
        source=line.source,
        actor_id="" if actor is None else actor.hex(),
        label=line.label,
        pid=line.pid,
        text=_text(line),
        level=line.level,
        logger=line.logger,
        method=line.method,
        call=line.call,
        traceback=line.traceback,
        lost=lost,
    )
