"""Detects deadlocks: calls of actors that wait for one another for ever.

All methods of an actor run on its one thread, plain ones and ``async def`` ones, unless
it has ``max_concurrency`` or concurrency groups. While that thread blocks until a call
is answered, it runs nothing else. So if that call needs an actor whose thread blocks in
the same way, and so on back to the first, none of them will ever end. Then the call
that closed the cycle fails.

Only certain waits are edges of the graph: not a wait with a timeout or a deadline, not
an ``await``, which does not block the thread, and not a call of an actor with several
threads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from actorlib._owner.actors.actor_record import ActorState
from actorlib._owner.actors.worker_session import Phase
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
    """The wait of an actor's one thread.

    Attributes:
        waiter: The waiting method, with its class.
        call: The call that it waits for.
    """

    waiter: str
    call: C


class Need(NamedTuple, Generic[A]):
    """The actor that an unanswered call needs.

    Attributes:
        target: The method, with its class.
        actor: The actor with one thread that has to run it; None if it has several.
    """

    target: str
    actor: A | None


class WaitEdge(NamedTuple):
    """One wait of a cycle.

    Attributes:
        waiter: The waiting method.
        target: The method that it waits for.
    """

    waiter: str
    target: str


class Waits(Generic[A, C]):
    """The actors that block their one thread, and the calls that they wait for."""

    def __init__(self) -> None:
        self._waits: dict[A, Wait[C]] = {}

    def __len__(self) -> int:
        """Counts the waits, including those for calls that were answered meanwhile."""
        return len(self._waits)

    def begin(
        self,
        actor: A,
        wait: Wait[C],
        need: Callable[[C], Need[A] | None],
    ) -> list[WaitEdge]:
        """Adds a wait; returns the cycle that it closes.

        Args:
            actor: The actor whose thread waits.
            wait: Its wait.
            need: Returns the need of a call now; None if it was answered.

        Returns:
            The cycle, beginning with this wait; empty if there is none.
        """
        self._waits[actor] = wait
        edges: list[WaitEdge] = []
        visited: set[A] = set()
        following: A | None = actor
        while following is not None and following not in visited:
            visited.add(following)
            waiting = self._waits.get(following)
            needed = need(waiting.call) if waiting is not None else None
            if waiting is None or needed is None:
                return []
            edges.append(WaitEdge(waiting.waiter, needed.target))
            following = needed.actor
        if following != actor:
            return []
        del self._waits[actor]
        return edges

    def end(self, actor: A) -> None:
        self._waits.pop(actor, None)


def cycle_in_words(edges: list[WaitEdge]) -> str:
    """Describes the waits of a cycle, and what to do."""
    first = edges[0]
    text = f"{first.waiter} waits for {first.target}"
    if len(edges) == 1:
        text += " of the same actor"
    for before, edge in pairwise(edges):
        if edge.waiter != before.target:
            text += f", which is behind {edge.waiter}"
        text += f", which waits for {edge.target}"
    return (
        f"{text}, which cannot begin before {first.waiter} has ended: make one that "
        "waits async, give a plain class max_concurrency=2, or await it elsewhere"
    )


_HAVE_PROCESS = (ActorState.ALIVE, ActorState.DRAINING)


class Deadlocks:
    """Detects deadlocks among the waits of all workers."""

    def __init__(
        self,
        find: Callable[[int, int], WorkerCall | None],
        supervisor_of: Callable[[ActorId], ActorSupervisor | None],
    ) -> None:
        self._find = find
        self._supervisor_of = supervisor_of
        self._waits: Waits[ActorId, tuple[int, int, ActorId]] = Waits()

    def wait(self, session: WorkerSession, call: int, method: str) -> None:
        """Handles the wait of a worker, which runs nothing until a call is answered.

        Args:
            session: The worker.
            call: The call, by the worker's number; 0 if it no longer waits.
            method: The method that waits.
        """
        session.cleanup.add(Phase.ROUTES, self.on_worker_gone)
        self._waits.end(session.actor)
        awaited = self._find(session.number, call)
        if awaited is None:  # answered meanwhile
            return
        supervisor = self._supervisor_of(session.actor)
        waiter = (
            method
            if supervisor is None
            else _named(supervisor, method, awaited.supervisor)
        )
        wait = Wait(waiter, (session.number, call, session.actor))
        cycle = self._waits.begin(session.actor, wait, self._need)
        if cycle:
            awaited.drop()  # first: the waiting thread may be the one to run it
            awaited.fail(DeadlockError(cycle_in_words(cycle)))

    def on_worker_gone(self, session: WorkerSession) -> None:
        self._waits.end(session.actor)

    def _need(self, key: tuple[int, int, ActorId]) -> Need[ActorId] | None:
        session, call, waiting = key
        awaited = self._find(session, call)
        if (
            awaited is None
            or awaited.supervisor is None
            or awaited.has_deadline
            or not awaited.number
        ):
            return None
        record = awaited.supervisor.record
        target = _named(
            awaited.supervisor, awaited.method, self._supervisor_of(waiting)
        )
        return Need(target, record.id if has_one_thread(record) else None)


def _named(
    supervisor: ActorSupervisor, method: str, other: ActorSupervisor | None
) -> str:
    """Names a method; with the process, if the other method is of another actor."""
    record = supervisor.record
    return (
        record.called.method(method) if supervisor is other else record.method(method)
    )


def has_one_thread(record: ActorRecord) -> bool:
    """Whether a single thread runs all methods of an actor now."""
    if record.state is ActorState.STARTING:
        return True  # nothing runs before the constructor has ended
    if record.state not in _HAVE_PROCESS:
        return False
    if record.interface.is_async:  # one loop runs all, on the actor's own thread
        return not record.options.concurrency_groups
    return not record.options.limits(is_async=False)
