"""Which handles this worker holds, and which loans it can give back.

A handle may die anywhere: in another thread, or when the garbage collector runs in the
middle of one of these methods or of a write to the pipe. So a release only takes a
note; it is counted, and the loan given back, where nothing else is under way.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actorlib._core.ids import LoanId


class LocalRefCount:
    """Holds and loans by actor.

    Attributes:
        owes: Whether an actor has yet to answer what the owner does not know of: its
            loans are not given back before.
        owed: The actors of which that is so, and of which nothing else is held here.
    """

    def __init__(self) -> None:
        self.owes: Callable[[LoanId], bool] = _owes_nothing
        self.owed: set[LoanId] = set()
        self._holds: dict[LoanId, int] = {}
        self._loans: dict[LoanId, int] = {}
        self._released: deque[LoanId] = deque()
        self._lock = threading.Lock()

    def retain(self, actor: LoanId) -> None:
        """Counts one more handle here."""
        with self._lock:
            self._holds[actor] = self._holds.get(actor, 0) + 1

    def release(self, actor: LoanId) -> None:
        """Notes that a handle here is gone; safe in a destructor."""
        self._released.append(actor)

    def arrived(self, actors: Iterable[LoanId]) -> None:
        """Counts the loans that one frame brought; whoever loads it retains them."""
        with self._lock:
            for actor in actors:
                self._loans[actor] = self._loans.get(actor, 0) + 1

    def paid(self, actor: LoanId) -> bool:
        """An actor has answered something; True if its loans can go back now."""
        with self._lock:
            if actor not in self.owed or self.owes(actor):
                return False
            self.owed.discard(actor)
            if actor in self._holds:  # there is another handle by now
                return False
            self._holds[actor] = 1
        self.release(actor)
        return True

    def returns(self, *, wait: bool = True) -> list[tuple[LoanId, int]]:
        """The loans that can be given back now: nothing here holds their actors.

        Args:
            wait: Whether to wait for another thread that is counting; without, what
                was noted stays noted until the next time.
        """
        if not self._released or not self._lock.acquire(blocking=wait):
            return []
        try:
            returned: dict[LoanId, int] = {}
            while self._released:
                actor = self._released.popleft()
                self._holds[actor] -= 1
                if not self._holds[actor]:
                    del self._holds[actor]
                    # First noted, then asked: the answer may come at any time.
                    self.owed.add(actor)
                    if self.owes(actor):
                        continue
                    self.owed.discard(actor)
                    loans = self._loans.pop(actor, 0)
                    returned[actor] = returned.get(actor, 0) + loans
        finally:
            self._lock.release()
        return [(actor, count) for actor, count in returned.items() if count]


def _owes_nothing(actor: LoanId) -> bool:
    del actor
    return False
