"""Placement groups: reserved as one, used by the actors inside, given back as one.

A group is one request to the admission, and one lease. ``bundles`` grants parts of it
to the actors and functions inside. The lease is given back when the group is removed
and the last process inside is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from actorlib._base.ids import ActorId, maker_of
from actorlib._base.notifier import Notifier
from actorlib._options.kinds import UNITS
from actorlib._options.resources import counted
from actorlib._rows.snapshot import BundleInfo, GroupInfo
from actorlib._scheduler.bundles import Bundles, divide_lease
from actorlib._scheduler.explain import (
    describe_share,
    group_refusal,
    group_shortage,
    member_refusal,
    member_shortage,
)
from actorlib._scheduler.request import LeaseRequest, Origin
from actorlib._scheduler.waiting_order import Waiter, by_number, enter, first_number
from actorlib.accelerators.base import Lease
from actorlib.exceptions import (
    ActorUnschedulableError,
    PlacementGroupAlreadyExistsError,
    PlacementGroupNotFoundError,
    PlacementGroupRemovedError,
    PlacementGroupUnschedulableError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from actorlib._options.group_spec import GroupId, GroupSpec
    from actorlib._scheduler.admission import Admission
    from actorlib._scheduler.catalogue import Catalogue
    from actorlib._scheduler.long_waits import LongWaits
    from actorlib._scheduler.request import DeviceConstraints


@final
class Group:
    """One placement group, from its request until it is forgotten.

    Attributes:
        removal: The reason of its removal, or the empty string.
        members: Ends each actor inside, by id.
        infeasible: Why it can never be reserved; empty if it can, or may wait.
    """

    def __init__(self, spec: GroupSpec, table: GroupTable, origin: Origin) -> None:
        self.spec = spec
        self.removal = ""
        self.members: dict[ActorId, Callable[[str], None]] = {}
        self._table = table
        self._admission = table.admission
        self._ready = Notifier(table.loop)
        self._removed = Notifier(table.loop)
        self._waiting: dict[asyncio.Future[Lease], Waiter] = {}
        self._bundles: Bundles | None = None
        self._pending: asyncio.Future[Lease] | None = None
        demand = table.catalogue.demand_of_group(spec.amounts, spec.strategy)
        self._request = LeaseRequest(spec.label, *demand, origin, spec.priority)
        self.infeasible = "" if table.may_wait else self._refusal()

    def _refusal(self) -> str:
        ledger, request = self._admission.ledger, self._request
        unknown = self._table.catalogue.refusal(request)
        return unknown or group_refusal(ledger, request) or ""

    def begin(self) -> None:
        """Requests its lease, unless it can never be reserved."""
        if self.infeasible:
            return
        pending = self._pending = self._admission.acquire(self._request)
        if pending.done():
            self._created(pending)
        else:
            pending.add_done_callback(self._created)
            spec = self.spec
            self._table.long_waits.add(pending, spec.id, self.explain, spec.label)

    def _created(self, pending: asyncio.Future[Lease]) -> None:
        bundles = self._request.constraints.bundles
        if self.removal or pending.cancelled() or bundles is None:
            return
        leases = divide_lease(bundles, pending.result())
        self._bundles = Bundles(leases, self._admission.ledger.pools)
        self._ready.notify()
        for waiting in list(self._waiting):
            self._fail_if_never(waiting)
        self._serve()

    @property
    def lease(self) -> Lease | None:
        """The lease of all its bundles; None before it is reserved."""
        return self._pending.result() if self._pending and self._bundles else None

    @property
    def state(self) -> str:
        """Its state, in Ray's words."""
        if self.removal:
            return "REMOVED"
        if self.infeasible:
            return "INFEASIBLE"
        return "PENDING" if self._bundles is None else "CREATED"

    @property
    def error(self) -> Exception | None:
        """The error for waiting callers, if it was removed or is infeasible."""
        if self.removal:
            message = f"{self.spec.label} was removed: {self.removal}"
            return PlacementGroupRemovedError(message)
        if self.infeasible:
            return PlacementGroupUnschedulableError(self.infeasible)
        return None

    def ready(self) -> asyncio.Future[None]:
        """Returns a future that is done when it is reserved, or fails if never."""
        waiter = self._ready.wait()
        if self._bundles is not None and not self.removal:
            self._ready.notify()
        else:
            self._fail_waiters()
        return waiter

    def _fail_waiters(self) -> None:
        error = self.error
        if error is not None:
            self._ready.notify(lambda: type(error)(str(error)))

    # The members.

    def acquire(self, request: LeaseRequest) -> asyncio.Future[Lease]:
        """Requests a part of a bundle: granted at once, or when its turn has come."""
        pending: asyncio.Future[Lease] = self._table.loop.create_future()
        if self.infeasible:
            pending.set_exception(ActorUnschedulableError(self.infeasible))
            return pending
        self._enter(pending, request)
        if self._bundles is not None and not self.removal:
            self._fail_if_never(pending)
            self._serve()
            if not pending.done():
                self._table.on_wait()
        return pending

    def _enter(self, pending: asyncio.Future[Lease], request: LeaseRequest) -> None:
        self._waiting[pending] = enter(self._waiting.values(), request)

    def grants_at_once(self, request: LeaseRequest) -> bool:
        """Whether a new request would be granted now; nothing changes."""
        if self._bundles is None:
            return False
        waiters = [
            Waiter(waiter.number, waiter.request)
            for pending, waiter in self._waiting.items()
            if not pending.done()
        ]
        new = enter(waiters, request)
        in_order = sorted([*waiters, new], key=by_number)
        granted = self._bundles.serve([waiter.request for waiter in in_order])
        for _, lease in granted:
            self._bundles.give_back(lease)
        return any(in_order[place] is new for place, _ in granted)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def has_more_than(self, count: int, priority: int) -> bool:
        """Whether more than so many requests wait that are not below a priority."""
        limit = first_number(priority - 1)
        return sum(each.number < limit for each in self._waiting.values()) > count

    def change_constraints(
        self, pending: asyncio.Future[Lease], constraints: DeviceConstraints
    ) -> None:
        """Changes the constraints of a waiting request; its turn stays the same."""
        waiter = self._waiting.get(pending)
        if waiter is not None:  # perhaps before the group itself is reserved
            waiter.request = waiter.request._replace(constraints=constraints)
            self._fail_if_never(pending)
            self._serve()

    def requeue(self, pending: asyncio.Future[Lease]) -> bool:
        """Moves a request behind those of its priority; False if it is not here."""
        waiter = self._waiting.pop(pending, None)
        if waiter is None:
            return False
        self._enter(pending, waiter.request)
        self._serve()
        return True

    def leave(self, pending: asyncio.Future[Lease]) -> bool:
        """Abandons a waiting request; False if it does not wait here."""
        if self._waiting.pop(pending, None) is None:
            return False
        self._serve()
        return True

    @property
    def bundles(self) -> Bundles:
        """The bundles of a group that is reserved."""
        assert self._bundles is not None
        return self._bundles

    def release(self, lease: Lease) -> None:
        """Releases a member's lease: it is free for other members."""
        self.bundles.give_back(lease)
        self._serve()
        self._give_back()

    def remove_member(self, actor: ActorId) -> None:
        """Removes a dead actor that has given its lease back."""
        self.members.pop(actor, None)
        self._give_back()

    def preview(self, request: LeaseRequest) -> str:
        return self.refusal_of(request) or self.explain_member(request)

    def explain_member(self, request: LeaseRequest) -> str:
        if self._bundles is None:
            return f"{request.label} waits for its group: {self.explain()}"
        holder_names = self._admission.holder_names()
        reason = member_shortage(self.spec.label, self._bundles, request, holder_names)
        names = request.resources.amounts.keys()
        competing = [
            other
            for other in sorted(self._waiting.values(), key=by_number)
            if other.request.holder != request.holder
            and names & other.request.resources.amounts.keys()
        ]
        if not competing:
            return reason
        first = competing[0].request
        priority = f" (priority {first.priority})" if first.priority else ""
        others = f" and {len(competing) - 1} more" if competing[1:] else ""
        return f"{reason}. Waiting there too: {first.label}{priority}{others}"

    def refusal_of(self, request: LeaseRequest) -> str:
        """Explains why a request can never be granted, if that is certain, or ""."""
        bundles = self._bundles
        if bundles is None or bundles.could_fit(request):
            return ""
        return member_refusal(self.spec.label, request, bundles.leases)

    def _fail_if_never(self, pending: asyncio.Future[Lease]) -> None:
        refusal = self.refusal_of(self._waiting[pending].request)
        if refusal:
            del self._waiting[pending]
            if not pending.done():
                pending.set_exception(ActorUnschedulableError(refusal))

    def _serve(self) -> None:
        if self._bundles is None or self.removal:
            return
        # The future of an ended actor is cancelled before its task leaves.
        waiting = [pending for pending in self._waiting if not pending.done()]
        waiting.sort(key=lambda pending: self._waiting[pending].number)
        requests = [self._waiting[pending].request for pending in waiting]
        granted = self._bundles.serve(requests)
        for place, lease in granted:
            pending = waiting[place]
            del self._waiting[pending]
            self._table.note_lease(lease, self)
            pending.set_result(lease)

    # The end.

    def give_up(self, reason: str) -> None:
        """Fails the callers that wait until it is reserved: the runtime ends."""
        message = f"{self.spec.label} is gone: {reason}"
        self._ready.notify(lambda: PlacementGroupRemovedError(message))

    def remove(self, reason: str) -> asyncio.Future[None]:
        """Ends the actors inside, then gives the lease back; see PlacementGroups."""
        removed = self._removed.wait()
        if not self.removal:
            self.removal = reason
            self._fail_waiters()
            for end in list(self.members.values()):
                end(f"its placement group was removed: {reason}")
        self._give_back()
        return removed

    def _give_back(self) -> None:
        """Releases its lease, if it is removed and no process is left inside."""
        if not self.removal or (self._bundles and self._bundles.members):
            return
        pending, self._pending = self._pending, None
        if pending is not None:
            self._admission.leave(pending)
            if not pending.done():
                pending.cancel()  # otherwise its wait would be logged
        if self.members:
            return  # they were waiting, and are about to end
        self._table.forget(self)
        self._removed.notify()

    # Inspection.

    def explain(self) -> str:
        if self.state == "PENDING":
            others = self._admission.describe_others(self._request, self._pending)
            short = group_shortage(self._admission.ledger, self._request)
            return self._refusal() or f"{short}{others}"
        if self.error is not None:
            return str(self.error)
        devices = "; ".join(
            ", ".join(map(describe_share, lease.shares)) or "no device"
            for lease in (self._bundles.leases if self._bundles else ())
        )
        return f"{self.spec.label} is reserved; its bundles are on {devices}"

    def info(self) -> GroupInfo:
        spec, bundles = self.spec, self._bundles
        leases = bundles.leases if bundles else [Lease(amounts={})] * len(spec.amounts)
        members = bundles.members if bundles else []
        return GroupInfo(
            group_id=spec.id.hex(),
            name=spec.name,
            strategy=spec.strategy,
            state=self.state,
            bundles=tuple(
                BundleInfo(
                    resources=counted(amounts.amounts),
                    available=counted(bundles.free(place) if bundles else {}),
                    devices={s.device.id: s.units / UNITS for s in lease.shares},
                    device_nbytes={s.device.id: s.nbytes for s in lease.shares},
                    actors=tuple(
                        member.holder
                        for member in members
                        if member.index == place and member.holder
                    ),
                )
                for place, (amounts, lease) in enumerate(
                    zip(spec.amounts, leases, strict=True)
                )
            ),
            is_detached=spec.is_detached,
        )


