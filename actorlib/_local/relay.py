"""What rises from workers: calls to other actors, creations, endings, loans.

A worker speaks the same verbs as the owner's own code, as frames. Payloads pass through
without being decoded. A worker that asks about an actor this runtime does not know gets
an error, as would be the owner's own code.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from actorlib._engine import LoanId
from actorlib._local import runs
from actorlib._local.creations import Creations, Nursery
from actorlib._local.holders import OWNER
from actorlib._local.supervisor import Life
from actorlib._values import Lent
from actorlib._wire.frames import (
    ASK,
    ASK_WITH,
    AT_ONCE,
    AWAIT,
    BEHIND_CALLS,
    CANCEL,
    CANCELLED,
    CREATE,
    DIED,
    END,
    EXPECT,
    FAILURE,
    FETCH,
    FIND,
    FORCE,
    GIVE,
    KEEP,
    LEAVE,
    LOOK,
    RESULT,
    RETURN,
    REVOKE,
    RUN,
    TO_RESTART,
    Frame,
)
from actorlib._wire.payload import dump, encode
from actorlib.exceptions import (
    ActorDiedError,
    ActorNotFoundError,
    Exit,
    ProtocolError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actorlib._engine import ActorId, LoanId
    from actorlib._local.dispatch import Dispatch
    from actorlib._local.objects import Objects
    from actorlib._local.pool import Pool
    from actorlib._local.session import Session
    from actorlib._snapshot import ActorInfo
    from actorlib._wire.frames import Payload


class Actors(Nursery, Protocol):
    """What rising frames need of the engine."""

    objects: Objects
    pool: Pool

    def infos(self) -> list[ActorInfo]:
        """What is known of each actor."""
        ...

    def find(self, actor: ActorId) -> Life | None:
        """The life of an actor, or None if this runtime has none by that id."""
        ...

    def drop(self, loan: LoanId, holder: int, count: int) -> None:
        """A holder gives loans of an actor back."""
        ...


class Relay:
    """Serves what rises from the workers of one runtime."""

    def __init__(self, actors: Actors) -> None:
        self._actors = actors
        self._asked: dict[tuple[int, int], tuple[Dispatch | Pool, int]] = {}
        self._creations = Creations(actors)

    def serve(self, session: Session, frame: Frame) -> None:  # noqa: PLR0912  # a table
        """Serves one frame of a worker.

        Raises:
            ProtocolError: It is of no kind that rises.
        """
        kind = frame[0]
        if kind == ASK:
            self._ask(session, *frame[1:])
        elif kind == ASK_WITH:
            _, call, actor, method, loans, told, payload = frame
            self._ask(session, call, actor, method, loans, payload, told)
        elif kind == RETURN:
            _, actor, count = frame
            self._actors.drop(actor, session.number, count)
        elif kind == CREATE:
            _, call, *creation = frame
            asker = _Worker(self, session, call) if call else None
            self._creations.create(asker, session.number, *creation)
        elif kind == GIVE:
            self._creations.give(*frame[1:])
        elif kind == AWAIT:
            _, call, actor = frame
            self._answer_when(session, call, actor, Life.ready)
        elif kind == END:
            _, call, actor, manner = frame
            self._answer_when(session, call, actor, _ENDINGS[manner])
        elif kind == CANCEL:
            self._cancel(session, frame[1])
        elif kind == FIND:
            self._find(session, *frame[1:])
        elif kind == LOOK:
            _, call, is_for_names = frame
            actors = self._actors
            told = actors.directory.names() if is_for_names else actors.infos()
            _Worker(self, session, call).answer((RESULT, call, None, dump(told)))
        elif kind == LEAVE:
            self._leave(session, frame[1])
        elif kind == RUN:
            self._run(session, *frame[1:])
        elif kind in runs.OF_FUNCTIONS:
            runs.serve(self._actors.pool, session, *frame)
        elif kind == FORCE:
            _, number = self._asked.pop((session.number, frame[1]), (None, 0))
            self._actors.pool.force(number)
        elif kind in _OF_OBJECTS:
            self._serve_objects(session, kind, *frame[1:])
        else:
            raise ProtocolError(f"no worker sends frames of kind {kind}")

    def _ask(
        self,
        session: Session,
        call: int,
        actor: ActorId,
        method: str,
        loans: tuple[LoanId, ...] | None,
        payload: Payload,
        told: dict[str, object] | None = None,
    ) -> None:
        asker = _Worker(self, session, call)
        life = self._actors.find(actor)
        if life is None:
            self.give_up(loans)
            asker.fail(_unknown(actor))
            return
        if loans:
            # The worker still holds them; this process does too, until they are sent.
            self._actors.loans.arrived(loans, OWNER)
        number = life.dispatch.send(asker, method, loans, payload, told)
        if number:
            self._asked[session.number, call] = (life.dispatch, number)

    def _run(
        self, session: Session, call: int, number: int, face: bytes, *given: Any
    ) -> None:
        asker, pool = _Worker(self, session, call), self._actors.pool
        posted = runs.ask(pool, session, asker, number, face, *given)
        if posted:
            self._asked[session.number, call] = (pool, posted)

    def _cancel(self, session: Session, call: int) -> None:
        asked = self._asked.pop((session.number, call), None)
        if asked is not None:
            dispatch, number = asked
            dispatch.cancel(number)

    def _serve_objects(self, session: Session, kind: int, *fields: Any) -> None:
        objects = self._actors.objects
        if kind == EXPECT:
            name, call = fields
            self._actors.loans.arrived((name,), session.number)
            objects.expect(name, partial(self._revoke, session, call))
        elif kind == KEEP:
            objects.keep(*fields)
        elif kind == FETCH:
            call, name = fields
            objects.fetch(name, _Worker(self, session, call).answer)
        else:
            objects.revoke(*fields)

    def _revoke(self, session: Session, call: int) -> None:
        """Cancels a call of a worker for somebody else who has its ref."""
        if (session.number, call) in self._asked:
            self._cancel(session, call)
            cancelled = (FAILURE, 0, CANCELLED, "", "", "", None, b"")
            _Worker(self, session, call).answer(cancelled)

    def answered(self, session: Session, call: int) -> None:
        """A call of a worker needs no cancelling any more."""
        self._asked.pop((session.number, call), None)

    def answer_loans(self, loans: tuple[ActorId, ...], session: Session) -> None:
        """Handles are about to be sent to a worker."""
        self._actors.loans.arrived(loans, session.number)

    def give_up(self, loans: tuple[LoanId, ...] | None) -> None:
        """What a frame brought goes nowhere."""
        if loans:
            self._actors.loans.arrived(loans, OWNER)
            self._actors.loans.returned(loans, OWNER)

    def _find(
        self, session: Session, call: int, name: str, namespace: str | None
    ) -> None:
        asker = _Worker(self, session, call)
        try:
            life = self._actors.directory.find(name, namespace)
        except ActorNotFoundError as error:
            asker.fail(error)
        else:
            asker.lend(life)

    def _leave(self, session: Session, call: int) -> None:
        life = self._actors.find(session.actor)
        if life is not None:
            # Once for what still runs there, and once for its own end.
            life.stop("it left by exit_actor()", graces=2)
            life.dispatch.fail(call)

    def forget(self, session: Session) -> None:
        """A worker is gone: what it has not given will never come."""
        self._creations.forget(session.prefix)
        self._actors.pool.plans.forget(session.number)

    def _answer_when(
        self,
        session: Session,
        call: int,
        actor: ActorId,
        moment: Callable[[Life], asyncio.Future[None]],
    ) -> None:
        asker = _Worker(self, session, call)
        life = self._actors.find(actor)
        if life is None:
            asker.fail(_unknown(actor))
            return

        def answer(future: asyncio.Future[None]) -> None:
            error = future.exception()
            if error is not None:
                asker.fail(error)
            else:
                asker.answer((RESULT, call, None, encode(None)))

        moment(life).add_done_callback(answer)


class _Worker:
    """A worker that waits for an answer; see Asker."""

    __slots__ = ("_call", "_relay", "_session")

    def __init__(self, relay: Relay, session: Session, call: int) -> None:
        self._relay = relay
        self._session = session
        self._call = call

    def answer(self, frame: Frame) -> None:
        session = self._session
        self._relay.answered(session, self._call)
        loans = frame[-2]
        if not session.channel.is_open:
            self._relay.give_up(loans)
            return
        if loans:
            self._relay.answer_loans(loans, session)
        session.channel.send((frame[0], self._call, *frame[2:]))

    def lend(self, life: Life) -> None:
        """Answers with an actor, which the worker holds from then on."""
        record = life.record
        lent = Lent(record.id, record.interface)
        self.answer((RESULT, 0, (record.id,), dump(lent)))

    def fail(self, error: BaseException) -> None:
        self.answer((FAILURE, 0, DIED, str(error), "", "", None, dump(error)))


def _end(life: Life) -> asyncio.Future[None]:
    life.end("it was ended by another actor")
    return life.ended


def _kill(life: Life) -> asyncio.Future[None]:
    life.kill("it was killed by another actor")
    return life.ended


def _restart(life: Life) -> asyncio.Future[None]:
    return life.interrupt("it was killed by another actor, to be restarted")


_OF_OBJECTS = frozenset({EXPECT, KEEP, FETCH, REVOKE})
_ENDINGS = {BEHIND_CALLS: _end, AT_ONCE: _kill, TO_RESTART: _restart}


def _unknown(actor: ActorId) -> ActorDiedError:
    how = Exit(cause="lost", reason="this runtime has no such actor")
    return ActorDiedError(
        f"actor {actor.hex()} is not one of this runtime",
        exit=how,
        actor_id=actor.hex(),
    )
