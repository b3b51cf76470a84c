"""The entry point of placement: grants leases for requests, and takes them back.

A request is admitted at once or in the order of the queue (``admission``,
``wait_queue``); the ledger grants it devices (``device_pool``). Inside a placement
group it waits for a part of the group's own lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from actorlib._options.kinds import UNITS
from actorlib._options.resources import counted
from actorlib._rows.snapshot import DemandInfo, DeviceInfo
from actorlib._scheduler.admission import Admission
from actorlib._scheduler.catalogue import Catalogue
from actorlib._scheduler.explain import refusal
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.long_waits import LongWaits
from actorlib._scheduler.placement_group import GroupTable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Mapping

    from actorlib._options.resources import Resources
    from actorlib._scheduler.device_use import DeviceUse
    from actorlib._scheduler.placement_group import Group
    from actorlib._scheduler.request import LeaseRequest
    from actorlib.accelerators.base import Lease
    from actorlib.accelerators.inventory import Inventory


@final
class Scheduler:
    """Grants leases of a machine's resources in the order of the requests.

    Args:
        capacity: Everything that may be granted, devices included.
        inventory: The devices.
        declared: The names of the resources that the user has declared.
        loop: The owner's loop.
        holder_names: Returns the names of the holders of leases, by the ids of the
            lease objects.
        on_wait: Called when a request has to wait.
        may_wait: Whether a request that can never be granted waits for ever.
        use: Refuses devices that other programs use; None if there are no others.

    Attributes:
        catalogue: The names of the types and devices of the machine.
        ledger: The leases.
        admission: The requests that wait for a lease of the machine.
        groups: The placement groups, each with the requests that wait inside.
        long_waits: Logs long waits.
    """

    def __init__(
        self,
        capacity: Resources,
        inventory: Inventory,
        declared: Collection[str],
        loop: asyncio.AbstractEventLoop,
        *,
        holder_names: Callable[[], Mapping[int, str]] = dict,
        on_wait: Callable[[], None] = lambda: None,
        may_wait: bool = False,
        use: DeviceUse | None = None,
    ) -> None:
        self.loop = loop
        devices = inventory.devices
        self.catalogue = Catalogue(devices, declared)
        self.ledger = Ledger(
            capacity, devices, inventory.kinds, inventory.rejected, use
        )
        self.admission = Admission(self.ledger, loop, holder_names, on_wait)
        if use is not None:
            use.on_free = self.admission.restore
        self.long_waits = LongWaits(loop)
        self.groups = GroupTable(
            self.catalogue,
            self.admission,
            loop,
            self.long_waits,
            on_wait,
            may_wait=may_wait,
        )
        self.may_wait = may_wait

    def acquire(self, request: LeaseRequest) -> asyncio.Future[Lease]:
        """Requests a lease: granted at once, or queued from now on.

        Returns:
            The lease, now or later. The caller gives it back with :meth:`release`, or
            gives up the request with :meth:`leave`. It fails with
            ActorUnschedulableError if the group can never grant it. A request that the
            machine can never grant waits for ever and delays no other (see
            :meth:`refusal`).
        """
        if request.group is None:
            return self.admission.acquire(request)
        group = self._group_of(request)
        if group is None:
            # The group was removed meanwhile: the actor is being ended.
            return self.loop.create_future()
        return group.acquire(request)

    def release(self, lease: Lease) -> None:
        """Releases a lease and serves all requests that may be served now.

        Raises:
            LookupError: The lease is not held; nothing has changed.
        """
        if not self.groups.release(lease):
            self.admission.release(lease)

    def leave(self, pending: asyncio.Future[Lease]) -> None:
        """Abandons a request, or a lease that was granted and never used."""
        if pending.done() and not pending.cancelled() and pending.exception():
            return
        if not self.groups.leave(pending):
            self.admission.leave(pending)

    def change_constraints(
        self, pending: asyncio.Future[Lease], request: LeaseRequest
    ) -> None:
        """Changes the constraints of a waiting request; its turn stays the same.

        Nothing happens if its turn has come.
        """
        queue = self._group_of(request) or self.admission
        queue.change_constraints(pending, request.constraints)

    def requeue(self, pending: asyncio.Future[Lease]) -> None:
        """Moves a request to the end of its queue, unless its turn has come."""
        if not any(group.requeue(pending) for group in self.groups):
            self.admission.requeue(pending)

    def refusal(self, request: LeaseRequest) -> str | None:
        """Explains why a request can never be granted; None if it can, or may wait."""
        group = self._group_of(request)
        if group is not None:
            return group.infeasible or None
        _, resources, constraints, *_ = request
        if self.may_wait or self.ledger.feasible(resources, constraints):
            return None
        return self.catalogue.refusal(request) or refusal(self.ledger, request)

    def explain(
        self, request: LeaseRequest, pending: asyncio.Future[Lease] | None
    ) -> str:
        """Explains why a request is not granted now, and which others are ahead of it.

        ``pending`` is the result of :meth:`acquire`, or None for a new request.
        """
        group = self._group_of(request)
        if group is not None:
            return group.explain_member(request)
        unknown = self.catalogue.refusal(request)
        return unknown or self.admission.explain(request, pending)

    def preview(self, request: LeaseRequest) -> str:
        """Describes where a new request would be placed, or why it would wait."""
        group = self._group_of(request)
        if group is not None:
            return group.preview(request)
        return self.catalogue.refusal(request) or self.admission.preview(request)

    def grants_at_once(self, request: LeaseRequest) -> bool:
        """Whether a new request would be granted now; nothing changes."""
        if request.group is None:
            return self.admission.grants_at_once(request)
        group = self._group_of(request)
        return group is not None and group.grants_at_once(request)

    def devices(self) -> list[DeviceInfo]:
        """Lists the devices that may be granted, by kind, in index order."""
        return [
            DeviceInfo(
                device=device.id,
                kind=device.kind,
                model=device.model,
                nbytes=device.memory,
                available=pool.free(device) / UNITS,
                is_logical=device.logical,
            )
            for pool in self.ledger.pools.values()
            for device in pool.devices
        ]

    def demands(self) -> list[DemandInfo]:
        """Lists the amounts that requests wait for, equal requests together."""
        return [
            DemandInfo(
                resources=counted(resources.amounts),
                count=count,
                is_infeasible=not may,
            )
            for resources, count, may in self.admission.demands()
        ]

    def _group_of(self, request: LeaseRequest) -> Group | None:
        return None if request.group is None else self.groups.alive(request.group)
