"""Deadlocks: calls of workers that wait for one another, and will for ever.

A worker is told that what it waits for will never come, where that is certain.
Certain means: each wait of the circle has no end of its own (no timeout, no deadline),
and each call needs the one thread that waits. A wait that goes through an ``async def``
which awaits, or through an actor with several threads, is never reported.

A thread that blocks until a call is answered does nothing else. So if that call needs
a thread which blocks likewise, and so on until the first, none of them will ever end.
Only what is certain is kept here: a wait that may end by itself is no edge.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from actorlib._owner.actor_record import ActorState
from actorlib._wire.messages import MAIN
from actorlib.exceptions import DeadlockError

if TYPE_CHECKING:
    from actorlib._core.ids import ActorId
    from actorlib._owner.actor_record import ActorRecord
    from actorlib._owner.supervisor import ActorSupervisor
    from actorlib._owner.worker_calls import WorkerCall
    from actorlib._owner.worker_session import WorkerSession


A = TypeVar("A", bound=Hashable)
C = TypeVar("C", bound=Hashable)


class Wait(NamedTuple, Generic[C]):
    """Names a thread that waits.

    Attributes:
        who: The method that it runs, with its class.
        call: What it waits for.
    """

    who: str
    call: C


class Need(NamedTuple, Generic[A]):
    """Names what a call that has no answer needs.

    Attributes:
        what: The method, with its class.
        thread: The one thread that can run it, or None if it is not known.
    """

    what: str
    thread: tuple[A, int] | None


class WaitEdge(NamedTuple):
    """Names one wait of a circle.

    Attributes:
        who: Who waits.
        what: What for.
    """

    who: str
    what: str


class Waits(Generic[A, C]):
    """Knows who waits for what, by thread: an actor, and ``MAIN`` or ``LOOP``."""

    def __init__(self) -> None:
        self._waits: dict[tuple[A, int], Wait[C]] = {}

    def __len__(self) -> int:
        """Counts the threads that wait, or have waited for what is answered by now."""
        return len(self._waits)

    def begin(
        self,
        thread: tuple[A, int],
        wait: Wait[C],
        need: Callable[[C], Need[A] | None],
    ) -> list[WaitEdge]:
        """Takes a thread that begins to wait; finds the circle that this closes.

        Args:
            thread: Which one.
            wait: What for.
            need: What a call needs now; None if it has been answered.

        Returns:
            The circle that this closes, beginning here; empty if there is none.
        """
        self._waits[thread] = wait
        links: list[WaitEdge] = []
        seen: set[tuple[A, int]] = set()
        following: tuple[A, int] | None = thread
        while following is not None and following not in seen:
            seen.add(following)
            waiting = self._waits.get(following)
            needed = need(waiting.call) if waiting is not None else None
            if waiting is None or needed is None:
                return []
            links.append(WaitEdge(waiting.who, needed.what))
            following = needed.thread
        if following != thread:
            return []
        del self._waits[thread]
        return links

    def end(self, thread: tuple[A, int]) -> None:
        """Forgets the wait of a thread."""
        self._waits.pop(thread, None)

    def forget(self, actor: A) -> None:
        """Forgets the waits of an actor's threads."""
        for thread in [thread for thread in self._waits if thread[0] == actor]:
            del self._waits[thread]


def circle_in_words(links: list[WaitEdge]) -> str:
    """Says what waits for what, and what to do about it."""
    first = links[0]
    told = f"{first.who} waits for {first.what}"
    if len(links) == 1:
        told += " of the same actor"
    for before, link in pairwise(links):
        if link.who != before.what:
            told += f", which is behind {link.who}"
        told += f", which waits for {link.what}"
    return (
        f"{told}, which cannot begin before {first.who} has ended: make one that "
        "waits async, give a plain class max_concurrency=2, or await it elsewhere"
    )


_HAVE_PROCESS = (ActorState.ALIVE, ActorState.DRAINING)


class Deadlocks:
    """Finds deadlocks among the waits of all workers.

    Args:
        find: Finds a call that has no answer, by the number of the session and its own.
        supervisor_of: Finds an actor.
    """

    def __init__(
        self,
        find: Callable[[int, int], WorkerCall | None],
        supervisor_of: Callable[[ActorId], ActorSupervisor | None],
    ) -> None:
        self._find = find
        self._supervisor_of = supervisor_of
        self._waits: Waits[ActorId, tuple[int, int, ActorId]] = Waits()

    def wait(self, session: WorkerSession, call: int, thread: int, method: str) -> None:
        """Takes the wait of a thread, which does nothing until a call is answered.

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
        supervisor = self._supervisor_of(session.actor)
        who = (
            method
            if supervisor is None
            else _named(supervisor, method, asked.supervisor)
        )
        wait = Wait(who, (session.number, call, session.actor))
        circle = self._waits.begin(place, wait, self._need)
        if circle:
            asked.drop()  # first: whoever waited may be the one to run it
            asked.fail(DeadlockError(circle_in_words(circle)))

    def on_worker_gone(self, session: WorkerSession) -> None:
        """Forgets the waits of a worker's threads."""
        self._waits.forget(session.actor)

    def _need(self, key: tuple[int, int, ActorId]) -> Need[ActorId] | None:
        session, call, waiting = key
        asked = self._find(session, call)
        if (
            asked is None
            or asked.supervisor is None
            or asked.has_end
            or not asked.number
        ):
            return None
        record = asked.supervisor.record
        thread = thread_of(record)
        place = None if thread is None else (record.id, thread)
        what = _named(asked.supervisor, asked.method, self._supervisor_of(waiting))
        return Need(what, place)


def _named(
    supervisor: ActorSupervisor, method: str, other: ActorSupervisor | None
) -> str:
    """Names one method of two, told apart by their processes if they have two."""
    record = supervisor.record
    return (
        record.called.method(method) if supervisor is other else record.method(method)
    )


def thread_of(record: ActorRecord) -> int | None:
    """Finds the one thread of an actor that runs its methods; None if unknown."""
    if record.state is ActorState.STARTING:
        return MAIN  # nothing runs before the constructor has ended
    if record.state not in _HAVE_PROCESS:
        return None
    if record.interface.is_async:  # one loop runs all, on the actor's own thread
        return MAIN if not record.options.concurrency_groups else None
    return None if record.options.limits(is_async=False) else MAIN
