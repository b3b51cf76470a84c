"""Finds deadlocks: calls of actors that wait for one another, and will for ever.

All methods of an actor run on its one thread, plain ones and ``async def`` ones, unless
it asked for more by ``max_concurrency`` or concurrency groups. While that thread blocks
until a call is answered, it does nothing else. So if that call needs an actor whose
thread blocks likewise, and so on until the first, none of them will ever end. Then the
worker that closed the cycle is told that its answer will never come.

Only what is certain is kept here. A wait that may end by itself (by a timeout or a
deadline), an ``await``, which does not block the thread, and a call of an actor with
several threads are no edges.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from actorlib._owner.actors.actor_record import ActorState
from actorlib.exceptions import DeadlockError

if TYPE_CHECKING:
    from actorlib._base.ids import ActorId
    from actorlib._owner.actors.actor_record import ActorRecord
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.requests.worker_calls import WorkerCall


A = TypeVar("A", bound=Hashable)
C = TypeVar("C", bound=Hashable)


class Wait(NamedTuple, Generic[C]):
    """Names the wait of an actor's one thread.

    Attributes:
        who: The method that waits, with its class.
        call: What it waits for.
    """

    who: str
    call: C


class Need(NamedTuple, Generic[A]):
    """Names what a call that has no answer needs.

    Attributes:
        what: The method, with its class.
        actor: Whose one thread alone can run it; None if there are several.
    """

    what: str
    actor: A | None


class WaitEdge(NamedTuple):
    """Names one wait of a cycle.

    Attributes:
        who: Who waits.
        what: What for.
    """

    who: str
    what: str


class Waits(Generic[A, C]):
    """Knows which actors block their one thread, and for which call."""

    def __init__(self) -> None:
        self._waits: dict[A, Wait[C]] = {}

    def __len__(self) -> int:
        """Counts the actors that wait, or have waited for what is answered by now."""
        return len(self._waits)

    def begin(
        self,
        actor: A,
        wait: Wait[C],
        need: Callable[[C], Need[A] | None],
    ) -> list[WaitEdge]:
        """Takes an actor that begins to wait; finds the cycle that this closes.

        Args:
            actor: Whose thread waits.
            wait: What for.
            need: What a call needs now; None if it has been answered.

        Returns:
            The cycle that this closes, beginning here; empty if there is none.
        """
        self._waits[actor] = wait
        links: list[WaitEdge] = []
        seen: set[A] = set()
        following: A | None = actor
        while following is not None and following not in seen:
            seen.add(following)
            waiting = self._waits.get(following)
            needed = need(waiting.call) if waiting is not None else None
            if waiting is None or needed is None:
                return []
            links.append(WaitEdge(waiting.who, needed.what))
            following = needed.actor
        if following != actor:
            return []
        del self._waits[actor]
        return links

    def end(self, actor: A) -> None:
        """Forgets the wait of an actor."""
        self._waits.pop(actor, None)


def cycle_in_words(links: list[WaitEdge]) -> str:
    """Says what waits for what, and what to do about it."""
    first = links[0]
    text = f"{first.who} waits for {first.what}"
    if len(links) == 1:
        text += " of the same actor"
    for before, link in pairwise(links):
        if link.who != before.what:
            text += f", which is behind {link.who}"
        text += f", which waits for {link.what}"
    return (
        f"{text}, which cannot begin before {first.who} has ended: make one that "
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

    def wait(self, session: WorkerSession, call: int, method: str) -> None:
        """Takes the wait of a worker, which runs nothing until a call is answered.

        Args:
            session: The worker.
            call: The call, by the worker's number; 0 if it does not wait any more.
            method: The method that waits.
        """
        self._waits.end(session.actor)
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
        cycle = self._waits.begin(session.actor, wait, self._need)
        if cycle:
            asked.drop()  # first: whoever waited may be the one to run it
            asked.fail(DeadlockError(cycle_in_words(cycle)))

    def on_worker_gone(self, session: WorkerSession) -> None:
        """Forgets the wait of a worker."""
        self._waits.end(session.actor)

    def _need(self, key: tuple[int, int, ActorId]) -> Need[ActorId] | None:
        session, call, waiting = key
        asked = self._find(session, call)
        if (
            asked is None
            or asked.supervisor is None
            or asked.has_deadline
            or not asked.number
        ):
            return None
        record = asked.supervisor.record
        what = _named(asked.supervisor, asked.method, self._supervisor_of(waiting))
        return Need(what, record.id if has_one_thread(record) else None)


def _named(
    supervisor: ActorSupervisor, method: str, other: ActorSupervisor | None
) -> str:
    """Names one method of two, told apart by their processes if they have two."""
    record = supervisor.record
    return (
        record.called.method(method) if supervisor is other else record.method(method)
    )


def has_one_thread(record: ActorRecord) -> bool:
    """Tells whether one thread alone runs all methods of an actor, now."""
    if record.state is ActorState.STARTING:
        return True  # nothing runs before the constructor has ended
    if record.state not in _HAVE_PROCESS:
        return False
    if record.interface.is_async:  # one loop runs all, on the actor's own thread
        return not record.options.concurrency_groups
    return not record.options.limits(is_async=False)
