"""Placement of actors: what each asks for, its wait in line, its lease, given back.

One walk: ``ActorPlacer`` says what an actor asks for as things are now, the scheduler's
``acquire`` has it wait in line, ``ActorPlacement`` holds the lease until it gives that
back.

A wish may be about another actor: then it is settled when that one has a place, and
again when it dies while the wish stands in line. What was settled is kept, so that
everybody who is told why an actor waits is told of the same devices.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._base.ids import ActorId
from actorlib._base.notifier import Notifier
from actorlib._owner.actors.actor_record import ActorState
from actorlib._scheduler.request import LeaseRequest, Priority, Unfit
from actorlib.exceptions import ActorUnschedulableError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from actorlib._enforcement.drains import Drain
    from actorlib._enforcement.enforcement import Enforcement
    from actorlib._enforcement.gpu_watch import GpuWatch
    from actorlib._options.actor_options import ActorOptions
    from actorlib._owner.actors.actor_record import ActorRecord
    from actorlib._scheduler.catalogue import Demand
    from actorlib._scheduler.scheduler import Scheduler
    from actorlib.accelerators.base import Device, Lease


@final
class ActorPlacement:
    """One actor's share of the machine, from its place in line until it is given back.

    Args:
        record: What is known of the actor; its lease is kept there.
        placer: Says what it asks for, and asks for it.

    Attributes:
        record: As given.
        pending: The lease that it waits for or was granted, once it is in line.
        waits_for_neighbours: Whether it is not in line yet, as an actor that it has
            to be near to, or apart from, has no place.
        returns_to: The devices that it goes back to, while it is suspended; else None.
    """

    def __init__(self, record: ActorRecord, placer: ActorPlacer) -> None:
        self.record = record
        self.pending: asyncio.Future[Lease] | None = None
        self.waits_for_neighbours = False
        self.returns_to: frozenset[Device] | None = None
        self._placer = placer
        self._scheduler = placer.scheduler
        self._settled = Notifier(placer.scheduler.loop)

    @property
    def lease(self) -> Lease | None:
        """The lease, from the moment that it is granted until it is given back."""
        pending = self.pending
        if self.record.lease is not None or pending is None or not pending.done():
            return self.record.lease
        has_failed = pending.cancelled() or pending.exception() is not None
        return None if has_failed else pending.result()

    @property
    def is_awaited(self) -> bool:
        """Whether the actor has no lease, and may get one."""
        may_get_one = self.record.state in (
            ActorState.PENDING,
            ActorState.RESTARTING,
            ActorState.SUSPENDED,
        )
        return may_get_one and self.lease is None

    def settled(self) -> asyncio.Future[None]:
        """Gives what is done when the actor has a lease, or never will have one."""
        if self.is_awaited:
            return self._settled.wait()
        there: asyncio.Future[None] = self._scheduler.loop.create_future()
        there.set_result(None)
        return there

    def begin(self) -> None:
        """Gets in line now, unless it has to wait for neighbours first."""
        self.waits_for_neighbours = self._placer.awaits_neighbours(self.record.options)
        if not self.waits_for_neighbours:
            self.pending = self._placer.acquire(self)

    @property
    def drain(self) -> Drain | None:
        """What the lease waits for whose worker has ended, as the driver has not done.

        Neither others may have it meanwhile, nor the next worker of the same actor.
        """
        gpus, process = self._placer.gpus, self.record.process
        if gpus is None or process is None:
            return None
        if process.exited.done():
            # Who awaits the end of a process may go on before its callbacks are called,
            # and this begins in one of them.
            gpus.drain_worker(process)
        return gpus.drains.of(process)

    def device_memory(self) -> dict[str, int]:
        """Returns the bytes that the worker had of devices it shares; see GpuWatch."""
        gpus = self._placer.gpus
        return {} if gpus is None else gpus.used(self.record.process)

    def who_has_what(self) -> str:
        """Says who had how much of the devices at the last look; may be empty."""
        gpus = self._placer.gpus
        return "" if gpus is None else gpus.who_has_what(self.record.process)

    async def granted(self) -> Lease:
        """Waits for the lease until its turn has come; gives the one that was kept.

        Cancelled: what was granted or is waited for is left to ``give_back``.
        """
        if self.record.lease is not None:
            drain = self.drain
            if drain is not None:
                await drain.ended()
            return self.record.lease
        if self.pending is None:
            self.waits_for_neighbours = True
            await self._placer.neighbours(self.record.options)
            self.waits_for_neighbours = False
            self.pending = self._placer.acquire(self)
        return await self.pending

    def requeue(self) -> bool:
        """Goes to the end of the line; False if it does not stand in one."""
        if self.pending is None or self.pending.done():
            return False
        self._scheduler.requeue(self.pending)
        return True

    def take(self, lease: Lease) -> None:
        """Holds a lease from now on."""
        self.record.lease = lease
        self._settled.notify()

    def give_back(self) -> None:
        """Gives the lease back as soon as it has drained, or the place in line up."""
        lease, pending, drain = self.record.lease, self.pending, self.drain
        self.record.lease = self.pending = None
        if lease is not None and drain is not None:
            drain.hold(lease, self._scheduler.release)
        elif lease is not None:
            self._scheduler.release(lease)
        elif pending is not None:
            self._scheduler.leave(pending)

    def set_aside(self) -> None:
        """Gives the lease back, as the worker's work was taken off its devices."""
        lease, gpus, process = self.record.lease, self._placer.gpus, self.record.process
        if lease is None:
            return
        self.returns_to = frozenset(share.device for share in lease.shares)
        if gpus is not None and process is not None:
            gpus.drain_worker(process)  # nobody gets it before the driver has let go
        self.give_back()

    def granted_again(self) -> asyncio.Future[Lease]:
        """Gets in line for the devices that it was on before it was set aside.

        Returns:
            The lease, now or later; it fails with ActorUnschedulableError if that can
            never be.
        """
        self.pending = self._placer.acquire(self)
        return self.pending

    def devices_in_words(self) -> str:
        """Names the devices that it holds, or goes back to: ``GPU 0``."""
        lease = self.record.lease
        there: Iterable[Device] = self.returns_to or ()
        if lease is not None:
            there = [share.device for share in lease.shares]
        return ", ".join(f"{device.kind} {device.id}" for device in there)

    def give_up(self) -> None:
        """Tells those who wait for it to have a lease that it never will."""
        self.waits_for_neighbours = False
        self._settled.notify()


