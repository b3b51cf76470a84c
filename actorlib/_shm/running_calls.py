"""Notes which calls of an actor run, in cells that outlive its process.

Answers of quick methods leave together, so from what has no answer the owner cannot
tell which calls ran when a process ended. The worker writes their numbers into cells of
shared memory; a worker that is a thread of the owner's process, into a list.

It does so from the first call on that may be made again, and never before: see
NOTE_CALLS.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

CELLS: Final = 512
"""How many cells one process has: a page."""

MARK: Final = 0
"""The call that a worker of functions has begun last, or the mark of the method that an
actor runs for a call over a link."""
HIGHEST: Final = 1
"""The highest number of a call that has begun."""
CROWDED: Final = 2
"""How many calls run for which there was no cell."""
ALONE: Final = 3
"""The plain call of an actor that runs one at a time, which writes it here itself. A
cell that is looked for would cost each of its calls 0.3 us instead of 0.1."""
_FIRST: Final = 4


class RunningCalls:
    """Notes the calls that run: where one thread begins and ends them.

    Args:
        cells: The cells of this process, all of them 0 so far but the first.
        limit: Calls from this number on are not noted: they came over links.

    Attributes:
        cells: The same.
    """

    def __init__(self, cells: memoryview | list[int], limit: int) -> None:
        self.cells = cells
        self._limit = limit
        self._free = [*range(CELLS - 1, _FIRST - 1, -1)]
        self._places: dict[int, int] = {}
        self._highest = 0

    def __repr__(self) -> str:
        return f"<RunningCalls {[*self._places]}, {self._highest} the highest>"

    def begin(self, call: int) -> None:
        """Notes a call before its code runs; again if it goes on after a pause."""
        if call >= self._limit or call in self._places:
            return
        cells, free = self.cells, self._free
        place = free.pop() if free else CROWDED
        self._places[call] = place
        if place == CROWDED:
            cells[CROWDED] += 1
        else:
            cells[place] = call
        if call > self._highest:
            self._highest = cells[HIGHEST] = call

    def end(self, call: int) -> None:
        """Notes that a call is over, once its answer is on its way."""
        place = self._places.pop(call, None)
        if place is None:
            return
        if place == CROWDED:
            self.cells[CROWDED] -= 1
        else:
            self.cells[place] = 0
            self._free.append(place)


class SharedRunningCalls(RunningCalls):
    """Notes the calls that run on several threads."""

    def __init__(self, cells: memoryview | list[int], limit: int) -> None:
        super().__init__(cells, limit)
        self._lock = threading.Lock()

    def begin(self, call: int) -> None:
        """Notes a call before its code runs; see RunningCalls."""
        with self._lock:
            super().begin(call)

    def end(self, call: int) -> None:
        """Notes that a call is over; see RunningCalls."""
        with self._lock:
            super().end(call)


class BegunCalls(NamedTuple):
    """Tells which of the calls that a process was sent have begun there.

    Attributes:
        highest: The highest number of those that have begun.
        running: Those that ran when the process ended.
        is_crowded: Whether more ran than could be noted.
    """

    highest: int
    running: frozenset[int]
    is_crowded: bool = False

    def runs(self, call: int) -> bool:
        """Whether a call ran when the process ended, or may have."""
        return call in self.running or (self.is_crowded and call <= self.highest)

    def may_have_begun(self, call: int) -> bool:
        """Whether a call may have begun; if not, none of its code has run."""
        return call <= self.highest or call in self.running


def read_begun(cells: Sequence[int]) -> BegunCalls:
    """Reads the cells of a process that has ended."""
    running = frozenset(call for call in cells[ALONE:] if call)
    return BegunCalls(cells[HIGHEST], running, bool(cells[CROWDED]))
