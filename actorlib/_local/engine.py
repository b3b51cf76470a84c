"""The verbs of the embedded engine, in the owner's process.

It ties the rooms together and decides nothing itself: the ledger says who holds what,
the mailbox which frames go, the postmortem why an actor died.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from actorlib._arguments import refs_among, when_done, with_values
from actorlib._engine import ActorId, ActorSpec, RuntimeContext, collecting
from actorlib._local.dispatch import Dispatch
from actorlib._local.holders import OWNER, Holders
from actorlib._local.machine import Machine, counted
from actorlib._local.registry import ActorRecord, ActorState, Registry
from actorlib._local.relay import Birth, Relay
from actorlib._local.session import Session
from actorlib._local.supervisor import Life
from actorlib._ref import ObjectRef
from actorlib._resources import UNITS, format_amount
from actorlib._wire.blame import Sources, encode_arguments
from actorlib._wire.frames import START, Frame, Payload
from actorlib._wire.lanes import Lanes
from actorlib._wire.payload import encode_plain_call
from actorlib.exceptions import ActorUnschedulableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from actorlib._interface import Method
    from actorlib._local.dispatch import Loans
    from actorlib._local.launcher import WorkerProcess
    from actorlib._options import RuntimeOptions
    from actorlib.accelerators.base import Lease


class LocalEngine:
    """Runs actors as subprocesses of this process; see Engine.

    Made by ``open``; every verb is called from the thread of its loop.
    """

    def __init__(self, machine: Machine, options: RuntimeOptions) -> None:
        self.loop = asyncio.get_running_loop()
        self.grace = options.grace
        self.context = RuntimeContext()
        self.machine = machine
        self.registry = Registry(os.urandom(4))
        self.holders = Holders()
        self.loans: Loans = self
        self._options = options
        self._thread = threading.get_ident()
        self._lives: dict[ActorId, Life] = {}
        self._births: dict[ActorId, Birth] = {}
        self._sources = Sources()
        self._sessions = itertools.count(1)
        self._relay = Relay(self)
        self._places = itertools.count(1)
        self._lanes: Lanes[ActorId, int] = Lanes()
        self._held_back: dict[int, Callable[[], None]] = {}
        self._is_closed = False

    @classmethod
    async def open(cls, options: RuntimeOptions) -> LocalEngine:
        """Opens the machine and gives an engine that runs actors on it.

        Raises:
            ValueError: More is declared than the owner may see.
            TemplateError: Workers cannot be started.
        """
        return cls(await Machine.open(options), options)

    # The verbs.

    def create(self, spec: ActorSpec) -> ActorId:
        """Starts the life of an actor; see Engine."""
        name = spec.interface.class_name
        actor = self.registry.new_id()
        refs = refs_among(spec.args, spec.kwargs)
        source = self._sources.dumped(name, spec.source)
        if not refs:
            with collecting(self) as loans:
                payload = encode_arguments(name, spec.args, spec.kwargs)
            self.arrived(loans, OWNER)
            birth = Birth(source, spec.interface, spec.options, loans or None)
            self._bear(actor, birth, payload)
            return actor

        later: asyncio.Future[Payload] = self.loop.create_future()

        def settled() -> None:
            if later.done():
                return
            try:
                args, kwargs = with_values(spec.args, spec.kwargs)
                later.set_result(encode_arguments(name, args, kwargs))
            except Exception as error:  # noqa: BLE001  # a ref that failed: so does the actor
                later.set_exception(error)

        self._bear(actor, Birth(source, spec.interface, spec.options, None), later)
        when_done(refs, settled)
        return actor

    def call(
        self,
        actor: ActorId,
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Sends a call; see Engine."""
        life = self._life(actor)
        dispatch = life.dispatch
        ref: ObjectRef[Any] = ObjectRef(loop=self.loop)
        payload = None if kwargs or self._lanes else encode_plain_call(args)
        if payload is not None:  # the usual case: everything else is the long way
            ref.bind(dispatch, dispatch.send(ref, method.name, None, payload))
            return ref
        refs = refs_among(args, kwargs)
        if not refs and not self._lanes:
            ref.bind(dispatch, self._send(life, ref, method, args, kwargs))
            return ref
        if not refs:  # what cannot be sent is refused here, not when its turn comes
            with collecting(self):
                encode_arguments(f"{life.record.label}.{method.name}", args, kwargs)
        ref.bind(dispatch, 0)
        self._send_in_order(life, ref, refs, method, args, kwargs)
        return ref

    def ready(self, actor: ActorId) -> asyncio.Future[None]:
        """Done when the actor is ready; see Engine."""
        return asyncio.shield(self._life(actor).ready)

    def end(self, actor: ActorId) -> asyncio.Future[None]:
        """Ends the actor behind what it was sent; see Engine."""
        life = self._life(actor)
        life.end("it was ended")
        return asyncio.shield(life.ended)

    def kill(self, actor: ActorId) -> asyncio.Future[None]:
        """Ends the actor at once; see Engine."""
        life = self._life(actor)
        life.kill("it was killed")
        return asyncio.shield(life.ended)

    def retain(self, actor: ActorId) -> None:
        """Counts a holder in this process; see Engine."""
        self.holders.add(actor, OWNER)

    def release(self, actor: ActorId) -> None:
        """Counts a holder less, soon: a destructor may run anywhere; see Engine."""
        with suppress(RuntimeError):  # the loop is closed, and every actor gone with it
            if threading.get_ident() == self._thread:
                self.loop.call_soon(self.drop, actor, OWNER, 1)
            else:
                self.loop.call_soon_threadsafe(self.drop, actor, OWNER, 1)

    async def aclose(self) -> None:
        """Ends every actor, the busy ones after a grace, and leaves no process."""
        self._is_closed = True
        lives = [life for life in self._lives.values() if not life.ended.done()]
        try:
            for life in lives:
                life.stop("the runtime was shut down")
            if lives:
                await asyncio.wait([life.ended for life in lives])
        finally:
            for life in lives:
                life.kill("the runtime was shut down")
            await self.machine.aclose()

    # Sending.

    def _life(self, actor: ActorId) -> Life:
        life = self._lives.get(actor)
        if life is None or self._is_closed:
            raise RuntimeError(
                f"actor {actor.hex()} belongs to a runtime that was shut down"
            )
        return life

    def _send(
        self,
        life: Life,
        ref: ObjectRef[Any],
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> int:
        where = f"{life.record.label}.{method.name}"
        with collecting(self) as loans:
            payload = encode_arguments(where, args, kwargs)
        self.arrived(loans, OWNER)
        return life.dispatch.send(ref, method.name, loans or None, payload)

    def _send_in_order(
        self,
        life: Life,
        ref: ObjectRef[Any],
        refs: Collection[ObjectRef[Any]],
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> None:
        """Sends a call when its arguments are there and those before it have gone."""
        dispatch = life.dispatch

        def go() -> None:
            dispatch.held_back -= 1
            if ref.done():  # cancelled while it waited
                life.idle()
                return
            try:
                good, named = with_values(args, kwargs)
                ref.bind(dispatch, self._send(life, ref, method, good, named))
            except Exception as error:  # noqa: BLE001  # it is the answer
                ref.set_exception(error)
                life.idle()

        dispatch.held_back += 1
        place = next(self._places)
        lane = life.record.id
        if self._lanes.post(lane, place, ready=all(r.done() for r in refs)):
            go()
            return
        self._held_back[place] = go

        def settled() -> None:
            for free in self._lanes.settled(lane, place, goes=True):
                self._held_back.pop(free)()

        when_done(refs, settled)

    # Lives.

    def _bear(
        self, actor: ActorId, birth: Birth, payload: Payload | asyncio.Future[Payload]
    ) -> None:
        record = ActorRecord(id=actor, interface=birth.interface, options=birth.options)
        self.registry.add(record)
        self._births[actor] = birth
        life = self._lives[actor] = Life(record, self, self._dispatch_of)
        asked, ledger = birth.options.request, self.machine.ledger
        if self._options.infeasible == "fail" and not ledger.feasible(asked):
            refusal = ledger.refusal(record.label, asked)
            self.retain(actor)  # until whoever creates it has a handle
            self.release(actor)
            life.be_stillborn(ActorUnschedulableError(refusal, actor_id=actor.hex()))
        else:
            life.begin(payload)

    def _dispatch_of(self, life: Life) -> Dispatch:
        return Dispatch(self, life.died, life.idle)

    def create_for(
        self,
        actor: ActorId,
        birth: Birth,
        payload: Payload | BaseException,
        maker: int,
    ) -> None:
        """Starts the life of an actor that a worker makes; see Actors."""
        self.holders.add(actor, maker)
        if isinstance(payload, BaseException):
            failed: asyncio.Future[Payload] = self.loop.create_future()
            failed.set_exception(payload)
            self._bear(actor, birth, failed)
        else:
            self._bear(actor, birth, payload)

    def find(self, actor: ActorId) -> Life | None:
        """The life of an actor; see Actors."""
        return self._lives.get(actor)

    async def acquire(self, record: ActorRecord) -> Lease:
        """Waits in line for the actor's share; see Surroundings."""
        asked = record.options.request
        return await self.machine.admission.acquire(record.label, asked)

    def release_lease(self, lease: Lease) -> None:
        """Gives a share back; see Surroundings."""
        self.machine.admission.release(lease)

    def launch(self, record: ActorRecord, lease: Lease) -> WorkerProcess:
        """Starts a worker for the actor; see Surroundings."""
        return self.machine.launch(record.label, lease)

    def open_session(self, life: Life, process: WorkerProcess) -> Session:
        """Opens the pipe to a worker; see Surroundings."""
        return Session(
            self.loop,
            next(self._sessions),
            process,
            life.dispatch,
            self._relay.serve,
            life.is_ready,
        )

    def start_frame(self, life: Life, session: Session, lease: Lease) -> Frame:
        """What a worker is told first; see Surroundings."""
        record = life.record
        birth = self._births[record.id]
        environment = self.machine.environment(lease, record.options)
        threads = environment.get("OMP_NUM_THREADS")
        setup = {
            "actor": record.id,
            "name": record.label,
            "prefix": self.registry.prefix(session.number),
            "looped": record.interface.is_async,
            "environment": environment,
            "path": sys.path,
            "threads": int(threads) if threads else None,
            "ids": self.machine.accelerator_ids(lease),
            "resources": counted(lease.amounts),
        }
        if birth.loans:
            self.lent(birth.loans, session.number)
        return (START, setup, birth.source, birth.loans, life.payload)

    def close_session(self, session: Session) -> None:
        """Forgets what a worker held; see Surroundings."""
        for actor in self.holders.forget(session.number):
            self._unheld(actor)

    def is_memory_short(self) -> bool:
        """Whether the kernel has killed for lack of memory; see Surroundings."""
        return self.machine.is_memory_short()

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
        life = self._lives.get(actor)
        if life is None:
            return
        life.end_when_idle("nobody held a handle of it any more")
        self._forget_if_over(life)

    def buried(self, life: Life) -> None:
        """The actor is dead and everything it had is back; see Surroundings."""
        birth = self._births.pop(life.record.id)
        if birth.loans and not life.was_sent_start:
            self.returned(birth.loans, OWNER)
        self._forget_if_over(life)

    def _forget_if_over(self, life: Life) -> None:
        actor = life.record.id
        if life.record.state is ActorState.DEAD and not self.holders.is_held(actor):
            self._lives.pop(actor, None)
            self.registry.forget(actor)

    # Inspection.

    def rows(self) -> list[dict[str, Any]]:
        """What is known of each actor; see ActorInfo."""
        return [self._row(life) for life in self._lives.values()]

    def explain(self, actor: ActorId) -> str:
        """Why an actor is not placed yet, or where it is."""
        record = self._life(actor).record
        if record.state is ActorState.PENDING:
            asked = record.options.request
            return self.machine.admission.explain(record.label, asked)
        if record.exit is not None:
            return f"{record.label} is dead: {record.exit}"
        held = ", ".join(
            f"{format_amount(share.device.kind, share.units)} of "
            f"{share.device.kind} {share.device.id}"
            for share in (record.lease.shares if record.lease else ())
        )
        return f"{record.label} is {record.state.value} on {held or 'no device'}"

    def _row(self, life: Life) -> dict[str, Any]:
        record, lease = life.record, life.record.lease
        shares = lease.shares if lease is not None else ()
        mask = self.machine.mask(lease, record.options) if shares and lease else None
        return {
            "actor_id": record.id.hex(),
            "class_name": record.label,
            "state": record.state.value,
            "pid": life.pid,
            "resources": counted(record.options.request.amounts),
            "devices": {share.device.id: share.units / UNITS for share in shares},
            "mask": mask,
            "pending_calls": life.dispatch.pending,
            "death": str(record.exit or ""),
        }