@final
class GroupTable:
    """Keeps the placement groups of a runtime, and maps leases to groups."""

    def __init__(
        self,
        catalogue: Catalogue,
        admission: Admission,
        loop: asyncio.AbstractEventLoop,
        long_waits: LongWaits,
        on_wait: Callable[[], None],
        *,
        may_wait: bool,
    ) -> None:
        self.catalogue = catalogue
        self.admission = admission
        self.loop = loop
        self.may_wait = may_wait
        self.long_waits = long_waits
        self.on_wait = on_wait
        self._by_id: dict[GroupId, Group] = {}
        self._names: dict[str, Group] = {}
        self._made_by: dict[int, set[GroupId]] = {}
        self._group_of_lease: dict[int, Group] = {}

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._by_id.values()))

    def find(self, group: GroupId) -> Group | None:
        """Returns a group by its id; None if it was removed and forgotten."""
        return self._by_id.get(group)

    def named(self, name: str) -> Group:
        """Returns a group by its name.

        Raises:
            PlacementGroupNotFoundError: No group has the name.
        """
        group = self._names.get(name)
        if group is None:
            advice = f"there is {', '.join(sorted(self._names)[:5])}"
            raise PlacementGroupNotFoundError(
                f"no placement group is called {name!r}: "
                f"{advice if self._names else 'none has a name'}"
            )
        return group

    def reserve(self, spec: GroupSpec, maker: int) -> Group:
        """Starts to reserve a group.

        ``maker`` is 0 for the owner, otherwise the number of the worker's session.

        Raises:
            PlacementGroupAlreadyExistsError: Another group has its name.
        """
        if spec.name in self._names:
            raise PlacementGroupAlreadyExistsError(
                f"the name {spec.name!r} is taken by a placement group: "
                f"get_placement_group({spec.name!r}) gives it, "
                "remove_placement_group() frees the name"
            )
        group = Group(spec, self, Origin.NESTED if maker else Origin.USUAL)
        self._by_id[spec.id] = group
        if spec.name:
            self._names[spec.name] = group
        if maker and not spec.is_detached:
            self._made_by.setdefault(maker, set()).add(spec.id)
        group.begin()
        return group

    def remove(self, group: Group, reason: str) -> asyncio.Future[None]:
        """Removes a group; its name is free at once."""
        if self._names.get(group.spec.name) is group:
            del self._names[group.spec.name]
        return group.remove(reason)

    def orphan(self, maker: int) -> None:
        """Removes the groups of a worker that is gone."""
        for number in self._made_by.pop(maker, ()):
            group = self._by_id.get(number)
            if group is not None:
                self.remove(group, "the actor that made it ended")

    def close(self) -> None:
        """Fails the callers that wait for a group: the runtime ends."""
        for group in self:
            group.give_up("the runtime was shut down")

    def forget(self, group: Group) -> None:
        number = group.spec.id
        self._by_id.pop(number, None)
        maker = maker_of(number)
        self._made_by.get(maker, set()).discard(number)

    def note_lease(self, lease: Lease, group: Group) -> None:
        self._group_of_lease[id(lease)] = group

    # The actors inside.

    def alive(self, spec: GroupSpec) -> Group | None:
        """Returns a group; None if it was removed."""
        group = self._by_id.get(spec.id)
        return None if group is None or group.removal else group

    def add_member(
        self, spec: GroupSpec, actor: ActorId, end: Callable[[str], None]
    ) -> str:
        """Adds an actor to its group; ``end`` ends the actor, if the group is removed.

        Returns:
            An error text if the group was removed, otherwise the empty string.
        """
        group = self.alive(spec)
        if group is None:
            return f"its placement group was removed before ({spec.label})"
        group.members[actor] = end
        return ""

    def remove_member(self, spec: GroupSpec, actor: ActorId) -> None:
        group = self._by_id.get(spec.id)
        if group is not None:
            group.remove_member(actor)

    def leave(self, pending: asyncio.Future[Lease]) -> bool:
        """Abandons a request or an unused lease; False if it is not of a group."""
        if pending.done() and not pending.cancelled():
            return self.release(pending.result())
        return any(group.leave(pending) for group in self)

    def release(self, lease: Lease) -> bool:
        """Releases a member's lease; False if the lease is not of a group."""
        group = self._group_of_lease.pop(id(lease), None)
        if group is not None:
            group.release(lease)
        return group is not None

    def split(self, lease: Lease, name: str) -> tuple[Lease, Lease]:
        group = self._group_of_lease.pop(id(lease))
        parts = group.bundles.split(lease, name)
        self._group_of_lease.update((id(part), group) for part in parts)
        return parts

    def index_of(self, lease: Lease) -> int:
        return self._group_of_lease[id(lease)].bundles.index_of(lease)

    def merge(self, lease: Lease, other: Lease) -> Lease:
        group = self._group_of_lease.pop(id(lease))
        del self._group_of_lease[id(other)]
        merged = group.bundles.merge(lease, other)
        self._group_of_lease[id(merged)] = group
        return merged
