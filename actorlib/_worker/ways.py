"""Which way a call goes: by way of the owner, or straight over a link.

Two ways could let a later call come first. So whoever changes ways says so: before a
PAUSE on the link nothing behind it is read until the BEGIN has come by way of the
owner, and before what follows a FENCE the link is read up to where it was then. Neither
waits for an answer, so a call always leaves when it is made.

What is no plain call goes by way of the owner. After one the next few go there too: who
mixes both would pay for the change each time.
"""

from __future__ import annotations

from enum import Enum, auto

CALLS = 4
"""So many plain calls go by way of the owner before it is asked for a link."""
PATIENCE = 8
"""So many plain calls in a row bring a caller back to its link."""
_MOST = 1024
"""Of either, where the owner says no or the link is full again and again."""


class Step(Enum):
    """What is done for one call."""

    OWNER = auto()
    """It goes by way of the owner."""
    MEET = auto()
    """Likewise, and the owner is asked for a link."""
    BEGIN = auto()
    """It goes over the link, between a PAUSE there and a BEGIN to the owner."""
    STRAIGHT = auto()
    """It goes over the link."""
    FENCE = auto()
    """It goes by way of the owner, behind a FENCE."""


class Way:
    """The way of one caller's calls to one actor.

    Attributes:
        is_straight: Whether plain calls go over the link now.
        has_link: Whether there is one.
    """

    __slots__ = ("_calls", "_may_ask", "_wanted", "has_link", "is_straight")

    def __init__(self) -> None:
        self.is_straight = False
        self.has_link = False
        self._may_ask = True
        self._calls = 0
        self._wanted = CALLS

    def __repr__(self) -> str:
        link = "a link" if self.has_link else "no link"
        state = "straight" if self.is_straight else "by the owner"
        return f"<Way {state}, {link}, {self._calls} of {self._wanted} calls>"

    def plain(self) -> Step:
        """A plain call is made."""
        if self.is_straight:
            return Step.STRAIGHT
        self._calls += 1
        if self._calls <= self._wanted:
            return Step.OWNER
        if self.has_link:
            self._calls, self._wanted = 0, max(self._wanted, PATIENCE)
            self.is_straight = True
            return Step.BEGIN
        if self._may_ask:
            self._may_ask = False
            return Step.MEET
        return Step.OWNER

    def other(self) -> Step:
        """Something else is sent."""
        if not self.has_link:
            return Step.OWNER
        self._calls = 0
        if not self.is_straight:
            return Step.OWNER
        self.is_straight = False
        return Step.FENCE

    def full(self, step: Step) -> Step:
        """The link had no room for a call; says what is done instead.

        Args:
            step: What was to be done: BEGIN or STRAIGHT.
        """
        self.is_straight = False
        self._put_off()
        return Step.FENCE if step is Step.STRAIGHT else Step.OWNER

    def met(self) -> None:
        """There is a link now."""
        self.has_link = True
        self._calls = self._wanted = 0

    def refused(self, *, for_ever: bool) -> None:
        """There is no link, now or for ever."""
        self._may_ask = not for_ever
        self._put_off()

    def _put_off(self) -> None:
        self._calls = 0
        self._wanted = min(2 * max(self._wanted, PATIENCE), _MOST)
