"""One placement group: reserved as one, lived in, given back as one.

It is one request to the admission, and one lease; what is in it is lent on to the
actors inside by its bundles. It is given back when it is removed and the last process
inside is gone.

Every placement group of a runtime, and which lease is of which.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._core.ids import ActorId, maker_of
from actorlib._core.kinds import UNITS
from actorlib._core.notifier import Notifier
from actorlib._core.resources import counted
from actorlib._core.snapshot import BundleInfo, GroupInfo
from actorlib._scheduler.bundles import Bundles, GroupWaiter, divide_lease
from actorlib._scheduler.explain import (
    group_refusal,
    group_shortage,
    member_refusal,
    member_shortage,
)
from actorlib._scheduler.wait_queue import Priority
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

    from actorlib._core.actor_options import ActorOptions
    from actorlib._core.group_spec import GroupId, GroupSpec
    from actorlib._core.resources import Resources
    from actorlib._scheduler.admission import Admission
    from actorlib._scheduler.catalogue import Catalogue
    from actorlib._scheduler.long_waits import LongWaits
    from actorlib._scheduler.request import DeviceConstraints
    from actorlib.accelerators.base import Lease


@final
class Group:
    """One placement group, from the moment it is asked for until it is forgotten.

    Args:
        spec: What it is.
        catalogue: What types and devices are called.
        admission: Grants what it reserves.
        loop: The owner's loop.
        table: Every group of the runtime, this one too.
        may_wait: Whether what can never be reserved waits for ever.

    Attributes:
        spec: As given.
        removed: Why it was removed, or the empty string.
        members: How to end each actor that is to be inside, by id.
    """

    def __init__(
        self,
        spec: GroupSpec,
        catalogue: Catalogue,
        admission: Admission,
        loop: asyncio.AbstractEventLoop,
        table: GroupTable,
        *,
        may_wait: bool,
    ) -> None:
        self.spec = spec
        self.removed = ""
        self.members: dict[ActorId, Callable[[str], None]] = {}
        self._catalogue = catalogue
        self._admission = admission
        self._loop = loop
        self._table = table
        self._ready = Notifier(loop)
        self._gone = Notifier(loop)
        self._seekers: dict[asyncio.Future[Lease], GroupWaiter] = {}
        self._bundles: Bundles | None = None
        self._promise: asyncio.Future[Lease] | None = None
        self._demand = catalogue.demand_of_group(spec.amounts, spec.strategy)
        refusal = self._refusal()
        self.infeasible = "" if may_wait else refusal

    def _refusal(self) -> str:
        label, (request, where) = self.spec.label, self._demand
        unknown = self._catalogue.refusal(label, request)
        ledger = self._admission.ledger
        return unknown or group_refusal(ledger, label, request, where) or ""

    def begin(self, priority: Priority) -> None:
        """Gets in line, unless it can never be reserved.

        Args:
            priority: Who has to let it pass; see the line.
        """
        if self.infeasible:
            return
        promise = self._promise = self._admission.enter(
            self.spec.label, *self._demand, priority
        )
        if promise.done():
            self._created(promise)
        else:
            promise.add_done_callback(self._created)
            self._table.waits(promise, self)

    def _created(self, promise: asyncio.Future[Lease]) -> None:
        if self.removed or promise.cancelled() or self._demand.where.gang is None:
            return
        leases = divide_lease(self._demand.where.gang, promise.result())
        bundles = self._bundles = Bundles(leases, self._admission.ledger.pools)
        self._ready.happens()
        for seeking in list(self._seekers):
            self._refuse(seeking)
        self._serve(bundles)

    @property
    def lease(self) -> Lease | None:
        """What it has, once it is reserved."""
        return self._promise.result() if self._promise and self._bundles else None

    @property
    def state(self) -> str:
        """Where it is, in Ray's words."""
        if self.removed:
            return "REMOVED"
        if self.infeasible:
            return "INFEASIBLE"
        return "PENDING" if self._bundles is None else "CREATED"

    @property
    def trouble(self) -> Exception | None:
        """Why it never will be there, or is there no more."""
        if self.removed:
            why = f"{self.spec.label} was removed: {self.removed}"
            return PlacementGroupRemovedError(why)
        if self.infeasible:
            return PlacementGroupUnschedulableError(self.infeasible)
        return None

    def ready(self) -> asyncio.Future[None]:
        """Done when its bundles are reserved, or with why they never will be."""
        waiter = self._ready.wait()
        if self._bundles is not None and not self.removed:
            self._ready.happens()
        else:
            self._say_trouble()
        return waiter

    def _say_trouble(self) -> None:
        error = self.trouble
        if error is not None:
            self._ready.happens(lambda: type(error)(str(error)))

    # Those inside.

    def enter(self, seeker: GroupWaiter) -> asyncio.Future[Lease]:
        """Asks for a part of a bundle: done at once, or when its turn has come."""
        promise: asyncio.Future[Lease] = self._loop.create_future()
        if self.infeasible:
            promise.set_exception(ActorUnschedulableError(self.infeasible))
            return promise
        self._seekers[promise] = seeker
        if self._bundles is not None and not self.removed:
            self._refuse(promise)
            self._serve(self._bundles)
            if not promise.done():
                self._table.on_wait()
        return promise

    @property
    def seeking(self) -> int:
        """How many wait for a place inside."""
        return len(self._seekers)

    def wish_anew(
        self, promise: asyncio.Future[Lease], where: DeviceConstraints
    ) -> None:
        """Lets someone who waits wish for other devices; its turn stays the same."""
        if promise in self._seekers and self._bundles is not None:
            self._seekers[promise] = replace(self._seekers[promise], where=where)
            self._refuse(promise)
            self._serve(self._bundles)

    def queue_anew(self, promise: asyncio.Future[Lease]) -> bool:
        """Goes behind all others who wait to get in; False if it is none of them."""
        seeker = self._seekers.pop(promise, None)
        if seeker is None:
            return False
        self._seekers[promise] = seeker
        if self._bundles is not None:
            self._serve(self._bundles)
        return True

    def leave(self, promise: asyncio.Future[Lease]) -> bool:
        """Gives up a place among those who wait to get in; False if it has none."""
        if self._seekers.pop(promise, None) is None:
            return False
        if self._bundles is not None:
            self._serve(self._bundles)
        return True

    def split(self, lease: Lease, name: str) -> tuple[Lease, Lease]:
        """Makes two leases of a member's: what it has of a resource, and the rest."""
        assert self._bundles is not None  # it has given a lease
        return self._bundles.split(lease, name)

    def merge(self, lease: Lease, other: Lease) -> Lease:
        """Makes one lease of two of a member's."""
        assert self._bundles is not None  # it has given them
        return self._bundles.merge(lease, other)

    def index_of(self, lease: Lease) -> int:
        """In which bundle a member is."""
        assert self._bundles is not None  # it has given the lease
        return self._bundles.index_of(lease)

    def release(self, lease: Lease) -> None:
        """Takes back what a member had: it is free for others inside."""
        assert self._bundles is not None  # it has given a lease
        self._bundles.give(lease)
        self._serve(self._bundles)
        self._give_back()

    def part(self, actor: ActorId) -> None:
        """An actor that was to be inside is dead and has given everything back."""
        self.members.pop(actor, None)
        self._give_back()

    def survey(
        self, label: str, request: Resources, where: DeviceConstraints, index: int
    ) -> str:
        """Whether an actor would be let in now, or what stands in its way."""
        asked = GroupWaiter(
            holder="", label=label, request=request, where=where, index=index
        )
        reason = self.explain_member(asked)
        return self.refusal_of(asked) or reason

    def explain_member(self, seeker: GroupWaiter) -> str:
        """Why an actor is not let in now."""
        if self._bundles is None:
            return f"{seeker.label} waits for its group: {self.explain()}"
        titles = self._admission.titles()
        reason = member_shortage(self.spec.label, self._bundles, seeker, titles)
        names = seeker.request.amounts.keys()
        ahead = [
            other.label
            for other in self._seekers.values()
            if other.holder != seeker.holder and names & other.request.amounts.keys()
        ]
        others = f" and {len(ahead) - 1} more" if ahead[1:] else ""
        return f"{reason}. Waiting there too: {ahead[0]}{others}" if ahead else reason

    def refusal_of(self, seeker: GroupWaiter) -> str:
        """Why someone can never be let in, as far as that is known; else nothing."""
        if self._bundles is None or self._bundles.could_fit(seeker):
            return ""
        return member_refusal(self.spec.label, seeker)

    def _refuse(self, promise: asyncio.Future[Lease]) -> None:
        """Tells someone who can never be let in."""
        never = self.refusal_of(self._seekers[promise])
        if never:
            del self._seekers[promise]
            if not promise.done():
                promise.set_exception(ActorUnschedulableError(never))

    def _serve(self, bundles: Bundles) -> None:
        """Lets everyone in who may."""
        if self.removed:
            return
        # Who was ended has not woken yet to leave: its promise is cancelled.
        waiting = {s: p for p, s in self._seekers.items() if not p.done()}
        for seeker, lease in bundles.serve(waiting):
            promise = waiting[seeker]
            del self._seekers[promise]
            self._table.lent(lease, self)
            promise.set_result(lease)

    # Its end.

    def give_up(self, reason: str) -> None:
        """Tells those who wait for it that the runtime ends."""
        why = f"{self.spec.label} is no more: {reason}"
        self._ready.happens(lambda: PlacementGroupRemovedError(why))

    def remove(self, reason: str) -> asyncio.Future[None]:
        """Ends the actors inside, and then itself; see Reservations."""
        gone = self._gone.wait()
        if not self.removed:
            self.removed = reason
            self._say_trouble()
            for evict in list(self.members.values()):
                evict(f"its placement group was removed: {reason}")
        self._give_back()
        return gone

    def _give_back(self) -> None:
        """Gives everything back, if it is removed and nobody is inside any more."""
        if not self.removed or (self._bundles and self._bundles.inside):
            return
        promise, self._promise = self._promise, None
        if promise is not None:
            self._admission.leave(promise)
        if self.members:
            return  # they waited, and are about to end
        self._table.forget(self)
        self._gone.happens()

    # Inspection.

    def explain(self) -> str:
        """Why it is not reserved yet, or where it is."""
        label, demand = self.spec.label, self._demand
        if self.state == "PENDING":
            admission, ledger = self._admission, self._admission.ledger
            ahead = admission.ahead_of(*demand, self._promise)
            short = group_shortage(ledger, label, *demand)
            return self._refusal() or f"{short}{admission.held_by(*demand)}{ahead}"
        if self.trouble is not None:
            return str(self.trouble)
        where = "; ".join(
            ", ".join(f"{s.device.kind} {s.device.id}" for s in lease.shares)
            or "no device"
            for lease in (self._bundles.leases if self._bundles else ())
        )
        return f"{label} is reserved; its bundles are on {where}"

    def info(self) -> GroupInfo:
        """What is known of it; see GroupInfo."""
        spec, bundles = self.spec, self._bundles
        return GroupInfo(
            group_id=spec.id.hex(),
            name=spec.name,
            strategy=spec.strategy,
            state=self.state,
            bundles=tuple(
                BundleInfo(
                    resources=counted(amounts.amounts),
                    available=counted(bundles.free(place) if bundles else {}),
                    devices={
                        share.device.id: share.units / UNITS
                        for share in (bundles.leases[place].shares if bundles else ())
                    },
                    actors=tuple(
                        member.holder
                        for member in (bundles.inside if bundles else ())
                        if member.index == place and member.holder
                    ),
                )
                for place, amounts in enumerate(spec.amounts)
            ),
            is_detached=spec.is_detached,
        )


