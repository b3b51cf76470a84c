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
from itertools import chain, islice
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
from actorlib._owner.actors.names import ActorNames
from actorlib._owner.actors.placement import ActorPlacer
from actorlib._owner.actors.supervisor import ActorSupervisor
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
from actorlib._owner.observation.inspection import Inspector, LinkCall
from actorlib._owner.requests.worker_requests import WorkerRequests
from actorlib._owner.teardown import Phase, tear_down
from actorlib._rows.snapshot import AllCalls
from actorlib._scheduler.scheduler import Scheduler
from actorlib._wire.messages import LINK_CALLS
from actorlib.exceptions import ActorUnschedulableError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from actorlib._core.runtime_context import RuntimeContext
    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._owner.actors.creation import EncodedArguments
    from actorlib._owner.actors.gangs import Gangs
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.calls.call_policy import CancelChildren
    from actorlib._owner.machine import LocalNode, OutputKeeper
    from actorlib._owner.requests.clients import Clients
    from actorlib._rows.snapshot import CallInfo
    from actorlib._scheduler.catalogue import Demand
    from actorlib._wire.arguments import SendingEngine
    from actorlib._wire.messages import Frame

_CALLS_AT_ONCE = 200
"""Calls that are described in one turn of the loop: 15 us each."""


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
        inspector: Describes actors and calls to who asks.
        inquiries: Asks workers what only they know.
        actor_names: Who answers to which name.
        objects: What refs inside of values stand for.
        clients: The programs that are attached; None before the first of them.
        watch: Told of each actor that is made; None while nobody wants to know.
    """

    def __init__(
        self, engine: SendingEngine, machine: LocalNode, options: RuntimeOptions
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._enforcement = machine.enforcement
        self.grace = options.grace
        self.registry = Registry(os.urandom(4))
        self.refcount = RefCount()
        self.references = BorrowedReferences(self.refcount, self._held, self._unheld)
        self.object_store = ObjectStore(
            machine.shareable(options), settings_of(options), self.loop
        )
        self.by_id: dict[ActorId, ActorSupervisor] = {}
        self.actor_names = ActorNames(options.namespace, self.by_id.get)
        self.watch: Callable[[ActorSupervisor], None] | None = None
        self.clients: Clients | None = None
        self._made_by: dict[int, set[ActorId]] = {}
        self._gangs: Gangs | None = None
        self.clock = Clock(self.loop)
        self.objects = ObjectTable(engine, self.registry.prefix(0), self.references)
        self.scheduler = Scheduler(
            machine.capacity,
            machine.inventory.devices,
            machine.inventory.kinds,
            options.capacity.amounts,
            self.loop,
            rejected=machine.inventory.rejected,
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
            may_wait=options.infeasible == "wait",
            may_prefetch=self.object_store.memory.budget is not None,
        )
        self.inspector = Inspector(
            self.by_id,
            registry=self.registry,
            names=self.actor_names,
            placer=self.placer,
            pool=self.pool,
            node=machine,
            object_store=self.object_store,
            clock=self.clock,
            history=options.actor_history,
        )
        self.inquiries = Inquiries(self.loop)
        self._requests = WorkerRequests(
            find=self.by_id.get,
            create=self._create_for,
            lists={
                "actors": self.inspector.actors,
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
            inquiries=self.inquiries,
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
            serve=self._requests.serve,
            cleanup={
                self._give_back_references: Phase.REFERENCES,
                self._note_what_ran: Phase.EVIDENCE,
                self.object_store.on_worker_gone: Phase.MEMORY,
            },
            gangs=self._found_gangs,
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
        taken = self._found_gangs().enter(record) if options.torch else ""
        self.registry.add(record)
        if options.name is not None:
            self.actor_names.enter(actor, options.name, options)
        if definition.options.is_detached:
            self.refcount.add(actor, RUNTIME)
        supervisor = self.by_id[actor] = ActorSupervisor(
            record,
            definition,
            self.placer.open(record),
            self._starter,
            self.references,
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
        make_route: Callable[[ActorSupervisor, CancelChildren], WorkerRoute],
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
        cancel_children = self._requests.cancel_children
        self.create(
            actor,
            definition,
            arguments,
            lambda supervisor: make_route(supervisor, cancel_children),
            is_nested=is_nested,
        )
        return self.by_id[actor]

    def attach(self, frame: Frame) -> None:
        """Attaches a feature to all workers, those that start too; or changes it.

        Args:
            frame: What each of them gets; it replaces an earlier one of its kind.
        """
        self._starter.attached[frame[0]] = frame
        for supervisor in self:
            if supervisor.session is not None:
                supervisor.session.channel.send(frame)

    def detach(self, frame: Frame) -> None:
        """Switches a feature off in all workers; those that start do not load it."""
        self.attach(frame)
        del self._starter.attached[frame[0]]

    def serve(self, kind: int, take: Callable[..., None]) -> None:
        """Has a feature take the frames of a kind that workers send.

        Args:
            kind: The kind.
            take: Gets the session of the worker, and the fields of the frame.
        """
        self._requests.others[kind] = take

    def keep_output(self, keeper: OutputKeeper) -> None:
        """Has a feature keep what workers print."""
        self.inspector.output = self._starter.output = keeper

    async def calls(
        self, patience: float, most: int | None, actor: ActorId | None
    ) -> tuple[AllCalls, int]:
        """Lists the calls without an answer; see ``RuntimeEngine.all_calls``."""
        frame = (LINK_CALLS,)
        callers = self._requests.links.callers() if patience else ()
        told = await self.inquiries.ask(callers, frame, patience)
        found: list[CallInfo] = []
        linked = [
            (session, LinkCall(*call))
            for session, calls in told.answers
            for call in calls
            if actor in (None, call[2])
        ]
        inspector = self.inspector
        every = chain(inspector.calls(most, actor), inspector.link_calls(linked))
        walk = islice(every, most)
        while some := [*islice(walk, _CALLS_AT_ONCE)]:
            found += some
            await asyncio.sleep(0)
        count = inspector.count_calls(actor) + len(linked)
        silent = [self.by_id.get(session.actor) for session in told.silent]
        titles = tuple(s.record.title for s in silent if s is not None)
        left_out = count - len(found) if len(found) == most else 0
        return AllCalls(found, titles), max(0, left_out)

    async def client_calls(self, patience: float) -> list[asyncio.Future[None]]:
        """Gives what clients have called; see ``WorkerRequests``."""
        return await self._requests.client_calls(patience)

    def open_clients(
        self, context: RuntimeContext, lists: Mapping[str, Callable[[], object]]
    ) -> Clients:
        """Makes what keeps the clients of the runtime: its first one has come.

        Args:
            context: What the owner's own code is told of where it runs.
            lists: What they may have listed besides, by the name that they give that.
        """
        from actorlib._owner.requests.clients import Clients  # noqa: PLC0415  # few have any

        self._requests.lists.update(lists)
        self.clients = Clients(
            self.loop,
            context,
            registry=self.registry,
            refcount=self.refcount,
            object_store=self.object_store,
            numbers=self._starter.session_numbers,
            serve=self._requests.serve,
            cleanup={
                self._give_back_references: Phase.REFERENCES,
                self.object_store.on_worker_gone: Phase.MEMORY,
            },
        )
        return self.clients

    def _router_of(self, supervisor: ActorSupervisor) -> CallRouter:
        record = supervisor.record
        policy = CallPolicy(
            self.clock,
            record.method,
            record.options,
            record.interface.awaits,
            self._requests.cancel_children,
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

    def _create_for(
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

    def _found_gangs(self) -> Gangs:
        """What knows the ranks of actors; made when the first asks for one."""
        if self._gangs is None:
            from actorlib._owner.actors.gangs import Gangs  # noqa: PLC0415  # few need it

            self._gangs = Gangs(self.by_id.get)
        return self._gangs

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

    def _note_what_ran(self, session: WorkerSession) -> None:
        supervisor = self.by_id[session.actor]
        cells = self.object_store.call_cells(session.prefix)
        supervisor.route.note_cells(cells or (), supervisor.record)

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
        supervisor.end_when_idle("nobody held a handle of it any more")
        self._forget_if_over(supervisor)

    def _on_dead(self, supervisor: ActorSupervisor) -> None:
        """Forgets an actor that is dead, and what it had is back."""
        actor, options = supervisor.record.id, supervisor.record.options
        self.placer.forget(supervisor.record)
        if options.group is not None:
            self.groups.remove_member(options.group, actor)
        if options.torch:
            self._found_gangs().leave(supervisor.record)
        if options.name is not None:
            self.actor_names.leave(actor)
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
            self.inspector.remember(supervisor)


def _nothing() -> None:
    """Stands for the constructor of a worker of functions: it takes nothing."""
