"""Decides the order of a map's results, and the size of its chunks.

It is pure: calls are numbers, and times are seconds.
"""

from __future__ import annotations

from collections import deque

CHUNK_SECONDS = 0.005
"""The target time of a chunk with automatic size.

A chunk costs about 0.1 ms besides its items, which is 2 % of this.
"""
LARGEST_CHUNK = 1024
"""Larger chunks have no measurable advantage."""
_GROWTH = 4
_MOST_QUEUED = 16


def next_chunk_size(current: int, count: int, seconds: float) -> int:
    """Returns the number of items of the next chunk.

    It shrinks at once, and grows in steps: a few quick items say little about others.

    Args:
        current: The size of the last chunk that was sent.
        count: The size of an answered chunk.
        seconds: The time of that chunk.
    """
    fitting = LARGEST_CHUNK
    if seconds > 0:
        fitting = max(1, min(LARGEST_CHUNK, int(count * CHUNK_SECONDS / seconds)))
    return min(fitting, max(current, count * _GROWTH))


def queued_chunks(seconds: float) -> int:
    """Returns how many chunks an actor has at once.

    An actor with a further chunk does not wait for this program. But a chunk cannot
    move to another actor, so long chunks are only sent to idle actors.

    Args:
        seconds: The time of the last chunk; 0 if it is unknown.
    """
    if not seconds:
        return 1
    return max(1, min(_MOST_QUEUED, int(CHUNK_SECONDS / seconds)))


class Window:
    """The calls of a map that run or whose results were not taken.

    Attributes:
        count: The number of calls so far.
    """

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._done: dict[int, None] = {}
        self._unseen: deque[int] = deque()
        self.count = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self) -> int:
        number = self.count
        self.count += 1
        self._open[number] = -1
        return number

    def begin(self, number: int, parts: int) -> None:
        self._open[number] = parts
        self._finish_if_over(number)

    def finish_part(self, number: int) -> None:
        """Notes that a part of a call is done, unless the call was dropped."""
        if number in self._open:
            self._open[number] -= 1
            self._finish_if_over(number)

    def finish(self, number: int) -> None:
        self.begin(number, 0)

    def _finish_if_over(self, number: int) -> None:
        if not self._open[number]:
            self._done[number] = None
            self._unseen.append(number)

    def newly_done(self) -> list[int]:
        """Returns the calls that were finished since the last check."""
        unseen = [number for number in self._unseen if number in self._done]
        self._unseen.clear()
        return unseen

    def first(self) -> int | None:
        return next(iter(self._open), None)

    def next(self, *, is_ordered: bool) -> int | None:
        """Returns the call with the next results; None if it is not done."""
        number = next(iter(self._open if is_ordered else self._done), None)
        return number if number in self._done else None

    def is_done(self, number: int) -> bool:
        return number in self._done

    def drop(self, number: int) -> None:
        self._open.pop(number, None)
        self._done.pop(number, None)
