"""What actors ask for as things are now, while others come and go.

A wish may be about another actor: then it is settled when that one has a place, and
again when it dies while the wish stands in line. What was settled is kept, so that
everybody who is told why an actor waits is told of the same devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._core.ids import ActorId
from actorlib._scheduler.bundles import GroupWaiter
from actorlib._scheduler.catalogue import Demand
from actorlib._scheduler.explain import refusal
from actorlib._scheduler.long_waits import LongWaits
from actorlib._scheduler.placement_group import Groups
from actorlib._scheduler.wait_queue import Priority
from actorlib.exceptions import ActorUnschedulableError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from actorlib._core.actor_options import ActorOptions
    from actorlib._owner.actor_record import ActorRecord
    from actorlib._owner.supervisor import ActorSupervisor
    from actorlib._scheduler.scheduler import Scheduler
    from actorlib.accelerators.base import Lease


class Demands:
    """What every actor of a runtime asks of its machine.

    Args:
        scheduler: Grants shares of the machine.
        lives: The actors' lives by id, live.
        loop: The owner's loop.
        may_wait: Whether what can never be given waits for ever.

    Attributes:
        long_waits: Says who waits for long.
        groups: The placement groups, in which some of them are.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        lives: Mapping[ActorId, ActorSupervisor],
        loop: asyncio.AbstractEventLoop,
        *,
        may_wait: bool,
    ) -> None:
        self._scheduler = scheduler
        self._lives = lives
        self._may_wait = may_wait
        self.long_waits = LongWaits(loop)
        self.groups = Groups(scheduler, loop, self.long_waits, may_wait=may_wait)
        self._settled: dict[ActorId, Demand] = {}
        self._wishers: dict[ActorId, dict[ActorId, ActorSupervisor]] = {}

    def are_awaited(self, options: ActorOptions) -> bool:
        """Whether actors that a wish is about have no place yet."""
        return any(life.is_placeless for life in self._named(options))

    async def placed(self, options: ActorOptions) -> None:
        """Done when the actors that a wish is about have a place, or are dead."""
        for life in self._named(options):
            await life.placed()

    def refusal(self, life: ActorSupervisor) -> str | None:
        """Why the machine can never give what is asked, unless that may wait."""
        try:
            self._settle(life)
        except ActorUnschedulableError as error:
            return str(error)
        return None

    def enter(self, life: ActorSupervisor) -> asyncio.Future[Lease]:
        """Asks for an actor's share: done at once, or when its turn has come.

        It fails with ActorUnschedulableError if that turn can never come.
        """
        record, options = life.record, life.record.options
        settled = self._settled.get(record.id)
        if settled is None or options.near_to or options.apart:
            # Whoever the wish is about may have moved or died since it was settled.
            try:
                settled = self._settle(life)
            except ActorUnschedulableError as error:
                promise: asyncio.Future[Lease] = life.ended.get_loop().create_future()
                promise.set_exception(error)
                return promise
        for life_named in self._named(options):
            self._wishers.setdefault(life_named.record.id, {})[record.id] = life
        if options.group is not None:
            promise = self._enter_group(life, settled)
        else:
            priority = priority_of(record)
            promise = self._scheduler.admission.enter(record.label, *settled, priority)
        if record.is_actor and not promise.done():
            where = options.group and options.group.id
            kind = record.called.class_name, str(settled.request), where
            self.long_waits.add(promise, kind, lambda: self.explain(life))
        return promise

    def _enter_group(
        self, life: ActorSupervisor, settled: Demand
    ) -> asyncio.Future[Lease]:
        group = self.groups.of(life.record.options)
        if group is not None:
            return group.enter(_seeker(life, settled))
        # It was removed while the actor waited for something else: it is being ended.
        return life.ended.get_loop().create_future()

    def buried(self, life: ActorSupervisor) -> None:
        """An actor is dead: those in line whose wish was about it wish anew."""
        actor = life.record.id
        self._settled.pop(actor, None)
        for named in self._named(life.record.options):
            self._wishers.get(named.record.id, {}).pop(actor, None)
        for wisher in self._wishers.pop(actor, {}).values():
            self._wish_anew(wisher)

    def explain(self, life: ActorSupervisor) -> str:
        """Why an actor in line waits."""
        label, settled = life.record.label, self._settled[life.record.id]
        group = self.groups.of(life.record.options)
        if group is not None:
            return group.explain_member(_seeker(life, settled))
        unknown = self._scheduler.catalogue.refusal(label, settled.request)
        promise = life.place.promise
        return unknown or self._scheduler.admission.explain(
            label, *settled, promise=promise
        )

    def survey(self, label: str, options: ActorOptions) -> str:
        """Where an actor would go now, or what stands in its way, device by device."""
        group = self.groups.of(options)
        if group is None and options.group is not None:
            return f"{label} cannot be placed: {options.group.label} was removed"
        if self.are_awaited(options):
            return f"{label} would wait until the actors that it names are placed"
        try:
            settled = self._demand(label, options)
        except ActorUnschedulableError as error:
            return str(error)
        if group is not None:
            return group.survey(label, *settled, options.placement_group_bundle_index)
        unknown = self._scheduler.catalogue.refusal(label, settled.request)
        return unknown or self._scheduler.admission.survey(label, *settled)

    def _wish_anew(self, life: ActorSupervisor) -> None:
        promise, record = life.place.promise, life.record
        if promise is None or promise.done():
            return
        admission = self._scheduler.admission
        try:
            settled = self._demand(record.label, record.options)
        except ActorUnschedulableError as error:
            if not self.groups.leave(promise):
                admission.leave(promise)
            promise.set_exception(error)
            return
        self._settled[record.id] = settled
        group = self.groups.of(record.options)
        if group is not None:
            group.wish_anew(promise, settled.where)
        else:
            admission.wish_anew(promise, settled.where)

    def _settle(self, life: ActorSupervisor) -> Demand:
        """What an actor asks for as things are now; it is kept.

        Raises:
            ActorUnschedulableError: The machine can never give it, and it may not wait.
        """
        scheduler, label = self._scheduler, life.record.label
        settled = self._demand(label, life.record.options)
        group = self.groups.of(life.record.options)
        if group is not None:
            if group.infeasible:
                raise ActorUnschedulableError(group.infeasible)
        elif not (self._may_wait or scheduler.ledger.feasible(*settled)):
            unknown = scheduler.catalogue.refusal(label, settled.request)
            never = unknown or refusal(scheduler.ledger, label, *settled)
            raise ActorUnschedulableError(never)
        self._settled[life.record.id] = settled
        return settled

    def _demand(self, label: str, options: ActorOptions) -> Demand:
        """What an actor with these options asks for.

        Raises:
            ActorUnschedulableError: It names a device or an actor that is not here.
        """
        near = None
        for actor in options.near_to:
            life = self._lives.get(ActorId(actor))
            if life is None or life.place.lease is None:
                raise ActorUnschedulableError(
                    f"{label} is to be near an actor that is dead: keep a handle of "
                    "that actor, so that it lives"
                )
            near = [share.device for share in life.place.lease.shares]
        apart = [
            share.device
            for actor in options.apart
            if (life := self._lives.get(ActorId(actor))) and life.place.lease
            for share in life.place.lease.shares
        ]
        catalogue = self._scheduler.catalogue
        demand = catalogue.demand(label, options, near=near, apart=apart)
        if options.group is None:
            return demand
        return Demand(catalogue.untyped(demand.request), demand.where)

    def _named(self, options: ActorOptions) -> list[ActorSupervisor]:
        named = (*options.near_to, *options.apart)
        if not named:
            return []
        found = (self._lives.get(ActorId(actor)) for actor in named)
        return [life for life in found if life is not None]


def priority_of(record: ActorRecord) -> Priority:
    """How an actor stands in line."""
    return Priority.NESTED if record.is_nested else Priority.USUAL


def _seeker(life: ActorSupervisor, demand: Demand) -> GroupWaiter:
    """How an actor stands among those who want to get into its group."""
    record = life.record
    return GroupWaiter(
        holder=record.id.hex() if record.is_actor else "",
        label=record.label,
        request=demand.request,
        where=demand.where,
        index=record.options.placement_group_bundle_index,
        priority=priority_of(record),
    )
