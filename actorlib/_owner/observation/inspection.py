"""Inspection of a runtime: what is known of its actors and calls, for who asks."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter, deque
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, final

from actorlib._base.ids import LINKED, ActorId
from actorlib._core.current_call import deadline_of
from actorlib._options.kinds import UNITS
from actorlib._options.resources import counted
from actorlib._options.shares import ActorShare
from actorlib._owner.actors.actor_record import ActorState
from actorlib._owner.calls.calls_under_way import UnderWay, with_states
from actorlib._owner.calls.response_target import CancelledTarget
from actorlib._owner.requests.worker_calls import WorkerCall, WorkerStream
from actorlib._rows.snapshot import ActorInfo, AllCalls, CallInfo
from actorlib._scheduler.explain import describe_share
from actorlib._wire.call_headers import variables_in
from actorlib._wire.messages import LINK_CALLS
from actorlib._wire.peer_socket import method_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from actorlib._owner.actors.actor_table import ActorTable
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.requests.peer_links import LinkBroker

_CALLS_AT_ONCE = 200
"""Calls that are described in one turn of the loop: 15 us each."""
_EARLIER = "Why it was restarted before, oldest first:"


class LinkCall(NamedTuple):
    """A call over a link that has no answer, as the worker tells that has made it.

    Attributes:
        id: The worker's number of it.
        parent: That of the call that made it, or 0.
        actor: The actor that it is for.
        method: The method.
    """

    id: int
    parent: int
    actor: ActorId
    method: str


@final
class Inspector:
    """Describes the actors and the calls of one runtime.

    Args:
        table: The actors; those that it forgets are remembered from now on.
        links: The links between their workers.
        history: How many actors are listed that are dead and forgotten.
    """

    def __init__(self, table: ActorTable, links: LinkBroker, history: int) -> None:
        table.on_forget = self._remember
        self._table = table
        self._links = links
        self._supervisors = table.by_id
        self._ids = table.ids
        self._clock = table.clock
        self._node = table.starter.node
        self._history: deque[ActorInfo] = deque(maxlen=min(history, sys.maxsize))

    def actors(self) -> list[ActorInfo]:
        """Lists what is known of each actor, the forgotten last."""
        environ = self._node.environ()
        living = [self._info(supervisor, environ) for supervisor in self._actors()]
        return [*living, *reversed(self._history)]

    def _remember(self, supervisor: ActorSupervisor) -> None:
        """Keeps what is known of an actor that is dead, and about to be forgotten."""
        record = supervisor.record
        if not record.is_actor:
            return
        oldest = record.id if not self._history.maxlen else None
        if len(self._history) == self._history.maxlen and oldest is None:
            oldest = ActorId(bytes.fromhex(self._history[0].actor_id))  # it makes room
        if self._history.maxlen:
            self._history.append(self._info(supervisor))
        output = self._table.starter.output
        if output is not None:
            output.shorten(record.id)
            if oldest is not None:
                output.forget(oldest)

    async def all_calls(
        self, patience: float, most: int | None, actor: ActorId | None
    ) -> tuple[AllCalls, int]:
        """Lists the calls without an answer; see ``RuntimeEngine.all_calls``."""
        callers = self._links.callers() if patience else ()
        told = await self._table.inquiries.ask(callers, (LINK_CALLS,), patience)
        found: list[CallInfo] = []
        linked = [
            (session, LinkCall(*call))
            for session, calls in told.answers
            for call in calls
            if actor in (None, call[2])
        ]
        every = chain(self.calls(most, actor), self._link_calls(linked))
        walk = islice(every, most)
        while some := [*islice(walk, _CALLS_AT_ONCE)]:
            found += some
            await asyncio.sleep(0)
        count = self._count_calls(actor) + len(linked)
        silent = [self._supervisors.get(session.actor) for session in told.silent]
        titles = tuple(s.record.title for s in silent if s is not None)
        left_out = count - len(found) if len(found) == most else 0
        return AllCalls(found, titles), max(0, left_out)

    def calls(
        self, most: int | None = None, actor: ActorId | None = None
    ) -> Iterator[CallInfo]:
        """Walks over the calls without an answer: actor by actor, then functions.

        Calls may be made and answered during the walk. It leaves out those.

        Args:
            most: How many of each actor, and of functions; None for all.
            actor: Whose; None for those of all, and of functions.
        """
        for supervisor in [*self._meant(actor)]:
            if not supervisor.router.calls:
                continue
            prefix = self._ids.prefix(supervisor.router.session)
            calls = with_states(
                supervisor.router.unanswered(most),
                supervisor.record.interface,
                supervisor.record.options,
                # What came over a link is known of by the mark that it leaves.
                is_busy=bool(self._table.object_store.mark(prefix)),
            )
            for call in calls:
                yield self._call_info(supervisor, prefix, call)
        if actor is None:
            yield from map(self._function_info, self._table.pool.unanswered(most))

    def _count_calls(self, actor: ActorId | None = None) -> int:
        """Counts what ``calls`` walks over, without a look at each."""
        functions = len(self._table.pool.calls) if actor is None else 0
        return functions + sum(len(one.router.calls) for one in self._meant(actor))

    def _link_calls(
        self, made: Collection[tuple[WorkerSession, LinkCall]]
    ) -> Iterator[CallInfo]:
        """Walks over the calls over links that have no answer.

        Args:
            made: These, each with the worker that made it.
        """
        # An actor writes which method it runs where the owner can read it, but not who
        # has called it: so one runs for certain if it is the only one of its method.
        alike = Counter((call.actor, call.method) for _, call in made)
        for session, call in made:
            supervisor = self._supervisors.get(call.actor)
            if supervisor is None:
                continue
            prefix = self._ids.prefix(supervisor.router.session)
            runs = self._table.object_store.mark(prefix) == method_number(call.method)
            is_alone = alike[call.actor, call.method] == 1
            yield CallInfo(
                actor_id=supervisor.record.id.hex(),
                class_name=supervisor.record.called.class_name,
                method=call.method,
                state="running" if runs and is_alone else "sent",
                actor_name=supervisor.record.options.name,
                name=f"{supervisor.record.called.class_name}.{call.method}",
                task_id=f"{prefix.hex()}{session.number * LINKED + call.id:016x}",
                caller=self._named(session, call.parent),
            )

    def explain(self, supervisor: ActorSupervisor) -> str:
        """Says why an actor is not placed yet, or where it is."""
        record = supervisor.record
        if supervisor.waits_for_arguments:
            return f"{record.label} waits for a ref among its constructor's arguments"
        if supervisor.placement.waits_for_neighbours:
            return (
                f"{record.label} waits for a place for the actors that it is to be "
                "near to, or apart from"
            )
        state = f"{record.called.at(supervisor.pid)} is {record.state.value}"
        if record.state is ActorState.RESTARTING:
            state = f"{state}, {supervisor.restarts.in_words(self._clock.now())}"
            if record.lease is not None and (drain := supervisor.placement.drain):
                state = f"{state}. It waits for its own share: {drain}"
        is_pending = record.state is ActorState.PENDING
        if is_pending or (
            supervisor.placement.pending is not None and supervisor.placement.is_awaited
        ):
            reason = self._why_pending(supervisor)
            return reason if is_pending else f"{state}{supervisor.suspension}: {reason}"
        if record.exit is not None:
            dead = f"{record.title} is dead: {record.exit}"
            earlier = supervisor.restarts.earlier_deaths
            return "\n  - ".join((f"{dead}\n{_EARLIER}", *earlier)) if earlier else dead
        if record.state is ActorState.RESTARTING or record.lease is None:
            return f"{state}{supervisor.suspension}"
        held = ", ".join(
            map(describe_share, record.lease.shares if record.lease else ())
        )
        hold = "".join(
            f"\n  {share}"
            for share in self.share(supervisor).devices
            if share.units < 1
        )
        delay = f": {record.process.delay}" if record.process is not None else ""
        return (
            f"{state} on {held or 'no device'}{supervisor.suspension}"
            f"{delay.removesuffix(': ')}{hold}"
        )

    def _why_pending(self, supervisor: ActorSupervisor) -> str:
        """Says why an actor in line waits, or that it does no more."""
        granted = supervisor.placement.lease
        if granted is None:
            return self._table.placer.explain(supervisor.placement)
        what = ", ".join(map(describe_share, granted.shares)) or "what it asks for"
        return f"{supervisor.record.label} was granted {what}, and is about to start"

    def share(self, supervisor: ActorSupervisor) -> ActorShare:
        """Says what an actor holds of devices, and what makes that hold."""
        lease = supervisor.record.lease
        if lease is None or not lease.shares:
            return ActorShare()
        return self._node.share(lease, supervisor.record.options, self._node.environ())

    def _meant(self, actor: ActorId | None) -> Iterator[ActorSupervisor]:
        """Walks over one actor, or all."""
        return (one for one in self._actors() if actor in (None, one.record.id))

    def _actors(self) -> Iterator[ActorSupervisor]:
        """Walks over all but workers of functions."""
        return (
            supervisor
            for supervisor in self._supervisors.values()
            if supervisor.record.is_actor
        )

    def _info(
        self, supervisor: ActorSupervisor, environ: Mapping[str, str] | None = None
    ) -> ActorInfo:
        record, lease, options = (
            supervisor.record,
            supervisor.record.lease,
            supervisor.record.options,
        )
        shares = lease.shares if lease is not None else ()
        mask, share = None, ActorShare()
        if shares and lease is not None:
            environ = self._node.environ() if environ is None else environ
            mask = self._node.mask(lease, options, environ)
            share = self._node.share(lease, options, environ)
        return ActorInfo(
            actor_id=record.id.hex(),
            class_name=record.called.class_name,
            state=record.state.value,
            pid=supervisor.pid,
            resources=counted(options.request.amounts),
            devices={share.device.id: share.units / UNITS for share in shares},
            device_nbytes={share.device.id: share.nbytes for share in shares},
            mask=mask,
            restarts=supervisor.restarts.count,
            pending_calls=len(supervisor.router.calls),
            made_calls=supervisor.router.calls.made,
            death=str(record.exit or ""),
            name=options.name,
            namespace=self._table.actor_names.namespace_of(options),
            is_detached=options.is_detached,
            placement_group=options.group.id.hex() if options.group else None,
            awaits_arguments=supervisor.waits_for_arguments,
            created_at=record.created_at,
            started_at=record.started_at,
            ended_at=record.ended_at,
            repr_name=record.called.own,
            earlier_deaths=supervisor.restarts.earlier_deaths,
            share=share,
            host_memory=self._node.enforcement.memory_used(record.process),
            device_memory=supervisor.placement.device_memory(),
        )

    def _function_info(self, call: UnderWay) -> CallInfo:
        task, task_id = self._table.pool.task(call.number), ""
        if task is not None and task.worker is not None:
            prefix = self._ids.prefix(task.worker.session)
            task_id = f"{prefix.hex()}{call.number:016x}"
        return CallInfo(
            actor_id="",
            class_name="",
            method=call.method,
            state=call.state,
            name=call.method,
            task_id=task_id,
            age=None if call.since is None else self._clock.now() - call.since,
            caller=self._caller(call.target),
            variables=variables_in(call.headers or {}),
            deadline=_left(call.headers or {}),
        )

    def _call_info(
        self, supervisor: ActorSupervisor, prefix: bytes, call: UnderWay
    ) -> CallInfo:
        record, headers = supervisor.record, call.headers or {}
        is_there = call.state in ("queued", "running")
        return CallInfo(
            actor_id=record.id.hex(),
            class_name=record.called.class_name,
            method=call.method,
            state=call.state,
            actor_name=record.options.name,
            name=headers.get("name") or f"{record.called.class_name}.{call.method}",
            task_id=f"{prefix.hex()}{call.number:016x}" if is_there else "",
            age=None if call.since is None else self._clock.now() - call.since,
            caller=self._caller(call.target),
            variables=variables_in(headers),
            deadline=_left(headers),
        )

    def _caller(self, target: object) -> str:
        """Names the call that waits for an answer; empty for the owner's own code."""
        while isinstance(target, CancelledTarget):
            target = target.target
        if not isinstance(target, WorkerCall | WorkerStream):
            return ""
        return self._named(target.session, target.parent_call)

    def _named(self, session: WorkerSession, call: int) -> str:
        """Names a call that runs in a worker."""
        supervisor = self._supervisors.get(session.actor)
        if session.is_client:
            return session.title
        if supervisor is None:
            return "a call of an actor that is gone"
        method = supervisor.route.method_of(call)
        if not supervisor.record.is_actor:  # a function's worker is nobody
            return f"{method} (pid {supervisor.pid})"
        return supervisor.record.method(method) if method else supervisor.record.title


def _left(headers: Mapping[str, Any]) -> float | None:
    """Says in how many seconds a call's time is over, if it ever is."""
    deadline = deadline_of(headers)
    return None if deadline is None else deadline[0] - time.monotonic()
