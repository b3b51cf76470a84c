"""The calls of one process that have no answer yet, for actors that limit them."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actorlib._ref import ObjectRef


class PendingCalls:
    """The calls of this process without an answer, of actors that have a limit.

    Their refs are held weakly: a call whose ref nobody holds may be given up.
    """

    def __init__(self) -> None:
        self._refs: dict[bytes, weakref.WeakSet[ObjectRef[Any]]] = {}
        self._begun: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    def begin(self, actor: bytes, limit: int) -> bool:
        """Counts a call that is about to be made; False if it is one too many."""
        with self._lock:
            refs = self._refs.setdefault(actor, weakref.WeakSet())
            room = limit - self._begun[actor]
            if len(refs) >= room:
                # Some may be done, and their loop has not said so yet.
                refs.difference_update([ref for ref in refs if ref.done()])
            if len(refs) >= room:
                return False
            self._begun[actor] += 1
            return True

    def made(self, actor: bytes, ref: ObjectRef[Any] | None) -> None:
        """The call was made, or was refused if there is no ref."""
        with self._lock:
            self._begun[actor] -= 1
            if ref is not None:
                self._refs[actor].add(ref)
            self._forget(actor)

    def end(self, actor: bytes, called: weakref.ref[ObjectRef[Any]]) -> None:
        """A call is done."""
        ref = called()
        with self._lock:
            if ref is not None and actor in self._refs:
                self._refs[actor].discard(ref)
            self._forget(actor)

    def _forget(self, actor: bytes) -> None:
        if not self._begun[actor] and not self._refs.get(actor):
            del self._begun[actor]
            self._refs.pop(actor, None)
