"""Decides which results of a map come next, and how many items its chunks have.

Pure: it knows calls by their numbers, and times by their seconds.
"""

from __future__ import annotations

from collections import deque

CHUNK_SECONDS = 0.005
"""What a chunk takes if its size is chosen by what chunks took before.

A chunk costs about 0.1 ms beside its items, so this is 2 % of that.
"""
LARGEST_CHUNK = 1024
"""More items in a chunk save nothing that can be measured."""
_GROWTH = 4
_MOST_QUEUED = 16


def next_chunk_size(current: int, count: int, seconds: float) -> int:
    """Returns how many items the next chunk has.

    It shrinks at once, and grows step by step: a few quick items say little of the
    others.

    Args:
        current: How many the last chunk has that was sent.
        count: How many items a chunk had that was answered.
        seconds: How long those took.
    """
    fitting = LARGEST_CHUNK
    if seconds > 0:
        fitting = max(1, min(LARGEST_CHUNK, int(count * CHUNK_SECONDS / seconds)))
    return min(fitting, max(current, count * _GROWTH))


def queued_chunks(seconds: float) -> int:
    """Returns how many chunks an actor has at once.

    One that has its next chunk need not wait for this program. But each is tied to its
    actor, so long ones wait until an actor is idle.

    Args:
        seconds: How long the last chunk took; 0 if that is not known.
    """
    if not seconds:
        return 1
    return max(1, min(_MOST_QUEUED, int(CHUNK_SECONDS / seconds)))


class Window:
    """The calls of a map that are under way, or whose results nobody has taken.

    Attributes:
        count: How many calls there were so far.
    """

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._done: dict[int, None] = {}
        self._unseen: deque[int] = deque()
        self.count = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self) -> int:
        """Adds a call; returns its number."""
        number = self.count
        self.count += 1
        self._open[number] = -1
        return number

    def begin(self, number: int, parts: int) -> None:
        """Begins a call that consists of so many parts."""
        self._open[number] = parts
        self._finish_if_over(number)

    def finish_part(self, number: int) -> None:
        """Notes that a part of a call is done; harmless if the call was dropped."""
        if number in self._open:
            self._open[number] -= 1
            self._finish_if_over(number)

    def finish(self, number: int) -> None:
        """Notes that all of a call is done."""
        self.begin(number, 0)

    def _finish_if_over(self, number: int) -> None:
        if not self._open[number]:
            self._done[number] = None
            self._unseen.append(number)

    def newly_done(self) -> list[int]:
        """Returns the calls that were finished since the last look."""
        unseen = [number for number in self._unseen if number in self._done]
        self._unseen.clear()
        return unseen

    def first(self) -> int | None:
        """Returns the call that was added first; None if there is none."""
        return next(iter(self._open), None)

    def next(self, *, is_ordered: bool) -> int | None:
        """Returns the call whose results come next; None if none is done.

        Args:
            is_ordered: Whether results come in the order of calls.
        """
        number = next(iter(self._open if is_ordered else self._done), None)
        return number if number in self._done else None

    def is_done(self, number: int) -> bool:
        """Whether all of a call is done."""
        return number in self._done

    def drop(self, number: int) -> None:
        """Removes a call."""
        self._open.pop(number, None)
        self._done.pop(number, None)
