"""Supervision of one actor, from its creation until it is dead for good.

One task per actor, and one function to read: wait for the arguments; then, again and
again, wait for a share, start a worker, wait for its end, say why; and at last give the
share back. The task never raises: its failures are the record's state, and what it did
not foresee is logged as our bug.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from contextvars import Context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from actorlib._base.log import tell, warn
from actorlib._base.notifier import Notifier
from actorlib._options.resources import Resources
from actorlib._owner.actors.actor_record import ActorState
from actorlib._owner.actors.exit_reason import (
    ExitEvidence,
    died,
    exit_of,
    fault_of,
    unavailable,
)
from actorlib._owner.actors.restart_policy import Fault, GiveUp, Restarts
from actorlib._owner.calls.router import CallRouter
from actorlib._owner.objects.refcount import OWNER
from actorlib._owner.teardown import tear_down
from actorlib._processes.fd_limit import start_error_reason
from actorlib._scheduler.long_waits import LONG
from actorlib._wire.errors import clear_locals
from actorlib.exceptions import (
    ActorUnschedulableError,
    EnforcementRefused,
    Exit,
    SuspendError,
    TemplateError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from actorlib._enforcement.tiers import Verdict
    from actorlib._owner.actors.creation import ActorDefinition, EncodedArguments
    from actorlib._owner.actors.placement import ActorPlacement
    from actorlib._owner.actors.suspension import Suspension
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.calls.router import WorkerRoute
    from actorlib._owner.machine import WorkerStarter
    from actorlib._processes.launcher import ProcessExit, WorkerProcess
    from actorlib.accelerators.base import Lease


V = TypeVar("V")
_WITH_PROCESS = (ActorState.STARTING, ActorState.ALIVE, ActorState.SUSPENDED)
_LOST = Exit(cause="lost", reason="actorlib failed; its log says where")
_SHUT_DOWN = Exit(cause="asked", reason="the runtime was shut down")
_log = logging.getLogger("actorlib")


class ActorSupervisor:
    """Keeps one actor from its creation until it is dead, over all its workers.

    Args:
        definition: What it is made from.
        placement: Its share of the machine, not in line yet.
        starter: Starts its workers.
        make_route: Makes the way to its workers, once this is there.
        on_dead: Told when it is dead and everything that it had is back.

    Attributes:
        record: What is known of the actor.
        route: The way to its workers.
        router: The same, of an actor; a worker of functions has none.
        placement: Its share of the machine.
        restarts: How often it was started anew, and may still be.
        session: Its worker, while it has one; or its last, once it is dead.
        unsent: The constructor's arguments, while they may have to be sent.
        ended: Done when it is dead for good: its process is gone, its share is back, or
            drains.
    """

    router: CallRouter

    def __init__(
        self,
        definition: ActorDefinition,
        placement: ActorPlacement,
        starter: WorkerStarter,
        make_route: Callable[[ActorSupervisor], WorkerRoute],
        on_dead: Callable[[ActorSupervisor], None],
    ) -> None:
        loop = self._loop = starter.loop
        record = self.record = placement.record
        self.ended: asyncio.Future[None] = loop.create_future()
        self.route = make_route(self)
        if isinstance(self.route, CallRouter):
            self.router = self.route
        self.placement = placement
        self.restarts = Restarts(record.options)
        self.unsent: EncodedArguments | None = None
        self._definition: ActorDefinition | None = definition
        self._starter = starter
        self._on_dead = on_dead
        self._end_reason = ""
        self._interrupted = ""
        self._ends_for = ""
        self._was_ready = False
        self._fault = Fault.OWN
        self._ready = Notifier(loop)
        self._session_over = Notifier(loop)
        self._cause: BaseException | None = None
        self._process: WorkerProcess | None = None
        self.session: WorkerSession | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_waiting = False
        self._is_finished = False
        self._due_arguments: asyncio.Future[EncodedArguments] | None = None
        self._suspension: Suspension | None = None

    def start(
        self,
        arguments: EncodedArguments | BaseException | asyncio.Future[EncodedArguments],
    ) -> None:
        """Gets in line, and begins the task that sees to the rest.

        Args:
            arguments: For the constructor, why there are none, or a future of them.
        """
        if asyncio.isfuture(arguments):
            self._due_arguments = arguments
        elif not isinstance(arguments, BaseException):
            self.unsent = arguments
            # Now, and not when the task begins: who is made first is first in line.
            self.placement.begin()
        # Its context is not that of whoever made it, which may be over long before.
        self._task = self._loop.create_task(self._run(arguments), context=Context())
        # One that is cancelled before its first step never comes to its own end.
        self._task.add_done_callback(lambda _: self._finish(_SHUT_DOWN))

    def refuse(
        self,
        error: ActorUnschedulableError,
        arguments: EncodedArguments | BaseException | asyncio.Future[EncodedArguments],
    ) -> None:
        """Ends an actor that asks for what can never be, before it has a worker."""
        if asyncio.isfuture(arguments):
            arguments.cancel()
        elif not isinstance(arguments, BaseException):
            self.unsent = arguments
        self._cause = error
        self._finish(Exit(cause="failed to start", reason=str(error)))

    def died(self) -> BaseException:
        """Makes the error of whoever asks something of the actor after its end."""
        return died(self.record, self._cause, self.restarts.given_up, self._end_reason)

    def unavailable(self) -> BaseException:
        """Makes the error of whoever asks something of it while it restarts."""
        how = self.restarts.last_exit or Exit(cause="lost")
        return unavailable(self.record, how, self.restarts.in_words(self._now()))

    def ready(self) -> asyncio.Future[None]:
        """Gives what is done when it is ready for calls, or with why it never is."""
        future = self._ready.wait()
        if self.record.state is ActorState.DEAD:
            self._ready.notify(self.died)
        elif self._was_ready:
            self._ready.notify()
        return future

    @property
    def answers(self) -> bool:
        """Whether it may still be found by its name: nobody has ended it."""
        return not (self._end_reason or self.route.is_closed)

    @property
    def end_reason(self) -> str:
        """Why the actor is ending; empty if it is not."""
        return self._end_reason

    @property
    def waits_for_arguments(self) -> bool:
        """Whether it is not in line yet, as an argument is a ref without a value."""
        is_in_line = (
            self.placement.pending is not None or self.placement.waits_for_neighbours
        )
        return self.record.state is ActorState.PENDING and not is_in_line

    @property
    def pid(self) -> int:
        """Its process id; 0 while there is none."""
        return self._process.pid if self._process is not None else 0

    # Off its GPU, and back.

    def suspend(self, patience: float | None) -> asyncio.Future[None]:
        """Takes it off its GPU, and gives its share back; see Suspension.

        Args:
            patience: Seconds that its calls under way may take; None for any.

        Raises:
            SuspendError: It cannot be.
        """
        record, suspension = self.record, self._suspension
        if record.state is ActorState.DEAD:
            raise self.died()
        if record.state not in (ActorState.ALIVE, ActorState.SUSPENDED):
            raise SuspendError(
                f"{record.title} is {record.state.value}: it is suspended when it is "
                "ready, so await its handle first"
            )
        if self._ends_for:
            raise SuspendError(f"{record.title} is about to end: {self._ends_for}")
        if record.lease is not None and (
            why := self._starter.node.suspension_fault(record.lease, record.options)
        ):
            raise SuspendError(f"{record.title} cannot be suspended: {why}")
        if suspension is None:
            from actorlib._owner.actors.suspension import Suspension  # noqa: PLC0415  # few ask

            suspension = self._suspension = Suspension(
                self.router,
                self.placement,
                self._starter.node.checkpoints,
                on_share=lambda: self._starter.entered(record),
                on_move=self._end_if_left,
                on_lost=self.interrupt,
            )
        return suspension.suspend(patience)

    def resume(self) -> asyncio.Future[None]:
        """Puts it back on its GPU once it has its share; see Suspension.

        Returns:
            Done when it takes calls.

        Raises:
            SuspendError: It is being suspended.
        """
        is_there = self.record.state in (ActorState.ALIVE, ActorState.SUSPENDED)
        if self._suspension is None or not is_there:
            return self.ready()
        return self._suspension.resume()

    def _end_if_left(self) -> None:
        """Ends it if it is to end, and nobody will resume it."""
        suspension = self._suspension
        if self._ends_for and suspension is not None and not suspension.may_go_on:
            self.stop(f"{self._ends_for}, and it was suspended")
        self.idle()

    @property
    def suspension(self) -> str:
        """Says where it is between its GPU and the host's memory; may be empty."""
        return "" if self._suspension is None else self._suspension.in_words()

    # Endings.

    def kill(self, reason: str) -> None:
        """Ends the actor at once, whatever it does."""
        self._end_reason = self._end_reason or reason
        self.route.close()  # what comes from here on could still be answered
        if self._process is not None:
            self._process.kill()
        elif self._task is None and not self.ended.done():
            # Ctrl-C came before there was a task: nothing else would end it.
            self._finish(Exit(cause="asked", reason=self._end_reason))
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
        if self._end_reason or self.record.state is ActorState.DEAD:
            return asyncio.shield(self.ended)
        future = self._session_over.wait()
        if self._process is None:  # it has none yet, and will start afresh anyway
            if self.placement.requeue():
                how = Exit(cause="restarted", reason=reason)
                self.restarts.follows(how, self._now())
            self._session_over.notify()
        else:
            self._interrupted = reason
            self._process.kill()
        return future

    def may_restart(self) -> bool:
        """Whether it would be restarted if its process had ended by itself now."""
        session = self.session
        is_made = session is None or not session.constructor_summary
        how = Exit(cause="exited" if is_made else "failed to start")
        return self.restarts.would_follow(how, self._now())

    def end_for(self, verdict: Verdict) -> None:
        """Ends its process at once, for a reason that its callers are told.

        Restarts follow by the usual rules.
        """
        if self._process is not None and not (self._end_reason or self._interrupted):
            self.record.verdict = verdict
            self._process.kill()

    def leave(self, reason: str) -> None:
        """Lets the actor end by its own will; it is killed if it stays on."""
        # Once for what still runs there, and once for its own end.
        graces = 2
        if self.record.state is ActorState.STARTING and self.session is not None:
            self._end_reason = self._end_reason or reason
            self.session.stop(self._starter.grace * graces)
        else:
            self.stop(reason, graces)

    def stop(self, reason: str, graces: int = 1) -> None:
        """Ends the actor behind what it was sent; it is killed if it stays on."""
        self._end_reason = self._end_reason or reason
        if self._suspension is not None:
            self._suspension.give_up("it is about to end")
        state = self.record.state
        if state is ActorState.ALIVE and self.session is not None:
            self.record.move(ActorState.DRAINING)
            self.session.stop(self._starter.grace * graces)
            self.route.drain()
        elif state not in (ActorState.DRAINING, ActorState.DEAD):
            self.kill(reason)

    def end(self, reason: str) -> None:
        """Refuses new calls and ends the actor behind those it was sent."""
        if not self.route.is_closed:
            loop, patience = self._loop, self._starter.grace
            self.router.expire_streams(loop, patience)
        self.route.close()
        self.end_when_idle(reason)

    def end_when_idle(self, reason: str) -> None:
        """Ends the actor as soon as everything it was sent is done."""
        self._ends_for = self._ends_for or reason
        if self._suspension is not None:
            self._suspension.give_up("it is about to end")
        self._end_if_left()

    def revive(self) -> None:
        """Lets it go on, as somebody holds it again before it was idle."""
        if self._ends_for and self.answers:
            self._ends_for = ""

    def idle(self) -> None:
        """Ends it if it is to end when nothing is left to be done; see CallRouter."""
        if self._suspension is not None:
            self._suspension.note_idle()
        if self._ends_for and not self._end_reason and self.route.is_over():
            self.stop(self._ends_for)

    def close_in_fork(self) -> None:
        """Forgets the worker in a fork: it is the parent's."""
        if self.session is not None:
            self.session.channel.close_in_fork()

    # From its place in line to its end.

    async def _run(
        self,
        arguments: EncodedArguments | BaseException | asyncio.Future[EncodedArguments],
    ) -> None:
        how = _LOST
        try:
            if self._task is None:
                # The user's loop makes eager tasks (Python 3.12), and whoever creates
                # the actor has no handle yet: it must not be dead and forgotten before.
                await asyncio.sleep(0)
            encoded = self.unsent = await self._waited(_value(arguments))
            self._due_arguments = None
            while True:
                since = self._now()
                lease = await self._waited(self.placement.granted())
                if _log.isEnabledFor(logging.INFO):
                    self._tell_of_lease(lease, self._now() - since)
                how = await self._run_worker(lease, encoded)
                if self._ends_for and not self.route.outlives:
                    break  # there is nothing left to be restarted for
                follows = self.restarts.follows(how, self._now(), self._fault)
                if isinstance(follows, GiveUp):
                    break
                await self._prepare_restart(how, follows.after)
        except _Ended:
            how = Exit(cause="asked", reason=self._end_reason)
        except ActorUnschedulableError as error:
            self._cause = error
            how = Exit(cause="failed to start", reason=str(error))
        except _NotCreated as error:
            self._cause = error.__cause__
            how = Exit(cause="failed to start", reason=f"{error.__cause__}")
        except (asyncio.CancelledError, KeyboardInterrupt):
            how = _SHUT_DOWN
            raise
        except Exception as error:  # noqa: BLE001  # around an actor's task
            _log.exception(
                "the supervision of %r ended by a bug in actorlib", self.record
            )
            self._cause = error
        finally:
            self._finish(how)

    async def _waited(self, waiting: Coroutine[Any, Any, V]) -> V:
        """Waits for something that ``kill`` may end."""
        if self._end_reason:
            waiting.close()
            raise _Ended
        self._is_waiting = True
        try:
            return await waiting
        except asyncio.CancelledError:
            if not self._end_reason:
                raise
            raise _Ended from None
        finally:
            self._is_waiting = False

    async def _run_worker(self, lease: Lease, arguments: EncodedArguments) -> Exit:
        starter, record = self._starter, self.record
        record.move(ActorState.STARTING)
        record.verdict = None
        self.placement.take(lease)
        if self._end_reason:
            raise _Ended
        try:
            process = starter.launch(record, lease)
            self._process = record.process = process
        except (OSError, TemplateError) as error:
            self._cause, self._fault = error, Fault.UNLAUNCHED
            return Exit(cause="failed to start", reason=start_error_reason(error))
        try:
            return await self._serve(process, lease, arguments)
        except Exception:
            # A bug of ours: the share is not given back before the process is gone.
            process.kill()
            process.sock.close()
            await asyncio.wait({process.exited}, timeout=starter.grace)
            raise

    async def _serve(
        self, process: WorkerProcess, lease: Lease, arguments: EncodedArguments
    ) -> Exit:
        starter, record, definition = self._starter, self.record, self._definition
        assert definition is not None  # it is released at the end alone
        restarts = self.restarts
        session = self.session = starter.open_session(
            record, process, self.route, self.is_ready
        )
        try:
            limiting = starter.limit(record, session, process, lease)
            if limiting is not None:
                await limiting
            ended = await session.run(
                starter.start_frame(
                    record,
                    definition,
                    arguments,
                    session,
                    lease,
                    was_reconstructed=restarts.count > 0 or restarts.has_lived,
                ),
                starter.grace,
            )
        except EnforcementRefused as error:
            ended = await session.refuse(error)
        finally:
            session.channel.close()
            exceeded = starter.close_session(session)
        return self._explain(session, process, ended, exceeded)

    async def _prepare_restart(self, how: Exit, after: float) -> None:
        """Lets go of what was, and waits if it has died too often of late.

        Who has to wait gives the share back meanwhile, and gets in line again.
        """
        self._process = self.session = None
        self._was_ready = False
        self._interrupted = ""
        self.record.move(ActorState.RESTARTING)
        self._report(f"restarts ({self.restarts.in_words(self._now())})", how)
        if self._suspension is not None:
            self._suspension.over(self.unavailable)
        if self.restarts.has_lived:  # else no call has left: they wait as before
            self.route.interrupted()
        self._session_over.notify()
        if after:
            self.placement.give_back()
            await self._waited(asyncio.sleep(after))

    def _now(self) -> float:
        return self._loop.time()

    def is_ready(self, own: str) -> None:
        """Lets calls go, as the constructor has finished.

        Args:
            own: What the actor's own ``__repr__`` calls it, or the empty string.
        """
        record, process = self.record, self._process
        if self.session is None or record.state is not ActorState.STARTING:
            return
        record.move(ActorState.ALIVE)
        record.called = record.called.with_own(own)
        if own and process is not None:
            process.rename(record.label)
        record.started_at = record.started_at or time.time()
        self.route.opened(self.session)
        self._was_ready = True
        self.restarts.is_ready()
        if self.restarts.are_over and self.unsent is not None:
            self._release_arguments()
        self._ready.notify()
        if _log.isEnabledFor(self._level):
            count = self.restarts.count
            again = f" again (restart {count})" if count else ""
            tell(self._level, "%s is ready%s", record.title, again)
        self.idle()

    @property
    def _level(self) -> int:
        """The level at which its life is told; workers of functions come and go."""
        return logging.INFO if self.record.is_actor else logging.DEBUG

    def _tell_of_lease(self, lease: Lease, waited: float) -> None:
        """Logs where it is placed; at INFO if it has waited for that for long."""
        is_late = waited >= LONG and self.record.is_actor
        level = logging.INFO if is_late else logging.DEBUG
        if not _log.isEnabledFor(level):
            return
        held = str(Resources.of(lease.amounts))
        if lease.shares:
            held += f" on {', '.join(share.device.id for share in lease.shares)}"
        after = f" after {waited:.1f} s" if is_late else ""
        tell(level, "%s is placed%s: it has %s", self.record.label, after, held)

    def _explain(
        self,
        session: WorkerSession,
        process: WorkerProcess,
        ended: ProcessExit,
        exceeded: int,
    ) -> Exit:
        if session.protocol_error is not None:
            # Its frames hold what the worker's held: handles, which would be counted.
            clear_locals(session.protocol_error)
        self._cause = session.constructor_error or session.protocol_error
        starter, node = self._starter, self._starter.node
        if self._end_reason:
            node.note_memory_kills()
            is_memory_short = False
        else:
            is_memory_short = node.is_memory_short()
        evidence = ExitEvidence(
            process=ended,
            asked=self._end_reason,
            interrupted=self._interrupted,
            verdict=self.record.verdict,
            was_ready=self._was_ready,
            constructor=session.constructor_summary,
            traceback=session.constructor_traceback,
            protocol=str(session.protocol_error or ""),
            under_way=self.route.under_way(self.record),
            log_tail=starter.log_tail(self.record, process),
            pid=process.pid,
            is_memory_short=is_memory_short,
            on_devices=self.placement.who_has_what(),
            exceeded=exceeded,
        )
        self._fault = fault_of(evidence)
        return exit_of(evidence)

    def _finish(self, how: Exit) -> None:
        if self._is_finished:
            return
        self._is_finished = True
        try:
            self._tear_down(how)
        finally:  # Ctrl-C may be raised between any two steps
            if not self.ended.done():
                self.ended.set_result(None)

    def _tear_down(self, how: Exit) -> None:
        tear_down(
            self.record,
            self._take_due_arguments,
            lambda: self._record_end(how),
            self._end_suspension,
            self.placement.give_up,
            self.route.over,
            lambda: self._ready.notify(self.died),
            self.placement.give_back,
            self._session_over.notify,
            lambda: self.ended.set_result(None),
            self._release_definition,
            lambda: self._on_dead(self),
            lambda: self._report(f"is dead{self.restarts.given_up}", how),
        )

    def _end_suspension(self) -> None:
        if self._suspension is not None:
            self._suspension.over(self.died)

    def _take_due_arguments(self) -> None:
        due = self._due_arguments
        if due is not None and not due.cancel() and not due.cancelled():
            # They came, and it was ended before it took them.
            self.unsent = due.result() if due.exception() is None else None

    def _release_arguments(self) -> None:
        """Gives back what the constructor's arguments lend: they are not sent again."""
        unsent, self.unsent = self.unsent, None
        if unsent is not None:
            self._starter.references.returned(unsent.borrowed or (), OWNER)

    def _release_definition(self) -> None:
        self._definition = None
        self._release_arguments()

    def _record_end(self, how: Exit) -> None:
        record = self.record
        record.exit = how
        record.ended_at = time.time()
        if record.state in _WITH_PROCESS:
            record.move(ActorState.DRAINING)
        record.move(ActorState.DEAD)

    def _report(self, what: str, how: Exit) -> None:
        """Logs an end: a warning if nobody asked for it."""
        is_told_by_calls = how.cause == "failed to start" and not self.record.is_actor
        if is_told_by_calls or how.cause in ("asked", "restarted"):
            if _log.isEnabledFor(self._level):
                tell(self._level, "%s %s: %s", self.record.title, what, how)
            return
        line = replace(how, log_tail="")  # that has been shown, or was not to be
        with suppress(Exception):  # a handler of the user's may raise
            if isinstance(self._cause, ActorUnschedulableError):
                warn("%s", line)  # it begins with who asks
            else:
                warn("%s %s: %s", self.record.title, what, line)


class _NotCreated(Exception):  # noqa: N818  # carries what went wrong
    """Says that an actor cannot be created; the cause says why."""


class _Ended(Exception):  # noqa: N818  # no error: the way out of _run
    """Says that an actor was ended before it had a process."""


async def _value(
    arguments: EncodedArguments | BaseException | asyncio.Future[EncodedArguments],
) -> EncodedArguments:
    if isinstance(arguments, BaseException):
        raise _NotCreated from arguments
    if not asyncio.isfuture(arguments):
        return arguments
    try:
        return await arguments
    except Exception as error:
        raise _NotCreated from error
