"""Deadlines of calls: whose time is over, and when it is so next; and the one timer.

``Deadlines`` is a heap in which what was answered stays until it comes up; when more
than half of it is such, it is built anew. So a call costs a push and the removal of one
entry, however many are answered long before their time.

``Clock`` has one timer, whatever the number of calls. It is set for the earliest
deadline that there was, and not again when that call is answered: then it only looks
which is the next.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    import asyncio

    from actorlib._core.current_call import Deadline


K = TypeVar("K", bound=Hashable)

_FEW = 64


class Deadlines(Generic[K]):
    """Orders the deadlines of calls that have no answer.

    Attributes:
        live: When the time of each call is over.
    """

    def __init__(self) -> None:
        self.live: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        """Counts the entries that are kept, those of answered calls included."""
        return len(self._heap)

    def add(self, call: K, when: float) -> None:
        """Takes the deadline of a call; another one that it had is forgotten."""
        self.live[call] = when
        self._push(call, when)

    def discard(self, call: K) -> None:
        """Forgets a call, if it has a deadline."""
        if self.live.pop(call, None) is not None:
            self._tidy()

    def due(self, now: float) -> list[K]:
        """Takes out the calls whose time is over, the earliest first."""
        over: list[K] = []
        while self._heap and self._heap[0][0] <= now:
            when, _, call = heapq.heappop(self._heap)
            if self.live.get(call) == when:
                del self.live[call]
                over.append(call)
        return over

    def next(self) -> float | None:
        """Says when the next call's time is over; None if none has a deadline."""
        while self._heap:
            when, _, call = self._heap[0]
            if self.live.get(call) == when:
                return when
            heapq.heappop(self._heap)
        return None

    def _push(self, call: K, when: float) -> None:
        self._count += 1  # of two at one time, the earlier call is over first
        heapq.heappush(self._heap, (when, self._count, call))

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self.live) + _FEW:
            self._heap = []
            for call, when in self.live.items():
                self._push(call, when)


class Timed(NamedTuple):
    """Names a call with a deadline.

    Attributes:
        method: What is called.
        deadline: When its time is over.
    """

    method: str
    deadline: Deadline

    @property
    def is_over(self) -> bool:
        """Whether its time is over."""
        return self.deadline[0] <= time.monotonic()


class Clock:
    """Tells of all calls of a runtime whose time is over, by one timer.

    Of two calls whose time is over at one moment, the one that was made first is told
    first: a call before those that it made, which have inherited its deadline.

    Args:
        loop: Whose timer it is.

    Attributes:
        now: The time of the loop, in seconds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now: Callable[[], float] = loop.time
        self._deadlines: Deadlines[tuple[Timekeeper[Any], Hashable]] = Deadlines()
        self._timer: asyncio.TimerHandle | None = None
        self._set_for = 0.0

    def add(self, keeper: Timekeeper[K], call: K, when: float) -> None:
        """Takes a call."""
        self._deadlines.add((keeper, call), when)
        if self._timer is None or when < self._set_for:
            self._set(when)

    def discard(self, keeper: Timekeeper[K], call: K) -> None:
        """Forgets a call."""
        self._deadlines.discard((keeper, call))

    def stop_if_idle(self) -> None:
        """Stops the timer, if no call has a deadline."""
        if self._timer is not None and not self._deadlines.live:
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
        for keeper, call in self._deadlines.due(time.monotonic()):
            keeper.is_due(call)
        when = self._deadlines.next()
        if when is not None and self._timer is None:
            self._set(when)


class Timekeeper(Generic[K]):
    """Keeps the deadlines of some calls without an answer.

    Args:
        clock: Says when.
        over: Told of each call whose time is over.

    Attributes:
        calls: Those calls; empty as long as none has a deadline.
    """

    def __init__(self, clock: Clock, over: Callable[[K, Timed], None]) -> None:
        self.calls: dict[K, Timed] = {}
        self._clock = clock
        self._over = over

    def add(self, call: K, method: str, deadline: Deadline) -> None:
        """Takes a call."""
        self.calls[call] = Timed(method, deadline)
        self._clock.add(self, call, deadline[0])

    def discard(self, call: K) -> None:
        """Forgets a call, if it has a deadline."""
        if self.calls.pop(call, None) is not None:
            self._clock.discard(self, call)

    def rename(self, call: K, name: K) -> None:
        """Gives a call another name."""
        timed = self.calls.get(call)
        if timed is not None:
            self.discard(call)
            self.add(name, *timed)

    def keep(self, wanted: Callable[[K], bool]) -> None:
        """Forgets all calls but some."""
        for call in [call for call in self.calls if not wanted(call)]:
            self.discard(call)
        self._clock.stop_if_idle()

    def is_due(self, call: K) -> None:
        """Tells that the time of a call is over, unless that of another ended it."""
        timed = self.calls.pop(call, None)
        if timed is not None:
            self._over(call, timed)
