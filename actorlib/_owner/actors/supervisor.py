"""Supervision of one actor, from its creation until it is dead for good.

One task per actor runs ``_run``: it waits for the arguments, then repeatedly waits for
a lease, starts a worker, waits for its end and explains it; finally it returns the
lease. The task never raises: its failures are in the record, and an unexpected
exception is logged as a bug of actorlib.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextvars import Context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from actorlib._base.log import tell
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
    from actorlib._owner.actors.actor_record import ActorDefinition, EncodedArguments
    from actorlib._owner.actors.placement import ActorPlacement
    from actorlib._owner.actors.suspension import Suspension
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.actors.worker_starter import WorkerStarter
    from actorlib._owner.calls.router import WorkerRoute
    from actorlib._processes.launcher import ProcessExit, WorkerProcess
    from actorlib.accelerators.base import Lease

    DueArguments: TypeAlias = (
        EncodedArguments | BaseException | asyncio.Future[EncodedArguments]
    )
    """A constructor's arguments, their error, or a future of them."""

V = TypeVar("V")
_WITH_PROCESS = (ActorState.STARTING, ActorState.ALIVE, ActorState.SUSPENDED)
_LOST = Exit(cause="lost", reason="actorlib failed; its log says where")
_SHUT_DOWN = Exit(cause="asked", reason="the runtime was shut down")
_log = logging.getLogger("actorlib")


