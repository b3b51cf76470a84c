"""Placement of actors: their requests, their wait in line, and their leases.

``ActorPlacer`` makes the request of an actor from its options and the current state,
the scheduler's ``acquire`` has it wait in line, and ``ActorPlacement`` holds the lease
until it is returned.

A wish may refer to another actor: to be near it, or apart from it. It is resolved when
that actor has a place, and again when that actor dies while the request waits. The
resolved request is kept, so that all explanations of the wait name the same devices.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._base.ids import ActorId
from actorlib._base.notifier import Notifier
from actorlib._owner.actors.actor_record import ActorState
from actorlib._scheduler.request import LeaseRequest, Origin, Unfit, untyped
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
    """One actor's share of the machine, from its place in line until it is returned.

    Attributes:
        record: The record of the actor, which holds its lease.
        pending: The lease that it waits for or was granted, once it is in line.
        waits_for_neighbours: Whether it is not in line yet, as an actor that it has to
            be near to, or apart from, has no place.
        returns_to: The devices that a new lease has to be of; None for any.
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
        """The lease, from its grant until it is returned."""
        pending = self.pending
        if self.record.lease is not None or pending is None or not pending.done():
            return self.record.lease
        has_failed = pending.cancelled() or pending.exception() is not None
        return None if has_failed else pending.result()

    @property
    def is_awaited(self) -> bool:
        """Whether the actor has no lease, and may get one."""
        ends = self.record.state in (ActorState.DRAINING, ActorState.DEAD)
        return not ends and self.lease is None

    def settled(self) -> asyncio.Future[None]:
        """Returns a future that is done when the actor has a lease, or never will."""
        if self.is_awaited:
            return self._settled.wait()
        settled: asyncio.Future[None] = self._scheduler.loop.create_future()
        settled.set_result(None)
        return settled

    def begin(self) -> None:
        """Gets in line, unless it has to wait for neighbours first."""
        self.waits_for_neighbours = self._placer.awaits_neighbours(self.record.options)
        if not self.waits_for_neighbours:
            self.pending = self._placer.acquire(self)

    @property
    def drain(self) -> Drain | None:
        """The drain that delays the next grant of this lease, or None.

        While it lasts, no actor gets the lease, not even the restarted one.
        """
        gpus, process = self._placer.gpus, self.record.process
        if gpus is None or process is None:
            return None
        if process.exited.done():
            # A task that awaits the end of a process may continue before the callback
            # that begins the drain.
            gpus.drain_worker(process)
        return gpus.drains.of(process)

    def device_memory(self) -> dict[str, int]:
        """Returns the bytes that the worker used of its devices; see GpuWatch."""
        gpus = self._placer.gpus
        return {} if gpus is None else gpus.used(self.record.process)

    def who_has_what(self) -> str:
        """Describes the users of its devices at the last check; may be empty."""
        gpus = self._placer.gpus
        return "" if gpus is None else gpus.who_has_what(self.record.process)

    async def granted(self) -> Lease:
        """Waits for the lease, and returns it; returns at once if it was kept.

        Cancelled: the request or the lease is left to ``give_back``.
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
        """Moves to the end of the line; False if it is not in line."""
        if self.pending is None or self.pending.done():
            return False
        self._scheduler.requeue(self.pending)
        return True

    def take(self, lease: Lease) -> None:
        """Holds a lease from now on."""
        self.record.lease = lease
        self._settled.notify()

    def give_back(self) -> None:
        """Returns the lease as soon as it has drained, or leaves the line."""
        lease, pending, drain = self.record.lease, self.pending, self.drain
        self.record.lease = self.pending = None
        if lease is not None and drain is not None:
            drain.hold(lease, self._scheduler.release)
        elif lease is not None:
            self._scheduler.release(lease)
        elif pending is not None:
            self._scheduler.leave(pending)
            pending.cancel()  # unless it is done; otherwise its wait would be logged

    def set_aside(self) -> None:
        """Returns the lease, as the worker's state was moved off its devices."""
        lease, gpus, process = self.record.lease, self._placer.gpus, self.record.process
        if lease is None:
            return
        self.returns_to = frozenset(share.device for share in lease.shares)
        if gpus is not None and process is not None:
            gpus.drain_worker(
                process
            )  # no actor gets it before the driver has freed it
        self.give_back()

    def granted_again(self) -> asyncio.Future[Lease]:
        """Gets in line for the devices that it had before it was set aside.

        Returns:
            The lease, now or later. It fails with ActorUnschedulableError if it can
            never be granted.
        """
        self.pending = self._placer.acquire(self)
        return self.pending

    def devices_in_words(self) -> str:
        """Names the devices that it holds or returns to: ``GPU 0``."""
        lease = self.record.lease
        devices: Iterable[Device] = self.returns_to or ()
        if lease is not None:
            devices = [share.device for share in lease.shares]
        return ", ".join(f"{device.kind} {device.id}" for device in devices)

    def give_up(self) -> None:
        """Wakes the actors that wait for its lease, as it never gets one."""
        self.waits_for_neighbours = False
        self._settled.notify()


