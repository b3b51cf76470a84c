"""Counts the holders of each borrowed reference, and says which can be given back.

A reference is to an actor, an object or a block of memory; the owner counts how often
it has lent each to this worker. A holder may die anywhere: in another thread, or when
the garbage collector runs in the middle of one of these methods or of a write to the
pipe. So a release only takes a note; it is counted, and the references given back,
where nothing else is under way.
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
        awaits_answer: Says whether an actor has yet to answer a call that the owner
            does not know of: references to it are not given back before.
        released: The references whose holders are gone, before that is counted.
        awaited: The actors of which that is so, and which nothing here holds.
    """

    def __init__(self) -> None:
        self.awaits_answer: Callable[[CountedId], bool] = _awaits_nothing
        self.awaited: set[CountedId] = set()
        self._holders: dict[CountedId, int] = {}
        self._borrowed: dict[CountedId, int] = {}
        self.released: deque[CountedId] = deque()
        self._lock = threading.Lock()

    def retain(self, actor: CountedId) -> None:
        """Counts one more handle here."""
        with self._lock:
            self._holders[actor] = self._holders.get(actor, 0) + 1

    def release(self, actor: CountedId) -> None:
        """Notes that a handle here is gone; safe in a destructor."""
        self.released.append(actor)

    def release_all(self, actors: Collection[CountedId]) -> None:
        """Notes that handles here are gone; safe in a destructor."""
        self.released.extend(actors)

    def borrow(self, actors: Iterable[CountedId]) -> None:
        """Counts references that the owner has noted; who has them retains them."""
        with self._lock:
            for actor in actors:
                self._borrowed[actor] = self._borrowed.get(actor, 0) + 1

    def arrived(self, actors: Iterable[CountedId]) -> None:
        """Counts the references that one frame brought, and holds them.

        Both at once: what another thread lets go of meanwhile is not the last holder.
        """
        holders, borrowed = self._holders, self._borrowed
        with self._lock:
            for actor in actors:
                holders[actor] = holders.get(actor, 0) + 1
                borrowed[actor] = borrowed.get(actor, 0) + 1

    def was_answered(self, actor: CountedId) -> bool:
        """Says whether references to an actor can go back, now that it has answered."""
        with self._lock:
            if actor not in self.awaited or self.awaits_answer(actor):
                return False
            self.awaited.discard(actor)
            if actor in self._holders:  # there is another handle by now
                return False
            self._holders[actor] = 1
        self.release(actor)
        return True

    def take_returned(self, *, wait: bool = True) -> list[tuple[CountedId, int]]:
        """Takes out what can be given back now, as nothing here holds it any more.

        Args:
            wait: Whether to wait for another thread that is counting; without, what
                was noted stays noted until the next time.
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
                    # Nobody calls a block; what is held of a function has no id.
                    if actor == NO_ACTOR or kind_of(actor) != BLOCK_KIND:
                        # First noted, then asked: the answer may come at any time.
                        self.awaited.add(actor)
                        if self.awaits_answer(actor):
                            continue
                        self.awaited.discard(actor)
                    borrowed = self._borrowed.pop(actor, 0)
                    returned[actor] = returned.get(actor, 0) + borrowed
        finally:
            self._lock.release()
        return [(actor, count) for actor, count in returned.items() if count]


def _awaits_nothing(actor: CountedId) -> bool:
    del actor
    return False
