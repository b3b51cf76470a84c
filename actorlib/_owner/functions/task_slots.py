"""Gives workers of functions their slots: from the machine, or a placement group.

A slot is the share that a call holds while it runs.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, final

from actorlib._base.ids import ActorId
from actorlib._options.resources import CPU, Resources
from actorlib._scheduler.request import LeaseRequest, Priority
from actorlib.exceptions import TaskPlacementGroupRemoved, TaskUnschedulableError

if TYPE_CHECKING:
    import asyncio

    from actorlib._options.group_spec import GroupSpec
    from actorlib._scheduler.catalogue import Demand
    from actorlib._scheduler.placement_group import GroupTable
    from actorlib._scheduler.scheduler import Scheduler
    from actorlib.accelerators.base import Lease

PendingLease: TypeAlias = "asyncio.Future[Lease]"
"""A place in line: the lease, now or later."""


class Slots(Protocol):
    """Gives the workers of one queue their slots."""

    def error(self) -> Exception | None:
        """Gives why there never will be one, or never again; None if there may be."""
        ...

    def acquire(self, label: str, *, is_nested: bool) -> PendingLease:
        """Asks for a slot: done at once, or when its turn has come.

        Args:
            label: For whom, for messages.
            is_nested: Whether it is for a call that a worker has made.
        """
        ...

    def explain(self, label: str, pending: PendingLease) -> str:
        """Says why there is no slot yet.

        Args:
            label: For whom.
            pending: What ``acquire`` gave.
        """
        ...

    def mark_transient(self, lease: Lease) -> None:
        """Marks a lease as one that comes back soon: a call runs with it now."""
        ...

    def leave(self, pending: PendingLease) -> None:
        """Gives up a request, or a slot that was not taken."""
        ...

    def release(self, lease: Lease) -> None:
        """Takes a slot back."""
        ...

    def release_cpus(self, lease: Lease) -> Lease:
        """Takes the CPUs of a call back that waits; gives what it keeps."""
        ...

    def reacquire(
        self, label: str, cpus: int, lease: Lease | None
    ) -> PendingLease | None:
        """Asks for the CPUs of a call that goes on; None if they may never come.

        Args:
            label: Which function, for messages.
            cpus: How many units of them.
            lease: What it has kept, if that was anything.
        """
        ...

    def merge(self, lease: Lease, cpus: Lease) -> Lease:
        """Makes one lease of what a function has kept and what it got back."""
        ...

    def others_wait(self, own: int) -> bool:
        """Whether more requests wait than so many."""
        ...


@final
class MachineSlots:
    """Gives slots of the machine, in line with everybody else; see Slots.

    Args:
        scheduler: Grants shares of the machine.
        demand: What a slot is.
    """

    def __init__(self, scheduler: Scheduler, demand: Demand) -> None:
        self._ledger = scheduler.ledger
        self._admission = scheduler.admission
        self._demand = demand

    def error(self) -> None:
        """Gives None: what can never be given is refused before; see Slots."""

    def acquire(self, label: str, *, is_nested: bool) -> PendingLease:
        """Asks for a slot; see Slots."""
        priority = Priority.NESTED if is_nested else Priority.USUAL
        return self._admission.acquire(label, *self._demand, priority)

    def explain(self, label: str, pending: PendingLease) -> str:
        """Says why there is no slot yet; see Slots."""
        return self._admission.explain(label, *self._demand, pending)

    def mark_transient(self, lease: Lease) -> None:
        """Marks a lease as one that comes back soon; see Slots."""
        self._ledger.mark_transient(lease)

    def leave(self, pending: PendingLease) -> None:
        """Gives up a request; see Slots."""
        self._admission.leave(pending)
        if not pending.done():
            pending.cancel()  # else the log would say that it waits

    def release(self, lease: Lease) -> None:
        """Takes a slot back; see Slots."""
        self._admission.release(lease)

    def release_cpus(self, lease: Lease) -> Lease:
        """Takes the CPUs back; see Slots."""
        return self._admission.release_part(lease, CPU)

    def reacquire(
        self, label: str, cpus: int, lease: Lease | None
    ) -> PendingLease | None:
        """Asks for the CPUs; see Slots."""
        del lease
        request = Resources.of({CPU: cpus})
        if not self._ledger.could_free_up(request):
            return None  # an actor has them, which may be who this one waited for
        return self._admission.acquire(label, request, priority=Priority.RESUMED)

    def merge(self, lease: Lease, cpus: Lease) -> Lease:
        """Makes one lease of two; see Slots."""
        return self._ledger.merge(lease, cpus)

    def others_wait(self, own: int) -> bool:
        """Whether more requests wait than so many; see Slots."""
        return len(self._admission) > own


@final
class GroupSlots:
    """Gives slots in the bundles of a placement group; see Slots.

    Who waits for one is a member of the group, so that its removal ends the wait.

    Args:
        groups: The groups of the runtime.
        spec: The group.
        label: What is run, for messages.
        demand: What a slot is.
        index: In which bundle, or -1 for any.
    """

    def __init__(
        self,
        groups: GroupTable,
        spec: GroupSpec,
        label: str,
        demand: Demand,
        index: int,
    ) -> None:
        self._groups = groups
        self._spec = spec
        self._demand = demand
        self._index = index
        self._usual = self._request(label)
        self._members: dict[PendingLease, ActorId] = {}
        self._numbers = itertools.count(1)

    def error(self) -> Exception | None:
        """Gives why there never will be one, or never again; see Slots."""
        group = self._groups.alive(self._spec)
        if group is None:
            return TaskPlacementGroupRemoved(
                f"{self._usual.label} is not run: {self._spec.label} was removed"
            )
        never = group.infeasible or group.refusal_of(self._usual)
        return TaskUnschedulableError(never) if never else None

    def acquire(self, label: str, *, is_nested: bool) -> PendingLease:
        """Asks for a slot; see Slots."""
        request = self._request(label)
        return self._enter(
            request._replace(priority=Priority.NESTED) if is_nested else request
        )

    def _enter(self, request: LeaseRequest) -> PendingLease:
        group = self._groups.alive(self._spec)
        assert group is not None  # else there is an error
        pending = group.acquire(request)
        if pending.done():
            return pending
        member = ActorId(b"%x/%d" % (id(self), next(self._numbers)))
        self._members[pending] = member
        group.members[member] = partial(_removed, pending)
        pending.add_done_callback(self._settled)
        return pending

    def _settled(self, pending: PendingLease) -> None:
        """Ends a membership: the request is granted, or never will be."""
        member = self._members.pop(pending, None)
        group = self._groups.find(self._spec.id)
        if member is not None and group is not None:
            group.remove_member(member)

    def leave(self, pending: PendingLease) -> None:
        """Gives up a request; see Slots."""
        if not pending.done():
            pending.cancel()
        if pending.cancelled() or pending.exception() is None:
            self._groups.leave(pending)

    def release(self, lease: Lease) -> None:
        """Takes a slot back; see Slots."""
        self._groups.release(lease)

    def explain(self, label: str, pending: PendingLease) -> str:
        """Says why there is no slot yet; see Slots."""
        del pending
        group = self._groups.alive(self._spec)
        assert group is not None  # else nobody would wait any more
        return group.explain_member(self._request(label))

    def mark_transient(self, lease: Lease) -> None:
        """Does nothing: in a group nested calls wait for nobody else; see Slots."""

    def release_cpus(self, lease: Lease) -> Lease:
        """Takes the CPUs back; see Slots."""
        cpus, rest = self._groups.split(lease, CPU)
        self._groups.release(cpus)
        return rest

    def reacquire(
        self, label: str, cpus: int, lease: Lease | None
    ) -> PendingLease | None:
        """Asks for the CPUs, in the same bundle; see Slots."""
        request = LeaseRequest(
            label=label,
            resources=Resources.of({CPU: cpus}),
            bundle_index=self._index if lease is None else self._groups.index_of(lease),
            priority=Priority.RESUMED,
        )
        return self._enter(request)

    def merge(self, lease: Lease, cpus: Lease) -> Lease:
        """Makes one lease of two; see Slots."""
        return self._groups.merge(lease, cpus)

    def others_wait(self, own: int) -> bool:
        """Whether more requests wait than so many; see Slots."""
        group = self._groups.alive(self._spec)
        return group is not None and group.waiting > own

    def _request(self, label: str) -> LeaseRequest:
        return LeaseRequest(
            label=label,
            resources=self._demand.resources,
            constraints=self._demand.constraints,
            bundle_index=self._index,
        )


def _removed(pending: PendingLease, _: str) -> None:
    """Cancels a request, as the group is no more; see ``error``."""
    pending.cancel()
