"""Tells a worker that what it waits for will never come, where that is certain.

Certain means: each wait of the circle has no end of its own (no timeout, no deadline),
and each call needs the one thread that waits. A wait that goes through an ``async def``
which awaits, or through an actor with several threads, is never reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib._local.registry import ActorState
from actorlib._local.waits import Need, Wait, Waits, circle_in_words
from actorlib._wire.frames import LOOP, MAIN
from actorlib.exceptions import DeadlockError

if TYPE_CHECKING:
    from actorlib._engine import ActorId
    from actorlib._local.asked import Book
    from actorlib._local.dispatch import Asker
    from actorlib._local.registry import ActorRecord
    from actorlib._local.session import Session
    from actorlib._local.supervisor import Life

_HAVE_PROCESS = (ActorState.ALIVE, ActorState.DRAINING)


class Deadlocks:
    """The waits of all workers.

    Args:
        asked: The calls that they wait for.
    """

    def __init__(self, asked: Book[Life, Any]) -> None:
        self._asked = asked
        self._waits: Waits[ActorId, tuple[int, int]] = Waits()

    def wait(self, session: Session, call: int, thread: int, who: str) -> None:
        """A thread of a worker does nothing until a call is answered.

        Args:
            session: The worker.
            call: The call, by the worker's number; 0 if it does not wait any more.
            thread: Which thread.
            who: The method that it runs, with its class.
        """
        place = session.actor, thread
        self._waits.end(place)
        asked = self._asked.get(session.number, call)
        if asked is None:  # answered meanwhile
            return
        wait = Wait(who, (session.number, call))
        circle = self._waits.begin(place, wait, self._need)
        if circle:
            asker: Asker = asked.asker
            asker.fail(DeadlockError(circle_in_words(circle)))
            asked.life.dispatch.cancel(asked.number)

    def forget(self, actor: ActorId) -> None:
        """The process of an actor is gone."""
        self._waits.forget(actor)

    def _need(self, key: tuple[int, int]) -> Need[ActorId] | None:
        asked = self._asked.get(*key)
        if asked is None or asked.has_end or not asked.number:
            return None
        record = asked.life.record
        thread = thread_of(record, asked.method)
        place = None if thread is None else (record.id, thread)
        return Need(f"{record.label}.{asked.method}", place)


def thread_of(record: ActorRecord, method: str) -> int | None:
    """The one thread of an actor that can run a method; None if it is not known."""
    if record.state is ActorState.STARTING:
        return MAIN  # nothing runs before the constructor has ended
    if record.state not in _HAVE_PROCESS:
        return None
    face = record.interface
    if face.is_async:
        found = face.methods.get(method)
        return LOOP if found is not None and found.is_async else MAIN
    return None if record.options.limits(is_async=False) else MAIN
