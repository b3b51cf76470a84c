"""Limits how many items a generator may be ahead of its reader.

The producer counts the items that it has sent and those that were acknowledged
(``SendWindow``). The reader counts the items that it has taken and those that it has
acknowledged (``ReceiveWindow``). A reader acknowledges after about half of the bound.
So a reader that has taken everything has acknowledged enough for the producer to
continue.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

UNLIMITED = -1
UNREAD = -1
"""The count in an acknowledgement from a reader that no longer reads."""


class Bounds(NamedTuple):
    """Limits of the unread items, -1 for none; the one that is reached first applies.

    Above ``nbytes`` of unread items no other item is made.
    """

    items: int
    nbytes: int


DEFAULT = Bounds(items=256, nbytes=8 * 1024 * 1024)
"""The bounds without ``backpressure``: they fill no memory and do not block pipes."""


def bounds_of(backpressure: int) -> Bounds:
    """Returns the bounds for a number of items; 0 stands for the default."""
    return Bounds(backpressure, UNLIMITED) if backpressure else DEFAULT


class SendWindow:
    """Counts the items that a producer has sent and its reader has not taken.

    Attributes:
        sent: How many items were sent.
        taken: How many of them the reader has taken.
        is_read: Whether there still is a reader.
    """

    __slots__ = ("_bounds", "_nbytes", "_sizes", "is_read", "sent", "taken")

    def __init__(self, bounds: Bounds) -> None:
        self.sent = 0
        self.taken = 0
        self.is_read = True
        self._bounds = bounds
        self._nbytes = 0
        self._sizes: deque[int] = deque()

    def __repr__(self) -> str:
        read = f"{self.taken} taken" if self.is_read else "unread"
        return f"<SendWindow {self.sent} sent, {read}>"

    @property
    def unread(self) -> int:
        """The number of items that were sent and not taken; 0 without a reader."""
        return self.sent - self.taken if self.is_read else 0

    @property
    def has_room(self) -> bool:
        """Whether another item may be sent; always True if none is unread."""
        items, nbytes = self._bounds
        if not 0 <= items <= self.sent - self.taken:
            return not 0 <= nbytes <= self._nbytes
        return False

    def put(self, nbytes: int) -> None:
        self.sent += 1
        if self._bounds.nbytes >= 0:
            self._sizes.append(nbytes)
            self._nbytes += nbytes

    def took(self, count: int) -> None:
        """Sets the number of items taken; UNREAD if the reader is gone."""
        if count == UNREAD:
            self.is_read = False
            return
        # A call that is sent again makes its items again: the reader may have some.
        self.taken = max(self.taken, count)
        while self._sizes and self.sent - len(self._sizes) < count:
            self._nbytes -= self._sizes.popleft()


class ReceiveWindow:
    """Counts the items that a reader has taken, and decides when to acknowledge them.

    Each item is acknowledged at once (``acks_each``) if other streams share the limit.

    Attributes:
        count: How many items were taken.
    """

    __slots__ = ("_acked", "_nbytes", "_step", "_step_nbytes", "count")

    def __init__(self, bounds: Bounds, *, acks_each: bool = False) -> None:
        self.count = 0
        self._acked = 0
        self._nbytes = 0
        self._step = max(bounds.items // 2, 1) if bounds.items >= 0 else 0
        self._step_nbytes = max(bounds.nbytes // 2, 1) if bounds.nbytes >= 0 else 0
        if acks_each:
            self._step = 1

    def took(self, nbytes: int) -> bool:
        """Counts an item of that size as taken; True if it is time to acknowledge."""
        self.count += 1
        self._nbytes += nbytes
        if (self._step and self.count - self._acked >= self._step) or (
            self._step_nbytes and self._nbytes >= self._step_nbytes
        ):
            self._acked = self.count
            self._nbytes = 0
            return True
        return False