@final
class ActorPlacer:
    """Says what every actor of a runtime asks for, while others come and go.

    Args:
        scheduler: Grants leases.
        enforcement: Makes shares hold; None where nothing does. Default: None.

    Attributes:
        scheduler: As given.
        gpus: Sees to the workers on devices that NVML knows; None where there are none.
    """

    def __init__(
        self, scheduler: Scheduler, enforcement: Enforcement | None = None
    ) -> None:
        self.scheduler = scheduler
        self.gpus: GpuWatch | None = None if enforcement is None else enforcement.gpus
        self._enforcement = enforcement
        self._placements: dict[ActorId, ActorPlacement] = {}
        self._requests: dict[ActorId, LeaseRequest] = {}
        self._wishers: dict[ActorId, dict[ActorId, ActorPlacement]] = {}

    @property
    def draining(self) -> Iterable[Drain]:
        """Lists the shares that are held back from others until the driver has done."""
        return () if self.gpus is None else self.gpus.drains

    def open(self, record: ActorRecord) -> ActorPlacement:
        """Begins with an actor that is not in line yet."""
        placement = self._placements[record.id] = ActorPlacement(record, self)
        return placement

    def forget(self, record: ActorRecord) -> None:
        """Forgets a dead actor: those in line whose wish was about it wish anew."""
        actor = record.id
        self._placements.pop(actor, None)
        self._requests.pop(actor, None)
        for neighbour in self._named(record.options):
            self._wishers.get(neighbour.record.id, {}).pop(actor, None)
        for wisher in self._wishers.pop(actor, {}).values():
            self._wish_anew(wisher)

    def awaits_neighbours(self, options: ActorOptions) -> bool:
        """Whether actors that a wish is about have no place yet."""
        return any(neighbour.is_awaited for neighbour in self._named(options))

    async def neighbours(self, options: ActorOptions) -> None:
        """Waits until the actors that a wish is about have a place, or are dead."""
        while self.awaits_neighbours(options):
            for neighbour in self._named(options):
                await neighbour.settled()

    def refusal(self, record: ActorRecord) -> str | None:
        """Says why an actor can never be placed; None if it can, or may wait."""
        try:
            self._settle(record)
        except ActorUnschedulableError as error:
            return str(error)
        return None

    def acquire(self, placement: ActorPlacement) -> asyncio.Future[Lease]:
        """Asks for an actor's lease: granted at once, or when its turn has come.

        It fails with ActorUnschedulableError if that turn can never come.
        """
        record, scheduler = placement.record, self.scheduler
        options = record.options
        request = self._requests.get(record.id)
        if request is None or options.near_to or options.apart:
            # Whoever the wish is about may have moved or died since it was settled.
            try:
                request = self._settle(record)
            except ActorUnschedulableError as error:
                failed: asyncio.Future[Lease] = scheduler.loop.create_future()
                failed.set_exception(error)
                return failed
        for neighbour in self._named(options):
            wishers = self._wishers.setdefault(neighbour.record.id, {})
            wishers[record.id] = placement
        pending = scheduler.acquire(_returning(request, placement))
        if record.is_actor and not pending.done():
            group = options.group and options.group.id
            kind = record.called.class_name, str(request.resources), group
            name = record.label if options.name else f"{record.label} {record.id.hex()}"
            scheduler.long_waits.add(
                pending, kind, lambda: self.explain(placement), name
            )
        return pending

    def explain(self, placement: ActorPlacement) -> str:
        """Says why an actor in line waits."""
        request = _returning(self._requests[placement.record.id], placement)
        return self.scheduler.explain(request, placement.pending)

    def survey(self, label: str, options: ActorOptions) -> str:
        """Says where an actor would go now, or what stands in its way."""
        group = options.group
        if group is not None and self.scheduler.groups.alive(group) is None:
            return f"{label} cannot be placed: {group.label} was removed"
        if self.awaits_neighbours(options):
            return f"{label} would wait until the actors that it names are placed"
        try:
            request = self._request(label, options)
        except ActorUnschedulableError as error:
            return str(error)
        return self.scheduler.preview(request)

    def _wish_anew(self, placement: ActorPlacement) -> None:
        pending, record = placement.pending, placement.record
        if pending is None or pending.done():
            return
        try:
            request = self._request_of(record)
        except ActorUnschedulableError as error:
            self.scheduler.leave(pending)
            pending.set_exception(error)
            return
        self._requests[record.id] = request
        self.scheduler.change_constraints(pending, _returning(request, placement))

    def _settle(self, record: ActorRecord) -> LeaseRequest:
        """Settles what an actor asks for as things are now; it is kept.

        Raises:
            ActorUnschedulableError: It can never be given, and may not wait.
        """
        request = self._request_of(record)
        never = self.scheduler.refusal(request)
        if never is not None:
            raise ActorUnschedulableError(never)
        self._requests[record.id] = request
        return request

    def _request_of(self, record: ActorRecord) -> LeaseRequest:
        holder = record.id.hex() if record.is_actor else ""
        return self._request(record.label, record.options, priority_of(record), holder)

    def _request(
        self,
        label: str,
        options: ActorOptions,
        priority: Priority = Priority.USUAL,
        holder: str = "",
    ) -> LeaseRequest:
        """Resolves what an actor with these options asks for.

        Raises:
            ActorUnschedulableError: It names a device or an actor that is not here, or
                what no device can have.
        """
        near = None
        for actor in options.near_to:
            lease = self._lease_of(actor)
            if lease is None:
                raise ActorUnschedulableError(
                    f"{label} is to be near an actor that is dead: keep a handle of "
                    "that actor, so that it lives"
                )
            near = [share.device for share in lease.shares]
        apart = [
            share.device
            for actor in options.apart
            if (lease := self._lease_of(actor)) is not None
            for share in lease.shares
        ]
        catalogue = self.scheduler.catalogue
        demand = catalogue.demand(label, options, near=near, apart=apart)
        if self._enforcement is not None:
            demand = fitted(self._enforcement, label, options, demand)
        resources, constraints = demand
        if options.group is not None:
            resources = catalogue.untyped(resources)
        return LeaseRequest(
            label=label,
            resources=resources,
            constraints=constraints,
            priority=priority,
            group=options.group,
            bundle_index=options.placement_group_bundle_index,
            holder=holder,
        )

    def _lease_of(self, actor: bytes) -> Lease | None:
        placement = self._placements.get(ActorId(actor))
        return None if placement is None else placement.lease

    def _named(self, options: ActorOptions) -> list[ActorPlacement]:
        if not (options.near or options.apart_from):
            return []
        named = (*options.near_to, *options.apart)
        found = (self._placements.get(ActorId(actor)) for actor in named)
        return [placement for placement in found if placement is not None]


