"""How far a stream's producer may be ahead of its reader.

The producer counts what it has sent and what was taken (``SendWindow``), the reader
what it has taken and what it has told (``ReceiveWindow``). A reader tells when about
half of the bound was taken: one that has taken everything has then told enough for the
producer to go on.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

UNLIMITED = -1
UNREAD = -1
"""A count that says: nobody reads any more."""


class Bounds(NamedTuple):
    """How far; the bound that is met first holds.

    Attributes:
        items: How many items may be unread; -1 for any number.
        nbytes: How many bytes those may have before the next one is made; -1 likewise.
    """

    items: int
    nbytes: int


DEFAULT = Bounds(items=256, nbytes=8 * 1024 * 1024)
"""What holds where nobody has said anything: neither a full memory nor a full stop."""


def bounds_of(backpressure: int) -> Bounds:
    """The bounds behind what was said about a call: that many items, however large.

    Args:
        backpressure: The number of items, -1 for any number, or 0 for the default.
    """
    return Bounds(backpressure, UNLIMITED) if backpressure else DEFAULT


class SendWindow:
    """What a producer has sent and its reader has not taken.

    Args:
        bounds: How far it may be ahead.

    Attributes:
        sent: How many items were sent.
        taken: How many of them the reader has taken.
        is_read: Whether somebody reads.
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
        return f"<Ahead {self.sent} sent, {read}>"

    @property
    def unread(self) -> int:
        """How many items were sent and not taken; 0 if nobody will take them."""
        return self.sent - self.taken if self.is_read else 0

    @property
    def has_room(self) -> bool:
        """Whether another item may be sent; one always may."""
        items, nbytes = self._bounds
        if not 0 <= items <= self.sent - self.taken:
            return not 0 <= nbytes <= self._nbytes
        return False

    def put(self, nbytes: int) -> None:
        """An item of that size was sent."""
        self.sent += 1
        if self._bounds.nbytes >= 0:
            self._sizes.append(nbytes)
            self._nbytes += nbytes

    def took(self, count: int) -> None:
        """The reader has taken so many in all, or is gone."""
        if count == UNREAD:
            self.is_read = False
            return
        # A reader of a call that was sent again may have taken what is yet to come.
        self.taken = max(self.taken, count)
        while self._sizes and self.sent - len(self._sizes) < count:
            self._nbytes -= self._sizes.popleft()


class ReceiveWindow:
    """What a reader has taken, and what of it it has told.

    Args:
        bounds: How far the producer may be ahead.
        tells_each: Whether others wait for what it takes, so that nothing may stay
            untold.

    Attributes:
        count: How many items were taken.
    """

    __slots__ = ("_nbytes", "_step", "_step_nbytes", "_told", "count")

    def __init__(self, bounds: Bounds, *, tells_each: bool = False) -> None:
        self.count = 0
        self._told = 0
        self._nbytes = 0
        self._step = max(bounds.items // 2, 1) if bounds.items >= 0 else 0
        self._step_nbytes = max(bounds.nbytes // 2, 1) if bounds.nbytes >= 0 else 0
        if tells_each:
            self._step = 1

    def took(self, nbytes: int) -> bool:
        """An item of that size was taken; True if the count is to be told now."""
        self.count += 1
        self._nbytes += nbytes
        if (self._step and self.count - self._told >= self._step) or (
            self._step_nbytes and self._nbytes >= self._step_nbytes
        ):
            self._told = self.count
            self._nbytes = 0
            return True
        return False
