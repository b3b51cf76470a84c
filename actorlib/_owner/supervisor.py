"""The life of one actor, top to bottom.

One task per actor, and one function to read: wait for the arguments; then, again and
again, wait for a share, start a worker, wait for its end, say why; and at last give the
share back. A life never raises: its failures are the record's state, and what it did
not foresee is logged as our bug.

One actor's share of the machine, from its place in line until it is given back.

What a life needs around it: its share, its worker, and who else is there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import (
    suppress,
)
from contextvars import (
    Context,
)
from dataclasses import (
    replace,
)
from typing import (
    TYPE_CHECKING,
    Any,
    Protocol,
    TypeVar,
    final,
)

from actorlib._core.log import (
    warn,
)
from actorlib._core.notifier import (
    Notifier,
)
from actorlib._owner.actor_record import (
    ActorState,
)
from actorlib._owner.exit_reason import (
    ExitEvidence,
    died,
    exit_of,
    fault_of,
    unavailable,
)
from actorlib._owner.restart_policy import (
    Fault,
    GiveUp,
    Restarts,
)
from actorlib._owner.teardown import (
    tear_down,
)
from actorlib._processes.forkserver_launcher import (
    why,
)
from actorlib.exceptions import (
    ActorUnschedulableError,
    Exit,
    TemplateError,
)

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Coroutine,
    )

    from actorlib._owner.actor_record import (
        ActorRecord,
    )
    from actorlib._owner.creation import (
        EncodedArguments,
    )
    from actorlib._owner.router import (
        CallRouter,
    )
    from actorlib._owner.worker_session import (
        Session,
    )
    from actorlib._processes.launcher import (
        ProcessExit,
        WorkerProcess,
    )
    from actorlib._wire.messages import (
        Frame,
    )
    from actorlib.accelerators.base import (
        Lease,
    )


L = TypeVar("L")


@final
class Place:
    """Where an actor stands in line, and what it got.

    Args:
        record: What is known of the actor.
        surroundings: The engine.

    Attributes:
        promise: Its place in line, once it has one.
        waits_for_neighbours: Whether it is not in line yet, as an actor that it has
            to be near to, or apart from, has no place.
    """

    def __init__(self, record: ActorRecord, surroundings: Surroundings[L]) -> None:
        self.promise: asyncio.Future[Lease] | None = None
        self.waits_for_neighbours = False
        self._record = record
        self._surroundings = surroundings
        self._taken = Notifier(surroundings.loop)

    @property
    def lease(self) -> Lease | None:
        """The share, from the moment that it is granted until it is given back."""
        promise = self.promise
        if self._record.lease is not None or promise is None or not promise.done():
            return self._record.lease
        has_failed = promise.cancelled() or promise.exception() is not None
        return None if has_failed else promise.result()

    def enter(self) -> None:
        """Gets in line now, unless it has to wait for neighbours first."""
        self.waits_for_neighbours = self._surroundings.awaits_neighbours(self._record)
        if not self.waits_for_neighbours:
            self.promise = self._surroundings.enter(self._record)

    async def granted(self) -> Lease:
        """The share, when its turn has come; the one that it has, if it kept one.

        Cancelled: what was granted or is waited for is left to ``give_back``.
        """
        if self._record.lease is not None:
            return self._record.lease
        if self.promise is None:
            self.waits_for_neighbours = True
            await self._surroundings.neighbours(self._record)
            self.waits_for_neighbours = False
            self.promise = self._surroundings.enter(self._record)
        return await self.promise

    def queue_anew(self) -> bool:
        """Goes to the end of the line; False if it does not stand in one."""
        if self.promise is None or self.promise.done():
            return False
        self._surroundings.queue_anew(self.promise)
        return True

    def take(self, lease: Lease) -> None:
        """Holds a share from now on."""
        self._record.lease = lease
        self._taken.happens()

    def give_back(self) -> None:
        """Gives the share back, or the place in line up."""
        lease, promise = self._record.lease, self.promise
        self._record.lease = self.promise = None
        if lease is not None:
            self._surroundings.release_lease(lease)
        elif promise is not None:
            self._surroundings.leave(promise)

    def taken(self) -> asyncio.Future[None]:
        """Done when the actor takes a share next, or never will."""
        return self._taken.wait()

    def given_up(self) -> None:
        """It will never take one any more."""
        self.waits_for_neighbours = False
        self._taken.happens()


V = TypeVar("V")
_log = logging.getLogger("actorlib")


class ActorSupervisor:
    """The life of one actor.

    Args:
        record: What is known of it.
        surroundings: The engine.
        make_dispatch: Makes the actor's end of its calls from why it died and what
            to do when it is idle.

    Attributes:
        record: What is known of the actor.
        dispatch: Its calls.
        place: Its share of the machine.
        restarts: How often it was started anew, and may still be.
        unsent: The constructor's arguments, while they may have to be sent.
        ended: Done when it is dead for good: its process is gone, its share is back.
    """

    def __init__(
        self,
        record: ActorRecord,
        surroundings: Surroundings[ActorSupervisor],
        make_dispatch: Callable[[ActorSupervisor], CallRouter],
    ) -> None:
        loop = surroundings.loop
        self.record = record
        self.ended: asyncio.Future[None] = loop.create_future()
        self.dispatch = make_dispatch(self)
        self.place = Place(record, surroundings)
        self.restarts = Restarts(record.options.restart_policy)
        self.unsent: EncodedArguments | None = None
        self._surroundings = surroundings
        self._asked = ""
        self._interrupted = ""
        self._ends_for = ""
        self._was_ready = False
        self._fault = Fault.OWN
        self._ready = Notifier(loop)
        self._session_over = Notifier(loop)
        self._cause: BaseException | None = None
        self._process: WorkerProcess | None = None
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_waiting = False
        self._due: asyncio.Future[EncodedArguments] | None = None

    def begin(
        self,
        arguments: EncodedArguments | BaseException | asyncio.Future[EncodedArguments],
    ) -> None:
        """Starts living.

        Args:
            arguments: For the constructor, why there are none, or a future of them.
        """
        if asyncio.isfuture(arguments):
            self._due = arguments
        elif not isinstance(arguments, BaseException):
            self.unsent = arguments
            # Now, and not when the task begins: who is made first is first in line.
            self.place.enter()
        # Its context is not that of whoever made it, which may be over long before.
        self._task = self._surroundings.loop.create_task(
            self._live(arguments), context=Context()
        )

    def be_stillborn(
        self,
        error: ActorUnschedulableError,
        arguments: EncodedArguments | BaseException | asyncio.Future[EncodedArguments],
    ) -> None:
        """Dies before it lives: it asks for what can never be."""
        if asyncio.isfuture(arguments):
            arguments.cancel()
        elif not isinstance(arguments, BaseException):
            self.unsent = arguments
        self._cause = error
        self._be_dead(Exit(cause="failed to start", reason=str(error)))

    def died(self) -> BaseException:
        """The error of whoever asks something of the actor after its end."""
        return died(self.record, self._cause, self.restarts.given_up, self._asked)

    def unavailable(self) -> BaseException:
        """The error of whoever asks something of it while it restarts."""
        how = self.restarts.last_exit or Exit(cause="lost")
        return unavailable(self.record, how, self.restarts.told(self._now()))

    def ready(self) -> asyncio.Future[None]:
        """Done when it is ready for calls, or with why it never will be."""
        waiter = self._ready.wait()
        if self.record.state is ActorState.DEAD:
            self._ready.happens(self.died)
        elif self._was_ready:
            self._ready.happens()
        return waiter

    @property
    def answers(self) -> bool:
        """Whether it may still be found by its name: nobody has ended it."""
        return not (self._asked or self.dispatch.is_closed)

    @property
    def waits_for_arguments(self) -> bool:
        """Whether it is not in line yet, as an argument is a ref without a value."""
        is_in_line = self.place.promise is not None or self.place.waits_for_neighbours
        return self.record.state is ActorState.PENDING and not is_in_line

    @property
    def is_placeless(self) -> bool:
        """Whether it has no share, and may get one."""
        has_process = self.record.state not in (
            ActorState.PENDING,
            ActorState.RESTARTING,
        )
        return not has_process and self.place.lease is None

    def placed(self) -> asyncio.Future[None]:
        """Done when it has a place, or never will have one."""
        if self.is_placeless:
            return self.place.taken()
        there: asyncio.Future[None] = self._surroundings.loop.create_future()
        there.set_result(None)
        return there

    @property
    def pid(self) -> int:
        """Its process id, or 0 while there is none."""
        return self._process.pid if self._process is not None else 0

    # Endings.

    def kill(self, reason: str) -> None:
        """Ends the actor at once, whatever it does."""
        self._asked = self._asked or reason
        self.dispatch.close()  # what comes from here on could still be answered
        if self._process is not None:
            self._process.kill()
        elif self._is_waiting and self._task is not None:
            self._task.cancel()

    def evict(self, reason: str) -> None:
        """Ends the actor at once, as its placement group is no more."""
        self.record.was_evicted = True
        self.kill(reason)

    def interrupt(self, reason: str) -> asyncio.Future[None]:
        """Ends its process at once, to be restarted; kills it if it may not be.

        One that stands in line is restarted there: it goes to the end.

        Returns:
            Done when that process is gone.
        """
        if not self.restarts.would_follow(Exit(cause="restarted"), self._now()):
            self.kill(reason)
        if self._asked or self.record.state is ActorState.DEAD:
            return asyncio.shield(self.ended)
        waiter = self._session_over.wait()
        if self._process is None:  # it has none yet, and will start afresh anyway
            if self.place.queue_anew():
                how = Exit(cause="restarted", reason=reason)
                self.restarts.follows(how, self._now())
            self._session_over.happens()
        else:
            self._interrupted = reason
            self._process.kill()
        return waiter

    def leaves(self, reason: str) -> None:
        """The actor ends by its own will; it is killed if it stays on."""
        # Once for what still runs there, and once for its own end.
        graces = 2
        if self.record.state is ActorState.STARTING and self._session is not None:
            self._asked = self._asked or reason
            self._session.stop(self._surroundings.grace * graces)
        else:
            self.stop(reason, graces)

    def stop(self, reason: str, graces: int = 1) -> None:
        """Ends the actor behind what it was sent; it is killed if it stays on."""
        self._asked = self._asked or reason
        state = self.record.state
        if state is ActorState.ALIVE and self._session is not None:
            self.record.move(ActorState.DRAINING)
            self._session.stop(self._surroundings.grace * graces)
            self.dispatch.drain()
        elif state not in (ActorState.DRAINING, ActorState.DEAD):
            self.kill(reason)

    def end(self, reason: str) -> None:
        """Refuses new calls and ends the actor behind those it was sent."""
        if not self.dispatch.is_closed:
            loop, patience = self._surroundings.loop, self._surroundings.grace
            dispatch = self.dispatch
            dispatch.streams.cut_off(loop, patience, lambda: dispatch.is_idle)
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
        """Nothing is left to be done; see CallRouter."""
        if self._ends_for and not self._asked and self.dispatch.is_over():
            self.stop(self._ends_for)

    def forsake(self) -> None:
        """In a fork: the worker is its parent's."""
        if self._session is not None:
            self._session.channel.forsake()

    # The life.

    async def _live(
        self,
        arguments: EncodedArguments | BaseException | asyncio.Future[EncodedArguments],
    ) -> None:
        how = Exit(cause="lost", reason="actorlib failed; its log says where")
        try:
            sealed = self.unsent = await self._waited(_value(arguments))
            self._due = None
            while True:
                lease = await self._waited(self.place.granted())
                how = await self._be(lease, sealed)
                if self._ends_for and not self.dispatch.outlives:
                    break  # there is nothing left to be restarted for
                follows = self.restarts.follows(how, self._now(), self._fault)
                if isinstance(follows, GiveUp):
                    break
                await self._restart(how, follows.after)
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
            self._be_dead(how)

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

    async def _be(self, lease: Lease, arguments: EncodedArguments) -> Exit:
        surroundings, record = self._surroundings, self.record
        record.move(ActorState.STARTING)
        self.place.take(lease)
        if self._asked:
            raise _Asked
        try:
            process = surroundings.launch(record, lease)
            self._process = record.process = process
        except (OSError, TemplateError) as error:
            self._cause, self._fault = error, Fault.UNLAUNCHED
            return Exit(cause="failed to start", reason=why(error))
        try:
            return await self._serve(process, lease, arguments)
        except Exception:
            # A bug of ours: the share is not given back before the process is gone.
            process.kill()
            process.sock.close()
            await asyncio.wait({process.exited}, timeout=surroundings.grace)
            raise

    async def _serve(
        self, process: WorkerProcess, lease: Lease, arguments: EncodedArguments
    ) -> Exit:
        surroundings = self._surroundings
        session = self._session = surroundings.open_session(self, process)
        try:
            start = surroundings.start_frame(self, session, lease, arguments)
            ended = await session.run(start, surroundings.grace)
        finally:
            session.channel.close()
            surroundings.close_session(session)
        return self._explain(session, process, ended)

    async def _restart(self, how: Exit, after: float) -> None:
        """Lets go of what was, and waits if it has died too often of late.

        Who has to wait gives the share back meanwhile, and gets in line again.
        """
        self._process = self._session = None
        self._was_ready = False
        self._interrupted = ""
        self.record.move(ActorState.RESTARTING)
        self._report(f"restarts ({self.restarts.told(self._now())})", how)
        if self.restarts.has_lived:  # else no call has left: they wait as before
            self.dispatch.interrupted()
        self._session_over.happens()
        if after:
            self.place.give_back()
            await self._waited(asyncio.sleep(after))

    def _now(self) -> float:
        return self._surroundings.loop.time()

    def is_ready(self, own: str) -> None:
        """The constructor has finished: calls may go.

        Args:
            own: What the actor's own ``__repr__`` calls it, or the empty string.
        """
        record, process = self.record, self._process
        if self._session is None or record.state is not ActorState.STARTING:
            return
        record.move(ActorState.ALIVE)
        record.called = record.called.calling_itself(own)
        if own and process is not None:
            process.rename(record.label)
        record.started_at = record.started_at or time.time()
        self.dispatch.opened(self._session.channel, self._session.number)
        self._was_ready = True
        self.restarts.is_ready()
        if self.restarts.are_over and self.unsent is not None:
            self._surroundings.spent(self.unsent)
            self.unsent = None
        self._ready.happens()
        self.idle()

    def _explain(
        self, session: Session, process: WorkerProcess, ended: ProcessExit
    ) -> Exit:
        error = session.constructor_error
        self._cause = error or session.protocol_error
        remains = ExitEvidence(
            process=ended,
            asked=self._asked,
            interrupted=self._interrupted,
            was_ready=self._was_ready,
            constructor=session.constructor_summary,
            traceback=session.constructor_traceback,
            protocol=str(session.protocol_error or ""),
            under_way=self.dispatch.under_way(self.record),
            log_tail=process.log_tail(),
            pid=process.pid,
            is_memory_short=self._surroundings.is_memory_short(),
        )
        self._fault = fault_of(remains)
        return exit_of(remains)

    def _be_dead(self, how: Exit) -> None:
        tear_down(
            self.record,
            self._take_due,
            lambda: self._be_recorded(how),
            self.place.given_up,
            self.dispatch.over,
            lambda: self._ready.happens(self.died),
            self.place.give_back,
            self._session_over.happens,
            lambda: self.ended.set_result(None),
            lambda: self._surroundings.buried(self),
            lambda: self._report(f"is dead{self.restarts.given_up}", how),
        )

    def _take_due(self) -> None:
        due = self._due
        if due is not None and not due.cancel() and not due.cancelled():
            # They came, and it was ended before it took them.
            self.unsent = due.result() if due.exception() is None else None

    def _be_recorded(self, how: Exit) -> None:
        record = self.record
        record.exit = how
        record.ended_at = time.time()
        if record.state in (ActorState.STARTING, ActorState.ALIVE):
            record.move(ActorState.DRAINING)
        record.move(ActorState.DEAD)

    def _report(self, what: str, how: Exit) -> None:
        """Logs an end that nobody asked for."""
        if how.cause in ("asked", "restarted"):
            return
        told = replace(how, log_tail="")  # it has been shown, or was not to be
        with suppress(Exception):  # a handler of the user's may raise
            if isinstance(self._cause, ActorUnschedulableError):
                warn("%s", told)  # it begins with who asks
            else:
                warn("%s %s: %s", self.record.title, what, told)


