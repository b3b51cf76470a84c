"""Records which calls of an actor run, in cells that outlive its process.

Results of quick methods are sent together. So the owner cannot tell from the unanswered
calls which of them ran when a process ended. The worker writes the numbers of running
calls into cells of shared memory. A worker that is a thread of the owner's process
writes them into a list.

Recording starts with the first call that may be sent again: see NOTE_CALLS.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

CELLS: Final = 512
"""The number of cells of one process: a page."""

MARK: Final = 0
"""The cell for the last call that a worker of functions has begun, or for the mark of
the method that an actor runs for a call over a link."""
HIGHEST: Final = 1
"""The cell for the highest number of a call that has begun."""
CROWDED: Final = 2
"""The cell for the number of running calls that have no cell."""
ALONE: Final = 3
"""The cell for the plain call of an actor that runs one at a time. Its executor writes
it directly: to search for a free cell would cost each call 0.3 us instead of 0.1."""
_FIRST: Final = 4


class RunningCalls:
    """Records the running calls of one thread.

    Args:
        cells: The cells of this process, all 0 except for the first.
        limit: Calls from this number on are not recorded: they came over links.
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
        """Records a call before its code runs, and again when it continues."""
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
        """Records the end of a call, after its result was queued."""
        place = self._places.pop(call, None)
        if place is None:
            return
        if place == CROWDED:
            self.cells[CROWDED] -= 1
        else:
            self.cells[place] = 0
            self._free.append(place)


class SharedRunningCalls(RunningCalls):
    """Records the running calls of several threads."""

    def __init__(self, cells: memoryview | list[int], limit: int) -> None:
        super().__init__(cells, limit)
        self._lock = threading.Lock()

    def begin(self, call: int) -> None:
        with self._lock:
            super().begin(call)

    def end(self, call: int) -> None:
        with self._lock:
            super().end(call)


class BegunCalls(NamedTuple):
    """The calls that have begun in a process that has ended.

    Attributes:
        highest: The highest number of a call that has begun.
        running: The calls that ran when the process ended.
        is_crowded: Whether more calls ran than there are cells.
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
    running = frozenset(call for call in cells[ALONE:] if call)
    return BegunCalls(cells[HIGHEST], running, bool(cells[CROWDED]))
