"""Cancels calls whose time is over: one timer, whatever the number of calls.

The timer is set for the earliest deadline that there was, and not again when that call
is answered: then it only looks which is the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from actorlib._local.deadlines import Deadlines

if TYPE_CHECKING:
    import asyncio

    from actorlib._calling import Deadline

K = TypeVar("K", bound=Hashable)


class Timed(NamedTuple):
    """A call with a deadline.

    Attributes:
        method: What is called.
        deadline: When its time is over.
    """

    method: str
    deadline: Deadline


class Timekeeper(Generic[K]):
    """The deadlines of calls without an answer.

    Args:
        loop: Whose timer it is.
        over: Told of each call whose time is over.

    Attributes:
        calls: Those calls; empty as long as none has a deadline.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, over: Callable[[K, Timed], None]
    ) -> None:
        self.calls: dict[K, Timed] = {}
        self._loop = loop
        self._over = over
        self._deadlines: Deadlines[K] = Deadlines()
        self._timer: asyncio.TimerHandle | None = None
        self._set_for = 0.0

    def add(self, call: K, method: str, deadline: Deadline) -> None:
        """Takes a call."""
        when = deadline[0]
        self.calls[call] = Timed(method, deadline)
        self._deadlines.add(call, when)
        if self._timer is None or when < self._set_for:
            self._set(when)

    def discard(self, call: K) -> None:
        """Forgets a call, if it has a deadline."""
        if self.calls.pop(call, None) is not None:
            self._deadlines.discard(call)

    def rename(self, call: K, name: K) -> None:
        """Gives a call another name."""
        timed = self.calls.pop(call, None)
        if timed is not None:
            self.calls[name] = timed
            self._deadlines.rename(call, name)

    def keep(self, wanted: Callable[[K], bool]) -> None:
        """Forgets all calls but some."""
        for call in [call for call in self.calls if not wanted(call)]:
            self.discard(call)
        if not self.calls and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        after = max(0.0, when - time.monotonic())
        self._set_for = when
        self._timer = self._loop.call_later(after, self._look)

    def _look(self) -> None:
        self._timer = None
        for call in self._deadlines.due(time.monotonic()):
            timed = self.calls.pop(call, None)
            if timed is not None:  # the end of one may have ended another
                self._over(call, timed)
        when = self._deadlines.next()
        if when is not None and self._timer is None:
            self._set(when)
