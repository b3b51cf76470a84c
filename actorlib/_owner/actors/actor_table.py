"""The supervisors of a runtime's actors, and their holders.

Creation, requests of workers and the count of handles meet here. An actor lives while a
process holds it or it has calls to do. It is forgotten when it is dead and no process
holds it.
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from typing import TYPE_CHECKING

from actorlib._base.ids import (
    ACTOR_KIND,
    BLOCK_KIND,
    OBJECT_KIND,
    ActorId,
    CountedId,
    ObjectId,
    kind_of,
    maker_of,
)
from actorlib._options.interface import Interface, method_of
from actorlib._owner.actors.actor_record import (
    ActorDefinition,
    ActorRecord,
    ActorState,
    RuntimeIds,
)
from actorlib._owner.actors.names import UNHELD, ActorNames
from actorlib._owner.actors.placement import ActorPlacer
from actorlib._owner.actors.supervisor import ActorSupervisor
from actorlib._owner.actors.worker_session import Phase, SessionTable
from actorlib._owner.actors.worker_starter import WorkerStarter
from actorlib._owner.calls.response_target import Clock
from actorlib._owner.calls.router import CallRouter, WorkerRoute
from actorlib._owner.functions.task_pool import TaskPool
from actorlib._owner.objects.objects import ObjectTable
from actorlib._owner.objects.refcount import OWNER, RUNTIME, BorrowedReferences
from actorlib._owner.objects.shared_memory import ObjectStore, settings_of
from actorlib._owner.observation.inquiries import Inquiries
from actorlib._owner.teardown import tear_down
from actorlib._scheduler.scheduler import Scheduler
from actorlib.exceptions import ActorUnschedulableError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._owner.actors.actor_record import EncodedArguments
    from actorlib._owner.actors.supervisor import DueArguments
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.machine import LocalNode
    from actorlib._scheduler.catalogue import Demand
    from actorlib._wire.arguments import SendingEngine
    from actorlib._wire.messages import Frame


class ActorTable:
    """Keeps the actors of one runtime, and the parts that they share.

    Attributes:
        loop: The owner's loop.
        ids: Makes ids.
        clock: Watches the deadlines of calls.
        references: Counts which process holds what, and ends what no process holds.
        object_store: The shared memory for large values.
        by_id: The supervisors of actors that live or are held.
        placer: Makes and places their requests.
        scheduler: Grants leases of the machine.
        groups: The placement groups.
        pool: Runs the calls of functions.
        sessions: The sessions of workers and clients.
        starter: Starts workers.
        inquiries: Asks workers for what only they know.
        actor_names: The names of actors.
        objects: The objects of refs inside of values.
        watch: Receives each actor that is created, if set.
        on_forget: Receives each actor that is forgotten; Inspector sets it.
    """

    on_forget: Callable[[ActorSupervisor], None]

    def __init__(
        self, engine: SendingEngine, machine: LocalNode, options: RuntimeOptions
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._enforcement = machine.enforcement
        self.ids = RuntimeIds(os.urandom(4))
        self.references = BorrowedReferences(self._held, self._unheld)
        self.object_store = ObjectStore(
            machine.shareable(options), settings_of(options), self.loop
        )
        self.by_id: dict[ActorId, ActorSupervisor] = {}
        self.actor_names = ActorNames(options.namespace, self.by_id.get)
        self.watch: Callable[[ActorSupervisor], None] | None = None
        self._made_by: dict[int, set[ActorId]] = {}
        self.clock = Clock(self.loop)
        self.objects = ObjectTable(engine, self.ids.prefix(0), self.references)
        self.scheduler = Scheduler(
            machine.capacity,
            machine.inventory,
            options.capacity.amounts,
            self.loop,
            holder_names=self._holder_names,
            on_wait=self._make_room,
            may_wait=options.infeasible == "wait",
            use=machine.use,
        )
        self.groups = self.scheduler.groups
        machine.enforcement.find_worker = self._find_worker
        self.placer = ActorPlacer(self.scheduler, self._enforcement)
        self.pool = TaskPool(
            machine,
            self.scheduler,
            self.references,
            self.objects,
            self.clock,
            self.create_worker,
            may_prefetch=self.object_store.memory.budget is not None,
        )
        self.inquiries = Inquiries(self.loop)
        self.sessions = SessionTable(
            self.loop,
            self.ids,
            self.references,
            self.object_store.memory,
        )
        self.starter = WorkerStarter(
            self.sessions, machine, options, self.object_store, self.by_id.get
        )

    def __iter__(self) -> Iterator[ActorSupervisor]:
        return iter(list(self.by_id.values()))

    def create(
        self,
        actor: ActorId,
        definition: ActorDefinition,
        arguments: DueArguments,
        make_route: Callable[[ActorSupervisor], WorkerRoute] | None = None,
        *,
        is_nested: bool = False,
    ) -> None:
        """Creates an actor; it is dead at once if it can never be placed.

        Args:
            actor: Its id.
            definition: Its class and options.
            arguments: For the constructor.
            make_route: Makes the route to a worker of functions; None for an actor.
            is_nested: Whether a worker creates it.
        """
        options = definition.options
        record = ActorRecord(
            id=actor,
            interface=definition.interface,
            options=options,
            is_actor=definition.runs is None,
            slot=definition.slot,
            is_nested=is_nested,
            created_at=time.time(),
        )
        never = self.starter.gangs.enter(record) if options.torch else ""
        if options.name is not None:
            self.actor_names.enter(actor, options.name, options)
        if options.is_detached:
            self.references.add(actor, RUNTIME)
        supervisor = self.by_id[actor] = ActorSupervisor(
            definition,
            self.placer.open(record),
            self.starter,
            make_route or self._router_of,
            self._on_dead,
        )
        if self.watch is not None:
            self.watch(supervisor)
        removed = ""
        if options.group is not None:
            removed = self.groups.add_member(options.group, actor, supervisor.evict)
        refusal = removed or never or None
        if not refusal and self.placer.awaits_neighbours(options):
            refusal = self._enforcement.refusal(record.label, options, options.request)
        elif not refusal:
            refusal = self.placer.refusal(record)
        if refusal is not None:
            # Its creator has no handle yet, and it must not be forgotten before.
            self.references.add(actor, OWNER)
            self.loop.call_soon(self.references.release, actor, OWNER)
            error = ActorUnschedulableError(refusal, actor_id=actor.hex())
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
        make_route: Callable[[ActorSupervisor], WorkerRoute],
        *,
        is_nested: bool,
    ) -> ActorSupervisor:
        """Creates the supervisor of a worker of functions."""
        interface = Interface(label, method_of(_nothing), {})
        actor = self.ids.new_id()
        definition = ActorDefinition(None, interface, options, demand.resources)
        self.create(actor, definition, arguments, make_route, is_nested=is_nested)
        return self.by_id[actor]

    def attach(self, frame: Frame) -> None:
        """Attaches a feature to all workers, including those that start later.

        Args:
            frame: A FEATURE, sent to each worker; it replaces an earlier one.
        """
        self.starter.attached[frame[1]] = frame
        for supervisor in self:
            if supervisor.session is not None:
                supervisor.session.channel.send(frame)

    def detach(self, frame: Frame) -> None:
        """Disables a feature in all workers.

        Workers that start later do not load it.
        """
        self.attach(frame)
        del self.starter.attached[frame[1]]

    def _router_of(self, supervisor: ActorSupervisor) -> CallRouter:
        return CallRouter(
            self.references,
            self.objects,
            self.clock,
            supervisor.record,
            supervisor.died,
            supervisor.unavailable,
            supervisor.idle,
            self._find_router,
        )

    def create_for(
        self, actor: ActorId, definition: ActorDefinition, maker: WorkerSession
    ) -> asyncio.Future[EncodedArguments]:
        """Creates an actor for a worker; returns the future of its arguments.

        Raises:
            ProtocolError: The id exists.
        """
        if actor in self.by_id:
            raise ProtocolError(f"actor {actor.hex()} is made a second time")
        self.references.add(actor, maker.number)
        # Actors that workers of functions create live on after those.
        is_bound = maker.actor not in self.pool.workers.by_id
        if is_bound and not definition.options.is_detached:
            self._made_by.setdefault(maker.number, set()).add(actor)
            maker.cleanup.add(Phase.ACTORS, self._end_made)
        arguments: asyncio.Future[EncodedArguments] = self.loop.create_future()
        self.create(actor, definition, arguments, is_nested=not maker.is_client)
        return arguments

    def _holder_names(self) -> dict[int, str]:
        """Returns the names of the holders of leases, by the ``id()`` of the leases."""
        names = {
            id(lease): supervisor.record.title
            for supervisor in self.by_id.values()
            if (lease := supervisor.placement.lease) is not None
        }
        for worker in self.pool.workers.by_id.values():
            lease = worker.lease or worker.supervisor.placement.lease
            names[id(lease)] = worker.title
        for group in self.groups:
            names[id(group.lease)] = group.spec.label
        for drain in self.placer.draining:
            if drain.lease is not None:
                names[id(drain.lease)] = drain.holder
        return names

    def _find_worker(self, process: object) -> ActorSupervisor | None:
        return next(
            (one for one in self.by_id.values() if one.record.process is process), None
        )

    def _make_room(self) -> None:
        """Ends idle workers of functions, as a request waits."""
        self.pool.workers.idle.make_room()

    def _find_router(self, actor: ActorId) -> CallRouter | None:
        supervisor = self.by_id.get(actor)
        return None if supervisor is None else supervisor.router

    def _end_made(self, session: WorkerSession) -> None:
        why = "the actor that made it ended"
        if session.is_client:
            why = f"the {session.title} that made it is gone"
        made = self._made_by.pop(session.number, ())
        tear_down(session, *(partial(self.by_id[each].stop, why) for each in made))

    # References that begin or end.

    def _held(self, counted: CountedId) -> None:
        kind = kind_of(counted)
        if kind == BLOCK_KIND:
            self.object_store.held(counted)
        elif kind == ACTOR_KIND:
            supervisor = self.by_id.get(ActorId(counted))
            if supervisor is not None:
                supervisor.revive()

    def _unheld(self, counted: CountedId) -> None:
        kind = kind_of(counted)
        if kind == BLOCK_KIND:
            self.object_store.unheld(counted)
        elif kind == OBJECT_KIND:
            self.objects.unheld(ObjectId(counted))
        elif kind == ACTOR_KIND:
            self._actor_unheld(ActorId(counted))

    def _actor_unheld(self, actor: ActorId) -> None:
        supervisor = self.by_id.get(actor)
        if supervisor is None:
            return
        supervisor.end_when_idle(UNHELD)
        self._forget_if_over(supervisor)

    def _on_dead(self, supervisor: ActorSupervisor) -> None:
        """Removes a dead actor from all tables; forgets it if no process holds it."""
        record = supervisor.record
        actor, options = record.id, record.options
        steps: list[Callable[[], object]] = [partial(self.placer.forget, record)]
        if options.group is not None:
            steps.append(partial(self.groups.remove_member, options.group, actor))
        if options.torch:
            steps.append(partial(self.starter.gangs.leave, record))
        if options.name is not None:
            steps.append(partial(self.actor_names.leave, record))
        self._made_by.get(maker_of(actor), set()).discard(actor)
        if options.is_detached:
            steps.append(partial(self.references.remove, actor, RUNTIME))
        tear_down(record, *steps, partial(self._forget_if_over, supervisor))

    def _forget_if_over(self, supervisor: ActorSupervisor) -> None:
        actor = supervisor.record.id
        if supervisor.record.state is not ActorState.DEAD or self.references.is_held(
            actor
        ):
            return
        if self.by_id.pop(actor, None) is not None:
            self.on_forget(supervisor)


def _nothing() -> None:
    """Serves as the constructor of a worker of functions, without parameters."""
