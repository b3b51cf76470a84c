"""A worker that waits for an answer to what it has asked.

Answers that wait for what becomes of an actor: that it is ready, or gone.
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Protocol,
)

from actorlib._wire.arguments import (
    Lent,
)
from actorlib._wire.errors import (
    dumped,
)
from actorlib._wire.messages import (
    AT_ONCE,
    BEHIND_CALLS,
    CANCELLED,
    DIED,
    FAILURE,
    RESULT,
    TO_RESTART,
)
from actorlib._wire.serialization import (
    described,
    dump,
    encode,
)
from actorlib.exceptions import (
    DeadlineExceededError,
)

if TYPE_CHECKING:
    import asyncio

    from actorlib._core.ids import (
        LoanId,
    )
    from actorlib._owner.response_target import (
        RemoteTarget,
    )
    from actorlib._owner.supervisor import (
        ActorSupervisor,
    )
    from actorlib._owner.task_pool import (
        TaskPool,
    )
    from actorlib._owner.worker_session import (
        Session,
    )
    from actorlib._wire.messages import (
        Frame,
    )


class Answered(Protocol):
    """Whoever has to know what is answered; see Relay."""

    def answered(self, session: Session, call: int) -> WorkerCall | None:
        """A call of a worker needs no cancelling any more."""
        ...

    def answer_loans(self, loans: tuple[LoanId, ...], session: Session) -> None:
        """Handles are about to be sent to a worker."""
        ...

    def give_up(self, loans: tuple[LoanId, ...] | None) -> None:
        """What a frame brought goes nowhere."""
        ...


class WorkerCall:
    """A worker that waits for an answer; see RemoteTarget, Made and Waited.

    Args:
        relay: Whoever has to know that it is answered.
        session: The worker.
        call: The number of what it asks.
        life: The actor that it calls, if it calls one.
        method: What it calls.

    Attributes:
        session: See above.
        life: See above.
        method: See above.
        pool: Who runs the function that it calls, if it calls one.
        number: The number that the call has there; 0 while its arguments are not there.
        asking: The number that the call which made it has in the worker, or 0.
        has_end: Whether it has a deadline.
    """

    __slots__ = (
        "_call",
        "_relay",
        "asking",
        "has_end",
        "life",
        "method",
        "number",
        "pool",
        "session",
    )

    def __init__(
        self,
        relay: Answered,
        session: Session,
        call: int,
        life: ActorSupervisor | None = None,
        method: str = "",
    ) -> None:
        self._relay = relay
        self.session = session
        self._call = call
        self.life = life
        self.method = method
        self.pool: TaskPool | None = None
        self.number = 0
        self.asking = 0
        self.has_end = False

    @property
    def where(self) -> str:
        """What it calls, with the class."""
        if self.life is None:  # a function
            return self.method
        return self.life.record.method(self.method)

    def drop(self, *, recursive: bool = True, by_force: bool = False) -> bool:
        """Cancels the call, if it was made; True if it answers when it has ended.

        Args:
            recursive: Whether the calls that it has made are cancelled too.
            by_force: Whether the process of a function that runs is ended.
        """
        if not self.number:
            return False
        if self.life is not None:
            return self.life.dispatch.cancel(self.number, recursive=recursive)
        if self.pool is not None:
            stop = self.pool.force if by_force else self.pool.cancel
            stop(self.number, recursive=recursive)
        return False

    def answer(self, frame: Frame) -> None:
        session = self.session
        self._relay.answered(session, self._call)
        loans = frame[-2]
        if not session.channel.is_open:
            self._relay.give_up(loans)
            return
        if loans:
            self._relay.answer_loans(loans, session)
        session.channel.send((frame[0], self._call, *frame[2:]))
        if session.when_answered is not None:
            session.when_answered(self._call)

    def lend(self, life: ActorSupervisor) -> None:
        """Answers with an actor, which the worker holds from then on."""
        record = life.record
        lent = Lent(record.id, record.interface, record.options.name)
        self.answer((RESULT, 0, (record.id,), dump(lent)))

    def fail(self, error: BaseException) -> None:
        kind = DIED
        if isinstance(error, DeadlineExceededError) and error.is_inherited:
            kind = CANCELLED  # whoever waits for the call above is told likewise
        said = described(error)
        self.answer((FAILURE, 0, kind, said, "", "", None, dumped(error)))


def answer_when(
    asker: RemoteTarget, life: ActorSupervisor, manner: int | None = None
) -> None:
    """Answers a worker when an actor is ready, or was ended.

    Args:
        asker: The worker.
        life: The actor.
        manner: How it is ended; None if it is not.
    """
    moment = life.ready() if manner is None else _ENDINGS[manner](life)

    def answer(future: asyncio.Future[None]) -> None:
        error = future.exception()
        if error is not None:
            asker.fail(error)
        else:
            asker.answer((RESULT, 0, None, encode(None)))

    moment.add_done_callback(answer)


def _end(life: ActorSupervisor) -> asyncio.Future[None]:
    life.end("it was ended by another actor")
    return life.ended


def _kill(life: ActorSupervisor) -> asyncio.Future[None]:
    life.kill("it was killed by another actor")
    return life.ended


def _restart(life: ActorSupervisor) -> asyncio.Future[None]:
    return life.interrupt("it was killed by another actor, to be restarted")


_ENDINGS = {BEHIND_CALLS: _end, AT_ONCE: _kill, TO_RESTART: _restart}
