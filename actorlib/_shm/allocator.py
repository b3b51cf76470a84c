"""Allocates blocks in a segment, first fit, and frees them.

The first gap that is wide enough is allocated, so a block lies as low as it can. Low
pages were touched before, and touching a page for the first time costs several times
what copying into it costs afterwards.
"""

from __future__ import annotations

import bisect

from actorlib._shm.layout import PAGE


class BlockAllocator:
    """Allocates the blocks of one segment.

    Args:
        size: Its bytes, a multiple of ``PAGE``.

    Attributes:
        size: The same.
        used: The bytes in blocks.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0
        self._taken: dict[int, int] = {}
        self._gaps: list[tuple[int, int]] = [(0, size)]

    def __repr__(self) -> str:
        taken = f"{len(self._taken)} of {self.used} bytes"
        return f"<BlockAllocator {taken}, up to {self.top}>"

    def __len__(self) -> int:
        """The number of allocated blocks."""
        return len(self._taken)

    @property
    def top(self) -> int:
        """The end of the last block."""
        start, nbytes = self._gaps[-1] if self._gaps else (self.size, 0)
        return start if start + nbytes == self.size else self.size

    def allocate(self, nbytes: int) -> int | None:
        """Allocates a block; gives where it begins, or None if there is no gap."""
        nbytes = whole_pages(nbytes)
        for place, (start, gap) in enumerate(self._gaps):
            if gap < nbytes:
                continue
            if gap == nbytes:
                del self._gaps[place]
            else:
                self._gaps[place] = start + nbytes, gap - nbytes
            self._taken[start] = nbytes
            self.used += nbytes
            return start
        return None

    def gaps(self) -> list[tuple[int, int]]:
        """The gaps between blocks, in order: where each begins and where it ends."""
        return [(start, start + nbytes) for start, nbytes in self._gaps]

    def free(self, start: int) -> int:
        """Frees a block; returns where it ended.

        Raises:
            LookupError: None begins there.
        """
        nbytes = self._taken.pop(start, 0)
        if not nbytes:
            raise LookupError(f"no block begins at {start}: {self!r}")
        self.used -= nbytes
        end = start + nbytes
        gaps = self._gaps
        place = bisect.bisect(gaps, (start, nbytes))
        if place < len(gaps) and start + nbytes == gaps[place][0]:
            nbytes += gaps.pop(place)[1]
        if place and sum(gaps[place - 1]) == start:
            place -= 1
            start, before = gaps.pop(place)
            nbytes += before
        gaps.insert(place, (start, nbytes))
        return end


def whole_pages(nbytes: int) -> int:
    """The bytes of the pages that so many bytes need; at least one page."""
    return max(-(-nbytes // PAGE), 1) * PAGE
