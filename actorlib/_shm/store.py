"""The memory that one process shares with others: it copies values in, others read.

It finds room in what was touched before; then it looks what has become free; then it
touches more, if the budget allows. What nobody seems to need goes back to the system.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter, deque
from typing import TYPE_CHECKING

from actorlib._shm.payload import NAME, block_id
from actorlib._shm.segments import SPARSE, Budget, Segment, further, keeps_its_size
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

_WARM = 8
"""The part of the budget that one process keeps warm, at the most."""
_KEPT = 1 << 20
"""Bytes that are kept in any case: giving them back would cost more than they do."""
_AMPLE = 2
"""The part of the budget above which nobody keeps anything warm: others may need it."""


class SegmentStore:
    """The segments of this process, and the blocks in them.

    Args:
        prefix: How the names of its segments begin.
        budget: What it may touch.
        tidy: Called before more memory is taken: it may find blocks to be free.
        only_sealed: Whether there are none where the system cannot seal them: nobody
            would take what can still be cut.
    """

    def __init__(
        self,
        prefix: bytes,
        budget: Budget,
        tidy: Callable[[], None],
        *,
        only_sealed: bool = False,
    ) -> None:
        self._prefix = prefix
        self._budget = budget
        self._tidy = tidy
        self._only_sealed = only_sealed
        self._count_size = NAME - len(prefix)
        self._names = itertools.count(1)
        self._segments: dict[bytes, Segment] = {}
        self._viewed: Counter[bytes] = Counter()
        self._freed: set[bytes] = set()
        self._dropped: deque[bytes] = deque()
        self._unviewed: deque[bytes] = deque()
        self._lock = threading.RLock()
        self._is_closed = False

    def __repr__(self) -> str:
        blocks = ", ".join(repr(s.blocks) for s in self._segments.values())
        return f"<Store of {self.touched} bytes: {blocks}>"

    @property
    def touched(self) -> int:
        """The bytes that its segments have touched."""
        return sum(segment.touched for segment in self._segments.values())

    def segment(self, name: bytes) -> Segment | None:
        """A segment of this process, or None if it is not one of these."""
        return self._segments.get(name)

    def take(self, nbytes: int) -> tuple[Segment, int] | None:
        """Takes a block; gives its segment and where it begins, or None."""
        with self._lock:
            self._note()
            found = self._within(nbytes)
        if found is None:
            self._tidy()  # it may load values: not behind the lock
            with self._lock:
                self._note()
                found = self._within(nbytes) or self._beyond(nbytes)
        return found

    def free(self, block: bytes) -> None:
        """Nobody else holds a block any more.

        Raises:
            ProtocolError: There is none.
        """
        with self._lock:
            self._note()
            self._end(block)

    def viewed(self, block: bytes) -> None:
        """This process looks at a block itself: it is not free before it has not."""
        with self._lock:
            self._viewed[block] += 1

    def unviewed(self, block: bytes) -> None:
        """A view of a block is gone; noted only, as destructors may run anywhere."""
        self._unviewed.append(block)

    def dropped(self, block: bytes) -> None:
        """Nobody was ever told of a block; noted only, likewise."""
        self._dropped.append(block)

    def close(self) -> None:
        """Closes the segments here; views of them go on showing what they show."""
        with self._lock:
            for segment in self._segments.values():
                segment.close()
            self._segments.clear()
            self._is_closed = True

    def _note(self) -> None:
        """Takes account of what destructors have said."""
        while self._unviewed:
            block = self._unviewed.popleft()
            self._viewed[block] -= 1
            if not self._viewed[block]:
                del self._viewed[block]
                if block in self._freed:
                    self._freed.discard(block)
                    self._give_back(block)
        while self._dropped:
            self._end(self._dropped.popleft())

    def _end(self, block: bytes) -> None:
        """Gives a block back, when this process does not look at it itself."""
        if block in self._viewed:
            self._freed.add(block)
        else:
            self._give_back(block)

    def _give_back(self, block: bytes) -> None:
        if self._is_closed:
            return
        name, start = block_id.unpack(block)
        segment = self._segments.get(name)
        if segment is None:
            raise ProtocolError(f"block {block.hex()} is given back, and is not there")
        segment.blocks.give_back(start)
        self._trim(segment)

    def _within(self, nbytes: int) -> tuple[Segment, int] | None:
        """A block in what was touched."""
        for segment in self._segments.values():
            start = segment.blocks.take(nbytes)
            if start is None:
                continue
            if start + nbytes <= segment.touched:
                return segment, start
            segment.blocks.give_back(start)
        return None

    def _beyond(self, nbytes: int) -> tuple[Segment, int] | None:
        """A block for which memory is touched, or a whole segment is made."""
        if self._is_closed:
            return None
        for segment in self._segments.values():
            start = segment.blocks.take(nbytes)
            if start is None:
                continue
            if self._touch(segment, start + nbytes):
                return segment, start
            segment.blocks.give_back(start)
            return None  # there is a gap: it is memory that is missing
        name = self._prefix + next(self._names).to_bytes(self._count_size, "big")
        try:
            segment = Segment(name, max(nbytes, SPARSE))
        except OSError:
            return None
        start = segment.blocks.take(nbytes)
        is_taken = keeps_its_size(segment.fd, is_sure=self._only_sealed)
        if not is_taken or start is None or not self._touch(segment, start + nbytes):
            segment.close()
            return None
        self._segments[name] = segment
        return segment, start

    def _touch(self, segment: Segment, end: int) -> bool:
        """Takes memory up to an end, a bit more if there is, if the budget allows."""
        if end <= segment.touched:
            return True
        before = self.touched - segment.touched
        for aim in (further(segment.touched, end, segment.size), end):
            if not self._budget.set(before + aim):
                continue
            try:
                segment.touch(aim)
            except OSError:
                self._budget.set(before + segment.touched)
                continue
            return True
        return False

    def _trim(self, segment: Segment) -> None:
        """Gives the system back what is more than is kept warm."""
        top, limit = segment.blocks.top, self._budget.limit
        if segment.touched - top <= min(_KEPT, limit // _WARM):
            return
        warm = 0
        try:
            is_ample = self._budget.used() <= limit // _AMPLE
        except ProtocolError:
            is_ample = False
        if is_ample:
            others = self.touched - segment.touched
            warm = max(limit // _WARM - others, 0)
        if segment.touched > max(top, warm):
            segment.trim(max(top, warm))
            self._budget.set(self.touched)
