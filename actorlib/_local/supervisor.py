"""The life of one actor, top to bottom.

One task per actor, and one function to read: wait for the arguments, wait for a share,
start a worker, wait for its end, say why, give the share back. A life never raises: its
failures are the record's state, and what it did not foresee is logged as our bug.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from actorlib._local.postmortem import Remains, exit_of
from actorlib._local.registry import ActorState
from actorlib.exceptions import (
    ActorDiedError,
    ActorUnschedulableError,
    Exit,
    TemplateError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from actorlib._local.birth import Sealed
    from actorlib._local.dispatch import Dispatch
    from actorlib._local.launcher import ProcessExit, WorkerProcess
    from actorlib._local.registry import ActorRecord
    from actorlib._local.session import Session
    from actorlib._local.surroundings import Surroundings
    from actorlib.accelerators.base import Lease

V = TypeVar("V")
_NEIGHBOURS = "a place for the actors that it is to be near to, or apart from"
_log = logging.getLogger("actorlib")


class Life:
    """The life of one actor.

    Args:
        record: What is known of it.
        surroundings: The engine.
        make_dispatch: Makes the actor's end of its calls from why it died and what
            to do when it is idle.

    Attributes:
        record: What is known of the actor.
        dispatch: Its calls.
        unsent: The constructor's arguments, while they wait to be sent.
        ended: Done when its process is gone and its share is back.
        waits_for: What it waits for before it stands in line; empty if nothing.
    """

    def __init__(
        self,
        record: ActorRecord,
        surroundings: Surroundings[Life],
        make_dispatch: Callable[[Life], Dispatch],
    ) -> None:
        loop = surroundings.loop
        self.record = record
        self.ended: asyncio.Future[None] = loop.create_future()
        self.dispatch = make_dispatch(self)
        self.unsent: Sealed | None = None
        self._surroundings = surroundings
        self._asked = ""
        self._ends_for = ""
        self._promise: asyncio.Future[Lease] | None = None
        self._was_ready = False
        self._awaiting_ready: list[asyncio.Future[None]] = []
        self._cause: BaseException | None = None
        self._process: WorkerProcess | None = None
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_waiting = False
        self.waits_for = ""
        self._awaiting_place: list[asyncio.Future[None]] = []
        self._patience: asyncio.TimerHandle | None = None

    def begin(self, arguments: Sealed | BaseException | asyncio.Future[Sealed]) -> None:
        """Starts living.

        Args:
            arguments: For the constructor, why there are none, or a future of them.
        """
        if asyncio.isfuture(arguments):
            self.waits_for = "a ref among its constructor's arguments"
        elif self._surroundings.awaits_neighbours(self):
            self.waits_for = _NEIGHBOURS
        elif not isinstance(arguments, BaseException):
            # Now, and not when the task begins: who is made first is first in line.
            self._promise = self._surroundings.enter(self)
        self._task = self._surroundings.loop.create_task(self._live(arguments))

    def be_stillborn(
        self,
        error: ActorUnschedulableError,
        arguments: Sealed | BaseException | asyncio.Future[Sealed],
    ) -> None:
        """Dies before it lives: it asks for what can never be."""
        if asyncio.isfuture(arguments):
            arguments.cancel()
        elif not isinstance(arguments, BaseException):
            self.unsent = arguments
        self._cause = error
        self._be_dead(Exit(cause="failed to start", reason=str(error)), None)

    def died(self) -> BaseException:
        """The error of whoever asks something of the actor after its end."""
        record = self.record
        how = record.exit or Exit(cause="asked", reason=self._asked or "it is ending")
        if isinstance(self._cause, ActorUnschedulableError):
            return ActorUnschedulableError(str(self._cause), actor_id=record.id.hex())
        error = ActorDiedError(
            f"{record.label} ({record.id.hex()}) is dead: {how}",
            exit=how,
            actor_id=record.id.hex(),
        )
        error.__cause__ = self._cause
        return error

    def ready(self) -> asyncio.Future[None]:
        """Done when it is ready for calls, or with why it never will be.

        Each who waits gets a future and an error of their own: an error keeps the
        frames that it passed, and one for all would keep every handle in them.
        """
        waiter: asyncio.Future[None] = self._surroundings.loop.create_future()
        if self.record.state is ActorState.DEAD:
            waiter.set_exception(self.died())
        elif self._was_ready:
            waiter.set_result(None)
        else:
            self._awaiting_ready.append(waiter)
        return waiter

    @property
    def answers(self) -> bool:
        """Whether it may still be found by its name: nobody has ended it."""
        return not (self._asked or self.dispatch.is_closed)

    @property
    def is_pending(self) -> bool:
        """Whether it has no process yet, and may get one."""
        return self.record.state is ActorState.PENDING

    @property
    def lease(self) -> Lease | None:
        """Its share, from the moment that it is granted until it is given back."""
        promise = self._promise
        if not self.is_pending or promise is None or not promise.done():
            return self.record.lease
        has_failed = promise.cancelled() or promise.exception() is not None
        return None if has_failed else promise.result()

    @property
    def promise(self) -> asyncio.Future[Lease] | None:
        """Its place in line, once it has one."""
        return self._promise

    def placed(self) -> asyncio.Future[None]:
        """Done when it has a place, or never will have one."""
        waiter: asyncio.Future[None] = self._surroundings.loop.create_future()
        if self.is_pending and self.lease is None:
            self._awaiting_place.append(waiter)
        else:
            waiter.set_result(None)
        return waiter

    @property
    def pid(self) -> int:
        """Its process id, or 0 while there is none."""
        return self._process.pid if self._process is not None else 0

    # Endings.

    def kill(self, reason: str) -> None:
        """Ends the actor at once, whatever it does."""
        self._asked = self._asked or reason
        if self._process is not None:
            self._process.kill()
        elif self._is_waiting and self._task is not None:
            self._task.cancel()

    def stop(self, reason: str, graces: int = 1) -> None:
        """Ends the actor behind what it was sent; it is killed if it stays on."""
        self._asked = self._asked or reason
        state = self.record.state
        if state is ActorState.ALIVE and self._session is not None:
            self.record.move(ActorState.DRAINING)
            self._session.stop()
            self.dispatch.close()
            self._lose_patience_later(graces)
        elif state in (ActorState.PENDING, ActorState.STARTING):
            self.kill(reason)

    def end(self, reason: str) -> None:
        """Refuses new calls and ends the actor behind those it was sent."""
        self.dispatch.close()
        self.end_when_idle(reason)

    def end_when_idle(self, reason: str) -> None:
        """Ends the actor as soon as everything it was sent is done."""
        self._ends_for = self._ends_for or reason
        self.idle()

    def revive(self) -> None:
        """Somebody holds it again, before it was idle: it goes on."""
        if self.answers:
            self._ends_for = ""

    def idle(self) -> None:
        """Nothing is left to be done; see Dispatch."""
        if self._ends_for and self.dispatch.is_idle and not self._asked:
            self.stop(self._ends_for)

    def _lose_patience_later(self, graces: int) -> None:
        surroundings = self._surroundings
        process = self._process
        if process is not None and self._patience is None:
            self._patience = surroundings.loop.call_later(
                surroundings.grace * graces, process.kill
            )

    # The life.

    async def _live(
        self, arguments: Sealed | BaseException | asyncio.Future[Sealed]
    ) -> None:
        how = Exit(cause="lost", reason="actorlib failed; its log says where")
        lease = None
        try:
            sealed = self.unsent = await self._waited(_value(arguments))
            if self._promise is None:
                self.waits_for = _NEIGHBOURS
                await self._waited(self._surroundings.neighbours(self))
                self.waits_for = ""
                self._promise = self._surroundings.enter(self)
            lease = await self._waited(_result(self._promise))
            how = await self._be(lease, sealed)
        except _Asked:
            how = Exit(cause="asked", reason=self._asked)
        except ActorUnschedulableError as error:
            self._cause = error
            how = Exit(cause="failed to start", reason=str(error))
        except _Unborn as error:
            self._cause = error.__cause__
            how = Exit(cause="failed to start", reason=f"{error.__cause__}")
        except asyncio.CancelledError:
            how = Exit(cause="asked", reason="the runtime was shut down")
            raise
        except Exception as error:  # noqa: BLE001  # around a life
            _log.exception("the life of %r ended by a bug in actorlib", self.record)
            self._cause = error
        finally:
            self._be_dead(how, lease)

    async def _waited(self, waiting: Coroutine[Any, Any, V]) -> V:
        """Waits for something that ``kill`` may end."""
        if self._asked:
            waiting.close()
            raise _Asked
        self._is_waiting = True
        try:
            return await waiting
        except asyncio.CancelledError:
            if not self._asked:
                raise
            raise _Asked from None
        finally:
            self._is_waiting = False

    async def _be(self, lease: Lease, arguments: Sealed) -> Exit:
        surroundings, record = self._surroundings, self.record
        record.lease = lease
        record.move(ActorState.STARTING)
        self._tell_placed()
        if self._asked:
            raise _Asked
        try:
            process = self._process = surroundings.launch(record, lease)
        except (OSError, TemplateError) as error:
            raise _Unborn from error
        session = self._session = surroundings.open_session(self, process)
        try:
            self.unsent = None
            start = surroundings.start_frame(self, session, lease, arguments)
            ended = await session.run(start, surroundings.grace)
        finally:
            surroundings.close_session(session)
        return self._explain(session, process, ended)

    def is_ready(self) -> None:
        """The constructor has finished: calls may go."""
        if self._session is None or self.record.state is not ActorState.STARTING:
            return
        self.record.move(ActorState.ALIVE)
        self.dispatch.opened(self._session.channel, self._session.number)
        self._was_ready = True
        self._tell_ready(None)
        self.idle()

    def _tell_placed(self) -> None:
        waiters, self._awaiting_place = self._awaiting_place, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _tell_ready(self, died: Callable[[], BaseException] | None) -> None:
        waiters, self._awaiting_ready = self._awaiting_ready, []
        for waiter in waiters:
            if waiter.done():
                continue
            if died is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(died())

    def _explain(
        self, session: Session, process: WorkerProcess, ended: ProcessExit
    ) -> Exit:
        error = session.constructor_error
        self._cause = error or session.protocol_error
        return exit_of(
            Remains(
                process=ended,
                asked=self._asked,
                was_ready=self._was_ready,
                constructor=session.constructor_summary,
                protocol=str(session.protocol_error or ""),
                method=self.dispatch.running(),
                log_tail=process.log_tail(),
                pid=process.pid,
                is_memory_short=self._surroundings.is_memory_short(),
            )
        )

    def _be_dead(self, how: Exit, lease: Lease | None) -> None:
        record = self.record
        if self._patience is not None:
            self._patience.cancel()
        record.exit = how
        self.waits_for = ""
        if record.state in (ActorState.STARTING, ActorState.ALIVE):
            record.move(ActorState.DRAINING)
        record.lease = None
        record.move(ActorState.DEAD)
        self._tell_placed()
        self.dispatch.over()
        self._tell_ready(self.died)
        if lease is not None:
            self._surroundings.release_lease(lease)
        elif self._promise is not None:
            self._surroundings.leave(self._promise)
        self.ended.set_result(None)
        self._surroundings.buried(self)
        if how.cause != "asked":
            # Last, and whatever becomes of it: a handler of the user's may raise.
            with suppress(Exception):
                told = replace(how, log_tail="")  # it has been shown, or was not to be
                _log.warning("%s (%s) is dead: %s", record.label, record.id.hex(), told)


class _Unborn(Exception):  # noqa: N818  # carries what went wrong
    """The actor cannot be given life; the cause says why."""


class _Asked(Exception):  # noqa: N818  # no error: the way out of a life that was ended
    """The actor was ended before it had a process."""


async def _result(promise: asyncio.Future[Lease]) -> Lease:
    return await promise


async def _value(
    arguments: Sealed | BaseException | asyncio.Future[Sealed],
) -> Sealed:
    if isinstance(arguments, BaseException):
        raise _Unborn from arguments
    if not asyncio.isfuture(arguments):
        return arguments
    try:
        return await arguments
    except Exception as error:
        raise _Unborn from error
