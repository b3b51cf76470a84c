"""Keeps the last lines and log records of each actor in memory, for who asks.

The owner's loop adds them, and any thread reads, as the door's does while the loop is
blocked. What is kept of an actor is bounded in lines and in bytes, and so is all of it
together: then those lose theirs that have said nothing for the longest.

The lines of all functions are kept as one: their workers come and go.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import OrderedDict, deque
from heapq import merge
from itertools import islice, repeat
from typing import TYPE_CHECKING, Final, NamedTuple, final

from actorlib._core.snapshot import LogLine, LogPage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actorlib._core.ids import ActorId

MOST_LINES: Final = 1000
"""Lines that are kept of one actor."""
MOST_BYTES: Final = 1024 * 1024
"""Bytes that are kept of one actor."""
MOST_IN_ALL: Final = 64 * 1024 * 1024
"""Bytes that are kept in all."""
_LONGEST_PAGE = 8 * 1024 * 1024
_OF_LINE = 200
"""Bytes that a line takes besides its text."""


class Kept(NamedTuple):
    """A line, as it is kept.

    Attributes:
        number: Counts the lines of the runtime.
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


@final
class _Log:
    """What is kept of one actor."""

    def __init__(self) -> None:
        self.lines: deque[Kept] = deque()
        self.nbytes = 0
        self.last_lost = 0

    def add(self, line: Kept) -> int:
        """Adds a line; gives how many bytes there are more now, or fewer."""
        self.lines.append(line)
        more = line.nbytes
        self.nbytes += more
        while len(self.lines) > MOST_LINES or (
            self.nbytes > MOST_BYTES and len(self.lines) > 1
        ):
            more -= self.drop()
        return more

    def copied(self, most: int) -> list[Kept]:
        """Copies the last lines, so many at the most."""
        if most >= len(self.lines):
            return list(self.lines)
        return [*islice(reversed(self.lines), most)][::-1]

    def drop(self) -> int:
        """Drops the oldest line; gives how many bytes that makes free."""
        oldest = self.lines.popleft()
        self.nbytes -= oldest.nbytes
        self.last_lost = oldest.number
        return oldest.nbytes


@final
class ActorLogs:
    """The last lines of each actor of a runtime.

    Attributes:
        number: That of the latest line.
    """

    def __init__(self) -> None:
        self.number = 0
        self._logs: OrderedDict[ActorId | None, _Log] = OrderedDict()
        self._nbytes = 0
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
                self.number += 1
                self._add(actor, Kept(self.number, now, source, label, pid, line))

    def add_record(
        self,
        actor: ActorId | None,
        now: float,
        *,
        label: str,
        pid: int,
        text: str,
        level: int,
        logger: str,
        method: str,
        call: str,
        traceback: str,
    ) -> None:
        """Adds a log record; see ``Kept``.

        Args:
            actor: Whose it is; None for a function's.
            now: When it was made, in seconds since the epoch.
            label: See ``Kept``, as all that follow.
            pid: See there.
            text: See there.
            level: See there.
            logger: See there.
            method: See there.
            call: See there.
            traceback: See there.
        """
        with self._lock:
            self.number += 1
            line = Kept(
                self.number,
                now,
                "log",
                label,
                pid,
                text,
                level,
                logger,
                method,
                call,
                traceback,
            )
            self._add(actor, line)

    def _add(self, actor: ActorId | None, line: Kept) -> None:
        log = self._logs.get(actor)
        if log is None:
            log = self._logs[actor] = _Log()
        else:
            self._logs.move_to_end(actor)
        self._nbytes += log.add(line)
        while self._nbytes > MOST_IN_ALL:
            silent, oldest = next(iter(self._logs.items()))
            self._nbytes -= oldest.drop()
            if not oldest.lines:
                del self._logs[silent]

    def forget(self, actor: ActorId) -> None:
        """Drops the lines of an actor that is listed no more."""
        with self._lock:
            log = self._logs.pop(actor, None)
            if log is not None:
                self._nbytes -= log.nbytes

    def read(
        self,
        actor: ActorId | None = None,
        *,
        after: int = 0,
        most: int = MOST_LINES,
        since: float = 0.0,
        is_newest: bool = False,
    ) -> LogPage:
        """Gives lines in the order in which they came; from any thread.

        Args:
            actor: Whose; None for those of all, of functions too.
            after: The number behind which they are wanted.
            most: How many at the most; there may be fewer if they are long.
            since: The time from which on they are wanted.
            is_newest: Whether those are the last ones, or those right behind ``after``.
        """
        with self._lock:  # for no longer than it takes to copy references
            number = self.number
            logs = [
                (whose, log.copied(most if is_newest else MOST_LINES), log.last_lost)
                for whose, log in self._logs.items()
                if log.lines[-1].number > after and actor in (None, whose)
            ]
        has_lost = False
        wanted: list[Iterable[tuple[ActorId | None, Kept]]] = []
        for whose, lines, last_lost in logs:
            recent = lines[bisect_right(lines, after, key=_number_of) :]
            if since:
                is_older = bool(recent) and recent[0].time < since
                has_lost = has_lost or (last_lost > after and not is_older)
                recent = [line for line in recent if line.time >= since]
            else:
                has_lost = has_lost or last_lost > after
            in_order = reversed(recent) if is_newest else recent
            wanted.append(zip(repeat(whose), in_order, strict=False))
        chosen: list[LogLine] = []
        nbytes = 0
        for whose, line in merge(*wanted, key=_number, reverse=is_newest):
            nbytes += line.nbytes
            if len(chosen) >= most or (chosen and nbytes > _LONGEST_PAGE):
                break
            chosen.append(_shown(whose, line))
        if is_newest:
            chosen.reverse()
        return LogPage(chosen, has_lost, number)


def _number_of(line: Kept) -> int:
    return line.number


def _number(found: tuple[ActorId | None, Kept]) -> int:
    return found[1].number


def _shown(actor: ActorId | None, line: Kept) -> LogLine:
    text = line.text
    return LogLine(
        number=line.number,
        time=line.time,
        source=line.source,
        actor_id="" if actor is None else actor.hex(),
        label=line.label,
        pid=line.pid,
        text=text if isinstance(text, str) else text.decode(errors="replace"),
        level=line.level,
        logger=line.logger,
        method=line.method,
        call=line.call,
        traceback=line.traceback,
    )
