"""Keeps calls in order behind those that wait for their arguments.

Calls of one caller to one actor are sent in the order in which they were made. A call
with a ref as an argument cannot be sent before the ref has its value. So the calls
behind it in its lane wait too, while other lanes do not. If the order does not matter,
a call may pass those before it; a call that may not pass still waits for all of them.

A call is any object that its user needs for sending it, for example a function. Two
calls must not be equal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
C = TypeVar("C", bound=Hashable)


class CallOrder(Generic[K, C]):
    """Decides which calls may be sent.

    Attributes:
        lanes: The calls that wait; a lane exists while it is blocked.
    """

    def __init__(self) -> None:
        self.lanes: dict[K, deque[C]] = {}
        self._unready: set[C] = set()
        self._passing: set[C] = set()

    def __bool__(self) -> bool:
        return bool(self.lanes)

    def add(self, lane: K, call: C, *, ready: bool, passes: bool = False) -> bool:
        """Adds a call; True if it may be sent now.

        A call is ready if its arguments are there. A call that passes is sent as soon
        as they are, before earlier calls that wait.
        """
        if ready and passes:
            return True
        waiting = self.lanes.get(lane)
        if waiting is None:
            if ready:
                return True
            waiting = self.lanes[lane] = deque()
        waiting.append(call)
        if not ready:
            self._unready.add(call)
        if passes:
            self._passing.add(call)
        return False

    def resolve(self, lane: K, call: C) -> list[C]:
        """Records that a call is ready; returns the calls that may be sent now."""
        waiting = self.lanes.get(lane)
        if waiting is None:
            return []
        self._unready.discard(call)
        free: list[C] = []
        if call in self._passing:
            self._passing.discard(call)
            waiting.remove(call)
            free.append(call)
        while waiting and waiting[0] not in self._unready:
            free.append(waiting.popleft())
        if not waiting:
            del self.lanes[lane]
        return free
