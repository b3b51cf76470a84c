"""The rows about the actors and calls of a runtime."""

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
from actorlib._owner.calls.call_table import UnderWay, with_states
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
"""The number of calls described in one turn of the loop: 15 us each."""
_EARLIER = "Why it was restarted before, oldest first:"


class LinkCall(NamedTuple):
    """An unanswered call over a link, reported by the calling worker.

    Attributes:
        id: Its number in the worker.
        parent: The number of its parent call, or 0.
        actor: The actor that it calls.
        method: The method.
    """

    id: int
    parent: int
    actor: ActorId
    method: str


@final
class Inspector:
    """Describes the actors and calls of one runtime, and remembers forgotten actors."""

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
        """Lists the rows of all actors, the forgotten last."""
        environ = self._node.environ()
        current = [self._info(supervisor, environ) for supervisor in self._actors()]
        return [*current, *reversed(self._history)]

    def _remember(self, supervisor: ActorSupervisor) -> None:
        """Keeps the row of a dead actor that is about to be forgotten."""
        record = supervisor.record
        if not record.is_actor:
            return
        oldest = record.id if not self._history.maxlen else None
        if len(self._history) == self._history.maxlen and oldest is None:
            oldest = ActorId(bytes.fromhex(self._history[0].actor_id))  # falls out
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
        """Lists the unanswered calls; see ``RuntimeEngine.all_calls``."""
        callers = self._links.callers() if patience else ()
        reports = await self._table.inquiries.ask(callers, (LINK_CALLS,), patience)
        rows: list[CallInfo] = []
        linked = [
            (session, LinkCall(*call))
            for session, calls in reports.answers
            for call in calls
            if actor in (None, call[2])
        ]
        every = chain(self.calls(most, actor), self._link_calls(linked))
        walk = islice(every, most)
        while batch := [*islice(walk, _CALLS_AT_ONCE)]:
            rows += batch
            await asyncio.sleep(0)
        count = self._count_calls(actor) + len(linked)
        silent = [self._supervisors.get(session.actor) for session in reports.silent]
        titles = tuple(s.record.title for s in silent if s is not None)
        omitted = count - len(rows) if len(rows) == most else 0
        return AllCalls(rows, titles), max(0, omitted)

    def calls(
        self, most: int | None = None, actor: ActorId | None = None
    ) -> Iterator[CallInfo]:
        """Yields the unanswered calls: actor by actor, then functions.

        It omits calls that are made or answered meanwhile.

        Args:
            most: The maximum for each actor, and for functions; None for all.
            actor: The actor; None for all actors and functions.
        """
        for supervisor in [*self._selected(actor)]:
            if not supervisor.router.calls:
                continue
            prefix = self._ids.prefix(supervisor.router.session)
            calls = with_states(
                supervisor.router.unanswered(most),
                supervisor.record.interface,
                supervisor.record.options,
                # A running call that came over a link is visible only by its mark.
                is_busy=bool(self._table.object_store.mark(prefix)),
            )
            for call in calls:
                yield self._call_info(supervisor, prefix, call)
        if actor is None:
            yield from map(self._function_info, self._table.pool.unanswered(most))

    def _count_calls(self, actor: ActorId | None = None) -> int:
        """Counts the calls that ``calls`` yields, without reading each."""
        functions = len(self._table.pool.calls) if actor is None else 0
        return functions + sum(len(one.router.calls) for one in self._selected(actor))

    def _link_calls(
        self, linked: Collection[tuple[WorkerSession, LinkCall]]
    ) -> Iterator[CallInfo]:
        """Yields the rows of calls over links, given with the calling workers."""
        # An actor writes the running method where the owner can read it, but not the
        # caller. So a call certainly runs if it is the only one of its method.
        alike = Counter((call.actor, call.method) for _, call in linked)
        for session, call in linked:
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
        """Explains why an actor is not placed yet, or where it is."""
        record = supervisor.record
        if supervisor.waits_for_arguments:
            return f"{record.label} waits for a ref among its constructor's arguments"
        if supervisor.placement.waits_for_neighbours:
            return (
                f"{record.label} waits for a place for the actors that it has to be "
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
        devices = ", ".join(
            map(describe_share, record.lease.shares if record.lease else ())
        )
        limits = "".join(
            f"\n  {share}"
            for share in self.share(supervisor).devices
            if share.units < 1
        )
        delay = f": {record.process.delay}" if record.process is not None else ""
        return (
            f"{state} on {devices or 'no device'}{supervisor.suspension}"
            f"{delay.removesuffix(': ')}{limits}"
        )

    def _why_pending(self, supervisor: ActorSupervisor) -> str:
        lease = supervisor.placement.lease
        if lease is None:
            return self._table.placer.explain(supervisor.placement)
        shares = ", ".join(map(describe_share, lease.shares)) or "what it asks for"
        return f"{supervisor.record.label} was granted {shares}, and is about to start"

    def share(self, supervisor: ActorSupervisor) -> ActorShare:
        """Describes the devices of an actor, and how its shares are enforced."""
        lease = supervisor.record.lease
        if lease is None or not lease.shares:
            return ActorShare()
        return self._node.share(lease, supervisor.record.options, self._node.environ())

    def _selected(self, actor: ActorId | None) -> Iterator[ActorSupervisor]:
        return (one for one in self._actors() if actor in (None, one.record.id))

    def _actors(self) -> Iterator[ActorSupervisor]:
        """Yields all supervisors but those of workers of functions."""
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
            slot=record.slot,
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
        """Names the calling call; empty for the owner's own code."""
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
        if not supervisor.record.is_actor:
            return f"{method} (pid {supervisor.pid})"
        return supervisor.record.method(method) if method else supervisor.record.title


def _left(headers: Mapping[str, Any]) -> float | None:
    deadline = deadline_of(headers)
    return None if deadline is None else deadline[0] - time.monotonic()