def _returning(request: LeaseRequest, placement: ActorPlacement) -> LeaseRequest:
    """The request of an actor, for the devices that it goes back to, if it does."""
    if placement.returns_to is None:
        return request
    only = replace(request.constraints, only=placement.returns_to)
    return request._replace(constraints=only)


def fitted(
    enforcement: Enforcement, label: str, options: ActorOptions, demand: Demand
) -> Demand:
    """Leaves out the devices that cannot have what makes the share hold by name.

    Args:
        enforcement: Makes shares hold.
        label: Who asks, for messages.
        options: What is asked.
        demand: What that is of the machine.

    Raises:
        ActorUnschedulableError: None of the devices can, with the reasons.
    """
    if not (options.enforcement or options.tunes_enforcement or enforcement.is_named):
        return demand
    never = enforcement.refusal(label, options, options.request)
    if never is not None:
        raise ActorUnschedulableError(never)
    reasons = enforcement.unfit(options, options.request)
    if not reasons:
        return demand
    asked = options.enforcement or enforcement.default
    unfit = Unfit(f"enforcement={asked!r}", reasons)
    return demand._replace(constraints=replace(demand.constraints, unfit=unfit))


def priority_of(record: ActorRecord) -> Priority:
    """Gives how an actor stands in line."""
    return Priority.NESTED if record.is_nested else Priority.USUAL
