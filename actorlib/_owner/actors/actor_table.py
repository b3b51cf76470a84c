"""The table of a runtime's actors: their supervisors, and who holds which of them.

Creation, what workers ask for, and the count of handles meet here: an actor lives while
somebody holds it or it has something to do, and is forgotten when it is dead and nobody
holds it any more.
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
from actorlib._owner.actors.actor_record import ActorRecord, ActorState, Registry
from actorlib._owner.actors.creation import ActorDefinition
from actorlib._owner.actors.names import UNHELD, ActorNames
from actorlib._owner.actors.placement import ActorPlacer
from actorlib._owner.actors.supervisor import ActorSupervisor
from actorlib._owner.actors.worker_session import SessionTable
from actorlib._owner.calls.call_policy import CallPolicy
from actorlib._owner.calls.deadlines import Clock
from actorlib._owner.calls.router import CallRouter, WorkerRoute
from actorlib._owner.functions.read_signal import have_actor_read
from actorlib._owner.functions.task_pool import TaskPool
from actorlib._owner.machine import WorkerStarter
from actorlib._owner.objects.objects import ObjectTable
from actorlib._owner.objects.refcount import (
    OWNER,
    RUNTIME,
    BorrowedReferences,
    RefCount,
)
from actorlib._owner.objects.shared_memory import ObjectStore, settings_of
from actorlib._owner.observation.inquiries import Inquiries
from actorlib._owner.teardown import Phase, tear_down
from actorlib._scheduler.scheduler import Scheduler
from actorlib.exceptions import ActorUnschedulableError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._owner.actors.creation import EncodedArguments
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.machine import LocalNode
    from actorlib._scheduler.catalogue import Demand
    from actorlib._wire.arguments import SendingEngine
    from actorlib._wire.messages import Frame


class ActorTable:
    """Keeps the actors of one runtime, and what they share.

    Args:
        engine: Whose they are; handles and refs are pickled for it.
        machine: Where they run.
        options: How the runtime behaves.

    Attributes:
        loop: The owner's loop.
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
        sessions: The pipes to workers and clients.
        starter: Starts workers.
        inquiries: Asks workers what only they know.
        actor_names: Who answers to which name.
        objects: What refs inside of values stand for.
        watch: Told of each actor that is made; None while nobody wants to know.
        on_forget: Told of each actor that is forgotten; Inspector sets it.
    """

    on_forget: Callable[[ActorSupervisor], None]

    def __init__(
        self, engine: SendingEngine, machine: LocalNode, options: RuntimeOptions
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._enforcement = machine.enforcement
        self.registry = Registry(os.urandom(4))
        self.refcount = RefCount()
        self.references = BorrowedReferences(self.refcount, self._held, self._unheld)
        self.object_store = ObjectStore(
            machine.shareable(options), settings_of(options), self.loop
        )
        self.by_id: dict[ActorId, ActorSupervisor] = {}
        self.actor_names = ActorNames(options.namespace, self.by_id.get)
        self.watch: Callable[[ActorSupervisor], None] | None = None
        self._made_by: dict[int, set[ActorId]] = {}
        self.clock = Clock(self.loop)
        self.objects = ObjectTable(engine, self.registry.prefix(0), self.references)
        self.scheduler = Scheduler(
            machine.capacity,
            machine.inventory,
            options.capacity.amounts,
            self.loop,
            holder_names=self._holder_names,
            on_wait=self._make_room,
            may_wait=options.infeasible == "wait",
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
            self.registry,
            self.refcount,
            self.object_store.memory,
            {
                self._give_back_references: Phase.REFERENCES,
                self.object_store.on_worker_gone: Phase.MEMORY,
            },
        )
        self.starter = WorkerStarter(
            self.sessions,
            machine,
            options,
            self.references,
            self.object_store,
            self.by_id.get,
        )

    def __iter__(self) -> Iterator[ActorSupervisor]:
        return iter(list(self.by_id.values()))

    def create(
        self,
        actor: ActorId,
        definition: ActorDefinition,
        arguments: EncodedArguments | BaseException | asyncio.Future[EncodedArguments],
        make_route: Callable[[ActorSupervisor], WorkerRoute] | None = None,
        *,
        is_nested: bool = False,
    ) -> None:
        """Creates an actor, dead at once if it can never be placed.

        Args:
            actor: Its id.
            definition: Its class and options.
            arguments: For the constructor, why there are none, or a future of them.
            make_route: Makes the way to a worker of functions; None for an actor.
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
            created_at=time.time(),
        )
        taken = self.starter.gangs.enter(record) if options.torch else ""
        self.registry.add(record)
        if options.name is not None:
            self.actor_names.enter(actor, options.name, options)
        if definition.options.is_detached:
            self.refcount.add(actor, RUNTIME)
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
        never = removed or taken or None
        if not never and self.placer.awaits_neighbours(options):
            never = self._enforcement.refusal(record.label, options, options.request)
        elif not never:
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
        make_route: Callable[[ActorSupervisor], WorkerRoute],
        *,
        is_nested: bool,
    ) -> ActorSupervisor:
        """Creates the supervisor of a worker of functions.

        Args:
            label: What it is called.
            options: What it asks for itself.
            demand: What it asks for with its calls.
            arguments: None, as they are sent.
            make_route: Makes the way to it.
            is_nested: Whether a call of a worker needs it.
        """
        nobody = method_of(_nothing)
        interface = Interface(label, nobody, {})
        actor = self.registry.new_id()
        definition = ActorDefinition(None, interface, options, demand.resources)
        self.create(actor, definition, arguments, make_route, is_nested=is_nested)
        return self.by_id[actor]

    def attach(self, frame: Frame) -> None:
        """Attaches a feature to all workers, those that start too; or changes it.

        Args:
            frame: What each of them gets; it replaces an earlier one of its kind.
        """
        self.starter.attached[frame[0]] = frame
        for supervisor in self:
            if supervisor.session is not None:
                supervisor.session.channel.send(frame)

    def detach(self, frame: Frame) -> None:
        """Switches a feature off in all workers; those that start do not load it."""
        self.attach(frame)
        del self.starter.attached[frame[0]]

    def _router_of(self, supervisor: ActorSupervisor) -> CallRouter:
        record = supervisor.record
        policy = CallPolicy(
            self.clock,
            record.method,
            record.options,
            record.interface.awaits,
            partial(have_actor_read, supervisor),
        )
        return CallRouter(
            self.references,
            self.objects,
            supervisor.died,
            supervisor.unavailable,
            supervisor.idle,
            policy,
            self._find_router,
        )

    def create_for(
        self, actor: ActorId, definition: ActorDefinition, maker: WorkerSession
    ) -> asyncio.Future[EncodedArguments]:
        """Creates an actor that a worker makes; gives what takes its arguments.

        Raises:
            ProtocolError: There is one by that id.
        """
        if self.registry.find(actor) is not None:
            raise ProtocolError(f"actor {actor.hex()} is made a second time")
        self.refcount.add(actor, maker.number)
        # Actors that workers of functions make outlive those.
        is_bound = maker.actor not in self.pool.workers.by_id
        if is_bound and not definition.options.is_detached:
            self._made_by.setdefault(maker.number, set()).add(actor)
            maker.cleanup.add(Phase.ACTORS, self._end_made)
        arguments: asyncio.Future[EncodedArguments] = self.loop.create_future()
        self.create(actor, definition, arguments, is_nested=not maker.is_client)
        return arguments

    def _holder_names(self) -> dict[int, str]:
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
        for drain in self.placer.draining:
            if drain.lease is not None:
                found[id(drain.lease)] = drain.holder
        return found

    def _find_worker(self, process: object) -> ActorSupervisor | None:
        return next(
            (one for one in self.by_id.values() if one.record.process is process), None
        )

    def _make_room(self) -> None:
        """Ends workers of functions that do nothing, as somebody waits for a place."""
        self.pool.workers.idle.make_room()

    def _give_back_references(self, session: WorkerSession) -> None:
        unheld = self.refcount.forget(session.number)
        tear_down(session, *(partial(self._unheld, counted) for counted in unheld))

    def _find_router(self, actor: ActorId) -> CallRouter | None:
        supervisor = self.by_id.get(actor)
        return None if supervisor is None else supervisor.router

    def _end_made(self, session: WorkerSession) -> None:
        for actor in self._made_by.pop(session.number, ()):
            self.by_id[actor].stop(
                f"the {session.title} that made it is gone"
                if session.is_client
                else "the actor that made it ended"
            )

    # What becomes of what is held, or not any more.

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
        """Forgets an actor that is dead, and what it had is back."""
        actor, options = supervisor.record.id, supervisor.record.options
        self.placer.forget(supervisor.record)
        if options.group is not None:
            self.groups.remove_member(options.group, actor)
        if options.torch:
            self.starter.gangs.leave(supervisor.record)
        if options.name is not None:
            self.actor_names.leave(supervisor.record)
        self._made_by.get(maker_of(actor), set()).discard(actor)
        if options.is_detached:
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
        if is_known:
            self.on_forget(supervisor)


def _nothing() -> None:
    """Stands for the constructor of a worker of functions: it takes nothing."""