@final
class ActorPlacer:
    """Makes and places the requests of all actors of a runtime.

    Attributes:
        scheduler: Grants leases.
        gpus: Watches workers on devices that NVML knows; None without such devices.
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
        """The shares that are held back until the driver has freed their memory."""
        return () if self.gpus is None else self.gpus.drains

    def open(self, record: ActorRecord) -> ActorPlacement:
        """Makes the placement of an actor that is not in line yet."""
        placement = self._placements[record.id] = ActorPlacement(record, self)
        return placement

    def forget(self, record: ActorRecord) -> None:
        """Forgets a dead actor; resolves waiting requests that refer to it again."""
        actor = record.id
        self._placements.pop(actor, None)
        self._requests.pop(actor, None)
        for neighbour in self._neighbours_of(record.options):
            self._wishers.get(neighbour.record.id, {}).pop(actor, None)
        for wisher in self._wishers.pop(actor, {}).values():
            self._resolve_again(wisher)

    def awaits_neighbours(self, options: ActorOptions) -> bool:
        """Whether actors that a wish refers to have no place yet."""
        return any(neighbour.is_awaited for neighbour in self._neighbours_of(options))

    async def neighbours(self, options: ActorOptions) -> None:
        """Waits until the actors that a wish refers to have a place, or are dead."""
        while self.awaits_neighbours(options):
            for neighbour in self._neighbours_of(options):
                await neighbour.settled()

    def refusal(self, record: ActorRecord) -> str | None:
        """Returns why an actor can never be placed; None if it can, or may wait."""
        try:
            self._settle(record)
        except ActorUnschedulableError as error:
            return str(error)
        return None

    def acquire(self, placement: ActorPlacement) -> asyncio.Future[Lease]:
        """Requests an actor's lease: granted at once, or when its turn has come.

        It fails with ActorUnschedulableError if that turn can never come.
        """
        record, scheduler = placement.record, self.scheduler
        options = record.options
        request = self._requests.get(record.id)
        if request is None or options.near_to or options.apart:
            # The other actor may have moved or died since the wish was resolved.
            try:
                request = self._settle(record)
            except ActorUnschedulableError as error:
                failed: asyncio.Future[Lease] = scheduler.loop.create_future()
                failed.set_exception(error)
                return failed
        for neighbour in self._neighbours_of(options):
            wishers = self._wishers.setdefault(neighbour.record.id, {})
            wishers[record.id] = placement
        pending = scheduler.acquire(_limit_devices(request, placement))
        if record.is_actor and not pending.done():
            group = options.group and options.group.id
            kind = record.called.class_name, str(request.resources), group
            name = record.label if options.name else f"{record.label} {record.id.hex()}"
            scheduler.long_waits.add(
                pending, kind, lambda: self.explain(placement), name
            )
        return pending

    def explain(self, placement: ActorPlacement) -> str:
        """Returns why an actor in line waits."""
        request = _limit_devices(self._requests[placement.record.id], placement)
        return self.scheduler.explain(request, placement.pending)

    def survey(self, label: str, options: ActorOptions) -> str:
        """Returns where an actor would be placed now, or what prevents it."""
        request = self._new_request(label, options)
        return request if isinstance(request, str) else self.scheduler.preview(request)

    def shortage(self, label: str, options: ActorOptions) -> str:
        """Returns why an actor would not be placed at once; empty if it would."""
        request = self._new_request(label, options)
        if isinstance(request, str):
            return request
        if self.scheduler.grants_at_once(request):
            return ""
        return self.scheduler.preview(request)

    def _new_request(self, label: str, options: ActorOptions) -> LeaseRequest | str:
        """Makes the request of an actor, or returns why there can be none now."""
        group = options.group
        if group is not None and self.scheduler.groups.alive(group) is None:
            return f"{label} cannot be placed: {group.label} was removed"
        if self.awaits_neighbours(options):
            return f"{label} would wait until the actors that it names are placed"
        try:
            return self._request(label, options)
        except ActorUnschedulableError as error:
            return str(error)

    def _resolve_again(self, placement: ActorPlacement) -> None:
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
        self.scheduler.change_constraints(pending, _limit_devices(request, placement))

    def _settle(self, record: ActorRecord) -> LeaseRequest:
        """Resolves and keeps the request of an actor.

        Raises:
            ActorUnschedulableError: It can never be granted, and may not wait.
        """
        request = self._request_of(record)
        never = self.scheduler.refusal(request)
        if never is not None:
            raise ActorUnschedulableError(never)
        self._requests[record.id] = request
        return request

    def _request_of(self, record: ActorRecord) -> LeaseRequest:
        holder = record.id.hex() if record.is_actor else ""
        origin = Origin.NESTED if record.is_nested else Origin.USUAL
        return self._request(record.label, record.options, origin, holder)

    def _request(
        self,
        label: str,
        options: ActorOptions,
        origin: Origin = Origin.USUAL,
        holder: str = "",
    ) -> LeaseRequest:
        """Makes the request of an actor with these options.

        Raises:
            ActorUnschedulableError: It names a device or an actor that does not exist,
                or an enforcement that no device can have.
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
            demand = exclude_unfit(self._enforcement, label, options, demand)
        resources, constraints = demand
        if options.group is not None:
            resources = untyped(resources)
        return LeaseRequest(
            label=label,
            resources=resources,
            constraints=constraints,
            origin=origin,
            priority=options.priority,
            group=options.group,
            bundle_index=options.placement_group_bundle_index,
            holder=holder,
        )

    def _lease_of(self, actor: bytes) -> Lease | None:
        placement = self._placements.get(ActorId(actor))
        return None if placement is None else placement.lease

    def _neighbours_of(self, options: ActorOptions) -> list[ActorPlacement]:
        if not (options.near or options.apart_from):
            return []
        actors = (ActorId(actor) for actor in (*options.near_to, *options.apart))
        return [self._placements[one] for one in actors if one in self._placements]


def _limit_devices(request: LeaseRequest, placement: ActorPlacement) -> LeaseRequest:
    """Limits the request of an actor to the devices that it returns to, if any."""
    if placement.returns_to is None:
        return request
    only = replace(request.constraints, only=placement.returns_to)
    return request._replace(constraints=only)


def exclude_unfit(
    enforcement: Enforcement, label: str, options: ActorOptions, demand: Demand
) -> Demand:
    """Excludes the devices that cannot have the requested enforcement.

    Raises:
        ActorUnschedulableError: No device can have it; with the reasons.
    """
    if not (options.enforcement or options.tunes_enforcement or enforcement.is_named):
        return demand
    never = enforcement.refusal(label, options, options.request)
    if never is not None:
        raise ActorUnschedulableError(never)
    reasons = enforcement.unfit(options, options.request)
    if not reasons:
        return demand
    word = options.enforcement or enforcement.default
    unfit = Unfit(f"enforcement={word!r}", reasons)
    return demand._replace(constraints=replace(demand.constraints, unfit=unfit))
