"""The operations of the local engine, in the owner's process.

It connects the other subpackages and decides nothing itself: the ledger grants leases,
the mailbox decides which frames are sent, the exit reason explains the end of an actor.

The loop may have a thread of its own, as in the blocking API. Other threads call most
operations through ``@on_loop`` and wait for the result, so an error is raised in the
line that caused it. Three frequent operations have faster paths. A call with plain
arguments is posted without waiting: its ref is created in the calling thread, and a
burst of calls wakes the loop once. The same holds for a call of a known function and
for ``retain``. Posted and awaited work shares one queue, so the calls of a thread keep
their order.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from actorlib._base.ids import BLOCK_KIND, ActorId, prefix_of_kind
from actorlib._base.log import warn
from actorlib._base.process_stat import read_stat
from actorlib._core.engine import (
    ActorSpec,
    CallQueue,
    Feature,
    FeatureT,
    HandlePin,
    PendingCalls,
    PlacementGroups,
    RuntimeEngine,
    override,
)
from actorlib._core.propagation import PROPAGATED
from actorlib._core.runtime_context import RuntimeContext
from actorlib._futures.object_ref import ObjectRef
from actorlib._futures.runtime_portal import RuntimePortal, on_loop
from actorlib._futures.stream_reader import StreamReader
from actorlib._loops.forking import detach_loop
from actorlib._loops.loop_thread import ThreadedLoop
from actorlib._options.callee import BoundMethod
from actorlib._options.function_options import FunctionOptions
from actorlib._options.runtime_env import InheritedEnv, refuse_env, refuse_ranks
from actorlib._owner.actors.actor_record import ActorDefinition
from actorlib._owner.actors.actor_table import ActorTable
from actorlib._owner.calls.submission import CallSubmitter
from actorlib._owner.objects.refcount import OWNER
from actorlib._owner.observation.inspection import Inspector
from actorlib._owner.requests.placement_groups import GroupOperations
from actorlib._owner.requests.worker_requests import WorkerRequests
from actorlib._owner.teardown import tear_down
from actorlib._processes.signal_wakeup import SignalWakeup
from actorlib._rows.snapshot import Snapshot
from actorlib._wire.arguments import Call
from actorlib._wire.call_headers import headers_of
from actorlib._wire.codec import are_scalars
from actorlib._wire.function_code import ClassDefinitions
from actorlib._wire.serialization import decode_call, encode_plain_call
from actorlib.exceptions import ActorHandleNotFoundError, RuntimeDrainingError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from actorlib._base.ids import CountedId, ObjectId
    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.callee import Callee
    from actorlib._options.function_options import FunctionSpec
    from actorlib._options.group_spec import GroupId
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._options.shares import ActorShare
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.functions.task_worker import CalledFunction
    from actorlib._owner.machine import LocalNode
    from actorlib._owner.requests.clients import Clients
    from actorlib._rows.snapshot import (
        ActorInfo,
        AllCalls,
        CallInfo,
        ObjectInfo,
        ObjectOrder,
    )
    from actorlib._shm.memory import Payload

R = TypeVar("R", ObjectRef[Any], StreamReader)
T = TypeVar("T")
FutureMethod = TypeVar("FutureMethod", bound="Callable[..., asyncio.Future[Any]]")

_LAST_ANSWERS = 0.5
"""Seconds that workers may take to list their calls over links."""

_PATIENCE = 5.0
"""Seconds beyond the grace after which an end is forced, whatever the template does."""

_QUIET = 1.0
"""Seconds beyond the grace after which the log names the actors that have not ended."""


def _future_of_actor(method: FutureMethod) -> FutureMethod:
    """Runs a method that returns a future on the loop, from any thread.

    Code on the user's loop gets the future itself, other code gets a ref of it.
    """

    @wraps(method)
    def cross(
        self: LocalEngine, actor: ActorId, *args: Any, **kwargs: Any
    ) -> asyncio.Future[Any]:
        if self.is_on_loop():
            return method(self, actor, *args, **kwargs)
        return self.ref_of(actor, partial(method, self, actor, *args, **kwargs))

    return cast("FutureMethod", cross)


def _report_late(supervisors: Sequence[ActorSupervisor]) -> None:
    """Logs which actors a shutdown waits for, and whether their template is stopped."""
    from actorlib._processes.forkserver_launcher import silence_reason  # noqa: PLC0415  # few are late

    names = [f"{each.record.label} (pid {each.pid})" for each in supervisors]
    workers = (read_stat(each.pid) for each in supervisors if each.pid)
    parents = {worker.parent for worker in workers if worker is not None}
    reasons = [
        f": {silence_reason(parent, stat)}"
        for parent in parents
        if (stat := read_stat(parent)) is not None and stat.is_stopped
    ]
    warn("the shutdown waits for the end of %s%s", ", ".join(names), "".join(reasons))


class LocalEngine(RuntimeEngine):
    """Runs actors as subprocesses of this process.

    Decorated methods cross to the loop from any thread. Frequent ones are not
    decorated, as that costs a frame: they check the calling thread themselves.

    Attributes:
        portal: Calls functions on the loop, from any thread.
        machine: The machine, with the launcher of its workers.
        actor_table: The actors.
        requests: Serves the requests of workers and clients.
        memory: The shared memory of large values.
    """

    def __init__(self, machine: LocalNode, options: RuntimeOptions) -> None:
        self.loop = asyncio.get_running_loop()
        self.portal = RuntimePortal(self.loop)
        kinds = machine.inventory.devices
        self.machine = machine
        self.actor_table = ActorTable(self, machine, options)
        lists = {
            "actors": self.actors,
            "available": self.available,
            "calls": self._plain_calls,
            "names": self.names,
            "snapshot": self.snapshot,
            "total": self.total,
        }
        self.requests = WorkerRequests(self, self.actor_table, lists)
        self._inspector = Inspector(
            self.actor_table, self.requests.links, options.actor_history
        )
        self._clients: Clients | None = None
        process = self.actor_table.ids.prefix(0)
        self.context = RuntimeContext(
            namespace=options.namespace,
            job_id=process[:4].hex(),
            node_id=machine.id,
            worker_id=process.hex(),
            runtime_env=options.runtime_env or {},
            accelerator_ids={kind: [] for kind in kinds},
        )
        self.memory = self.actor_table.object_store.memory
        segments = prefix_of_kind(process, BLOCK_KIND)
        self.memory.bind_to(segments, self, is_counted=True)
        self._supervisors = self.actor_table.by_id  # used by every call
        self._references = self.actor_table.references
        self._grace = options.grace
        self._name = options.name or ""
        self._thread = threading.get_ident()
        self._definitions = ClassDefinitions(self)
        self._submitter = CallSubmitter(self, self._references, self.loop)
        self._lanes = self._submitter.order.lanes  # used by every call
        self._pool = self.actor_table.pool
        self._home = self.portal.portal  # used by every call of another thread
        # Actors that other threads have created: the first handle is already counted.
        self._unheld: set[ActorId] = set()
        self.groups: PlacementGroups = GroupOperations(
            self.actor_table, self.portal, self._check_accepts_work
        )
        self._wakeup = SignalWakeup(self.loop)
        self._closers: list[Callable[[], None]] = []
        self._is_closed = False
        # Whether new calls of this process are refused: closed or draining.
        self._refuses = False
        self._is_in_fork = False
        self._is_ended = False
        env = options.runtime_env
        self._inherited_env = InheritedEnv(env) if env else None
        self.pending = PendingCalls()
        self._features: dict[type[Feature], Feature] = {}
        self._attaching = threading.Lock()  # the server has its own thread

    # The operations.

    @override
    def create(self, spec: ActorSpec) -> ActorId:
        if threading.get_ident() != self._thread:
            return self._create_from_thread(spec)
        self._check_accepts_work()
        if self._inherited_env:
            spec = self._inherited_env.given_to(spec)
        if self.machine.is_shared:
            refuse_env(spec.options.runtime_env)
            if spec.options.torch:
                refuse_ranks()
        if spec.options.name is not None:
            self.actor_table.actor_names.vacant(spec.options)
        name = spec.interface.class_name
        definition = self._definitions.of(name, spec.source, spec.sent)
        arguments = self._submitter.arguments(name, spec.args, spec.kwargs)
        actor = self.actor_table.ids.new_id()
        self.actor_table.create(
            actor,
            ActorDefinition(definition, spec.interface, spec.options, slot=spec.slot),
            self._submitter.constructor_arguments(arguments),
        )
        return actor

    def _create_from_thread(self, spec: ActorSpec) -> ActorId:
        def create_held() -> ActorId:
            actor = self.create(spec)
            # Counts the handle that the thread is about to create: its own count comes
            # later, and until then there is no other.
            self.retain(actor)
            return actor

        actor = self.portal.call(create_held)
        self._unheld.add(actor)
        return actor

    @override
    def call(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        supervisor = self._supervisors.get(callee.actor)
        if supervisor is None or self._refuses or threading.get_ident() != self._thread:
            if threading.get_ident() != self._thread:
                return self._call_from_thread(callee, args, kwargs)
            if isinstance(callee, BoundMethod):
                self._check_not_draining()
                raise self._gone(callee.actor)
            return self._call_function(ObjectRef(loop=self.loop), callee, args, kwargs)
        headers = callee.headers
        if headers is not None or PROPAGATED:
            headers = headers_of(callee)
        ref: ObjectRef[Any] = ObjectRef(loop=self.loop)
        if not self._lanes:  # the usual case: the other path is slower
            payload = (
                args
                if not kwargs and are_scalars(args)
                else encode_plain_call(args, kwargs)
            )
            if payload is not None:
                supervisor.router.call(ref, callee.name, payload, headers)
                return ref
        self._submitter.send(supervisor, ref, callee, args, kwargs, headers)
        return ref

    def _call_from_thread(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        if not isinstance(callee, BoundMethod):
            return self._call_function_from_thread(callee, args, kwargs)
        supervisor = self._supervisors.get(callee.actor)
        payload = encode_plain_call(args, kwargs)
        if payload is None or supervisor is None or self._refuses:
            return self._call_for(
                callee.actor, partial(self.call, callee, args, kwargs)
            )
        headers = callee.headers
        if headers is not None or PROPAGATED:
            headers = headers_of(callee)
        ref = self._new_ref()
        ref.callee = callee  # until it has crossed
        self._home.post(self._send, supervisor, ref, callee, payload, headers)
        return ref

    def _send(
        self,
        supervisor: ActorSupervisor,
        ref: ObjectRef[Any],
        callee: BoundMethod,
        payload: bytes,
        headers: dict[str, object] | None,
    ) -> None:
        if self._lanes:  # other calls wait for arguments, perhaps to the same actor
            args, kwargs = decode_call(payload)
            self._submitter.send(supervisor, ref, callee, tuple(args), kwargs, headers)
        else:
            supervisor.router.call(ref, callee.name, payload, headers)

    def _call_function(
        self,
        result: R,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> R:
        """Calls a function; returns ``result``, which gets the answer or the items.

        Raises:
            SerializationError: The function or an argument cannot be sent.
        """
        if self._refuses:
            self._check_not_draining()
        if self._inherited_env:
            spec = self._inherited_env.of(spec)
        pool = self._pool
        functions = pool.functions
        entry = functions.entries.get(spec) or functions.make_entry(self, spec)
        headers = spec.headers
        if headers is not None or PROPAGATED:
            headers = headers_of(spec)
        payload: bytes | tuple[object, ...] | None = (
            args
            if not kwargs and are_scalars(args)
            else encode_plain_call(args, kwargs)
        )
        if payload is not None:  # the usual case: the other path is slower
            result.bind(pool, pool.post(result, entry, None, payload, headers))
            return result
        call = Call(
            0, spec, self._submitter.arguments(spec.name, args, kwargs), headers
        )
        self._submitter.post(pool, entry, result, call)
        return result

    def _call_function_from_thread(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        if self._inherited_env:
            spec = self._inherited_env.of(spec)
        entry = None if self._refuses else self._pool.functions.entries.get(spec)
        payload = encode_plain_call(args, kwargs)
        if payload is None or entry is None:
            return self.portal.call(partial(self.call, spec, args, kwargs))
        headers = spec.headers
        if headers is not None or PROPAGATED:
            headers = headers_of(spec)
        ref = self._new_ref()
        ref.callee = spec.name  # until it has crossed
        self._home.post(self._post, ref, entry, payload, headers)
        return ref

    def _post(
        self,
        ref: ObjectRef[Any],
        entry: CalledFunction,
        payload: Payload,
        headers: dict[str, object] | None,
    ) -> None:
        ref.bind(self._pool, self._pool.post(ref, entry, None, payload, headers))

    @override
    def stream(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        if threading.get_ident() != self._thread:
            stream = partial(self.stream, callee, args, kwargs)
            if isinstance(callee, BoundMethod):
                return self._call_for(callee.actor, stream)
            return self.portal.call(stream)
        if isinstance(callee, BoundMethod):
            supervisor = self._supervisors.get(callee.actor)
            if supervisor is None or self._refuses:
                self._check_not_draining()
                raise self._gone(callee.actor)
            router = supervisor.router
            reader = StreamReader.of(callee, self.loop, router)
            headers = headers_of(callee)
            payload = None if self._lanes else encode_plain_call(args, kwargs)
            if payload is not None:
                router.call(reader, callee.name, payload, headers)
            else:
                self._submitter.send(supervisor, reader, callee, args, kwargs, headers)
            return reader
        pool = self._pool
        reader = StreamReader.of(callee, self.loop, pool)
        reader.allow_force(pool.force_cancel)
        return self._call_function(reader, callee, args, kwargs)

    @on_loop
    def put(self, value: object) -> ObjectRef[Any]:
        self._check_thread()
        return self.actor_table.objects.put(value)

    @override
    def borrow(self, object_id: ObjectId) -> ObjectRef[Any]:
        return self.actor_table.objects.borrow(object_id)

    @on_loop
    def obtain(self, spec: ActorSpec) -> HandlePin:
        self._check_thread()
        supervisor = self.actor_table.actor_names.holder(spec.options)
        if supervisor is None:
            return HandlePin(self, self.create(spec), spec.interface, spec.options.name)
        return self._hold(supervisor)

    @on_loop
    def find(self, name: str, namespace: str | None) -> HandlePin:
        self._check_thread()
        return self._hold(self.actor_table.actor_names.find(name, namespace))

    def _hold(self, supervisor: ActorSupervisor) -> HandlePin:
        supervisor.revive()
        record = supervisor.record
        return HandlePin(self, record.id, record.interface, record.options.name)

    @on_loop
    def names(self) -> list[tuple[str, str]]:
        return self.actor_table.actor_names.names()

    @on_loop
    def actors(self) -> list[ActorInfo]:
        return self._inspector.actors()

    @override
    def share(self, actor: ActorId) -> ActorShare:
        def share() -> ActorShare:
            return self._inspector.share(self._supervisor_of(actor))

        return self._call_for(actor, share)

    @override
    def loads(self, actors: Sequence[ActorId]) -> list[int | None]:
        supervisors = map(self._supervisors.get, actors)
        return [None if each is None else each.router.load for each in supervisors]

    @override
    def backlogs(self, actors: Sequence[ActorId]) -> list[int]:
        supervisors = map(self._supervisors.get, actors)
        return [0 if each is None else each.router.backlog for each in supervisors]

    @override
    def call_queue(self, actor: ActorId) -> CallQueue:
        supervisor = self._supervisors.get(actor)
        return CallQueue(0, 0) if supervisor is None else supervisor.router.queue()

    @override
    def shortage(self, label: str, options: ActorOptions) -> str:
        self._check_thread()
        return self.actor_table.placer.shortage(label, options)

    @override
    def dead(self, actor: ActorId) -> asyncio.Future[None]:
        return asyncio.shield(self._supervisor_of(actor).ended)

    @_future_of_actor
    def ready(self, actor: ActorId) -> asyncio.Future[None]:
        return self._supervisor_of(actor).ready()

    @_future_of_actor
    def end(self, actor: ActorId) -> asyncio.Future[None]:
        supervisor = self._supervisor_of(actor)
        supervisor.end("it was ended")
        return asyncio.shield(supervisor.ended)

    @_future_of_actor
    def kill(self, actor: ActorId, *, restart: bool = False) -> asyncio.Future[None]:
        supervisor = self._supervisor_of(actor)
        if restart:
            return supervisor.interrupt("it was killed, to be restarted")
        supervisor.kill("it was killed")
        return asyncio.shield(supervisor.ended)

    @_future_of_actor
    def suspend(self, actor: ActorId, patience: float | None) -> asyncio.Future[None]:
        return self._supervisor_of(actor).suspend(patience)

    @_future_of_actor
    def resume(self, actor: ActorId) -> asyncio.Future[None]:
        return self._supervisor_of(actor).resume()

    @override
    def retain(self, actor: CountedId) -> None:
        if threading.get_ident() == self._thread:
            self._references.retain(actor, OWNER)
        elif actor in self._unheld:
            self._unheld.discard(ActorId(actor))
        else:
            self._home.post(self.retain, actor)

    @override
    def release(self, actor: CountedId) -> None:
        if self._is_in_fork:
            return
        # Always later: a destructor may run anywhere.
        with suppress(RuntimeError):  # the loop is closed: every actor has ended
            if threading.get_ident() == self._thread:
                self.loop.call_soon(self._references.release, actor, OWNER)
            else:
                self.loop.call_soon_threadsafe(self._references.release, actor, OWNER)

    @override
    def later(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(callback)

    @property
    @override
    def is_closed(self) -> bool:
        return self._is_closed

    def show_output(self) -> None:
        """Shows all output of workers so far; called on the loop."""
        self.machine.show_output()

    @override
    def close_in_fork(self) -> None:
        self._is_in_fork = self._is_closed = self._refuses = True
        detach_loop(self.loop)
        for supervisor in self.actor_table:
            supervisor.close_in_fork()

    async def aclose(self) -> None:
        """Ends every actor, the busy ones after a grace, and leaves no process."""
        if self._is_in_fork or self._is_ended:
            return
        self._is_closed = self._is_ended = self._refuses = True
        try:
            await self._end_all()
        finally:
            self._close_rest()

    def abandon(self) -> Callable[[], None]:
        """Ends everything at once, when its loop is already closed.

        Returns:
            A function that blocks until no process is left.
        """
        if self._is_in_fork or self._is_ended:
            return lambda: None
        self._is_closed = self._is_ended = self._refuses = True
        for supervisor in self.actor_table:
            supervisor.close_in_fork()
        self._close_rest()
        return self.machine.abandon()

    def _close_rest(self) -> None:
        closers, self._closers = self._closers, []
        store, wakeup = self.actor_table.object_store, self._wakeup
        tear_down(self, *closers, store.close, wakeup.close)

    def at_end(self, close: Callable[[], None]) -> None:
        """Registers a function to call at the end of this engine."""
        self._closers.append(close)

    def refusal(self) -> str:
        """Returns why no client is admitted now; empty if one may be."""
        if self._is_closed:
            return "it is being shut down"
        return "it drains" if self._refuses else ""

    def admit(self, sock: socket.socket, pid: int, program: str) -> None:
        if self._clients is None:
            from actorlib._owner.requests.clients import Clients  # noqa: PLC0415  # few have any

            self._clients = Clients(self.actor_table, self.context)
            self.at_end(self._clients.close)
        self._clients.admit(sock, pid, program)

    def _plain_calls(self) -> list[CallInfo]:
        """Lists the calls without the user's context variables."""
        return [replace(call, variables={}) for call in self.calls()]

    @override
    def attached(self, feature: type[FeatureT], api_name: str) -> FeatureT:
        del api_name
        with self._attaching:
            if feature not in self._features:
                self._features[feature] = feature(self)
            return cast("FeatureT", self._features[feature])

    async def _end_all(self) -> None:
        self.machine.enforcement.stop()
        try:
            if self._clients is not None:
                await self._clients.part(self._grace)
        finally:
            await self._end_actors()

    async def _end_actors(self) -> None:
        table, why = self.actor_table, "the runtime was shut down"
        tear_down(
            self,
            table.groups.close,
            table.scheduler.long_waits.close,
            partial(table.pool.close, why),
        )
        supervisors_by_end = {
            supervisor.ended: supervisor
            for supervisor in table
            if not supervisor.ended.done()
        }
        try:
            tear_down(self, *(partial(each.stop, why) for each in table))
            if supervisors_by_end:
                _, late = await asyncio.wait(
                    supervisors_by_end, timeout=self._grace + _QUIET
                )
                if late:
                    _report_late([supervisors_by_end[each] for each in late])
                    await asyncio.wait(late, timeout=_PATIENCE - _QUIET)
        finally:
            tear_down(self, *(partial(each.kill, why) for each in table))
            await _complete(self.machine.aclose())
        if supervisors_by_end:
            await asyncio.wait(supervisors_by_end, timeout=_PATIENCE)

    # Other threads.

    def _call_for(self, actor: ActorId, work: Callable[[], T]) -> T:
        """Calls a function about an actor on the loop, and waits for its result.

        Raises:
            ActorHandleNotFoundError: The runtime was shut down.
        """
        if self._is_closed:
            self._supervisor_of(actor)
        return self.portal.call(work)

    def ref_of(
        self, actor: ActorId, ask: Callable[[], asyncio.Future[Any]]
    ) -> ObjectRef[Any]:
        """Returns a ref of a future about an actor, which any thread may wait for."""
        ref = self._new_ref()

        def settle(future: asyncio.Future[Any]) -> None:
            if ref.done():
                return
            error = future.exception()
            if error is None:
                ref.set_result(future.result())
            else:
                ref.set_exception(error)

        self._call_for(actor, lambda: ask().add_done_callback(settle))
        return ref

    def is_on_loop(self) -> bool:
        """Whether this code runs on the user's loop, which can await plain futures."""
        if isinstance(self.portal.portal, ThreadedLoop):
            return False
        return asyncio._get_running_loop() is self.loop  # noqa: SLF001  # None, and no error, if there is none

    def _new_ref(self) -> ObjectRef[Any]:
        """Returns an empty ref; until its call is sent it counts as an object's."""
        self.portal.hide_refs()  # another loop may gather it
        ref: ObjectRef[Any] = ObjectRef(loop=self.loop)
        ref.bind(self.actor_table.objects, 0)
        return ref

    # CallSubmitter.

    def _supervisor_of(self, actor: ActorId) -> ActorSupervisor:
        supervisor = self._supervisors.get(actor)
        if supervisor is None or self._is_closed:
            raise self._gone(actor)
        self._check_thread()
        return supervisor

    def _gone(self, actor: ActorId) -> ActorHandleNotFoundError:
        return ActorHandleNotFoundError(
            f"actor {actor.hex()} belongs to another process, of which this one is "
            "a fork"
            if self._is_in_fork
            else f"actor {actor.hex()} is of a runtime that was shut down: create "
            "it again in the current one"
        )

    def _check_not_draining(self) -> None:
        if self._refuses and not self._is_closed:
            raise RuntimeDrainingError(
                "this runtime drains: it finishes the calls that it has, and takes no "
                "new ones from this process"
            )

    def _check_accepts_work(self) -> None:
        self._check_not_draining()
        self.check_open()

    def check_open(self) -> None:
        """Checks that the runtime runs, and that this is the thread of its loop.

        Raises:
            RuntimeError: It was shut down, or this is another thread.
        """
        if self._is_closed:
            raise RuntimeError("this runtime was shut down")
        self._check_thread()

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise RuntimeError("only the thread of the runtime's loop may do this")

    # Inspection.

    @on_loop
    def snapshot(self) -> Snapshot:
        scheduler = self.actor_table.scheduler
        return Snapshot(
            total=scheduler.ledger.total(),
            available=scheduler.ledger.available(),
            waiting=tuple(
                f"{label}: {request}"
                for label, request in scheduler.admission.waiting()
            ),
            actors=tuple(self._inspector.actors()),
            object_store=self.actor_table.object_store.info(),
            groups=tuple(self.groups.infos()),
            demands=tuple(scheduler.demands()),
            worker_groups=self.actor_table.pool.workers.info(),
            draining=tuple(map(str, self.actor_table.placer.draining)),
            devices=tuple(scheduler.devices()),
            name=self._name,
            clients=() if self._clients is None else self._clients.infos(),
        )

    @on_loop
    def calls(self) -> list[CallInfo]:
        return [*self._inspector.calls()]

    @override
    async def all_calls(
        self,
        patience: float,
        most: int | None = None,
        actor: ActorId | None = None,
    ) -> tuple[AllCalls, int]:
        if patience:
            self.check_open()
        return await self._inspector.all_calls(patience, most, actor)

    @override
    async def drain(self, patience: float) -> list[CallInfo]:
        self._refuses = True
        deadline, now = self.loop.time() + patience, self.loop.time
        # An answered call may have made others, and clients make further calls.
        while (rest := deadline - now()) > 0:
            of_clients = await self.requests.client_calls(rest)
            under_way = [*self._own_calls(), *of_clients]
            if not under_way:
                return self.calls()
            await asyncio.wait(under_way, timeout=max(0.0, deadline - now()))
        unanswered, _ = await self.all_calls(_LAST_ANSWERS)
        return unanswered.calls

    def _own_calls(self) -> list[asyncio.Future[Any]]:
        """Returns the futures of this process's unanswered calls."""
        calls = [*self._pool.unanswered()]
        for supervisor in self.actor_table:
            if supervisor.record.is_actor:
                calls += supervisor.router.unanswered()
        targets = [call.target for call in calls]
        refs = [
            target.completed if isinstance(target, StreamReader) else target
            for target in targets
        ]
        return [ref for ref in refs if asyncio.isfuture(ref) and not ref.done()]

    @on_loop
    def objects(
        self, sort: ObjectOrder = "size", limit: int | None = None
    ) -> list[ObjectInfo]:
        from actorlib._owner.objects.stored_objects import (  # noqa: PLC0415  # few ask
            StoredObjects,
        )

        return StoredObjects(self.actor_table, self._clients).listed(sort, limit)

    @on_loop
    def available(self) -> dict[str, float]:
        return self.actor_table.scheduler.ledger.available()

    @on_loop
    def total(self) -> dict[str, float]:
        return self.actor_table.scheduler.ledger.total()

    @on_loop
    def explain_group(self, group: GroupId) -> str:
        self._check_accepts_work()
        placement_group = self.actor_table.groups.find(group)
        if placement_group is None:
            return f"group {group.hex()} was removed"
        return placement_group.explain()

    @on_loop
    def explain(self, actor: ActorId) -> str:
        return self._inspector.explain(self._supervisor_of(actor))

    @on_loop
    def survey(self, label: str, options: ActorOptions | FunctionOptions) -> str:
        self._check_thread()
        placer = self.actor_table.placer
        if not isinstance(options, FunctionOptions):
            return placer.survey(label, options)
        functions = self.actor_table.pool.functions
        text = placer.survey(label, functions.adapt_to_machine(options).worker)
        reason = functions.start_error(options)
        if reason:
            text += f"\nno further worker can be started for its calls: {reason}"
        return text


async def _complete(work: Coroutine[Any, Any, None]) -> None:
    """Awaits work that ends in bounded time, even if the wait is cancelled."""
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
