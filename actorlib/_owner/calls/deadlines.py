"""Deadlines of calls in the owner, watched by one timer.

``Clock`` has one timer for all calls. It is set for the earliest deadline, and not set
again when that call is answered: then the timer only determines the next deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from actorlib._base.deadlines import Deadlines

if TYPE_CHECKING:
    import asyncio

    from actorlib._core.current_call import Deadline


K = TypeVar("K", bound=Hashable)


class Timed(NamedTuple):
    """A call with a deadline.

    Attributes:
        method: The name of the method or function.
        deadline: The end of its time.
    """

    method: str
    deadline: Deadline

    @property
    def is_over(self) -> bool:
        return self.deadline[0] <= time.monotonic()


class Clock:
    """Watches the deadlines of all calls of a runtime by one timer.

    Of two calls with the same deadline, the one that was made first is stopped first: a
    call before the calls that it made, which have inherited its deadline.

    Attributes:
        loop: The loop of the timer.
        now: Returns the time of the loop, in seconds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.now: Callable[[], float] = loop.time
        self._deadlines: Deadlines[tuple[Timekeeper[Any], Hashable]] = Deadlines()
        self._timer: asyncio.TimerHandle | None = None
        self._set_for = 0.0

    def add(self, keeper: Timekeeper[K], call: K, when: float) -> None:
        self._deadlines.add((keeper, call), when)
        if self._timer is None or when < self._set_for:
            self._set(when)

    def discard(self, keeper: Timekeeper[K], call: K) -> None:
        self._deadlines.discard((keeper, call))

    def stop_if_idle(self) -> None:
        if self._timer is not None and not self._deadlines.live:
            self._timer.cancel()
            self._timer = None

    def _set(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        after = max(0.0, when - time.monotonic())
        self._set_for = when
        self._timer = self.loop.call_later(after, self._check)

    def _check(self) -> None:
        self._timer = None
        for keeper, call in self._deadlines.due(time.monotonic()):
            keeper.is_due(call)
        when = self._deadlines.next()
        if when is not None and self._timer is None:
            self._set(when)


class Timekeeper(Generic[K]):
    """Keeps the deadlines of the unanswered calls of one table.

    Args:
        clock: Watches them.
        over: Receives each call whose time is over.

    Attributes:
        calls: The calls that have a deadline.
    """

    def __init__(self, clock: Clock, over: Callable[[K, Timed], None]) -> None:
        self.calls: dict[K, Timed] = {}
        self._clock = clock
        self._over = over

    def add(self, call: K, method: str, deadline: Deadline) -> None:
        self.calls[call] = Timed(method, deadline)
        self._clock.add(self, call, deadline[0])

    def discard(self, call: K) -> None:
        """Forgets a call, if it has a deadline."""
        if self.calls.pop(call, None) is not None:
            self._clock.discard(self, call)

    def rename(self, call: K, name: K) -> None:
        timed = self.calls.get(call)
        if timed is not None:
            self.discard(call)
            self.add(name, *timed)

    def keep(self, wanted: Callable[[K], bool]) -> None:
        """Forgets all calls except those that are wanted."""
        for call in [call for call in self.calls if not wanted(call)]:
            self.discard(call)
        self._clock.stop_if_idle()

    def is_due(self, call: K) -> None:
        """Reports a call whose time is over, unless another call's end has ended it."""
        timed = self.calls.pop(call, None)
        if timed is not None:
            self._over(call, timed)
