"""The waist: the few verbs that every handle speaks and every engine fulfils.

Above it stand the faces (handles, decorators), below it the engines: ``LocalEngine``
in the owner, ``Uplink`` in a worker. A handle holds an engine and an id and nothing
else of the runtime, so the same handle means the same actor wherever it is loaded.

The slot with the process's engine is the only mutable module state in the package.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    NewType,
    NoReturn,
    Protocol,
    TypeAlias,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator, Mapping

    from actorlib._function_options import FunctionSpec
    from actorlib._interface import Interface, Method
    from actorlib._options import ActorOptions
    from actorlib._pending import PendingCalls
    from actorlib._ref import ObjectRef
    from actorlib._runtime_env import RuntimeEnv
    from actorlib._snapshot import ActorInfo


def _no_env() -> RuntimeEnv:
    return {}


ActorId = NewType("ActorId", bytes)
"""Twelve bytes: the runtime, the process that made the actor, its count there."""

ObjectId = NewType("ObjectId", bytes)
"""Sixteen bytes: the runtime, the process that made the object, its count there."""
OBJECT_ID = 16

LoanId: TypeAlias = bytes
"""What is counted while others hold it: an actor, an object, a block of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorSpec:
    """All it takes for an actor to be born.

    Attributes:
        source: What a worker unpickles to get the class: the decorated name if a
            module has it, the class itself otherwise.
        interface: The face of the class.
        args: Positional arguments of the constructor.
        kwargs: Keyword arguments of the constructor.
        options: What it asks for.
    """

    source: object
    interface: Interface
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    options: ActorOptions


class ActorExit(SystemExit):  # no error: a way out, as its base is
    """Leaves a method of an actor, and the actor with it."""


