"""Implements Engine on Ray, in each process of a cluster."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, cast

from actorlib._base.labels import Label
from actorlib._core.engine import (
    ActorExit,
    ActorSpec,
    Engine,
    HandlePin,
    PendingCalls,
    Refusal,
    override,
)
from actorlib._futures.object_ref import mark_seen
from actorlib._futures.runtime_portal import on_loop
from actorlib._options.callee import BoundMethod
from actorlib._options.resources import counted
from actorlib._options.runtime_env import merged_env
from actorlib._ray import client_mode
from actorlib._ray.actors import Actor, ActorTraits, KnownActors, key_of
from actorlib._ray.calls import (
    Calls,
    connection_lost,
    prepare_call,
    split_refs,
    unsendable_call,
)
from actorlib._ray.host import ActorHost, AsyncActorHost
from actorlib._ray.messages import HostConfig
from actorlib._ray.options import actor_options, refuse_hooks
from actorlib._ray.pickled import PickledSources, check_pickled_by_ray, pickle_value
from actorlib._ray.placement_groups import RayPlacementGroups
from actorlib._ray.ray_api import id_of, ray, scheduling_strategy
from actorlib._ray.refs import FailedAnswer, RayTask
from actorlib._ray.state import (
    ClusterNodes,
    actor_names,
    find_actor,
    granted,
    infos_of,
)
from actorlib._wire.errors import unsendable_error
from actorlib._wire.serialization import dump
from actorlib.exceptions import (
    ActorAlreadyExistsError,
    ActorDiedError,
    ActorHandleNotFoundError,
    ActorNotFoundError,
    Exit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._base.ids import ActorId, CountedId, ObjectId
    from actorlib._core.runtime_context import RuntimeContext
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._futures.stream_reader import StreamReader
    from actorlib._options.callee import Callee
    from actorlib._options.interface import Interface
    from actorlib._options.runtime_env import InheritedEnv
    from actorlib._ray.messages import CallMessage, RuntimeConfig
    from actorlib._ray.pickled import PickledValue
    from actorlib._ray.process import EntryPoints, ProcessState
    from actorlib._rows.snapshot import ActorInfo

_REPLICAS = Refusal(
    "Replicas choose by the calls that actors have without an answer, which Ray does "
    "not tell. The local engine does"
)
_SUSPENSION = Refusal(
    "Ray's actors cannot be suspended: it has nothing like that. The local engine does "
    "it where NVIDIA's driver can"
)


class HostClasses:
    """Makes Ray's actor classes, each exported to the cluster once.

    A class has the attributes that a process needs which finds an actor by name.
    """

    def __init__(self) -> None:
        self._classes: dict[bytes, Any] = {}

    def of(self, spec: ActorSpec) -> Any:
        options, interface = spec.options, spec.interface
        traits = traits_of(spec)
        groups = {} if interface.is_async else dict(options.concurrency_groups or {})
        key = dump((interface, traits, groups))
        ray_class = self._classes.get(key)
        if ray_class is None:
            base = AsyncActorHost if interface.is_async else ActorHost
            # The dashboard and Ray's messages show this name.
            host = type(
                interface.class_name,
                (base,),
                {"interface": interface, "traits": traits},
            )
            host.__module__ = base.__module__
            decorate = ray.remote(concurrency_groups=groups) if groups else ray.remote
            ray_class = self._classes[key] = decorate(host)
        return ray_class


def traits_of(spec: ActorSpec) -> ActorTraits:
    interface, options = spec.interface, spec.options
    return ActorTraits(
        interface.class_name, interface.is_async, options.max_restarts, options.retried
    )


def host_config(
    spec: ActorSpec,
    source: PickledValue,
    context: RuntimeContext,
    runtime: RuntimeConfig,
    entry_points: EntryPoints,
    *,
    hides: bool,
) -> HostConfig:
    """Makes the configuration of a host."""
    options, interface = spec.options, spec.interface
    limits = options.limits(is_async=interface.is_async) if interface.is_async else {}
    return HostConfig(
        source=source,
        label=interface.class_name,
        resources=counted(options.request.amounts),
        runtime_env=merged_env(context.runtime_env, options.runtime_env) or {},
        hides=hides,
        limits=limits,
        groups=interface.grouped(),
        group=options.group,
        captures=bool(options.placement_group_capture_child_tasks),
        runtime=runtime,
        begin=entry_points.host,
    )


def _gone(answer: Any) -> None:
    """Ignores the answer: in any case the actor has ended."""
    del answer


_HIDES = "ACTORLIB_HIDE_DEVICES"


class RayEngine(Engine):
    """Runs actors on Ray; see Engine.

    Attributes:
        process: Fills the refs of this process.
        context: The context of its code.
        runtime: The configuration of the runtime.
        query: Runs queries about the cluster.
        nodes: The resources of the machines.
        own_interface: The methods of the actor of this process.
        traits: The options of that actor that callers need.
        heritage: The environment that actors and functions inherit, if any.
        portal: The process, which runs operations on the loop of the user's program.
    """

    refusals: Mapping[str, Refusal] = {
        **Engine.refusals,
        "share": Refusal(
            "handle.share is known on the local and the inline engine. Ray counts "
            "shares and does not enforce them; actorlib.get_gpu_ids() in the actor "
            "returns its devices",
            RuntimeError,
        ),
        "loads": _REPLICAS,
        "backlogs": _REPLICAS,
        "call_queue": _REPLICAS,
        "shortage": _REPLICAS,
        "dead": _REPLICAS,
        "suspend": _SUSPENSION,
        "resume": _SUSPENSION,
    }

    def __init__(
        self, process: ProcessState, context: RuntimeContext, runtime: RuntimeConfig
    ) -> None:
        self.process = self.portal = process
        self.context = context
        self.runtime = runtime
        self.own_interface: Interface | None = None
        self.traits: ActorTraits | None = None
        self.heritage: InheritedEnv | None = None
        self.pending = PendingCalls()
        self.groups = RayPlacementGroups(process)
        self._actors = KnownActors(is_client=process.is_client)
        self.query = client_mode.ClusterQuery(is_client=process.is_client)
        self._classes = HostClasses()
        self.nodes = ClusterNodes()
        self._sources = PickledSources()
        self._calls = Calls(process, lambda: self.runtime, self.nodes, self._where)
        self._is_closed = False

    # Actors.

    @on_loop
    def create(self, spec: ActorSpec) -> ActorId:
        self._check()
        if self.heritage:
            spec = self.heritage.given_to(spec)
        label, options = spec.interface.class_name, spec.options
        refuse_hooks(label, cast("Any", spec.source).__wrapped__)
        keywords = actor_options(label, options, is_async=spec.interface.is_async)
        traits = traits_of(spec)
        sent, values = split_refs("__init__", spec.args, spec.kwargs)
        source = self._sources.pickled(f"the actor class {label}", spec.source)
        why = None if self.runtime.waits else self.nodes.fault(label, options)
        if why is not None:
            stillborn = Actor(None, os.urandom(16), traits, why)
            return key_of(stillborn, self.process.entry_points)
        keywords["scheduling_strategy"] = scheduling_strategy(options)
        hides = options.accelerators != "inherit" and (
            options.accelerators == "hide" or os.environ.get(_HIDES, "1") != "0"
        )
        entry_points = self.process.entry_points
        config = host_config(
            spec, source, self.context, self.runtime, entry_points, hides=hides
        )
        handle = self._made(spec, keywords, config, sent, values)
        actor = self._actors.of(handle, traits)
        actor.readiness = self._query_ready(actor)
        actor.requested = str(options.request)
        # An existing one belongs to another process.
        actor.is_own = not (options.is_detached or options.get_if_exists)
        return key_of(actor, self.process.entry_points)

    def _made(
        self,
        spec: ActorSpec,
        keywords: Mapping[str, Any],
        config: HostConfig,
        sent: CallMessage,
        values: list[Any],
    ) -> Any:
        label = spec.interface.class_name
        ray_class = self._classes.of(spec).options(**keywords)
        try:
            call = prepare_call(sent, is_client=self.process.is_client)
            handle = ray_class.remote(config, call, *values)
            id_of(handle)  # raises, with a client, if it was not created
        except ray.exceptions.ActorAlreadyExistsError:
            where = spec.options.namespace or self.context.namespace
            raise ActorAlreadyExistsError(
                f"an actor is called {spec.options.name!r} in the namespace {where!r} "
                "already: take another name, or get_if_exists=True"
            ) from None
        except Exception as error:
            raise unsendable_call(f"{label}()", sent, error) from error
        return handle

    @on_loop
    def obtain(self, spec: ActorSpec) -> HandlePin:
        name, namespace = spec.options.name, spec.options.namespace
        with suppress(ActorNotFoundError):
            return self.find(cast("str", name), namespace)
        # Ray returns one actor to two callers that do this at once.
        return HandlePin(self, self.create(spec), spec.interface, name)

    @on_loop
    def find(self, name: str, namespace: str | None) -> HandlePin:
        self._check()
        where = namespace or self.context.namespace
        handle, interface, traits = find_actor(self.query, name, where)
        return HandlePin(self, self.key_of(handle, traits), interface, name)

    @on_loop
    def names(self) -> list[tuple[str, str]]:
        self._check()
        return actor_names()

    @on_loop
    def actors(self) -> list[ActorInfo]:
        self._check()
        ids = {actor.hex for actor in self._actors}
        return self.query(infos_of, self.context.job_id, ids)

    @on_loop
    def available(self) -> dict[str, float]:
        self._check()
        return granted(ray.available_resources())

    @on_loop
    def total(self) -> dict[str, float]:
        self._check()
        return granted(ray.cluster_resources())

    @override
    def interface(self) -> Interface:
        return self.own_interface or super().interface()

    @override
    def leave(self) -> NoReturn:
        if self.own_interface is None:
            super().leave()
        raise ActorExit

    # Calls.

    @on_loop
    def call(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        self._check()
        return self._calls.call(*self._target(callee), args, kwargs)

    @on_loop
    def stream(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        self._check()
        return self._calls.stream(*self._target(callee), args, kwargs)

    def _target(self, callee: Callee) -> tuple[Actor | None, Callee]:
        """Returns the actor of a method, or the function with the inherited options."""
        if isinstance(callee, BoundMethod):
            return self.actor(callee.actor), callee
        return None, self.heritage.of(callee) if self.heritage else callee

    @on_loop
    def put(self, value: object) -> ObjectRef[Any]:
        self._check()
        try:
            ray_ref = ray.put(pickle_value(value) if self.process.is_client else value)
        except ConnectionError as error:
            raise connection_lost("the value", error) from error
        except Exception as error:
            raise unsendable_error("the value", value, error, pickle_value) from error
        return self.ref_of(ray_ref)

    def borrow(self, object_id: ObjectId) -> NoReturn:
        """Refuses: Ray sends its own refs, and no ids; see Engine."""
        raise ActorHandleNotFoundError(
            f"the ref {object_id.hex()} is of another engine's runtime"
        )

    # Readiness and endings.

    @on_loop
    def ready(self, actor: ActorId) -> ObjectRef[Any]:
        self._check()
        state = self.actor(actor)
        error = state.creation_error or state.died
        if error is not None:
            return self._task(state).filled(FailedAnswer(error))
        if state.readiness is None:
            state.readiness = self._query_ready(state)
        return state.readiness

    def _query_ready(self, actor: Actor) -> ObjectRef[Any]:
        """Calls ``ready`` of the host; waits for a restart, too."""

        def read(answer: Any) -> Any:
            if isinstance(answer, str):
                actor.incarnation = answer
                return None
            return answer

        times = -1 if actor.traits.restarts else 0
        name = f"{actor.label}.ready"
        ask = actor.handle.ready.options(max_task_retries=times, name=name)
        ref = self._task(actor, ask.remote(), read).ref()
        ref.add_done_callback(mark_seen)
        return ref

    @on_loop
    def end(self, actor: ActorId) -> ObjectRef[None]:
        self._check()
        state = self.actor(actor)
        if state.handle is None:
            return self._task(state).filled(None)
        # A client's handles have only the methods of the host.
        end = (
            state.handle.leave
            if self.process.is_client
            else state.handle.__ray_terminate__
        )
        return self._task(state, end.remote(), _gone).ref()

    @on_loop
    def kill(self, actor: ActorId, *, restart: bool = False) -> ObjectRef[None]:
        self._check()
        state = self.actor(actor)
        done = self._task(state)
        if state.handle is None:
            return done.filled(None)
        state.readiness = None
        ref = done.unasked()
        ray.kill(state.handle, no_restart=not restart)
        self._ask_until_gone(state, done, restart=restart)
        return ref

    def _ask_until_gone(self, actor: Actor, done: RayTask, *, restart: bool) -> None:
        """Calls ``ready`` until it fails, which shows that the process has ended.

        ``ray.kill`` returns before the end, so the first calls may succeed.
        """
        before = actor.incarnation

        def read(answer: Any) -> Any:
            if isinstance(answer, str) and (not restart or answer == before):
                self._ask_until_gone(actor, done, restart=restart)
            else:
                done.settle(None)
            return None

        ask = actor.handle.ready.options(max_task_retries=0)
        self._task(actor, ask.remote(), read).ref()

    def _task(
        self,
        actor: Actor,
        ray_ref: Any = None,
        read: Callable[[Any], Any] | None = None,
    ) -> RayTask:
        return RayTask(self.process, ray_ref, actor.label, actor, read)

    # Counting is Ray's.

    def retain(self, actor: CountedId) -> None:
        """Does nothing: an id holds Ray's handle, which Ray counts; see Engine."""

    def release(self, actor: CountedId) -> None:
        """Does nothing; see ``retain``."""

    def note_pickled(self, actor: CountedId) -> None:
        """Makes sure that a handle is pickled by Ray, which counts it.

        Raises:
            TypeError: It is not.
        """
        del actor
        check_pickled_by_ray("a handle")

    def later(self, callback: Callable[[], None]) -> None:
        """Calls back where refs are filled; see Engine."""
        self.process.post(callback)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @override
    def close_in_fork(self) -> None:
        self._is_closed = True
        self.process.leave()

    # Received handles and refs.

    def key_of(self, handle: Any, traits: ActorTraits) -> ActorId:
        return key_of(self._actors.of(handle, traits), self.process.entry_points)

    def ref_of(self, ray_ref: Any) -> ObjectRef[Any]:
        return RayTask(self.process, ray_ref, "what a ref stands for").borrowed()

    def _where(self, method: str) -> str:
        """Returns the name of a method of this actor, or of a function."""
        label = self.context.class_name
        return Label(label).method(method) if label else method

    def actor(self, actor: ActorId) -> Actor:
        state = getattr(actor, "actor", None)
        if not isinstance(state, Actor):
            raise ActorHandleNotFoundError(
                f"actor {actor.hex()} belongs to another runtime: create it again in "
                "the one that runs now"
            )
        return state

    def _check(self) -> None:
        if self._is_closed:
            raise ActorHandleNotFoundError(
                "this runtime was shut down: create the actor again in the one that "
                "runs now"
            )
        self.process.check()

    def living(self) -> list[ActorId]:
        """Lists the actors of this process that are not known to be dead."""
        return [
            key_of(actor, self.process.entry_points)
            for actor in self._actors
            if actor.is_own and actor.died is None
        ]

    def close(self) -> None:
        """Refuses all operations from now on, and fails unanswered calls."""
        self._is_closed = True
        for task in list(self.process.pending):
            task.fail(_shut_down())
        self.process.leave()
        self.process.timers.stop()


def _shut_down() -> ActorDiedError:
    how = Exit(cause="asked", reason="the runtime was shut down")
    return ActorDiedError(f"the actor is dead: {how}", exit=how)
