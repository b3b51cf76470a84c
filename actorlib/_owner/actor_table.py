"""The table of a runtime's actors: their supervisors, and who holds which of them.

Creation, what workers ask for, and the count of handles meet here: an actor lives while
somebody holds it or it has something to do, and is forgotten when it is dead and nobody
holds it any more.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from actorlib._core.ids import (
    ACTOR_KIND,
    BLOCK_KIND,
    OBJECT_KIND,
    ActorId,
    LoanId,
    ObjectId,
    kind_of,
    maker_of,
)
from actorlib._core.interface import Interface, method_of
from actorlib._core.kinds import UNITS
from actorlib._core.resources import counted
from actorlib._core.snapshot import ActorInfo, CallInfo
from actorlib._owner.actor_record import ActorRecord, ActorState, Registry
from actorlib._owner.call_policy import CallPolicy
from actorlib._owner.calls_under_way import UnderWay, with_states
from actorlib._owner.creation import ActorDefinition
from actorlib._owner.deadlines import Clock
from actorlib._owner.machine import WorkerStarter
from actorlib._owner.names import ActorNames
from actorlib._owner.objects import ObjectTable
from actorlib._owner.placement import ActorPlacer
from actorlib._owner.refcount import OWNER, RUNTIME, BorrowedReferences, RefCount
from actorlib._owner.response_target import CancelledTarget
from actorlib._owner.router import CallRouter
from actorlib._owner.shared_memory import ObjectStore, settings_of
from actorlib._owner.streams import Reader
from actorlib._owner.supervisor import ActorSupervisor
from actorlib._owner.task_pool import TaskPool
from actorlib._owner.teardown import Phase, WorkersGone, tear_down
from actorlib._owner.worker_calls import WorkerCall
from actorlib._owner.worker_requests import WorkerRequests
from actorlib._scheduler.scheduler import Scheduler
from actorlib._wire.call_headers import variables_in
from actorlib.exceptions import ActorUnschedulableError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._core.actor_options import ActorOptions
    from actorlib._core.runtime_options import RuntimeOptions
    from actorlib._owner.creation import EncodedArguments
    from actorlib._owner.machine import LocalNode
    from actorlib._owner.worker_session import WorkerSession
    from actorlib._scheduler.catalogue import Demand
    from actorlib._wire.arguments import SendingEngine


class ActorTable:
    """Keeps the actors of one runtime, and what they share; see WorkerHost.

    Args:
        engine: Whose they are; handles and refs are pickled for it.
        machine: Where they run.
        options: How the runtime behaves.

    Attributes:
        loop: The owner's loop.
        grace: Seconds a busy actor is given to end.
        clock: Says which calls' time is over.
        registry: The actors and their states.
        refcount: Who has a handle of which.
        references: Counts what travels in payloads, and ends what nobody holds.
        object_store: What large values are shared in.
        by_id: Those that live, or that somebody holds.
        placer: Says what they ask for, and asks for it.
        scheduler: Who gets what of the machine, and who waits for it.
        groups: The placement groups that some of them are in.
        pool: Takes the calls of functions.
        workers_gone: Tells those who keep something for a worker that it is gone.
        actor_names: Who answers to which name.
        objects: What refs inside of values stand for.
    """

    def __init__(
        self, engine: SendingEngine, machine: LocalNode, options: RuntimeOptions
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.grace = options.grace
        self.registry = Registry(os.urandom(4))
        self.refcount = RefCount()
        self.references = BorrowedReferences(self.refcount, self._held, self._unheld)
        self.object_store = ObjectStore(
            machine.shareable(options), settings_of(options)
        )
        self._machine = machine
        self.by_id: dict[ActorId, ActorSupervisor] = {}
        self._history: deque[ActorInfo] = deque(
            maxlen=min(options.actor_history, sys.maxsize)
        )
        self.actor_names = ActorNames(options.namespace, self.by_id.get)
        self._made_by: dict[int, set[ActorId]] = {}
        self.clock = Clock(self.loop)
        self.objects = ObjectTable(engine, self.registry.prefix(0), self.references)
        self.workers_gone = WorkersGone()
        self.scheduler = Scheduler(
            machine.capacity,
            machine.inventory.devices,
            machine.inventory.kinds,
            options.capacity.amounts,
            self.loop,
            titles=self._titles,
            on_wait=self._make_room,
            may_wait=options.infeasible == "wait",
        )
        self.groups = self.scheduler.groups
        self.placer = ActorPlacer(self.scheduler)
        self.pool = TaskPool(
            self,
            machine,
            may_wait=options.infeasible == "wait",
            may_prefetch=self.object_store.memory.budget is not None,
        )
        self._requests = WorkerRequests(
            find=self.by_id.get,
            create=self._create_for,
            lists={
                "actors": self.infos,
                "available": self.scheduler.ledger.available,
                "names": self.actor_names.names,
                "total": self.scheduler.ledger.total,
            },
            engine=engine,
            names=self.actor_names,
            objects=self.objects,
            references=self.references,
            groups=self.groups,
            pool=self.pool,
            clock=self.clock,
            gone=self.workers_gone,
        )
        self._starter = WorkerStarter(
            self.loop,
            machine,
            grace=options.grace,
            namespace=options.namespace,
            registry=self.registry,
            refcount=self.refcount,
            references=self.references,
            object_store=self.object_store,
            gone=self.workers_gone,
            serve=self._requests.serve,
            entered=self._requests.links.enter,
        )
        subscribe = self.workers_gone.subscribe
        subscribe(Phase.ANSWERS, self.objects.on_worker_gone)
        subscribe(
            Phase.REFERENCES, lambda gone: self.pool.functions.forget(gone.number)
        )
        subscribe(Phase.REFERENCES, self._give_back_references)
        subscribe(Phase.EVIDENCE, self._note_what_ran)
        subscribe(Phase.MEMORY, self.object_store.on_worker_gone)
        subscribe(Phase.CHILDREN, self._end_made)
        subscribe(Phase.CHILDREN, lambda gone: self.groups.orphan(gone.number))

    def __iter__(self) -> Iterator[ActorSupervisor]:
        return iter(list(self.by_id.values()))

    def create(
        self,
        actor: ActorId,
        definition: ActorDefinition,
        arguments: EncodedArguments | BaseException | asyncio.Future[EncodedArguments],
        *,
        is_nested: bool = False,
    ) -> None:
        """Creates an actor, dead at once if it can never be placed.

        Args:
            actor: Its id.
            definition: Its class and options.
            arguments: For the constructor, why there are none, or a future of them.
            is_nested: Whether a worker asks for it.
        """
        face, options, is_actor = (
            definition.interface,
            definition.options,
            definition.runs is None,
        )
        record = ActorRecord(
            id=actor,
            interface=face,
            options=options,
            is_actor=is_actor,
            is_nested=is_nested,
        )
        self.registry.add(record)
        self.actor_names.enter(actor, definition.options)
        if definition.options.is_detached:
            self.refcount.add(actor, RUNTIME)
        supervisor = self.by_id[actor] = ActorSupervisor(
            record,
            definition,
            self.placer.open(record),
            self._starter,
            self.references,
            self._router_of,
            self._on_dead,
        )
        removed = ""
        if options.group is not None:
            removed = self.groups.join(options, actor, supervisor.evict)
        never = removed or None
        if not never and not self.placer.awaits_neighbours(options):
            never = self.placer.refusal(record)
        if never is not None:
            # Whoever creates it has no handle yet, and it must not be forgotten before.
            self.refcount.add(actor, OWNER)
            self.loop.call_soon(self.references.release, actor, OWNER)
            error = ActorUnschedulableError(never, actor_id=actor.hex())
            record.was_evicted = bool(removed)
            supervisor.refuse(error, arguments)
        else:
            supervisor.start(arguments)

    def create_worker(
        self,
        label: str,
        options: ActorOptions,
        demand: Demand,
        arguments: EncodedArguments,
        *,
        is_nested: bool,
    ) -> ActorSupervisor:
        """Creates a worker of functions; see WorkerHost."""
        nobody = method_of(_nothing)
        interface = Interface(label, nobody, {})
        actor = self.registry.new_id()
        definition = ActorDefinition(None, interface, options, demand.request)
        self.create(actor, definition, arguments, is_nested=is_nested)
        return self.by_id[actor]

    def _router_of(self, supervisor: ActorSupervisor) -> CallRouter:
        record, cancel_made = supervisor.record, self._requests.cancel_made
        options = record.options if record.is_actor else None
        ends_later = record.interface.awaits
        policy = CallPolicy(self.clock, record.method, options, ends_later, cancel_made)
        return CallRouter(
            self.references,
            self.objects,
            supervisor.died,
            supervisor.unavailable,
            supervisor.idle,
            policy,
        )

    def _create_for(
        self, actor: ActorId, definition: ActorDefinition, maker: int
    ) -> asyncio.Future[EncodedArguments]:
        """Creates an actor that a worker makes; gives what takes its arguments.

        Raises:
            ProtocolError: There is one by that id.
        """
        if self.registry.find(actor) is not None:
            raise ProtocolError(f"actor {actor.hex()} is made a second time")
        self.refcount.add(actor, maker)
        if not (definition.options.is_detached or self._is_of_functions(maker)):
            self._made_by.setdefault(maker, set()).add(actor)
        given: asyncio.Future[EncodedArguments] = self.loop.create_future()
        self.create(actor, definition, given, is_nested=True)
        return given

    def _is_of_functions(self, session: int) -> bool:
        """Whether a worker runs functions: actors that those make outlive it."""
        return self.refcount.who(session) in self.pool.workers.by_id

    def infos(self) -> list[ActorInfo]:
        """Lists what is known of each actor, the forgotten last."""
        return [*map(self._info, self._actors()), *reversed(self._history)]

    def _actors(self) -> Iterator[ActorSupervisor]:
        """Walks over all but workers of functions."""
        return (
            supervisor
            for supervisor in self.by_id.values()
            if supervisor.record.is_actor
        )

    def _info(self, supervisor: ActorSupervisor) -> ActorInfo:
        record, lease, options = (
            supervisor.record,
            supervisor.record.lease,
            supervisor.record.options,
        )
        shares = lease.shares if lease is not None else ()
        mask = self._machine.mask(lease, options) if shares and lease else None
        return ActorInfo(
            actor_id=record.id.hex(),
            class_name=record.called.class_name,
            state=record.state.value,
            pid=supervisor.pid,
            resources=counted(options.request.amounts),
            devices={share.device.id: share.units / UNITS for share in shares},
            mask=mask,
            restarts=supervisor.restarts.count,
            pending_calls=supervisor.router.pending,
            death=str(record.exit or ""),
            name=options.name,
            namespace=self.actor_names.namespace_of(options),
            is_detached=options.is_detached,
            placement_group=options.group.id.hex() if options.group else None,
            awaits_arguments=supervisor.waits_for_arguments,
            started_at=record.started_at,
            ended_at=record.ended_at,
            repr_name=record.called.own,
            earlier_deaths=supervisor.restarts.earlier_deaths,
        )

    def unanswered(self) -> list[CallInfo]:
        """The calls without an answer: those to one actor together, then functions'."""
        found: list[CallInfo] = []
        for supervisor in self._actors():
            prefix = self.registry.prefix(supervisor.router.session)
            calls = with_states(
                supervisor.router.unanswered(),
                supervisor.record.interface,
                supervisor.record.options,
                # What came over a link is known of by the mark that it leaves.
                is_busy=bool(self.object_store.mark(prefix)),
            )
            found += [self._call_info(supervisor, prefix, call) for call in calls]
        return found + [self._function_info(call) for call in self.pool.unanswered()]

    def _function_info(self, call: UnderWay) -> CallInfo:
        task, task_id = self.pool.task(call.number), ""
        if task is not None and task.worker is not None:
            prefix = self.registry.prefix(task.worker.supervisor.router.session)
            task_id = f"{prefix.hex()}{task.sent_as:016x}"
        return CallInfo(
            actor_id="",
            class_name="",
            method=call.method,
            state=call.state,
            name=call.method,
            task_id=task_id,
            age=None if call.since is None else self.clock.now() - call.since,
            caller=self._caller(call.reply),
            variables=variables_in(call.told or {}),
        )

    def _call_info(
        self, supervisor: ActorSupervisor, prefix: bytes, call: UnderWay
    ) -> CallInfo:
        record, told = supervisor.record, call.told or {}
        is_there = call.state in ("queued", "running")
        return CallInfo(
            actor_id=record.id.hex(),
            class_name=record.called.class_name,
            method=call.method,
            state=call.state,
            actor_name=record.options.name,
            name=told.get("name") or f"{record.called.class_name}.{call.method}",
            task_id=f"{prefix.hex()}{call.number:016x}" if is_there else "",
            age=None if call.since is None else self.clock.now() - call.since,
            caller=self._caller(call.reply),
            variables=variables_in(told),
        )

    def _caller(self, reply: object) -> str:
        """Names the call that waits for an answer; empty for the owner's own code."""
        while isinstance(reply, CancelledTarget):
            reply = reply.target
        if not isinstance(reply, WorkerCall | Reader):
            return ""
        supervisor = self.by_id.get(reply.session.actor)
        if supervisor is None:
            return "a call of an actor that is gone"
        method = supervisor.router.method_of(reply.asking)
        if not supervisor.record.is_actor:  # a function's worker is nobody
            return f"{method} (pid {supervisor.pid})"
        return supervisor.record.method(method) if method else supervisor.record.title

    def _titles(self) -> dict[int, str]:
        """Names the holders of leases, by the ids of these objects."""
        found = {
            id(lease): supervisor.record.title
            for supervisor in self.by_id.values()
            if (lease := supervisor.placement.lease) is not None
        }
        for worker in self.pool.workers.by_id.values():
            lease = worker.lease or worker.supervisor.placement.lease
            found[id(lease)] = worker.title
        for group in self.groups:
            found[id(group.lease)] = group.spec.label
        return found

    def _make_room(self) -> None:
        """Ends workers of functions that do nothing, as somebody waits for a place."""
        self.pool.workers.make_room()

    def _give_back_references(self, session: WorkerSession) -> None:
        unheld = self.refcount.forget(session.number)
        tear_down(session, *(partial(self._unheld, loan) for loan in unheld))

    def _note_what_ran(self, session: WorkerSession) -> None:
        mark, supervisor = (
            self.object_store.mark(session.prefix),
            self.by_id[session.actor],
        )
        supervisor.router.callers.note(mark, supervisor.record.interface.methods)
        if not supervisor.record.is_actor:
            self.pool.workers.left(session.actor, mark)

    def _end_made(self, session: WorkerSession) -> None:
        for actor in self._made_by.pop(session.number, ()):
            self.by_id[actor].stop("the actor that made it ended")

    # What becomes of what is held, or not any more.

    def _held(self, loan: LoanId) -> None:
        kind = kind_of(loan)
        if kind == BLOCK_KIND:
            self.object_store.held(loan)
        elif kind == ACTOR_KIND:
            supervisor = self.by_id.get(ActorId(loan))
            if supervisor is not None:
                supervisor.revive()

    def _unheld(self, loan: LoanId) -> None:
        kind = kind_of(loan)
        if kind == BLOCK_KIND:
            self.object_store.unheld(loan)
        elif kind == OBJECT_KIND:
            self.objects.unheld(ObjectId(loan))
        elif kind == ACTOR_KIND:
            self._actor_unheld(ActorId(loan))

    def _actor_unheld(self, actor: ActorId) -> None:
        supervisor = self.by_id.get(actor)
        if supervisor is None:
            return
        supervisor.end_when_idle("nobody held a handle of it any more")
        self._forget_if_over(supervisor)

    def _on_dead(self, supervisor: ActorSupervisor) -> None:
        """Forgets an actor that is dead, and what it had is back."""
        actor = supervisor.record.id
        self.placer.forget(supervisor.record)
        self.groups.part(supervisor.record.options, actor)
        self.actor_names.leave(actor)
        self._made_by.get(maker_of(actor), set()).discard(actor)
        if supervisor.record.options.is_detached:
            self.refcount.remove(actor, RUNTIME)
        self._forget_if_over(supervisor)

    def _forget_if_over(self, supervisor: ActorSupervisor) -> None:
        actor = supervisor.record.id
        if supervisor.record.state is not ActorState.DEAD or self.refcount.is_held(
            actor
        ):
            return
        is_known = self.by_id.pop(actor, None) is not None
        self.registry.forget(actor)
        if is_known and supervisor.record.is_actor and self._history.maxlen:
            self._history.append(self._info(supervisor))


def _nothing() -> None:
    """Stands for the constructor of a worker of functions: it takes nothing."""
