"""The lives of a runtime's actors, and who holds which of them.

What a life needs around it, what rises from workers, and the count of handles meet
here: an actor lives while somebody holds it or it has something to do, and is forgotten
when it is dead and nobody holds it any more.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from typing import TYPE_CHECKING

from actorlib._engine import ActorId
from actorlib._local.dispatch import Dispatch
from actorlib._local.holders import OWNER, Holders
from actorlib._local.machine import Machine, counted
from actorlib._local.reasons import refusal
from actorlib._local.registry import ActorRecord, ActorState, Registry
from actorlib._local.relay import Relay
from actorlib._local.retries import retries_of
from actorlib._local.session import Session
from actorlib._local.supervisor import Life
from actorlib._wire.frames import START, Frame
from actorlib.exceptions import ActorUnschedulableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from actorlib._local.birth import Birth, Sealed
    from actorlib._local.dispatch import Loans
    from actorlib._local.launcher import WorkerProcess
    from actorlib._local.wishes import Demand
    from actorlib._options import ActorOptions, RuntimeOptions
    from actorlib.accelerators.base import Lease


class Lives:
    """Every life of one runtime; see Surroundings, Actors and Loans.

    Args:
        machine: Where they are lived.
        options: How the runtime behaves.

    Attributes:
        loop: The owner's loop.
        grace: Seconds a busy actor is given to end.
        loans: Where handles in payloads are counted: here.
        registry: The actors and their states.
        holders: Who has a handle of which.
        by_id: The lives that are lived, or that somebody holds.
    """

    def __init__(self, machine: Machine, options: RuntimeOptions) -> None:
        self.loop = asyncio.get_running_loop()
        self.grace = options.grace
        self.loans: Loans = self
        self.registry = Registry(os.urandom(4))
        self.holders = Holders()
        self._machine = machine
        self._options = options
        self.by_id: dict[ActorId, Life] = {}
        self._births: dict[ActorId, Birth] = {}
        self._sessions = itertools.count(1)
        self._relay = Relay(self)

    def __iter__(self) -> Iterator[Life]:
        return iter(list(self.by_id.values()))

    def bear(
        self,
        actor: ActorId,
        birth: Birth,
        arguments: Sealed | BaseException | asyncio.Future[Sealed],
    ) -> None:
        """Starts the life of an actor, or ends it here if it can never be placed.

        Args:
            actor: Its id.
            birth: Its class and options.
            arguments: For the constructor, why there are none, or a future of them.
        """
        record = ActorRecord(id=actor, interface=birth.interface, options=birth.options)
        self.registry.add(record)
        self._births[actor] = birth
        life = self.by_id[actor] = Life(record, self, self._dispatch_of)
        never = None if self.awaits_neighbours(record) else self._refusal(record)
        if never is not None:
            # Whoever creates it has no handle yet, and it must not be forgotten before.
            self.holders.add(actor, OWNER)
            self.loop.call_soon(self.drop, actor, OWNER, 1)
            error = ActorUnschedulableError(never, actor_id=actor.hex())
            life.be_stillborn(error, arguments)
        else:
            life.begin(arguments)

    def _dispatch_of(self, life: Life) -> Dispatch:
        retries = retries_of(life.record.options)
        return Dispatch(self, life.died, life.unavailable, life.idle, retries)

    def create_for(
        self, actor: ActorId, birth: Birth, maker: int
    ) -> asyncio.Future[Sealed]:
        """Starts the life of an actor that a worker makes; see Actors."""
        self.holders.add(actor, maker)
        given: asyncio.Future[Sealed] = self.loop.create_future()
        self.bear(actor, birth, given)
        return given

    def find(self, actor: ActorId) -> Life | None:
        """The life of an actor; see Actors."""
        return self.by_id.get(actor)

    def awaits_neighbours(self, record: ActorRecord) -> bool:
        """Whether actors it is to be near to, or apart from, have no place yet."""
        return self._is_awaited(record.options)

    async def neighbours(self, record: ActorRecord) -> None:
        """Done when they have a place, or are dead; see Surroundings."""
        while self._is_awaited(record.options):
            for life in self._neighbours(record.options):
                await life.placed()

    def enter(self, record: ActorRecord) -> asyncio.Future[Lease]:
        """Asks for the actor's share; see Surroundings."""
        never = self._refusal(record)
        if never is not None:
            promise: asyncio.Future[Lease] = self.loop.create_future()
            promise.set_exception(ActorUnschedulableError(never))
            return promise
        asked = self.demand(record.label, record.options)
        return self._machine.admission.enter(record.label, *asked)

    def demand(self, label: str, options: ActorOptions) -> Demand:
        """What an actor with these options asks for, as things are now.

        Raises:
            ActorUnschedulableError: It names a device or an actor that is not here.
        """
        near = None
        for actor in options.near_to:
            life = self.by_id.get(ActorId(actor))
            if life is None or life.place.lease is None:
                raise ActorUnschedulableError(
                    f"{label} is to be near an actor that is dead: keep a handle of "
                    "that actor, so that it lives"
                )
            near = [share.device for share in life.place.lease.shares]
        apart = [
            share.device
            for actor in options.apart
            if (life := self.by_id.get(ActorId(actor))) and life.place.lease
            for share in life.place.lease.shares
        ]
        return self._machine.catalogue.demand(label, options, near=near, apart=apart)

    def survey(self, label: str, options: ActorOptions) -> str:
        """Where an actor would go now, or what stands in its way, device by device."""
        if self._is_awaited(options):
            return f"{label} would wait until the actors that it names are placed"
        try:
            asked = self.demand(label, options)
        except ActorUnschedulableError as error:
            return str(error)
        unknown = self._machine.catalogue.refusal(label, asked.request)
        return unknown or self._machine.admission.survey(label, *asked)

    def _is_awaited(self, options: ActorOptions) -> bool:
        return any(life.is_placeless for life in self._neighbours(options))

    def _neighbours(self, options: ActorOptions) -> list[Life]:
        named = (*options.near_to, *options.apart)
        found = (self.by_id.get(ActorId(actor)) for actor in named)
        return [life for life in found if life is not None]

    def _refusal(self, record: ActorRecord) -> str | None:
        """Why the machine can never give what is asked, unless that may wait."""
        machine, label = self._machine, record.label
        try:
            request, where = self.demand(label, record.options)
        except ActorUnschedulableError as error:
            return str(error)
        if self._options.infeasible == "wait" or machine.ledger.feasible(
            request, where
        ):
            return None
        unknown = machine.catalogue.refusal(label, request)
        return unknown or refusal(machine.ledger, label, request, where)

    def leave(self, promise: asyncio.Future[Lease]) -> None:
        """Gives up a place in line, or a share that was not taken; see Surroundings."""
        if promise.done() and not promise.cancelled() and promise.exception():
            return
        self._machine.admission.leave(promise)

    def release_lease(self, lease: Lease) -> None:
        """Gives a share back; see Surroundings."""
        self._machine.admission.release(lease)

    def launch(self, record: ActorRecord, lease: Lease) -> WorkerProcess:
        """Starts a worker for the actor; see Surroundings."""
        return self._machine.launch(record.label, lease)

    def open_session(self, life: Life, process: WorkerProcess) -> Session:
        """Opens the pipe to a worker; see Surroundings."""
        number = next(self._sessions)
        return Session(
            self.loop,
            number,
            self.registry.prefix(number),
            process,
            life.dispatch,
            self._relay.serve,
            life.is_ready,
        )

    def start_frame(
        self, life: Life, session: Session, lease: Lease, arguments: Sealed
    ) -> Frame:
        """What a worker is told first; see Surroundings."""
        record = life.record
        birth = self._births[record.id]
        environment = self._machine.environment(lease, record.options)
        threads = environment.get("OMP_NUM_THREADS")
        setup = {
            "actor": record.id,
            "name": record.label,
            "prefix": session.prefix,
            "looped": record.interface.is_async,
            "environment": environment,
            "path": sys.path,
            "threads": int(threads) if threads else None,
            "ids": self._machine.accelerator_ids(lease),
            "resources": counted(lease.amounts),
            "reconstructed": life.restarts.count > 0,
        }
        payload, loans = arguments
        if loans and life.unsent is not None:
            self.arrived(loans, session.number)  # it may be needed again
        elif loans:
            self.lent(loans, session.number)
        return (START, setup, birth.source, loans, payload)

    def close_session(self, session: Session) -> None:
        """Forgets what a worker held; see Surroundings."""
        self._relay.forget(session)
        for actor in self.holders.forget(session.number):
            self._unheld(actor)

    def is_memory_short(self) -> bool:
        """Whether the kernel has killed for lack of memory; see Surroundings."""
        return self._machine.is_memory_short()

    # Who holds what; see Loans and Actors.

    def arrived(self, loans: Collection[ActorId], holder: int) -> None:
        """Counts what a frame brought to a holder."""
        for actor in loans:
            self.holders.add(actor, holder)

    def returned(self, loans: Collection[ActorId], holder: int) -> None:
        """Counts what a holder does not hold any more."""
        for actor in loans:
            self.drop(actor, holder, 1)

    def lent(self, loans: Collection[ActorId], holder: int) -> None:
        """Hands over to a worker what this process kept for it."""
        self.holders.move(loans, holder)

    def drop(self, actor: ActorId, holder: int, count: int) -> None:
        """A holder gives loans back; the last one ends the actor."""
        if self.holders.remove(actor, holder, count):
            self._unheld(actor)

    def _unheld(self, actor: ActorId) -> None:
        life = self.by_id.get(actor)
        if life is None:
            return
        life.end_when_idle("nobody held a handle of it any more")
        self._forget_if_over(life)

    def buried(self, life: Life) -> None:
        """The actor is dead and everything it had is back; see Surroundings."""
        del self._births[life.record.id]
        if life.unsent is not None:
            self.returned(life.unsent.loans or (), OWNER)
        self._forget_if_over(life)

    def _forget_if_over(self, life: Life) -> None:
        actor = life.record.id
        if life.record.state is ActorState.DEAD and not self.holders.is_held(actor):
            self.by_id.pop(actor, None)
            self.registry.forget(actor)
