"""The one door to placement: a request goes in, a lease comes out, and is given back.

What is asked (``catalogue``) waits in line (``admission``, ``wait_queue``) for devices
(``device_pool``) until the ledger grants a lease; inside a placement group it waits for
a part of the group's own lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._core.group_spec import ANY_BUNDLE
from actorlib._core.resources import counted
from actorlib._core.snapshot import DemandInfo
from actorlib._scheduler.admission import Admission
from actorlib._scheduler.bundles import GroupWaiter
from actorlib._scheduler.catalogue import Catalogue
from actorlib._scheduler.explain import refusal
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.long_waits import LongWaits
from actorlib._scheduler.placement_group import GroupTable
from actorlib._scheduler.request import ANYWHERE, DeviceConstraints
from actorlib._scheduler.wait_queue import Priority

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Mapping, Sequence

    from actorlib._core.group_spec import GroupSpec
    from actorlib._core.kinds import Kind
    from actorlib._core.resources import Resources
    from actorlib._scheduler.placement_group import Group
    from actorlib.accelerators.base import Device, Lease


class LeaseRequest(NamedTuple):
    """What one actor asks of the machine, or of a placement group.

    Attributes:
        label: Who asks, for messages.
        resources: How much.
        where: Of which devices.
        priority: Who has to let it pass; see ``wait_queue``.
        group: The placement group that it is to be inside, or None.
        bundle_index: In which bundle of that, or ANY_BUNDLE.
        holder: The actor's id in hex; empty for a worker of functions.
    """

    label: str
    resources: Resources
    where: DeviceConstraints = ANYWHERE
    priority: Priority = Priority.USUAL
    group: GroupSpec | None = None
    bundle_index: int = ANY_BUNDLE
    holder: str = ""

    def inside(self) -> GroupWaiter:
        """Gives the same as it is asked of a group."""
        return GroupWaiter(
            holder=self.holder,
            label=self.label,
            request=self.resources,
            where=self.where,
            index=self.bundle_index,
            priority=self.priority,
        )


@final
class Scheduler:
    """Grants leases of what a machine has, in the order in which they were asked for.

    Args:
        capacity: Everything that may be granted, devices included.
        devices: The devices that may be granted, by kind.
        kinds: Those kinds, by name.
        declared: The names of what the user says there is.
        loop: The owner's loop.
        titles: Says what the holders of leases are called, by the ids of these objects.
        on_wait: Called when somebody has to wait.
        may_wait: Whether what can never be granted waits for ever.

    Attributes:
        loop: As given.
        catalogue: What the types and devices of the machine are called.
        ledger: Who holds what.
        admission: Who waits for what of the machine.
        groups: The placement groups, each with those who wait for a part of it.
        long_waits: Says who waits for long.
    """

    def __init__(
        self,
        capacity: Resources,
        devices: Mapping[str, Sequence[Device]],
        kinds: Mapping[str, Kind],
        declared: Collection[str],
        loop: asyncio.AbstractEventLoop,
        *,
        titles: Callable[[], Mapping[int, str]] = dict,
        on_wait: Callable[[], None] = lambda: None,
        may_wait: bool = False,
    ) -> None:
        self.loop = loop
        self.catalogue = Catalogue(devices, declared)
        self.ledger = Ledger(capacity, devices, kinds)
        self.admission = Admission(self.ledger, loop, titles, on_wait)
        self.long_waits = LongWaits(loop)
        self.groups = GroupTable(
            self.catalogue,
            self.admission,
            loop,
            self.long_waits,
            on_wait,
            may_wait=may_wait,
        )
        self._may_wait = may_wait

    def acquire(self, request: LeaseRequest) -> asyncio.Future[Lease]:
        """Asks for a lease: granted at once, or in line from now on.

        Returns:
            The lease, now or later. Whoever takes it gives it to :meth:`release`;
            whoever wants it no more says so to :meth:`leave`. It fails with
            ActorUnschedulableError if the group can never give it; what the machine
            can never give waits for ever and holds nobody up (see :meth:`refusal`).
        """
        label, resources, where, priority, *_ = request
        if request.group is None:
            return self.admission.enter(label, resources, where, priority)
        group = self._group_of(request)
        if group is None:
            # It was removed while this one waited for another: it is being ended.
            return self.loop.create_future()
        return group.enter(request.inside())

    def release(self, lease: Lease) -> None:
        """Gives a lease back and lets everyone go who may go now.

        Raises:
            LookupError: The lease is not held; nothing has changed.
        """
        if not self.groups.release(lease):
            self.admission.release(lease)

    def leave(self, pending: asyncio.Future[Lease]) -> None:
        """Gives up a place in line, or a lease that was granted and never taken.

        Args:
            pending: What :meth:`acquire` gave.
        """
        if pending.done() and not pending.cancelled() and pending.exception():
            return
        if not self.groups.leave(pending):
            self.admission.leave(pending)

    def wish_anew(self, pending: asyncio.Future[Lease], request: LeaseRequest) -> None:
        """Wishes for other devices than before; the place in line stays the same.

        Args:
            pending: What :meth:`acquire` gave; nothing happens if its turn has come.
            request: What is asked now.
        """
        line = self._group_of(request) or self.admission
        line.wish_anew(pending, request.where)

    def queue_anew(self, pending: asyncio.Future[Lease]) -> None:
        """Goes to the end of the line; nothing happens if its turn has come.

        Args:
            pending: What :meth:`acquire` gave.
        """
        if not any(group.queue_anew(pending) for group in self.groups):
            self.admission.queue_anew(pending)

    def refusal(self, request: LeaseRequest) -> str | None:
        """Says why a request can never be granted; None if it can, or may wait."""
        group = self._group_of(request)
        if group is not None:
            return group.infeasible or None
        label, resources, where, *_ = request
        if self._may_wait or self.ledger.feasible(resources, where):
            return None
        unknown = self.catalogue.refusal(label, resources)
        return unknown or refusal(self.ledger, label, resources, where)

    def explain(
        self, request: LeaseRequest, pending: asyncio.Future[Lease] | None
    ) -> str:
        """Says why a request is not granted now, and who is ahead of it.

        Args:
            request: What is asked.
            pending: What :meth:`acquire` gave for it; None for a newcomer.
        """
        group = self._group_of(request)
        if group is not None:
            return group.explain_member(request.inside())
        label, resources, where, *_ = request
        unknown = self.catalogue.refusal(label, resources)
        return unknown or self.admission.explain(label, resources, where, pending)

    def survey(self, request: LeaseRequest) -> str:
        """Says where a newcomer's request would go, or what stands in its way."""
        label, resources, where, *_ = request
        group = self._group_of(request)
        if group is not None:
            return group.survey(label, resources, where, request.bundle_index)
        unknown = self.catalogue.refusal(label, resources)
        return unknown or self.admission.survey(label, resources, where)

    def demands(self) -> list[DemandInfo]:
        """Lists what those in line ask for, equal requests together."""
        return [
            DemandInfo(
                resources=counted(request.amounts), count=count, is_infeasible=not may
            )
            for request, count, may in self.admission.demands()
        ]

    def _group_of(self, request: LeaseRequest) -> Group | None:
        return None if request.group is None else self.groups.alive(request.group)