@final
class GroupTable:
    """Every placement group of one runtime, and which lease is of which.

    Args:
        catalogue: What types and devices are called.
        admission: Grants what they reserve.
        loop: The owner's loop.
        may_wait: Whether what can never be reserved waits for ever.
        long_waits: Says who waits for long.
        on_wait: Called when somebody has to wait for a place in a group.

    Attributes:
        on_wait: As given.
    """

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
        self._catalogue = catalogue
        self._admission = admission
        self._loop = loop
        self._long_waits = long_waits
        self._may_wait = may_wait
        self.on_wait = on_wait
        self._by_id: dict[GroupId, Group] = {}
        self._names: dict[str, Group] = {}
        self._made_by: dict[int, set[GroupId]] = {}
        self._inside: dict[int, Group] = {}

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._by_id.values()))

    def find(self, group: GroupId) -> Group | None:
        """A group by its id; None if it was removed and forgotten."""
        return self._by_id.get(group)

    def named(self, name: str) -> Group:
        """A group by its name.

        Raises:
            PlacementGroupNotFoundError: None has it.
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

        Args:
            spec: What it is.
            maker: 0 for the owner, else the number of the worker's session.

        Raises:
            PlacementGroupAlreadyExistsError: Another group has its name.
        """
        if spec.name in self._names:
            raise PlacementGroupAlreadyExistsError(
                f"the name {spec.name!r} is taken by a placement group: "
                f"get_placement_group({spec.name!r}) gives it, "
                "remove_placement_group() frees the name"
            )
        group = Group(
            spec,
            self._catalogue,
            self._admission,
            self._loop,
            self,
            may_wait=self._may_wait,
        )
        self._by_id[spec.id] = group
        if spec.name:
            self._names[spec.name] = group
        if maker and not spec.is_detached:
            self._made_by.setdefault(maker, set()).add(spec.id)
        group.begin(Priority.NESTED if maker else Priority.USUAL)
        return group

    def remove(self, group: Group, reason: str) -> asyncio.Future[None]:
        """Removes a group; its name is free at once."""
        if self._names.get(group.spec.name) is group:
            del self._names[group.spec.name]
        return group.remove(reason)

    def orphan(self, maker: int) -> None:
        """A worker is gone: the groups that it made go with it."""
        for number in self._made_by.pop(maker, ()):
            group = self._by_id.get(number)
            if group is not None:
                self.remove(group, "the actor that made it ended")

    def close(self) -> None:
        """The runtime ends: who waits for a group is told."""
        for group in self:
            group.give_up("the runtime was shut down")

    def forget(self, group: Group) -> None:
        """A group is removed, and everything it had is back."""
        number = group.spec.id
        self._by_id.pop(number, None)
        maker = maker_of(number)
        self._made_by.get(maker, set()).discard(number)

    def waits(self, promise: asyncio.Future[Lease], group: Group) -> None:
        """A group stands in line."""
        self._long_waits.add(promise, group.spec.id, group.explain)

    def lent(self, lease: Lease, group: Group) -> None:
        """A group has let somebody in."""
        self._inside[id(lease)] = group

    # The actors inside.

    def of(self, options: ActorOptions) -> Group | None:
        """The group that an actor is in; None for none, or if it was removed."""
        return None if options.group is None else self.alive(options.group)

    def alive(self, spec: GroupSpec) -> Group | None:
        """A group; None if it was removed."""
        group = self._by_id.get(spec.id)
        return None if group is None or group.removed else group

    def join(
        self, options: ActorOptions, actor: ActorId, evict: Callable[[str], None]
    ) -> str:
        """An actor is to be inside, if its options say so.

        Args:
            options: They.
            actor: Its id.
            evict: Ends it, if the group is removed.

        Returns:
            Why it cannot be: its group was removed. Else the empty string.
        """
        spec = options.group
        if spec is None:
            return ""
        group = self.of(options)
        if group is None:
            return f"its placement group was removed before ({spec.label})"
        group.members[actor] = evict
        return ""

    def part(self, options: ActorOptions, actor: ActorId) -> None:
        """An actor is dead, and has given everything back."""
        spec = options.group
        group = None if spec is None else self._by_id.get(spec.id)
        if group is not None:
            group.part(actor)

    def leave(self, promise: asyncio.Future[Lease]) -> bool:
        """Gives up a place among those who seek one, or a part that was not taken.

        Returns:
            Whether it was one of a group.
        """
        if promise.done() and not promise.cancelled():
            return self.release(promise.result())
        return any(group.leave(promise) for group in self)

    def release(self, lease: Lease) -> bool:
        """Takes back what a member had.

        Returns:
            Whether it was one of a group.
        """
        group = self._inside.pop(id(lease), None)
        if group is not None:
            group.release(lease)
        return group is not None

    def split(self, lease: Lease, name: str) -> tuple[Lease, Lease]:
        """Makes two leases of a member's: what it has of a resource, and the rest.

        Raises:
            LookupError: It is none of a member.
        """
        group = self._inside.pop(id(lease))
        parts = group.split(lease, name)
        self._inside.update((id(part), group) for part in parts)
        return parts

    def index_of(self, lease: Lease) -> int:
        """In which bundle of its group a member is."""
        return self._inside[id(lease)].index_of(lease)

    def merge(self, lease: Lease, other: Lease) -> Lease:
        """Makes one lease of two of a member's.

        Raises:
            LookupError: One is none of a member.
        """
        group = self._inside.pop(id(lease))
        del self._inside[id(other)]
        joined = group.merge(lease, other)
        self._inside[id(joined)] = group
        return joined
