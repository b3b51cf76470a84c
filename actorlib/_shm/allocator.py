"""Allocates blocks in a segment, first fit, and frees them.

It allocates in the first gap that is large enough, so a block lies as low as possible.
Low pages were touched before. Touching a page for the first time costs several times as
much as a later copy into it.
"""

from __future__ import annotations

import bisect

from actorlib._shm.layout import PAGE


class BlockAllocator:
    """Allocates the blocks of one segment.

    Attributes:
        size: Its bytes, a multiple of ``PAGE``.
        used: The bytes in blocks.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0
        self._blocks: dict[int, int] = {}
        self._gaps: list[tuple[int, int]] = [(0, size)]

    def __repr__(self) -> str:
        blocks = f"{len(self._blocks)} of {self.used} bytes"
        return f"<BlockAllocator {blocks}, up to {self.top}>"

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def top(self) -> int:
        """The end of the last block."""
        start, nbytes = self._gaps[-1] if self._gaps else (self.size, 0)
        return start if start + nbytes == self.size else self.size

    def allocate(self, nbytes: int) -> int | None:
        """Allocates a block; returns its start, or None if no gap is large enough."""
        nbytes = whole_pages(nbytes)
        for place, (start, gap) in enumerate(self._gaps):
            if gap < nbytes:
                continue
            if gap == nbytes:
                del self._gaps[place]
            else:
                self._gaps[place] = start + nbytes, gap - nbytes
            self._blocks[start] = nbytes
            self.used += nbytes
            return start
        return None

    def gaps(self) -> list[tuple[int, int]]:
        """Lists the gaps between blocks, in order: the start and the end of each."""
        return [(start, start + nbytes) for start, nbytes in self._gaps]

    def free(self, start: int) -> int:
        """Frees the block that begins there; returns its end."""
        nbytes = self._blocks.pop(start, 0)
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
    """Rounds a number of bytes up to whole pages; at least one page."""
    return max(-(-nbytes // PAGE), 1) * PAGE
