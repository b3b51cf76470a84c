"""Calls of workers that wait for an answer: of a method, or of an actor's end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actorlib._wire.arguments import PickledHandle
from actorlib._wire.errors import dump_exception
from actorlib._wire.messages import (
    AT_ONCE,
    BEHIND_CALLS,
    CANCELLED,
    DIED,
    FAILURE,
    RESULT,
    TO_RESTART,
)
from actorlib._wire.serialization import dump, encode, one_line
from actorlib.exceptions import DeadlineExceededError

if TYPE_CHECKING:
    import asyncio

    from actorlib._core.ids import LoanId
    from actorlib._owner.response_target import RemoteTarget
    from actorlib._owner.supervisor import ActorSupervisor
    from actorlib._owner.task_pool import TaskPool
    from actorlib._owner.worker_session import WorkerSession
    from actorlib._wire.messages import Frame


class Answered(Protocol):
    """Knows which calls of workers have no answer; WorkerRequests does."""

    def answered(self, session: WorkerSession, call: int) -> WorkerCall | None:
        """Forgets a call of a worker, which needs no cancelling any more."""
        ...

    def lend_to(self, loans: tuple[LoanId, ...], session: WorkerSession) -> None:
        """Counts handles that are about to be sent to a worker."""
        ...

    def give_up(self, loans: tuple[LoanId, ...] | None) -> None:
        """Gives back what a frame brought and nobody gets."""
        ...


class WorkerCall:
    """Passes the answer of one call on to the worker that waits; see RemoteTarget.

    Args:
        requests: Knows which calls have no answer.
        session: The worker.
        call: The number of what it asks.
        supervisor: That of the actor that it calls, if it calls one.
        method: What it calls.
        asking: The number that the call which made it has in the worker, or 0.

    Attributes:
        session: See above.
        supervisor: See above.
        method: See above.
        pool: Who runs the function that it calls, if it calls one.
        number: The number that the call has there; 0 while its arguments are not there.
        asking: See above.
        has_end: Whether it has a deadline.
    """

    __slots__ = (
        "_call",
        "_requests",
        "asking",
        "has_end",
        "method",
        "number",
        "pool",
        "session",
        "supervisor",
    )

    def __init__(
        self,
        requests: Answered,
        session: WorkerSession,
        call: int,
        supervisor: ActorSupervisor | None = None,
        method: str = "",
        asking: int = 0,
    ) -> None:
        self._requests = requests
        self.session = session
        self._call = call
        self.supervisor = supervisor
        self.method = method
        self.pool: TaskPool | None = None
        self.number = 0
        self.asking = asking
        self.has_end = False

    @property
    def where(self) -> str:
        """Names what it calls, with the class."""
        if self.supervisor is None:  # a function
            return self.method
        return self.supervisor.record.method(self.method)

    def drop(self, *, recursive: bool = True, by_force: bool = False) -> bool:
        """Cancels the call, if it was made; True if it answers when it has ended.

        Args:
            recursive: Whether the calls that it has made are cancelled too.
            by_force: Whether the process of a function that runs is ended.
        """
        if not self.number:
            return False
        if self.supervisor is not None:
            return self.supervisor.router.cancel(self.number, recursive=recursive)
        if self.pool is not None:
            stop = self.pool.force if by_force else self.pool.cancel
            stop(self.number, recursive=recursive)
        return False

    def answer(self, frame: Frame) -> None:
        session = self.session
        self._requests.answered(session, self._call)
        loans = frame[-2]
        if not session.channel.is_open:
            self._requests.give_up(loans)
            return
        if loans:
            self._requests.lend_to(loans, session)
        session.channel.send((frame[0], self._call, *frame[2:]))
        if session.when_answered is not None:
            session.when_answered(self._call)

    def lend(self, supervisor: ActorSupervisor) -> None:
        """Answers with an actor, which the worker holds from then on."""
        record = supervisor.record
        lent = PickledHandle(record.id, record.interface, record.options.name)
        self.answer((RESULT, 0, (record.id,), dump(lent)))

    def fail(self, error: BaseException) -> None:
        kind = DIED
        if isinstance(error, DeadlineExceededError) and error.is_inherited:
            kind = CANCELLED  # whoever waits for the call above is told likewise
        said = one_line(error)
        self.answer((FAILURE, 0, kind, said, "", "", None, dump_exception(error)))


def answer_when(
    asker: RemoteTarget, supervisor: ActorSupervisor, manner: int | None = None
) -> None:
    """Answers a worker when an actor is ready, or was ended.

    Args:
        asker: The worker.
        supervisor: That of the actor.
        manner: How it is ended; None if it is not.
    """
    settled = supervisor.ready() if manner is None else _ENDINGS[manner](supervisor)

    def answer(future: asyncio.Future[None]) -> None:
        error = future.exception()
        if error is not None:
            asker.fail(error)
        else:
            asker.answer((RESULT, 0, None, encode(None)))

    settled.add_done_callback(answer)


def _end(supervisor: ActorSupervisor) -> asyncio.Future[None]:
    supervisor.end("it was ended by another actor")
    return supervisor.ended


def _kill(supervisor: ActorSupervisor) -> asyncio.Future[None]:
    supervisor.kill("it was killed by another actor")
    return supervisor.ended


def _restart(supervisor: ActorSupervisor) -> asyncio.Future[None]:
    return supervisor.interrupt("it was killed by another actor, to be restarted")


_ENDINGS = {BEHIND_CALLS: _end, AT_ONCE: _kill, TO_RESTART: _restart}
