"""Keeps the last lines and log records of each actor in memory, for who asks.

The owner's loop adds them, and any thread reads, as the server's does while the loop is
blocked. Each actor has a ring buffer with a budget in bytes. The reason of its end is
read from there, too.

The lines of all functions are kept as one: their workers come and go.
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

from actorlib._owner.observation.log_tail import log_tail
from actorlib._rows.snapshot import LogLine, LogPage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actorlib._base.ids import ActorId

BUDGET: Final = 256 * 1024
"""Bytes that are kept of one actor: about 1,000 lines."""
BUDGET_OF_FORGOTTEN: Final = 16 * 1024
"""Bytes that are kept of a dead actor without handles. By default 1,000 are listed."""
_LONGEST_PAGE = 8 * 1024 * 1024
_OF_LINE = 200
"""Bytes that a line takes besides its text."""


class Kept(NamedTuple):
    """A line, as it is kept.

    Attributes:
        number: Counts the lines of the runtime.
        place: Counts the lines of its actor.
        time: When it came or was made, in seconds since the epoch.
        source: ``stdout``, ``stderr`` or ``log``.
        label: What its actor was called, or its function.
        pid: Its process.
        text: The line without its end: bytes as they were printed.
        level: The level of a record; 0 of what was printed.
        logger: The name of the logger; empty of what was printed.
        method: The method whose call made the record; empty of what was printed.
        call: The id of that call, likewise.
        traceback: That of a record, or empty.
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
        """About how much memory it takes."""
        return _OF_LINE + len(self.text) + len(self.traceback)


_Owned = tuple["ActorId | None", Kept]
"""A line, and the actor whose it is."""


@final
class RingBuffer:
    """The last lines of one actor; ``count`` includes the lines that were dropped."""

    def __init__(self) -> None:
        self.lines: deque[Kept] = deque()
        self.nbytes = 0
        self.count = 0

    def add(self, line: Kept) -> None:
        """Adds a line, and drops the oldest ones that the budget has no room for."""
        self.lines.append(line)
        self.count += 1
        self.nbytes += line.nbytes
        self.limit(BUDGET)

    def limit(self, budget: int) -> None:
        """Drops the oldest lines that a budget has no room for."""
        while self.nbytes > budget and len(self.lines) > 1:
            self.nbytes -= self.lines.popleft().nbytes

    def copied(self, most: int) -> list[Kept]:
        """Copies the last lines, so many at the most."""
        if most >= len(self.lines):
            return list(self.lines)
        return [*islice(reversed(self.lines), most)][::-1]


@final
class ActorLogs:
    """The last lines of each actor of a runtime.

    Attributes:
        number: That of the latest line.
    """

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
        """Adds lines that a worker has just printed.

        Args:
            actor: Whose they are; None for a function's.
            source: ``stdout`` or ``stderr``.
            label: What the actor is called, or the function.
            pid: The worker's process.
            lines: Lines without their ends.
        """
        now = time.time()
        with self._lock:
            for line in lines:
                self._add(actor, now, source, label, pid, line)

    def add_record(self, actor: ActorId | None, *values: Any) -> None:
        """Adds a log record.

        Args:
            actor: Whose it is; None for a function's.
            *values: Those of ``Kept`` from ``time`` on.
        """
        with self._lock:
            self._add(actor, *values)

    def _add(self, actor: ActorId | None, *values: Any) -> None:
        log = self._logs[actor]
        self.number += 1
        log.add(Kept(self.number, log.count + 1, *values))

    def shorten(self, actor: ActorId) -> None:
        """Keeps the last lines of an actor that is dead and has no handle."""
        with self._lock:
            if actor in self._logs:
                self._logs[actor].limit(BUDGET_OF_FORGOTTEN)

    def forget(self, actor: ActorId) -> None:
        """Drops the lines of an actor that is listed no more."""
        with self._lock:
            self._logs.pop(actor, None)

    def tail(self, actor: ActorId | None, pid: int) -> str:
        """Gives the last lines that a process has written to its standard error.

        It is called on the owner's loop, as lines are added there.

        Args:
            actor: Whose worker it is; None for a function's.
            pid: The process.
        """
        log = self._logs.get(actor)
        lines = () if log is None else log.lines
        found = [
            _text(line) for line in lines if line.pid == pid and line.source == "stderr"
        ]
        return log_tail(found)

    def read(
        self,
        actor: ActorId | None = None,
        *,
        after: int = 0,
        most: int = 1000,
        since: float = 0.0,
        is_newest: bool = False,
    ) -> LogPage:
        """Gives lines in the order in which they came; from any thread.

        Each says how many lines were lost directly before it. That follows from the
        places of the lines that are left, so what is dropped need not be remembered.

        Args:
            actor: Whose; None for those of all, of functions too.
            after: The position behind which they are wanted: 0, or that of a page of
                the same actor.
            most: How many at the most; there may be fewer if they are long.
            since: The time from which on they are wanted.
            is_newest: Whether those are the last ones, or those right behind ``after``.
        """
        place_of = _number if actor is None else _place
        # A time is looked for in all lines: a record may be older than its place.
        copied = most + 1 if is_newest and not since else sys.maxsize
        with self._lock:  # for no longer than it takes to copy references
            position = self.number if actor is None else self._count_of(actor)
            logs = [
                (whose, log.copied(copied))
                for whose, log in self._logs.items()
                if actor in (None, whose) and place_of(log.lines[-1]) > after
            ]
        position = max(position, after)
        behind: list[Iterable[_Owned]] = []
        for whose, lines in logs:
            recent = lines[bisect_right(lines, after, key=place_of) :]
            in_order = reversed(recent) if is_newest else recent
            behind.append(zip(repeat(whose), in_order, strict=False))
        merged = merge(*behind, key=_number_of, reverse=is_newest)
        rows, rest = _first(merged, most, since)
        previous = after
        if is_newest:
            rows.reverse()
            previous = after if rest is None else place_of(rest)
        elif rest is not None:
            position = place_of(rows[-1][1])
        shown: list[LogLine] = []
        lost = 0
        for whose, line in rows:
            lost += place_of(line) - previous - 1
            previous = place_of(line)
            if _is_recent(line, since):
                shown.append(_shown(whose, line, lost))
            lost = 0  # or older than a line that is too old
        return LogPage(shown, lost + position - previous, position)

    def _count_of(self, actor: ActorId) -> int:
        log = self._logs.get(actor)
        return 0 if log is None else log.count


def _first(
    rows: Iterable[_Owned], most: int, since: float
) -> tuple[list[_Owned], Kept | None]:
    """Gives the first rows up to a page of wanted lines, and the line behind them."""
    taken: list[_Owned] = []
    count = nbytes = 0
    for whose, line in rows:
        if _is_recent(line, since):
            nbytes += line.nbytes
            if count == most or (count and nbytes > _LONGEST_PAGE):
                return taken, line
            count += 1
        taken.append((whose, line))
    return taken, None


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


def _shown(actor: ActorId | None, line: Kept, lost: int) -> LogLine:
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