class _Unborn(Exception):  # noqa: N818  # carries what went wrong
    """The actor cannot be given life; the cause says why."""


class _Asked(Exception):  # noqa: N818  # no error: the way out of a life that was ended
    """The actor was ended before it had a process."""


async def _value(
    arguments: EncodedArguments | BaseException | asyncio.Future[EncodedArguments],
) -> EncodedArguments:
    if isinstance(arguments, BaseException):
        raise _Unborn from arguments
    if not asyncio.isfuture(arguments):
        return arguments
    try:
        return await arguments
    except Exception as error:
        raise _Unborn from error


L_contra = TypeVar("L_contra", contravariant=True)


class Surroundings(Protocol[L_contra]):
    """What a life needs of the engine it is lived in."""

    loop: asyncio.AbstractEventLoop
    grace: float

    def awaits_neighbours(self, record: ActorRecord) -> bool:
        """Whether actors it is to be near to, or apart from, have no place yet."""
        ...

    async def neighbours(self, record: ActorRecord) -> None:
        """Done when they have a place, or are dead."""
        ...

    def enter(self, record: ActorRecord) -> asyncio.Future[Lease]:
        """Asks for the actor's share: done at once, or when its turn has come.

        It fails with ActorUnschedulableError if that turn can never come.
        """
        ...

    def leave(self, promise: asyncio.Future[Lease]) -> None:
        """Gives up a place in line, or a share that was not taken."""
        ...

    def queue_anew(self, promise: asyncio.Future[Lease]) -> None:
        """Gives up a place in line for one at its end."""
        ...

    def release_lease(self, lease: Lease) -> None:
        """Gives a share back."""
        ...

    def launch(self, record: ActorRecord, lease: Lease) -> WorkerProcess:
        """Starts a worker for the actor."""
        ...

    def open_session(self, life: L_contra, process: WorkerProcess) -> Session:
        """Opens the pipe to the worker."""
        ...

    def start_frame(
        self,
        life: L_contra,
        session: Session,
        lease: Lease,
        arguments: EncodedArguments,
    ) -> Frame:
        """What the worker is told first."""
        ...

    def spent(self, arguments: EncodedArguments) -> None:
        """A constructor's arguments will not be sent again."""
        ...

    def close_session(self, session: Session) -> None:
        """Forgets what the worker held."""
        ...

    def is_memory_short(self) -> bool:
        """Whether the kernel has killed for lack of memory since the last look."""
        ...

    def buried(self, life: L_contra) -> None:
        """The actor is dead and everything it had is back."""
        ...
