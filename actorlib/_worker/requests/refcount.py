"""Counts the holders of borrowed references, and finds those that can be returned.

A reference is to an actor, an object or a block of memory. The owner counts how often
it has lent each to this worker. A holder may be destroyed anywhere: on another thread,
or by the garbage collector in the middle of one of these methods or of a write to the
pipe. So a release is only recorded. It is counted, and references are returned, where
no other work is under way.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from actorlib._base.ids import BLOCK_KIND, NO_ACTOR, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from actorlib._base.ids import CountedId


class LocalRefCount:
    """Counts the holders of each reference, and how often it was lent to this worker.

    Attributes:
        awaits_answer: Whether an actor has to answer a call that the owner does not
            know. References to the actor are not returned before the answer.
        released: The references whose holders are gone, until they are counted.
        awaited: The actors for which ``awaits_answer`` is true and that have no holder.
    """

    def __init__(self) -> None:
        self.awaits_answer: Callable[[CountedId], bool] = lambda _: False
        self.awaited: set[CountedId] = set()
        self._holders: dict[CountedId, int] = {}
        self._borrowed: dict[CountedId, int] = {}
        self.released: deque[CountedId] = deque()
        self._lock = threading.Lock()

    def retain(self, actor: CountedId) -> None:
        with self._lock:
            self._holders[actor] = self._holders.get(actor, 0) + 1

    def release_all(self, actors: Collection[CountedId]) -> None:
        """Records that holders are gone; safe in a destructor."""
        self.released.extend(actors)

    def borrow(self, actors: Iterable[CountedId]) -> None:
        """Counts references that the owner has lent; the caller retains them."""
        with self._lock:
            for actor in actors:
                self._borrowed[actor] = self._borrowed.get(actor, 0) + 1

    def arrived(self, actors: Iterable[CountedId]) -> None:
        """Counts and holds the references of a frame, under one lock.

        Otherwise a release on another thread could be the last one meanwhile.
        """
        holders, borrowed = self._holders, self._borrowed
        with self._lock:
            for actor in actors:
                holders[actor] = holders.get(actor, 0) + 1
                borrowed[actor] = borrowed.get(actor, 0) + 1

    def was_answered(self, actor: CountedId) -> bool:
        """Whether references to an actor can be returned now that it has answered."""
        with self._lock:
            if actor not in self.awaited or self.awaits_answer(actor):
                return False
            self.awaited.discard(actor)
            if actor in self._holders:  # there is a new holder
                return False
            self._holders[actor] = 1
        self.released.append(actor)
        return True

    def take_returned(self, *, wait: bool = True) -> list[tuple[CountedId, int]]:
        """Removes and returns the references that have no holder, with their counts.

        Unless ``wait``, the records stay until the next time if another thread is
        counting.
        """
        if not self.released or not self._lock.acquire(blocking=wait):
            return []
        try:
            returned: dict[CountedId, int] = {}
            while self.released:
                actor = self.released.popleft()
                self._holders[actor] -= 1
                if not self._holders[actor]:
                    del self._holders[actor]
                    # Blocks are not called. References of functions have no id.
                    if actor == NO_ACTOR or kind_of(actor) != BLOCK_KIND:
                        # Added before the check: the answer may come at any time.
                        self.awaited.add(actor)
                        if self.awaits_answer(actor):
                            continue
                        self.awaited.discard(actor)
                    borrowed = self._borrowed.pop(actor, 0)
                    returned[actor] = returned.get(actor, 0) + borrowed
        finally:
            self._lock.release()
        return [(actor, count) for actor, count in returned.items() if count]
