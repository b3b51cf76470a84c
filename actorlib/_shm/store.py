"""Allocates blocks in the segments of one process, and frees them.

A store first allocates in touched memory. Then it looks for blocks that have become
free. Then it touches more memory, if the budget allows. Memory beyond the warm part
returns to the system at once. Of the warm part, memory that no block used between two
sweeps returns to the system. The owner's timer starts the sweeps.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter, deque
from typing import TYPE_CHECKING

from actorlib._shm.layout import BLOCK_ID_STRUCT, PAGE, SEGMENT_NAME_SIZE
from actorlib._shm.segments import (
    SEGMENT_SIZE,
    MemoryBudget,
    Segment,
    grown_size,
    is_size_sealed,
)
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

_WARM_FRACTION = 8
"""One process keeps at most the budget divided by this number warm."""
_ALWAYS_WARM = 1 << 20
"""Bytes that are never trimmed: a trim would cost more than it saves."""
_CHECK_EVERY = 16
"""The number of freed blocks between two checks whether memory is short. To read the
slots of all processes takes as long as all other work for a block together."""
_SWEEP_STEP = 4 << 20
"""Bytes that a sweep returns to the system before it releases the lock for others: 1
GiB takes from 0.1 s to a second."""
_LAST_STEP = 1.0
"""Seconds that ``close`` waits for the current step of a sweep."""
_AMPLE_FRACTION = 2
"""Above the budget divided by this number no process keeps memory warm."""


class SegmentStore:
    """Allocates blocks in segments of this process, and frees them.

    Args:
        reclaim: Called before more memory is touched: it may free blocks.
        only_sealed: Whether to make no segments where the system cannot seal them:
            receivers would refuse to map a file that can shrink.
    """

    def __init__(
        self,
        prefix: bytes,
        budget: MemoryBudget,
        reclaim: Callable[[], None],
        *,
        only_sealed: bool = False,
    ) -> None:
        self._prefix = prefix
        self._budget = budget
        self._reclaim = reclaim
        self._only_sealed = only_sealed
        self._count_size = SEGMENT_NAME_SIZE - len(prefix)
        self._names = itertools.count(1)
        self._segments: dict[bytes, Segment] = {}
        self._viewed: Counter[bytes] = Counter()
        self._freed: set[bytes] = set()
        self._dropped: deque[bytes] = deque()
        self._unviewed: deque[bytes] = deque()
        self._lock = threading.RLock()
        self._is_closed = False
        self._unchecked = 0
        self._sweeper: threading.Thread | None = None

    def __repr__(self) -> str:
        blocks = ", ".join(repr(s.blocks) for s in self._segments.values())
        return f"<SegmentStore of {self.touched} bytes: {blocks}>"

    @property
    def touched(self) -> int:
        return sum(segment.touched for segment in self._segments.values())

    def segment(self, name: bytes) -> Segment | None:
        return self._segments.get(name)

    def allocate(self, nbytes: int) -> tuple[Segment, int] | None:
        nbytes = -(-nbytes // PAGE) * PAGE
        with self._lock:
            if self._unviewed or self._dropped:
                self._apply_deferred()
            allocation = self._allocate_in_touched(nbytes)
        if allocation is None:
            self._reclaim()  # it may load values: not under the lock
            with self._lock:
                self._apply_deferred()
                allocation = self._allocate_in_touched(
                    nbytes
                ) or self._allocate_by_growing(nbytes)
        return allocation

    def free(self, block: bytes) -> None:
        """Frees a block that no other process holds."""
        with self._lock:
            if self._unviewed or self._dropped:
                self._apply_deferred()
            self._release(block)

    def add_view(self, block: bytes) -> None:
        """Counts a view in this process, which keeps a block from being freed."""
        with self._lock:
            self._viewed[block] += 1

    def remove_view(self, block: bytes) -> None:
        """Records that a view of a block is gone; safe in a destructor."""
        self._unviewed.append(block)

    def drop(self, block: bytes) -> None:
        """Records that a block that was never sent is free; safe in a destructor."""
        self._dropped.append(block)

    def sweep(self) -> None:
        """Returns to the system the memory that had no block since the previous sweep.

        A separate thread does it, in steps, so that no caller waits for it.
        """
        with self._lock:
            self._apply_deferred()
            for segment in self._segments.values():
                segment.unused_from, segment.recent_end = segment.recent_end, 0
            is_needed = any(map(Segment.unused_part, self._segments.values()))
            is_under_way = self._sweeper is not None and self._sweeper.is_alive()
            if not is_needed or is_under_way or self._is_closed:
                return
            self._sweeper = threading.Thread(
                target=self._give_back_unused, name="actorlib memory", daemon=True
            )
        self._sweeper.start()

    def _give_back_unused(self) -> None:
        for segment in [*self._segments.values()]:
            while True:
                with self._lock:
                    unused = None if self._is_closed else segment.unused_part()
                    if unused is None:
                        break
                    start, end = unused
                    if not segment.give_back(start, min(end, start + _SWEEP_STEP)):
                        break
                    self._budget.set_touched(self.touched)

    def close(self) -> None:
        """Closes the segments in this process; views of them stay valid."""
        with self._lock:
            for segment in self._segments.values():
                segment.close()
            self._segments.clear()
            self._is_closed = True
        if self._sweeper is not None:
            self._sweeper.join(_LAST_STEP)

    def _apply_deferred(self) -> None:
        """Applies the operations that destructors have recorded."""
        while self._unviewed:
            block = self._unviewed.popleft()
            self._viewed[block] -= 1
            if not self._viewed[block]:
                del self._viewed[block]
                if block in self._freed:
                    self._freed.discard(block)
                    self._give_back(block)
        while self._dropped:
            self._release(self._dropped.popleft())

    def _release(self, block: bytes) -> None:
        """Frees a block, once this process has no view of it either."""
        if block in self._viewed:
            self._freed.add(block)
        else:
            self._give_back(block)

    def _give_back(self, block: bytes) -> None:
        if self._is_closed:
            return
        name, start = BLOCK_ID_STRUCT.unpack(block)
        segment = self._segments.get(name)
        if segment is None:
            raise ProtocolError(f"block {block.hex()} was returned, and does not exist")
        end = segment.blocks.free(start)
        if end > segment.recent_end:  # noqa: PLR1730  # max() takes three times as long
            segment.recent_end = end
        self._trim(segment)

    def _allocate_in_touched(self, nbytes: int) -> tuple[Segment, int] | None:
        for segment in self._segments.values():
            start = segment.blocks.allocate(nbytes)
            if start is None:
                continue
            end = start + nbytes
            if not segment.missing(start, end):
                if end > segment.recent_end:  # noqa: PLR1730  # as above
                    segment.recent_end = end
                return segment, start
            segment.blocks.free(start)
        return None

    def _allocate_by_growing(self, nbytes: int) -> tuple[Segment, int] | None:
        """Touches more memory for a block, or makes a segment."""
        if self._is_closed:
            return None
        for segment in self._segments.values():
            start = segment.blocks.allocate(nbytes)
            if start is None:
                continue
            if self._grow(segment, start, start + nbytes):
                return segment, start
            segment.blocks.free(start)
            return None  # the gap was large enough, but there is no memory left
        name = self._prefix + next(self._names).to_bytes(self._count_size, "big")
        try:
            segment = Segment(name, max(nbytes, SEGMENT_SIZE))
        except OSError:
            return None
        start = segment.blocks.allocate(nbytes)
        is_taken = is_size_sealed(segment.fd, is_strict=self._only_sealed)
        if not is_taken or start is None or not self._grow(segment, start, nbytes):
            segment.close()
            return None
        self._segments[name] = segment
        return segment, start

    def _grow(self, segment: Segment, start: int, end: int) -> bool:
        """Touches the memory of a block, or a bit more, if the budget allows."""
        missing = segment.missing(start, end)
        if not missing:
            return True
        begin, touched = missing[0][0], self.touched
        gap_end = next((stop for a, stop in segment.blocks.gaps() if a == end), end)
        for aim in (grown_size(begin, end, gap_end), end):
            more = sum(stop - a for a, stop in segment.missing(begin, aim))
            if not self._budget.set_touched(touched + more):
                continue
            self._unchecked = 0
            try:
                segment.touch(aim, begin)
            except OSError:
                self._budget.set_touched(self.touched)
                continue
            segment.recent_end = max(segment.recent_end, end)
            return True
        return False

    def _trim(self, segment: Segment) -> None:
        """Returns the memory beyond the warm part to the system."""
        top, limit = segment.blocks.top, self._budget.limit
        if segment.top - top <= min(_ALWAYS_WARM, limit // _WARM_FRACTION):
            return
        if self._unchecked:
            self._unchecked -= 1
            return
        warm = 0
        try:
            is_ample = self._budget.used() <= limit // _AMPLE_FRACTION
        except ProtocolError:
            is_ample = False
        if is_ample:
            touched = self.touched
            if touched <= limit // _WARM_FRACTION:
                # All of it stays until more is touched or memory becomes short.
                self._unchecked = _CHECK_EVERY - 1
                return
            warm = max(limit // _WARM_FRACTION - (touched - segment.touched), 0)
        if segment.top > max(top, warm):
            segment.trim(max(top, warm))
            self._budget.set_touched(self.touched)
