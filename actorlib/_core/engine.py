"""The waist: the few verbs that every handle speaks and every engine fulfils.

Above it stand the faces (handles, decorators), below it the engines: ``LocalEngine``
in the owner, ``OwnerClient`` in a worker. A handle holds an engine and an id and
nothing else of the runtime, so it means the same actor wherever it is loaded. ``Owner``
is what a runtime asks besides of the engine in the owner's process, ``Reservations``
are the verbs of placement groups.

The slot with the process's engine is the only mutable module state in the package. An
actor that lives in its owner's process has a slot of its own, in the contexts of its
threads and tasks.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from actorlib._core.labels import Label

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator, Mapping

    from actorlib._core.actor_options import ActorOptions
    from actorlib._core.callee import Callee
    from actorlib._core.function_options import FunctionOptions
    from actorlib._core.group_spec import GroupId, GroupSpec
    from actorlib._core.ids import ActorId, LoanId, ObjectId
    from actorlib._core.interface import Interface
    from actorlib._core.object_ref import ObjectRef
    from actorlib._core.runtime_context import RuntimeContext
    from actorlib._core.snapshot import ActorInfo, CallInfo, GroupInfo, Snapshot
    from actorlib._core.stream_reader import StreamReader


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorSpec:
    """All it takes for an actor to be born.

    Attributes:
        source: The decorated class, by which what was pickled of it is found again.
        sent: What a worker unpickles to get the class: the decorated name if a module
            has it, the class itself otherwise.
        interface: The face of the class.
        args: Positional arguments of the constructor.
        kwargs: Keyword arguments of the constructor.
        options: What it asks for.
    """

    source: object
    sent: object
    interface: Interface
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    options: ActorOptions


class ActorExit(SystemExit):  # no error: a way out, as its base is
    """Leaves a method of an actor, and the actor with it."""


class HandlePin:
    """One holder of an actor in this process; counted while it exists.

    Args:
        engine: Who runs the actor.
        actor_id: Its id.
        interface: The face of its class.
        name: The name that it was given, or None.
    """

    __slots__ = ("actor_id", "engine", "interface", "name")

    def __init__(
        self,
        engine: Engine,
        actor_id: ActorId,
        interface: Interface,
        name: str | None = None,
    ) -> None:
        self.engine = engine
        self.actor_id = actor_id
        self.interface = interface
        self.name = name
        engine.retain(actor_id)

    @property
    def label(self) -> Label:
        """What the actor is called in messages."""
        return Label(self.interface.class_name, self.name)

    def __del__(self) -> None:
        # An interpreter that is going down may have taken the engine apart already.
        with suppress(AttributeError):
            self.engine.release(self.actor_id)


class Engine(Protocol):
    """What runs actors. None of the verbs but ``wait`` blocks."""

    pending: PendingCalls
    context: RuntimeContext
    """Where the code of this process is running."""

    @property
    def groups(self) -> Reservations:
        """The placement groups."""
        ...

    def create(self, spec: ActorSpec) -> ActorId:
        """Starts the life of an actor; its placement goes on in the background.

        Raises:
            SerializationError: The class or an argument cannot be sent.
        """
        ...

    def call(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Makes a call; one of an actor comes behind the earlier ones of this process.

        Raises:
            SerializationError: An argument, or the function, cannot be sent. Nothing
                was called.
        """
        ...

    def stream(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        """Calls a generator, likewise."""
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

    def obtain(self, spec: ActorSpec) -> HandlePin:
        """The actor that has the name in the spec; it is made if there is none.

        Raises:
            SerializationError: It is to be made, and cannot be sent.
        """
        ...

    def find(self, name: str, namespace: str | None) -> HandlePin:
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

    def available(self) -> dict[str, float]:
        """What nobody holds, by resource name; memory in bytes."""
        ...

    def total(self) -> dict[str, float]:
        """Everything that may be granted, by resource name; memory in bytes."""
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

    def later(self, callback: Callable[[], None]) -> None:
        """Calls back soon, where calls can be made; from any thread or destructor."""
        ...

    def close_in_fork(self) -> None:
        """Refuses everything from now on: this process is a fork of the engine's."""
        ...


class _Slot:
    """Where an actor that shares its owner's process keeps its engine."""

    __slots__ = ("engine",)

    def __init__(self) -> None:
        self.engine: Engine | None = None


_engine: Engine | None = None
_own: ContextVar[_Slot | None] = ContextVar("actorlib_own", default=None)
_travelling: ContextVar[tuple[Engine, list[LoanId]] | None] = ContextVar(
    "actorlib_travelling", default=None
)


def _after_fork() -> None:
    """A fork has the engine's sockets, and would speak over its parent's head."""
    own = _own.get()
    if own is not None and own.engine is not None:
        own.engine.close_in_fork()
        _own.set(None)
    if _engine is not None:
        _engine.close_in_fork()
        set_engine(None)


os.register_at_fork(after_in_child=_after_fork)


def current_engine() -> Engine:
    """The engine of this process, or of the actor in it whose code this is.

    Raises:
        RuntimeError: None is running.
    """
    engine = find_engine()
    if engine is None:
        raise RuntimeError(
            "no runtime is running in this process: write "
            "'async with actorlib.init():' around the code that uses actors, or "
            "'await actorlib.init()' in a notebook. What has no event loop writes "
            "'import actorlib.blocking as ray' instead"
        )
    return engine


def find_engine() -> Engine | None:
    """The same, or None."""
    own = _own.get()
    return _engine if own is None else own.engine


def set_engine(engine: Engine | None) -> None:
    """Makes an engine, or none, the one of this process, or of this actor in it."""
    own = _own.get()
    if own is not None:
        own.engine = engine
        return
    global _engine  # noqa: PLW0603  # the slot
    _engine = engine


def take_slot() -> None:
    """Sets this context apart from its process: it is an actor's, and has no engine.

    What is started with a copy of the context, tasks among it, belongs to it.
    """
    _own.set(_Slot())


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
    carry = getattr(engine, "carry", None)
    if carry is not None:  # its values are pickled, and counted, by somebody else
        carry(actor)
        return
    travelling = _travelling.get()
    if travelling is None:
        raise TypeError(
            "a handle travels only as an argument or a result of an actor's method: "
            "pickled otherwise it could outlive its actor unseen"
        )
    if travelling[0] is not engine and not _are_of_one_runtime(travelling[0], engine):
        raise ValueError(
            f"what belongs to another runtime cannot be sent in this one: the handle "
            f"or the ref {actor.hex()}"
        )
    travelling[1].append(actor)


def _are_of_one_runtime(one: Engine, other: Engine) -> bool:
    """Whether two engines of this process are of one runtime: see the inline engine.

    A class by value that is loaded where it was defined is the same class there, and
    its methods mention handles of whoever has loaded it last.
    """
    return one.context.job_id == other.context.job_id


class Owner(Engine, Protocol):
    """The engine of the user's program."""

    def snapshot(self) -> Snapshot:
        """The state of the runtime now."""
        ...

    def calls(self) -> list[CallInfo]:
        """The calls that have no answer yet."""
        ...

    def explain(self, actor: ActorId) -> str:
        """Why an actor is not placed yet, or where it is."""
        ...

    def survey(self, label: str, options: ActorOptions | FunctionOptions) -> str:
        """Where an actor, or a call, would go now, or what stands in its way."""
        ...

    def explain_group(self, group: GroupId) -> str:
        """Why a placement group waits, or where its bundles are."""
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that it was started on."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether it refuses everything by now, whoever has ended it."""
        ...

    def abandon(self) -> Callable[[], None]:
        """Ends everything where that loop is closed.

        Returns:
            Blocks until nothing is left.
        """
        ...

    async def aclose(self) -> None:
        """Ends every actor, the busy ones after a grace, and leaves nothing behind."""
        ...


class Reservations(Protocol):
    """The placement groups of a runtime; none of the verbs waits for a group."""

    def reserve(self, spec: GroupSpec) -> GroupSpec:
        """Starts to reserve a group, or gets it in line.

        Returns:
            What was given, with an id.

        Raises:
            PlacementGroupAlreadyExistsError: Another group has its name.
        """
        ...

    def ready(self, group: GroupId, value: object) -> ObjectRef[Any]:
        """The value, when all bundles are reserved; else why they never will be.

        Args:
            group: Its id.
            value: What the ref gives, for example the group as the user knows it.
        """
        ...

    def remove(self, group: GroupId) -> asyncio.Future[None]:
        """Removes a group; done when the actors inside and their shares are gone."""
        ...

    def find(self, name: str) -> GroupSpec:
        """The group of a name.

        Raises:
            PlacementGroupNotFoundError: None has it.
        """
        ...

    def infos(self) -> list[GroupInfo]:
        """What is known of each group."""
        ...


class PendingCalls:
    """The calls of this process without an answer, of actors that have a limit.

    Their refs are held weakly: a call whose ref nobody holds may be given up.
    """

    def __init__(self) -> None:
        self._refs: dict[bytes, weakref.WeakSet[ObjectRef[Any]]] = {}
        self._begun: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    def begin(self, actor: bytes, limit: int) -> bool:
        """Counts a call that is about to be made; False if it is one too many."""
        with self._lock:
            refs = self._refs.setdefault(actor, weakref.WeakSet())
            room = limit - self._begun[actor]
            if len(refs) >= room:
                # Some may be done, and their loop has not said so yet.
                refs.difference_update([ref for ref in refs if ref.done()])
            if len(refs) >= room:
                return False
            self._begun[actor] += 1
            return True

    def made(self, actor: bytes, ref: ObjectRef[Any] | None) -> None:
        """The call was made, or was refused if there is no ref."""
        with self._lock:
            self._begun[actor] -= 1
            if ref is not None:
                self._refs[actor].add(ref)
            self._forget(actor)

    def end(self, actor: bytes, called: weakref.ref[ObjectRef[Any]]) -> None:
        """A call is done."""
        ref = called()
        with self._lock:
            if ref is not None and actor in self._refs:
                self._refs[actor].discard(ref)
            self._forget(actor)

    def _forget(self, actor: bytes) -> None:
        if not self._begun[actor] and not self._refs.get(actor):
            del self._begun[actor]
            self._refs.pop(actor, None)