class Hold:
    """One holder of an actor in this process; counted while it exists."""

    __slots__ = ("actor_id", "engine", "interface")

    def __init__(self, engine: Engine, actor_id: ActorId, interface: Interface) -> None:
        self.engine = engine
        self.actor_id = actor_id
        self.interface = interface
        engine.retain(actor_id)

    def __del__(self) -> None:
        # An interpreter that is going down may have taken the engine apart already.
        with suppress(AttributeError):
            self.engine.release(self.actor_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContext:
    """Where code is running: which actor, on which share of which devices.

    Attributes:
        namespace: Where names of actors are looked for that say nothing else.
        job_id: The runtime, in hex.
        node_id: The machine, in hex.
        worker_id: The process, in hex: another one for each incarnation of an actor.
        actor_id: The actor's id in hex, or None in the owner.
        actor_name: The actor's name, or None if it has none.
        runtime_env: What was said of the actor's process, with what it inherited.
        accelerator_ids: Ids of the devices it was given, by kind; every kind is there.
        resources: What it holds, by resource name, as the user wrote it.
        was_current_actor_reconstructed: Whether the actor was restarted after a death.
    """

    namespace: str = "default"
    job_id: str = ""
    node_id: str = ""
    worker_id: str = ""
    actor_id: str | None = None
    actor_name: str | None = None
    runtime_env: RuntimeEnv = field(default_factory=_no_env)
    own: Callable[[], Any] | None = field(default=None, repr=False)
    accelerator_ids: Mapping[str, list[int | str]] = field(
        default_factory=dict[str, "list[int | str]"]
    )
    resources: Mapping[str, float] = field(default_factory=dict[str, float])
    was_current_actor_reconstructed: bool = False

    def get_actor_id(self) -> str | None:
        """The id of the actor whose code this is, in hex; None in the owner."""
        return self.actor_id

    def get_actor_name(self) -> str | None:
        """The name of the actor whose code this is; None if it has none."""
        return self.actor_name

    def get_job_id(self) -> str:
        """The id of the runtime, in hex."""
        return self.job_id

    def get_node_id(self) -> str:
        """The id of the machine, in hex."""
        return self.node_id

    def get_worker_id(self) -> str:
        """The id of this process among those of the runtime, in hex."""
        return self.worker_id

    @property
    def current_actor(self) -> Any:
        """A handle of the actor whose code this is: to call it later, or to hand out.

        It does not keep the actor alive here; whoever it is handed to does.

        Raises:
            RuntimeError: This is no actor's code.
        """
        if self.own is None:
            raise RuntimeError("current_actor is an actor's own: this is no actor")
        return self.own()

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Ids of the devices that this actor was given, by kind.

        They name devices of the machine as the owner sees it and do not change while
        the actor lives; frameworks inside count the visible ones from 0.
        """
        return {kind: list(map(str, ids)) for kind, ids in self.accelerator_ids.items()}

    def get_assigned_resources(self) -> dict[str, float]:
        """What this actor holds, by resource name; memory in bytes."""
        return dict(self.resources)


class Engine(Protocol):
    """What runs actors. None of the verbs but ``wait`` blocks."""

    pending: PendingCalls

    @property
    def context(self) -> RuntimeContext:
        """Where the code of this process is running."""
        ...

    def create(self, spec: ActorSpec) -> ActorId:
        """Starts the life of an actor; its placement goes on in the background.

        Raises:
            SerializationError: The class or an argument cannot be sent.
        """
        ...

    def call(
        self,
        actor: ActorId,
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Sends a call, in order behind the earlier ones of this process.

        Raises:
            SerializationError: An argument cannot be sent. The actor is unharmed.
        """
        ...

    def run(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Calls a function in some process that has what it asks for."""
        ...

    def put(self, value: object) -> ObjectRef[Any]:
        """Keeps a value as it is now, for whoever is given the ref.

        Raises:
            SerializationError: It cannot be sent.
            ObjectStoreFullError: It has no room, and may not go another way.
        """
        ...

    def borrow(self, object_id: ObjectId) -> ObjectRef[Any]:
        """The ref of an object that was sent to this process."""
        ...

    def ready(self, actor: ActorId) -> asyncio.Future[None]:
        """Done when the actor is ready for calls, or with why it never will be."""
        ...

    def obtain(self, spec: ActorSpec) -> Hold:
        """The actor that has the name in the spec; it is made if there is none.

        Raises:
            SerializationError: It is to be made, and cannot be sent.
        """
        ...

    def find(self, name: str, namespace: str | None) -> Hold:
        """The actor of a name, also while it is being made.

        Args:
            name: Its name.
            namespace: Where to look; None for the runtime's own.

        Raises:
            ActorNotFoundError: Nobody has that name there.
        """
        ...

    def names(self) -> list[tuple[str, str]]:
        """The namespace and the name of every actor that answers to one."""
        ...

    def actors(self) -> list[ActorInfo]:
        """What is known of each actor."""
        ...

    def interface(self) -> Interface:
        """The face of the actor whose code this is.

        Raises:
            RuntimeError: This is no actor's code.
        """
        ...

    def leave(self) -> NoReturn:
        """Ends the actor whose code this is.

        Raises:
            ActorExit: Always, in an actor.
            TypeError: This is no actor's code.
        """
        ...

    def end(self, actor: ActorId) -> asyncio.Future[None]:
        """Ends the actor behind what it was sent; done when its process is gone."""
        ...

    def kill(self, actor: ActorId, *, restart: bool = False) -> asyncio.Future[None]:
        """Ends the actor at once; done when its process is gone.

        Args:
            actor: Its id.
            restart: Whether it is restarted if its options allow that.
        """
        ...

    def retain(self, actor: LoanId) -> None:
        """Counts one more holder in this process; the actor lives at least as long."""
        ...

    def release(self, actor: LoanId) -> None:
        """Counts one holder less; may be called from any thread."""
        ...

    def forsake(self) -> None:
        """Refuses everything from now on: this process is a fork of the engine's."""
        ...


_engine: Engine | None = None
_travelling: ContextVar[tuple[Engine, list[LoanId]] | None] = ContextVar(
    "actorlib_travelling", default=None
)


def _after_fork() -> None:
    """A fork has the engine's sockets, and would speak over its parent's head."""
    if _engine is not None:
        _engine.forsake()
        set_engine(None)


os.register_at_fork(after_in_child=_after_fork)


def current_engine() -> Engine:
    """The engine of this process.

    Raises:
        RuntimeError: None is running.
    """
    if _engine is None:
        raise RuntimeError(
            "no runtime is running in this process: write "
            "'async with actorlib.init():' around the code that uses actors"
        )
    return _engine


def find_engine() -> Engine | None:
    """The engine of this process, or None."""
    return _engine


def set_engine(engine: Engine | None) -> None:
    """Makes an engine, or none, the one of this process."""
    global _engine  # noqa: PLW0603  # the slot
    _engine = engine


@contextmanager
def collecting(engine: Engine) -> Generator[list[LoanId]]:
    """Gathers what is pickled inside the block and counted: handles, refs, blocks.

    Whoever sends a value has to know what is in it: each is one more holder on the
    other side.
    """
    found: list[LoanId] = []
    token = _travelling.set((engine, found))
    try:
        yield found
    finally:
        _travelling.reset(token)


def traveller() -> Engine:
    """The engine that a value is being pickled for.

    Raises:
        TypeError: There is none: it is pickled for something else.
    """
    travelling = _travelling.get()
    if travelling is None:
        raise TypeError(
            "a ref travels only in an argument or a result of an actor's method: "
            "pickled otherwise, what it stands for could be gone when it is loaded"
        )
    return travelling[0]


def travels(engine: Engine, actor: LoanId) -> None:
    """Notes that a handle is being pickled.

    Raises:
        TypeError: It is pickled for something else than a call or its result.
        ValueError: It belongs to another runtime than the call.
    """
    travelling = _travelling.get()
    if travelling is None:
        raise TypeError(
            "a handle travels only as an argument or a result of an actor's method: "
            "pickled otherwise it could outlive its actor unseen"
        )
    if travelling[0] is not engine:
        raise ValueError(
            f"what belongs to another runtime cannot be sent in this one: the handle "
            f"or the ref {actor.hex()}"
        )
    travelling[1].append(actor)