class ActorSupervisor:
    """Manages one actor from its creation until it is dead, over all its workers.

    Args:
        definition: Its class and options.
        placement: Its share of the machine, not in line yet.
        starter: Starts its workers.
        make_route: Makes the route to its workers, given this supervisor.
        on_dead: Called when it is dead and everything that it had is returned.

    Attributes:
        record: The record of the actor.
        route: The route to its workers.
        router: The same, of an actor; a worker of functions has none.
        placement: Its share of the machine.
        restarts: Decides its restarts.
        session: Its worker, while it has one; or its last, once it is dead.
        unsent: The constructor's arguments, while they may have to be sent.
        end_reason: Why the actor is ending; empty if it is not.
        ended: Done when it is dead for good: its process is gone, its lease is
            returned, or drains.
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
        self.end_reason = ""
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

    def start(self, arguments: DueArguments) -> None:
        """Gets in line, and starts the task."""
        if asyncio.isfuture(arguments):
            self._due_arguments = arguments
        elif not isinstance(arguments, BaseException):
            self.unsent = arguments
            # Now, and not when the task begins: the order of creation is kept.
            self.placement.begin()
        # Without the context of its creator, which may be over long before.
        self._task = self._loop.create_task(self._run(arguments), context=Context())
        # A task that is cancelled before its first step never runs its ``finally``.
        self._task.add_done_callback(lambda _: self._finish(_SHUT_DOWN))

    def refuse(self, error: ActorUnschedulableError, arguments: DueArguments) -> None:
        """Ends an actor that can never be placed, before it has a worker."""
        if asyncio.isfuture(arguments):
            arguments.cancel()
        elif not isinstance(arguments, BaseException):
            self.unsent = arguments
        self._cause = error
        self._finish(Exit(cause="failed to start", reason=str(error)))

    def died(self) -> BaseException:
        """Makes the error of calls and waits after its end."""
        return died(self.record, self._cause, self.restarts.given_up, self.end_reason)

    def unavailable(self) -> BaseException:
        """Makes the error of calls that are lost while it restarts."""
        how = self.restarts.last_exit or Exit(cause="lost")
        return unavailable(self.record, how, self.restarts.in_words(self._now()))

    def ready(self) -> asyncio.Future[None]:
        """Returns a future that is done when it is ready for calls, or fails."""
        future = self._ready.wait()
        if self.record.state is ActorState.DEAD:
            self._ready.notify(self.died)
        elif self._was_ready:
            self._ready.notify()
        return future

    @property
    def answers(self) -> bool:
        """Whether it may still be found by its name: no caller has ended it."""
        return not (self.end_reason or self.route.is_closed)

    @property
    def waits_for_arguments(self) -> bool:
        """Whether it is not in line yet, as an argument is a ref without a value."""
        is_in_line = (
            self.placement.pending is not None or self.placement.waits_for_neighbours
        )
        return self.record.state is ActorState.PENDING and not is_in_line

    @property
    def pid(self) -> int:
        """Its process id; 0 while it has no process."""
        return self._process.pid if self._process is not None else 0

    # Suspension.

    def suspend(self, patience: float | None) -> asyncio.Future[None]:
        """Suspends it; see Suspension.

        Args:
            patience: Seconds that its running calls may take; None for any.

        Raises:
            SuspendError: It cannot be suspended.
        """
        record, suspension, why = self.record, self._suspension, ""
        if record.state is ActorState.DEAD:
            raise self.died()
        if record.state not in (ActorState.ALIVE, ActorState.SUSPENDED):
            why = (
                f"is {record.state.value}: it is suspended when it is ready, so await "
                "its handle first"
            )
        elif self._ends_for:
            why = f"is about to end: {self._ends_for}"
        elif record.lease is not None and (
            fault := self._starter.node.checkpoint_fault(record.lease, record.options)
        ):
            why = f"cannot be suspended: {fault}"
        if why:
            raise SuspendError(f"{record.title} {why}", actor_id=record.id.hex())
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
        """Resumes it as soon as it has its share; see Suspension.

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
        """Ends it if it is to end when it is idle, and will not be resumed."""
        suspension = self._suspension
        if self._ends_for and suspension is not None and not suspension.may_go_on:
            self.stop(f"{self._ends_for}, and it was suspended")
        self.idle()

    @property
    def suspension(self) -> str:
        """Describes its suspension; empty if it is active."""
        return "" if self._suspension is None else self._suspension.in_words()

    # Endings.

    def kill(self, reason: str) -> None:
        """Ends the actor at once."""
        self.end_reason = self.end_reason or reason
        self.route.close()  # new calls could still be answered
        if self._process is not None:
            self._process.kill()
        elif self._task is None and not self.ended.done():
            # Ctrl-C came before the task existed: nothing else would end it.
            self._finish(Exit(cause="asked", reason=self.end_reason))
        elif self._is_waiting and self._task is not None:
            self._task.cancel()

    def evict(self, reason: str) -> None:
        """Ends the actor at once, as its placement group was removed."""
        self.record.was_evicted = True
        self.kill(reason)

    def interrupt(self, reason: str) -> asyncio.Future[None]:
        """Ends its process at once, for a restart; kills it if it may not be restarted.

        One that waits in line moves to the end of the line.

        Returns:
            Done when that process is gone.
        """
        if not self.restarts.would_restart(Exit(cause="restarted"), self._now()):
            self.kill(reason)
        if self.end_reason or self.record.state is ActorState.DEAD:
            return asyncio.shield(self.ended)
        future = self._session_over.wait()
        if self._process is None:  # a new process will be started anyway
            if self.placement.requeue():
                how = Exit(cause="restarted", reason=reason)
                self.restarts.decide(how, self._now())
            self._session_over.notify()
        else:
            self._interrupted = reason
            self._process.kill()
        return future

    def may_restart(self) -> bool:
        """Whether it would be restarted if its process ended now by its own fault."""
        session = self.session
        has_failed = session is not None and session.constructor_summary
        how = Exit(cause="failed to start" if has_failed else "exited")
        return self.restarts.would_restart(how, self._now())

    def end_for(self, verdict: Verdict) -> None:
        """Ends its process at once, with a reason for the errors of its callers.

        Restarts follow by the usual rules.
        """
        if self._process is not None and not (self.end_reason or self._interrupted):
            self.record.verdict = verdict
            self._process.kill()

    def leave(self, reason: str) -> None:
        """Ends the actor as its own code asked; kills it after twice the grace time."""
        graces = 2  # one for running calls, one for its own end
        if self.record.state is ActorState.STARTING and self.session is not None:
            self.end_reason = self.end_reason or reason
            self.session.stop(self._starter.grace * graces)
        else:
            self.stop(reason, graces)

    def stop(self, reason: str, graces: int = 1) -> None:
        """Ends the actor after its calls; kills it after the grace time."""
        self.end_reason = self.end_reason or reason
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
        """Refuses new calls, and ends the actor after those that it was sent."""
        if not self.route.is_closed:
            loop, patience = self._loop, self._starter.grace
            self.router.expire_streams(loop, patience)
        self.route.close()
        self.end_when_idle(reason)

    def end_when_idle(self, reason: str) -> None:
        """Ends the actor as soon as all its calls are done."""
        self._ends_for = self._ends_for or reason
        if self._suspension is not None:
            self._suspension.give_up("it is about to end")
        self._end_if_left()

    def revive(self) -> None:
        """Cancels ``end_when_idle``, as a process holds it again."""
        if self._ends_for and self.answers:
            self._ends_for = ""

    def idle(self) -> None:
        """Ends it if it is to end and nothing is left to be done; see CallRouter."""
        if self._suspension is not None:
            self._suspension.note_idle()
        if self._ends_for and not self.end_reason and self.route.is_over():
            self.stop(self._ends_for)

    def close_in_fork(self) -> None:
        """Closes the pipe in a forked child: the worker belongs to the parent."""
        if self.session is not None:
            self.session.channel.close_in_fork()

    # From its place in line to its end.

    async def _run(self, arguments: DueArguments) -> None:
        how = _LOST
        try:
            if self._task is None:
                # The user's loop makes eager tasks (Python 3.12), and the creator has
                # no handle yet: the actor must not be dead and forgotten before.
                await asyncio.sleep(0)
            encoded = self.unsent = await self._wait_for(_await_arguments(arguments))
            self._due_arguments = None
            while True:
                since = self._now()
                lease = await self._wait_for(self.placement.granted())
                if _log.isEnabledFor(logging.INFO):
                    self._log_lease(lease, self._now() - since)
                how = await self._run_worker(lease, encoded)
                if self._ends_for and not self.route.survives_restart:
                    break  # no call is left that needs a restart
                decision = self.restarts.decide(how, self._now(), self._fault)
                if isinstance(decision, GiveUp):
                    break
                await self._prepare_restart(how, decision.after)
        except _Ended:
            how = Exit(cause="asked", reason=self.end_reason)
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

    async def _wait_for(self, waiting: Coroutine[Any, Any, V]) -> V:
        """Waits for something that ``kill`` may end."""
        if self.end_reason:
            waiting.close()
            raise _Ended
        self._is_waiting = True
        try:
            return await waiting
        except asyncio.CancelledError:
            if not self.end_reason:
                raise
            raise _Ended from None
        finally:
            self._is_waiting = False

    async def _run_worker(self, lease: Lease, arguments: EncodedArguments) -> Exit:
        starter, record = self._starter, self.record
        record.move(ActorState.STARTING)
        record.verdict = None
        self.placement.take(lease)
        if self.end_reason:
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
            # A bug: the lease is not returned before the process is gone.
            process.kill()
            process.sock.close()
            await asyncio.wait({process.exited}, timeout=starter.grace)
            raise

    async def _serve(
        self, process: WorkerProcess, lease: Lease, arguments: EncodedArguments
    ) -> Exit:
        starter, record, definition = self._starter, self.record, self._definition
        assert definition is not None  # it is released only at the end
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
        """Prepares a restart, and waits if it has died too often recently.

        An actor that has to wait returns its lease meanwhile, and gets in line again.
        """
        self._process = self.session = None
        self._was_ready = False
        self._interrupted = ""
        self.record.move(ActorState.RESTARTING)
        self._report(f"restarts ({self.restarts.in_words(self._now())})", how)
        if self._suspension is not None:
            self._suspension.over(self.unavailable)
        if self.restarts.has_lived:  # else no call was sent: they wait as before
            self.route.interrupted()
        self._session_over.notify()
        if after:
            self.placement.give_back()
            await self._wait_for(asyncio.sleep(after))

    def _now(self) -> float:
        return self._loop.time()

    def is_ready(self, own: str) -> None:
        """Sends the waiting calls, as the constructor has finished.

        Args:
            own: The actor's own ``__repr__``, or an empty string.
        """
        record, process = self.record, self._process
        if self.session is None or record.state is not ActorState.STARTING:
            return
        record.move(ActorState.ALIVE)
        record.called = record.called.with_own(own)
        if process is not None and self.route.output_label is not None:
            process.rename(self.route.output_label)
        elif process is not None and own:
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
        """The level of log lines about its life; workers of functions come and go."""
        return logging.INFO if self.record.is_actor else logging.DEBUG

    def _log_lease(self, lease: Lease, waited: float) -> None:
        """Logs where it is placed; at INFO if it has waited for long."""
        is_late = waited >= LONG and self.record.is_actor
        level = logging.INFO if is_late else logging.DEBUG
        if not _log.isEnabledFor(level):
            return
        what = str(Resources.of(lease.amounts))
        if lease.shares:
            what += f" on {', '.join(share.device.id for share in lease.shares)}"
        after = f" after {waited:.1f} s" if is_late else ""
        tell(level, "%s is placed%s: it has %s", self.record.label, after, what)

    def _explain(
        self,
        session: WorkerSession,
        process: WorkerProcess,
        ended: ProcessExit,
        exceeded: int,
    ) -> Exit:
        if session.protocol_error is not None:
            # Its frames hold handles of the worker, which would be counted.
            clear_locals(session.protocol_error)
        self._cause = session.constructor_error  # it may be falsy, as its class says
        if self._cause is None:
            self._cause = session.protocol_error
        starter, node = self._starter, self._starter.node
        if self.end_reason:
            node.note_memory_kills()
            is_memory_short = False
        else:
            is_memory_short = node.is_memory_short()
        evidence = ExitEvidence(
            process=ended,
            stop_reason=self.end_reason,
            interrupted=self._interrupted,
            verdict=self.record.verdict,
            was_ready=self._was_ready,
            constructor=session.constructor_summary,
            traceback=session.constructor_traceback,
            protocol=str(session.protocol_error or ""),
            under_way=self.route.under_way(),
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
            # They were ready, and the actor was ended before it used them.
            self.unsent = due.result() if due.exception() is None else None

    def _release_arguments(self) -> None:
        """Returns the references in the arguments, which are not sent again."""
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
        """Logs an end: a warning if no caller asked for it."""
        is_in_calls = how.cause == "failed to start" and not self.record.is_actor
        if is_in_calls or how.cause in ("asked", "restarted"):
            if _log.isEnabledFor(self._level):
                tell(self._level, "%s %s: %s", self.record.title, what, how)
            return
        line = replace(how, log_tail="")  # that was shown, unless it is not to be
        if isinstance(self._cause, ActorUnschedulableError):
            tell(logging.WARNING, "%s", line)  # it begins with the actor's name
        else:
            tell(logging.WARNING, "%s %s: %s", self.record.title, what, line)


class _NotCreated(Exception):  # noqa: N818  # carries what went wrong
    """An actor cannot be created; the cause has the reason."""


class _Ended(Exception):  # noqa: N818  # leaves _run, and is not an error
    """An actor was ended before it had a process."""


async def _await_arguments(arguments: DueArguments) -> EncodedArguments:
    if isinstance(arguments, BaseException):
        raise _NotCreated from arguments
    if not asyncio.isfuture(arguments):
        return arguments
    try:
        return await arguments
    except Exception as error:
        raise _NotCreated from error
