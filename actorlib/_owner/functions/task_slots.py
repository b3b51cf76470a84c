"""Slots of the workers of functions, from the machine or a placement group.

A slot is the share that a call holds while it runs.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, final

from actorlib._base.ids import ActorId
from actorlib._options.resources import CPU, Resources
from actorlib._scheduler.request import LeaseRequest, Origin
from actorlib.exceptions import TaskPlacementGroupRemoved, TaskUnschedulableError

if TYPE_CHECKING:
    import asyncio

    from actorlib._options.group_spec import GroupSpec
    from actorlib._scheduler.catalogue import Demand
    from actorlib._scheduler.placement_group import GroupTable
    from actorlib._scheduler.scheduler import Scheduler
    from actorlib.accelerators.base import Lease

PendingLease: TypeAlias = "asyncio.Future[Lease]"
"""A request in the queue: the lease, now or later."""


@final
class MachineSlots:
    """Grants slots of the machine to one queue, in line with all other requests.

    Attributes:
        priority: The priority of the calls.
    """

    def __init__(self, scheduler: Scheduler, demand: Demand, priority: int) -> None:
        self._ledger = scheduler.ledger
        self._admission = scheduler.admission
        self._demand = demand
        self.priority = priority

    def error(self) -> Exception | None:
        """Returns why no slot will ever be granted; None if one may be."""
        return None

    def acquire(self, label: str, *, is_nested: bool) -> PendingLease:
        """Requests a slot; the future is done at once, or when its turn has come."""
        origin = Origin.NESTED if is_nested else Origin.USUAL
        request = LeaseRequest(label, *self._demand, origin, self.priority)
        return self._admission.acquire(request)

    def explain(self, label: str, pending: PendingLease) -> str:
        """Returns why there is no slot yet for a call that a label names."""
        return self._admission.explain(LeaseRequest(label, *self._demand), pending)

    def mark_transient(self, lease: Lease) -> None:
        """Marks a lease as returning soon: a call runs with it now."""
        self._ledger.mark_transient(lease)

    def leave(self, pending: PendingLease) -> None:
        """Cancels a request, or returns a slot that was not used."""
        self._admission.leave(pending)
        if not pending.done():
            pending.cancel()  # else the log would say that it waits

    def release(self, lease: Lease) -> None:
        self._admission.release(lease)

    def release_cpus(self, lease: Lease) -> Lease:
        """Returns the CPUs of a call that waits; returns the rest of its lease."""
        return self._admission.release_part(lease, CPU)

    def reacquire(
        self, label: str, cpus: int, lease: Lease | None
    ) -> PendingLease | None:
        """Requests the CPUs of a call that goes on; None if they may never come.

        Args:
            label: Names the function, for messages.
            cpus: The units of CPUs.
            lease: The lease that it has kept, if any.
        """
        del lease
        resources = Resources.of({CPU: cpus})
        if not self._ledger.could_free_up(resources):
            return None  # an actor has them, perhaps the one that this call waits for
        request = LeaseRequest(label, resources, origin=Origin.RESUMED)
        return self._admission.acquire(request)

    def merge(self, lease: Lease, cpus: Lease) -> Lease:
        """Merges the lease that a call has kept with the CPUs that it got back."""
        return self._ledger.merge(lease, cpus)

    def others_wait(self, own: int) -> bool:
        """Whether more requests than ``own`` wait."""
        return len(self._admission) > own

    def others_come_first(self, own: int) -> bool:
        """Whether more than ``own`` wait that have no lower priority than the calls."""
        return self._admission.has_more_than(own, self.priority)


@final
class GroupSlots:
    """Grants slots in the bundles of a placement group; see MachineSlots.

    A request that waits is a member of the group, so that removing the group ends the
    wait.
    """

    def __init__(
        self,
        groups: GroupTable,
        spec: GroupSpec,
        label: str,
        demand: Demand,
        index: int,
        priority: int,
    ) -> None:
        self.priority = priority
        self._groups = groups
        self._spec = spec
        self._demand = demand
        self._index = index
        self._usual = self._request(label)
        self._members: dict[PendingLease, ActorId] = {}
        self._numbers = itertools.count(1)

    def error(self) -> Exception | None:
        group = self._groups.alive(self._spec)
        if group is None:
            return TaskPlacementGroupRemoved(
                f"{self._usual.label} is not run: {self._spec.label} was removed"
            )
        never = group.infeasible or group.refusal_of(self._usual)
        return TaskUnschedulableError(never) if never else None

    def acquire(self, label: str, *, is_nested: bool) -> PendingLease:
        request = self._request(label)
        return self._enter(
            request._replace(origin=Origin.NESTED) if is_nested else request
        )

    def _enter(self, request: LeaseRequest) -> PendingLease:
        group = self._groups.alive(self._spec)
        assert group is not None  # else ``error`` returns one
        pending = group.acquire(request)
        if pending.done():
            return pending
        member = ActorId(b"%x/%d" % (id(self), next(self._numbers)))
        self._members[pending] = member
        group.members[member] = partial(_removed, pending)
        pending.add_done_callback(self._settled)
        return pending

    def _settled(self, pending: PendingLease) -> None:
        """Removes the member of a request that is granted, or never will be."""
        member = self._members.pop(pending, None)
        group = self._groups.find(self._spec.id)
        if member is not None and group is not None:
            group.remove_member(member)

    def leave(self, pending: PendingLease) -> None:
        if not pending.done():
            pending.cancel()
        if pending.cancelled() or pending.exception() is None:
            self._groups.leave(pending)

    def release(self, lease: Lease) -> None:
        self._groups.release(lease)

    def explain(self, label: str, pending: PendingLease) -> str:
        del pending
        group = self._groups.alive(self._spec)
        assert group is not None  # else no request would wait
        return group.explain_member(self._request(label))

    def mark_transient(self, lease: Lease) -> None:
        """Does nothing: in a group, nested calls wait for no other request."""

    def release_cpus(self, lease: Lease) -> Lease:
        cpus, rest = self._groups.split(lease, CPU)
        self._groups.release(cpus)
        return rest

    def reacquire(
        self, label: str, cpus: int, lease: Lease | None
    ) -> PendingLease | None:
        request = LeaseRequest(
            label=label,
            resources=Resources.of({CPU: cpus}),
            bundle_index=self._index if lease is None else self._groups.index_of(lease),
            origin=Origin.RESUMED,
        )
        group = self._groups.alive(self._spec)
        if group is not None and not group.bundles.could_free_up(request):
            return None  # see MachineSlots
        return self._enter(request)

    def merge(self, lease: Lease, cpus: Lease) -> Lease:
        return self._groups.merge(lease, cpus)

    def others_wait(self, own: int) -> bool:
        group = self._groups.alive(self._spec)
        return group is not None and group.waiting > own

    def others_come_first(self, own: int) -> bool:
        group = self._groups.alive(self._spec)
        return group is not None and group.has_more_than(own, self.priority)

    def _request(self, label: str) -> LeaseRequest:
        return LeaseRequest(
            label=label,
            resources=self._demand.resources,
            constraints=self._demand.constraints,
            priority=self.priority,
            bundle_index=self._index,
        )


Slots: TypeAlias = MachineSlots | GroupSlots


def _removed(pending: PendingLease, _: str) -> None:
    """Cancels a request, as the group was removed; ``error`` gives the reason."""
    pending.cancel()
