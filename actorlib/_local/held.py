"""Calls that wait for an argument, a ref without a value, and keep their place."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, TypeAlias

from actorlib._local.under_way import UnderWay

if TYPE_CHECKING:
    from actorlib._reading import Reading
    from actorlib._ref import ObjectRef

    Waiting: TypeAlias = "ObjectRef[Any] | Reading"


class Held:
    """The calls of one actor that are not sent yet, for want of arguments.

    Attributes:
        calls: Whom each is for, by its place, its method, and when it was made. Places
            are negative: numbers of calls are not.
    """

    def __init__(self) -> None:
        self.calls: dict[int, tuple[Waiting | weakref.ref[Any], str, float]] = {}
        self._places = itertools.count(-1, -1)

    def add(self, reply: Waiting, method: str, now: float) -> int:
        """Takes a call that is made now; gives its place."""
        place = next(self._places)
        self.calls[place] = reply, method, now
        return place

    def take(self, place: int) -> Waiting | None:
        """The arguments are there: whom the answer is for, or None if nobody waits."""
        reply, *_ = self.calls.pop(place, (None, ""))
        if isinstance(reply, weakref.ref):
            reply = reply()
        return None if reply is None or reply.done() else reply

    def drop(self, place: int) -> None:
        """Forgets a call, if it is one of these."""
        self.calls.pop(place, None)

    def reply(self, place: int) -> Waiting | weakref.ref[Any] | None:
        """Whom a call is for; None if it is none of these."""
        return self.calls.get(place, (None, ""))[0]

    def method(self, place: int) -> str:
        """The method of a call; empty if it is none of these."""
        return self.calls.get(place, (None, ""))[1]

    def loosen(self, place: int, reply: weakref.ref[Any]) -> None:
        """Holds whoever waits for a call weakly from now on, if it is one of these."""
        if place in self.calls:
            self.calls[place] = (reply, *self.calls[place][1:])

    def unanswered(self) -> list[UnderWay]:
        """All of them."""
        return [
            UnderWay(0, method, "pending_arguments", reply, None, since)
            for reply, method, since in self.calls.values()
        ]
