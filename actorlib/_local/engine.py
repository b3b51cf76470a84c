"""The verbs of the embedded engine, in the owner's process.

It ties the rooms together and decides nothing itself: the ledger says who holds what,
the mailbox which frames go, the postmortem why an actor died.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from actorlib._arguments import Arguments, when_done
from actorlib._engine import ActorId, ActorSpec, Hold, LoanId, ObjectId, RuntimeContext
from actorlib._local import runs
from actorlib._local.birth import Birth, Sealed
from actorlib._local.holders import OWNER
from actorlib._local.lives import Lives
from actorlib._local.registry import ActorState
from actorlib._pending import PendingCalls
from actorlib._ref import ObjectRef
from actorlib._resources import format_amount
from actorlib._snapshot import Snapshot
from actorlib._wire.blame import Sources
from actorlib._wire.lanes import Lanes
from actorlib._wire.payload import encode_plain_call
from actorlib.exceptions import ActorHandleNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from actorlib._function_options import FunctionSpec
    from actorlib._interface import Interface, Method
    from actorlib._local.machine import Machine
    from actorlib._local.supervisor import Life
    from actorlib._options import ActorOptions
    from actorlib._runtime_options import RuntimeOptions
    from actorlib._snapshot import ActorInfo

_PATIENCE = 5.0
"""Seconds beyond the grace after which an end is forced, whatever the template does."""


class LocalEngine:
    """Runs actors as subprocesses of this process; see Engine.

    Every verb is called from the thread of its loop.
    """

    def __init__(self, machine: Machine, options: RuntimeOptions) -> None:
        self.loop = asyncio.get_running_loop()
        kinds = machine.inventory.devices
        self.machine = machine
        self.lives = Lives(machine, options)
        process = self.lives.registry.prefix(0)
        self.context = RuntimeContext(
            namespace=options.namespace,
            job_id=process[:4].hex(),
            node_id=machine.id,
            worker_id=process.hex(),
            accelerator_ids={kind: [] for kind in kinds},
        )
        self.memory = self.lives.stores.memory
        self.memory.belong(process, self, is_counted=True)
        self.lives.objects.engine = self
        self._living = self.lives.by_id  # at hand for every call
        self._grace = options.grace
        self._thread = threading.get_ident()
        self._sources = Sources()
        self._places = itertools.count(1)
        self._lanes: Lanes[ActorId, int] = Lanes()
        self._held_back: dict[int, Callable[[], None]] = {}
        self._is_closed = False
        self._is_forsaken = False
        self.pending = PendingCalls()

    # The verbs.

    def create(self, spec: ActorSpec) -> ActorId:
        """Starts the life of an actor; see Engine."""
        self._check_thread()
        self.lives.directory.vacant(spec.options)
        name = spec.interface.class_name
        source = self._sources.dumped(name, spec.source)
        arguments = Arguments(self, name, spec.args, spec.kwargs)
        actor = self.lives.registry.new_id()
        self.lives.arrived(arguments.loans, OWNER)
        birth = Birth(source, spec.interface, spec.options)
        if arguments.are_ready:
            self.lives.bear(actor, birth, self._completed(arguments))
        else:
            later: asyncio.Future[Sealed] = self.loop.create_future()
            self.lives.bear(actor, birth, later)
            when_done(arguments.refs, partial(self._complete_into, later, arguments))
        return actor

    def call(
        self,
        actor: ActorId,
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Sends a call; see Engine."""
        life = self._living.get(actor)
        if life is None or self._is_closed or threading.get_ident() != self._thread:
            life = self._life(actor)  # it says what is wrong
        dispatch = life.dispatch
        ref: ObjectRef[Any] = ObjectRef(loop=self.loop)
        payload = None if kwargs or self._lanes else encode_plain_call(args)
        if payload is not None:  # the usual case: everything else is the long way
            sent = dispatch.send(ref, method.name, None, payload, method.told)
            ref.bind(dispatch, sent)
            return ref
        where = f"{life.record.label}.{method.name}"
        arguments = Arguments(self, where, args, kwargs)
        self.lives.arrived(arguments.loans, OWNER)
        if arguments.refs or self._lanes:
            self._send_in_order(life, ref, method, arguments)
        else:
            sealed, loans = arguments.payload()
            name, told = method.name, method.told
            ref.bind(dispatch, dispatch.send(ref, name, loans, sealed, told))
        return ref

    def run(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Calls a function; see Engine."""
        self._check_thread()
        pool = self.lives.pool
        plan = pool.plans.of(self, spec)
        ref: ObjectRef[Any] = ObjectRef(loop=self.loop)
        payload = None if kwargs else encode_plain_call(args)
        if payload is not None:  # the usual case: everything else is the long way
            ref.bind(pool, pool.post(ref, plan, None, payload))
            return ref
        arguments = Arguments(self, spec.label, args, kwargs)
        self.lives.arrived(arguments.loans, OWNER)
        runs.post_when_ready(pool, ref, plan, arguments, self._completed)
        return ref

    def put(self, value: object) -> ObjectRef[Any]:
        """Keeps a value as it is now; see Engine."""
        self._check_thread()
        return self.lives.objects.put(value)

    def borrow(self, object_id: ObjectId) -> ObjectRef[Any]:
        """The ref of an object that was sent here; see Engine."""
        return self.lives.objects.borrow(object_id)

    def obtain(self, spec: ActorSpec) -> Hold:
        """The actor that has a name, or a new one; see Engine."""
        self._check_thread()
        life = self.lives.directory.holder(spec.options)
        if life is None:
            return Hold(self, self.create(spec), spec.interface)
        return self._hold(life)

    def find(self, name: str, namespace: str | None) -> Hold:
        """The actor of a name; see Engine."""
        self._check_thread()
        return self._hold(self.lives.directory.find(name, namespace))

    def _hold(self, life: Life) -> Hold:
        life.revive()
        return Hold(self, life.record.id, life.record.interface)

    def names(self) -> list[tuple[str, str]]:
        """Who answers to a name; see Engine."""
        return self.lives.directory.names()

    def actors(self) -> list[ActorInfo]:
        """What is known of each actor; see Engine."""
        return self.lives.infos()

    def interface(self) -> Interface:
        """Refuses: this is no actor; see Engine."""
        raise RuntimeError("this process is no actor's")

    def leave(self) -> NoReturn:
        """Refuses: this is no actor; see Engine."""
        raise TypeError("exit_actor() ends the actor whose code calls it: this is none")

    def ready(self, actor: ActorId) -> asyncio.Future[None]:
        """Done when the actor is ready; see Engine."""
        return self._life(actor).ready()

    def end(self, actor: ActorId) -> asyncio.Future[None]:
        """Ends the actor behind what it was sent; see Engine."""
        life = self._life(actor)
        life.end("it was ended")
        return asyncio.shield(life.ended)

    def kill(self, actor: ActorId, *, restart: bool = False) -> asyncio.Future[None]:
        """Ends the actor at once; see Engine."""
        life = self._life(actor)
        if restart:
            return life.interrupt("it was killed, to be restarted")
        life.kill("it was killed")
        return asyncio.shield(life.ended)

    def retain(self, actor: LoanId) -> None:
        """Counts a holder in this process; see Engine."""
        self.lives.holders.add(actor, OWNER)

    def release(self, actor: LoanId) -> None:
        """Counts a holder less, soon: a destructor may run anywhere; see Engine."""
        if self._is_forsaken:
            return
        with suppress(RuntimeError):  # the loop is closed, and every actor gone with it
            if threading.get_ident() == self._thread:
                self.loop.call_soon(self.lives.drop, actor, OWNER, 1)
            else:
                self.loop.call_soon_threadsafe(self.lives.drop, actor, OWNER, 1)

    def forsake(self) -> None:
        """Refuses everything from now on; see Engine."""
        self._is_forsaken = self._is_closed = True

    async def aclose(self) -> None:
        """Ends every actor, the busy ones after a grace, and leaves no process."""
        if self._is_forsaken:
            return
        self._is_closed = True
        self.lives.pool.close("the runtime was shut down")
        ended = {life.ended for life in self.lives if not life.ended.done()}
        try:
            for life in self.lives:
                life.stop("the runtime was shut down")
            if ended:
                await asyncio.wait(ended, timeout=self._grace + _PATIENCE)
        finally:
            for life in self.lives:
                life.kill("the runtime was shut down")
            await _insisted(self.machine.aclose())
            self.lives.stores.close()
        if ended:
            await asyncio.wait(ended, timeout=_PATIENCE)

    # Sending.

    def _life(self, actor: ActorId) -> Life:
        life = self.lives.find(actor)
        if life is None or self._is_closed:
            raise ActorHandleNotFoundError(
                f"actor {actor.hex()} belongs to another process, of which this one is "
                "a fork"
                if self._is_forsaken
                else f"actor {actor.hex()} is of a runtime that was shut down: create "
                "it anew in the one that runs now"
            )
        self._check_thread()
        return life

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise RuntimeError(
                "actors are called from the thread of the event loop that the runtime "
                "was started on; from another thread, hand it a coroutine with "
                "asyncio.run_coroutine_threadsafe()"
            )

    def _completed(self, arguments: Arguments) -> Sealed | BaseException:
        """The payload of arguments whose refs are done, or why there is none."""
        try:
            payload, loans = arguments.payload()
        except Exception as error:  # noqa: BLE001  # it becomes the answer
            self.lives.returned(arguments.loans, OWNER)
            return error
        if arguments.refs:
            self.lives.arrived(loans or (), OWNER)
            self.lives.returned(arguments.loans, OWNER)
        return Sealed(payload, loans)

    def _complete_into(
        self, later: asyncio.Future[Sealed], arguments: Arguments
    ) -> None:
        completed = self._completed(arguments)
        if isinstance(completed, Sealed):
            if later.done():
                self.lives.returned(completed.loans or (), OWNER)
            else:
                later.set_result(completed)
        elif not later.done():
            later.set_exception(completed)

    def _send_in_order(
        self, life: Life, ref: ObjectRef[Any], method: Method, arguments: Arguments
    ) -> None:
        """Sends a call when its arguments are there and those before it have gone."""
        dispatch, lane = life.dispatch, life.record.id
        number = dispatch.hold_back(ref)
        ref.bind(dispatch, number)
        del ref  # from here on it may be abandoned

        def go() -> None:
            waiting = dispatch.let_go(number)
            completed = self._completed(arguments)
            if isinstance(completed, BaseException):
                if waiting is not None:
                    waiting.set_exception(completed)
            elif waiting is None:  # cancelled while it waited
                self.lives.returned(completed.loans or (), OWNER)
            else:
                payload, loans = completed
                name, told = method.name, method.told
                sent = dispatch.send(waiting, name, loans, payload, told)
                waiting.bind(dispatch, sent)
            life.idle()

        place = next(self._places)
        ready, passes = arguments.are_ready, not method.keeps_order
        if self._lanes.post(lane, place, ready=ready, passes=passes):
            go()
            return
        self._held_back[place] = go

        def settled() -> None:
            for free in self._lanes.settled(lane, place, goes=True):
                self._held_back.pop(free)()

        when_done(arguments.refs, settled)

    # Inspection.

    def snapshot(self) -> Snapshot:
        """The state of the runtime now."""
        machine = self.machine
        return Snapshot(
            total=machine.ledger.total(),
            available=machine.ledger.available(),
            waiting=tuple(
                f"{label}: {request}" for label, request in machine.admission.waiting()
            ),
            actors=tuple(self.lives.infos()),
            crews=self.lives.pool.info(),
        )

    def explain(self, actor: ActorId) -> str:
        """Why an actor is not placed yet, or where it is."""
        life = self._life(actor)
        record = life.record
        if life.waits_for_arguments:
            return f"{record.label} waits for a ref among its constructor's arguments"
        if life.place.waits_for_neighbours:
            return (
                f"{record.label} waits for a place for the actors that it is to be "
                "near to, or apart from"
            )
        state = f"{record.label} is {record.state.value}"
        if record.state is ActorState.RESTARTING:
            state = f"{state}, {life.restarts.told(self.loop.time())}"
        is_pending = record.state is ActorState.PENDING
        if is_pending or (life.place.promise is not None and life.is_placeless):
            told = self.lives.demands.explain(life)
            return told if is_pending else f"{state}: {told}"
        if record.exit is not None:
            return f"{record.label} is dead: {record.exit}"
        if record.state is ActorState.RESTARTING:
            return state
        held = ", ".join(
            f"{format_amount(share.device.kind, share.units)} of "
            f"{share.device.kind} {share.device.id}"
            for share in (record.lease.shares if record.lease else ())
        )
        return f"{state} on {held or 'no device'}"

    def survey(self, label: str, options: ActorOptions) -> str:
        """Where an actor would go now, or what stands in its way, device by device."""
        self._check_thread()
        return self.lives.demands.survey(label, options)


async def _insisted(work: Coroutine[Any, Any, None]) -> None:
    """Does work that has an end to its end, however often the wait is cancelled."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError
