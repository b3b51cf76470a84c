"""Tells a worker that what it waits for will never come, where that is certain.

Certain means: each wait of the circle has no end of its own (no timeout, no deadline),
and each call needs the one thread that waits. A wait that goes through an ``async def``
which awaits, or through an actor with several threads, is never reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actorlib._local.asked import Made
from actorlib._local.registry import ActorState
from actorlib._local.reply import Asker
from actorlib._local.waits import Need, Wait, Waits, circle_in_words
from actorlib._wire.frames import LOOP, MAIN
from actorlib.exceptions import DeadlockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._ids import ActorId
    from actorlib._local.registry import ActorRecord
    from actorlib._local.session import Session
    from actorlib._local.supervisor import Life

_HAVE_PROCESS = (ActorState.ALIVE, ActorState.DRAINING)


class Waited(Asker, Made, Protocol):
    """A call that a worker waits for.

    Attributes:
        life: The actor that it is of.
        method: What is called.
        number: The number that it has there; 0 if it has not been made.
        has_end: Whether it has a deadline.
    """

    life: Life | None
    method: str
    number: int
    has_end: bool

    def drop(self) -> bool:
        """Cancels it; True if it is told when it has ended."""
        ...


class Deadlocks:
    """The waits of all workers.

    Args:
        find: Finds a call that has no answer, by the number of the session and its own.
        life_of: Finds an actor.
    """

    def __init__(
        self,
        find: Callable[[int, int], Waited | None],
        life_of: Callable[[ActorId], Life | None],
    ) -> None:
        self._find = find
        self._life_of = life_of
        self._waits: Waits[ActorId, tuple[int, int, ActorId]] = Waits()

    def wait(self, session: Session, call: int, thread: int, method: str) -> None:
        """A thread of a worker does nothing until a call is answered.

        Args:
            session: The worker.
            call: The call, by the worker's number; 0 if it does not wait any more.
            thread: Which thread.
            method: What it runs.
        """
        place = session.actor, thread
        self._waits.end(place)
        asked = self._find(session.number, call)
        if asked is None:  # answered meanwhile
            return
        life = self._life_of(session.actor)
        who = method if life is None else _named(life, method, asked.life)
        wait = Wait(who, (session.number, call, session.actor))
        circle = self._waits.begin(place, wait, self._need)
        if circle:
            asked.drop()  # first: whoever waited may be the one to run it
            asked.fail(DeadlockError(circle_in_words(circle)))

    def forget(self, actor: ActorId) -> None:
        """The process of an actor is gone."""
        self._waits.forget(actor)

    def _need(self, key: tuple[int, int, ActorId]) -> Need[ActorId] | None:
        session, call, waiting = key
        asked = self._find(session, call)
        if asked is None or asked.life is None or asked.has_end or not asked.number:
            return None
        record = asked.life.record
        thread = thread_of(record, asked.method)
        place = None if thread is None else (record.id, thread)
        what = _named(asked.life, asked.method, self._life_of(waiting))
        return Need(what, place)


def _named(life: Life, method: str, other: Life | None) -> str:
    """One method of two, which are told apart by their processes if they have two."""
    record = life.record
    return record.called.method(method) if life is other else record.method(method)


def thread_of(record: ActorRecord, method: str) -> int | None:
    """The one thread of an actor that can run a method; None if it is not known."""
    if record.state is ActorState.STARTING:
        return MAIN  # nothing runs before the constructor has ended
    if record.state not in _HAVE_PROCESS:
        return None
    face = record.interface
    if face.is_async:
        found = face.methods.get(method)
        if found is not None and found.is_async:
            return LOOP
        return MAIN if not record.options.concurrency_groups else None
    return None if record.options.limits(is_async=False) else MAIN
