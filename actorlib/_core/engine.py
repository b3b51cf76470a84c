"""The operations of engines, and the current engine.

Handles, decorators and functions (``_api``) call an ``Engine``. In the user's program
that is ``LocalEngine`` or Ray's, in a worker its ``OwnerClient``. A handle contains an
engine and an id and nothing else of the runtime, so it means the same actor in every
process that unpickles it. ``RuntimeEngine`` adds the operations that a Runtime needs of
the engine in the user's program. ``PlacementGroups`` are the placement groups of an
engine.

Each operation is declared here once, with its text. Engines inherit these classes and
contain the operations that they implement. An operation whose body is ``...`` is
implemented by every engine, which type checkers verify. Any other operation refuses by
default, with the error that the engine's table ``refusals`` has for it. The classes are
Protocols, so that those of ``_wire`` and ``_worker`` can extend them.

The current engine is module state, the only one of the package. An inline actor shares
its owner's process. It has a separate current engine in the contexts of its threads and
tasks.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from contextlib import suppress
from contextvars import ContextVar
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    NamedTuple,
    NoReturn,
    Protocol,
    TypeVar,
)

from actorlib._base.labels import Label
from actorlib._base.value import dataclass
from actorlib.exceptions import UnsupportedOptionError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence
    from contextvars import Token

    from actorlib._base.ids import ActorId, CountedId, ObjectId
    from actorlib._core.runtime_context import RuntimeContext
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._futures.stream_reader import StreamReader
    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.callee import Callee
    from actorlib._options.function_options import FunctionOptions
    from actorlib._options.group_spec import GroupId, GroupSpec
    from actorlib._options.interface import Interface
    from actorlib._options.shares import ActorShare
    from actorlib._rows.snapshot import (
        ActorInfo,
        AllCalls,
        CallInfo,
        GroupInfo,
        ObjectInfo,
        ObjectOrder,
        Snapshot,
    )

if TYPE_CHECKING:
    # Type checkers know it without the package. From Python 3.12 on ``typing`` has it.
    from typing_extensions import override as override  # noqa: PLC0414  # exported
else:

    def override(operation: Any) -> Any:
        """Marks an operation of an engine that has the text of its declaration."""
        return operation


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorSpec:
    """The description from which an engine creates an actor.

    Attributes:
        source: The ActorClass. Its pickle is cached by its identity.
        sent: The object that is pickled for the worker: the ActorClass if a module
            exports it under its name, else the user's class.
        interface: The interface of the class.
        args: Positional arguments of the constructor.
        kwargs: Keyword arguments of the constructor.
        options: The options of the actor.
        slot: Its number among replicas, for its label; None if it is not one of them.
    """

    source: object
    sent: object
    interface: Interface
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    options: ActorOptions
    slot: int | None = None


class ActorExit(SystemExit):  # not an error but an exit, like its base
    """Leaves a method of an actor, and ends the actor."""


class HandlePin:
    """One reference to an actor, counted for as long as this object exists."""

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
        return Label(self.interface.class_name, self.name)

    def __del__(self) -> None:
        # While the interpreter shuts down, the engine may be cleared already, and
        # names of modules may be None.
        with suppress(AttributeError, TypeError):
            self.engine.release(self.actor_id)


class CallQueue(NamedTuple):
    """The calls of an actor, by their numbers, which increase.

    Attributes:
        oldest: The number of the oldest call that has not begun; 0 for none.
        last: The number of the last call.
    """

    oldest: int
    last: int


class Refusal(NamedTuple):
    """The error of an operation that an engine does not implement."""

    why: str
    kind: type[Exception] = UnsupportedOptionError


_SUSPENSION = Refusal(
    "actors are suspended and resumed by the program that started the runtime: do it "
    "there"
)


def _refusal(engine: Engine, operation: str) -> Exception:
    why, kind = engine.refusals[operation]
    return kind(why)


class Engine(Protocol):
    """Runs actors and functions, for the code of one process. No method blocks.

    ``LocalEngine`` (local and inline, in the user's program), ``RayEngine`` and, in
    workers, ``OwnerClient`` inherit it.

    Attributes:
        context: The context of the code of this process.
        pending: The unanswered calls of this process.
        groups: The placement groups.
        refusals: The errors of the operations that this engine does not implement, by
            the names of the operations.
    """

    context: RuntimeContext
    pending: PendingCalls
    groups: PlacementGroups
    refusals: Mapping[str, Refusal] = {
        "interface": Refusal("this process does not run an actor", RuntimeError),
        "leave": Refusal(
            "exit_actor() ends the actor that calls it: no actor called it", TypeError
        ),
        "suspend": _SUSPENSION,
        "resume": _SUSPENSION,
    }

    def create(self, spec: ActorSpec) -> ActorId:
        """Creates an actor; its placement and its start continue in the background.

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
        """Makes a call; the calls of an actor start in the order of ``call``.

        Raises:
            SerializationError: An argument, or the function, cannot be sent. No call
                was made.
        """
        ...

    def stream(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        """Calls a generator; see ``call``."""
        ...

    def put(self, value: object) -> ObjectRef[Any]:
        """Stores a value as it is now, for the holders of the ref.

        Raises:
            SerializationError: It cannot be sent.
            ObjectStoreFullError: There is no room, and it may not be sent another way.
        """
        ...

    def borrow(self, object_id: ObjectId) -> ObjectRef[Any]:
        """Returns the ref of an object that was sent to this process."""
        ...

    def ready(self, actor: ActorId) -> asyncio.Future[None]:
        """Returns a future that is done when the actor is ready, or can never be."""
        ...

    def obtain(self, spec: ActorSpec) -> HandlePin:
        """Returns the actor that has the name in the spec, or creates it."""
        ...

    def find(self, name: str, namespace: str | None) -> HandlePin:
        """Returns an actor by its name, even while it is being created.

        None is the namespace of the runtime.

        Raises:
            ActorNotFoundError: No living actor has that name there.
        """
        ...

    def names(self) -> list[tuple[str, str]]:
        """Lists the namespace and the name of every living actor that has a name."""
        ...

    def actors(self) -> list[ActorInfo]: ...

    def share(self, actor: ActorId) -> ActorShare:
        """Returns an actor's share of devices, and how that share is enforced."""
        raise _refusal(self, "share")

    def loads(self, actors: Sequence[ActorId]) -> list[int | None]:
        """Counts the unfinished calls of each actor; None for one that refuses them."""
        raise _refusal(self, "loads")

    def backlogs(self, actors: Sequence[ActorId]) -> list[int]:
        """Counts the unfinished calls of each actor, even if it refuses them now."""
        raise _refusal(self, "backlogs")

    def call_queue(self, actor: ActorId) -> CallQueue:
        """Returns which calls of an actor have not begun; only on the loop."""
        raise _refusal(self, "call_queue")

    def shortage(self, label: str, options: ActorOptions) -> str:
        """Explains why an actor would not be placed at once; empty if it would."""
        raise _refusal(self, "shortage")

    def dead(self, actor: ActorId) -> asyncio.Future[None]:
        """Returns a future that is done when the actor is dead for good."""
        raise _refusal(self, "dead")

    def available(self) -> dict[str, float]:
        """Returns how much of each resource is free, by its name; memory in bytes."""
        ...

    def total(self) -> dict[str, float]:
        """Returns the amounts that may be granted, by resource; memory in bytes."""
        ...

    def interface(self) -> Interface:
        """Returns the interface of the actor whose code calls this."""
        raise _refusal(self, "interface")

    def leave(self) -> NoReturn:
        """Leaves the actor whose code calls this, by raising ActorExit."""
        raise _refusal(self, "leave")

    def end(self, actor: ActorId) -> asyncio.Future[None]:
        """Ends the actor after its pending calls; done when its process is gone."""
        ...

    def kill(self, actor: ActorId, *, restart: bool = False) -> asyncio.Future[None]:
        """Ends the actor at once; done when its process is gone.

        With ``restart`` it is restarted if its options allow that.
        """
        ...

    def suspend(self, actor: ActorId, patience: float | None) -> asyncio.Future[None]:
        """Moves an actor off its GPU and releases its share; done after both.

        Its running calls may take ``patience`` seconds; None is no limit.

        Raises:
            SuspendError: The actor cannot be suspended.
        """
        raise _refusal(self, "suspend")

    def resume(self, actor: ActorId) -> asyncio.Future[None]:
        """Moves a suspended actor back to a GPU; done when it accepts calls.

        Raises:
            SuspendError: It is being suspended.
        """
        raise _refusal(self, "resume")

    def retain(self, actor: CountedId) -> None:
        """Counts a reference of this process, which keeps the actor alive."""
        ...

    def release(self, actor: CountedId) -> None:
        """Counts a reference of this process less; callable from any thread."""
        ...

    def note_pickled(self, actor: CountedId) -> None:
        """Collects the id of a handle, or of another reference, that is being pickled.

        Raises:
            TypeError: It is not pickled for a call or its result.
            ValueError: It belongs to another runtime than the call.
        """
        collection = _pickling.get()
        if collection is None:
            raise TypeError(
                "a handle can be pickled only in an argument or a result of a call: "
                "its actor could be gone when the pickle is loaded. Give the actor a "
                "name, and find it by get_actor()"
            )
        target, ids = collection
        if target is not self and not _are_of_one_runtime(target, self):
            raise ValueError(
                f"the handle or the ref {actor.hex()} belongs to another runtime, "
                "perhaps one that was shut down, and cannot be sent in this one: "
                "create it again here"
            )
        ids.append(actor)

    def later(self, callback: Callable[[], None]) -> None:
        """Schedules a callback where calls can be made, even from a destructor."""
        ...

    def close_in_fork(self) -> None:
        """Refuses all calls from now on: this is a fork of the engine's process."""
        ...


class Startable(Protocol):
    """A runtime, which may not have been started yet."""

    was_started: bool


class _InlineEngine:
    """The current engine of an inline actor."""

    __slots__ = ("engine",)

    def __init__(self) -> None:
        self.engine: Engine | None = None


_engine: Engine | None = None
_own: ContextVar[_InlineEngine | None] = ContextVar("actorlib_own", default=None)
_pickling: ContextVar[tuple[Engine, list[CountedId]] | None] = ContextVar(
    "actorlib_pickling", default=None
)


_last_runtime: ContextVar[Startable | None] = ContextVar(
    "actorlib_last_runtime", default=None
)
"""The last runtime that ``init()`` has made here, for a message if it never starts."""


def _after_fork() -> None:
    """Disables the engine in a forked child, which shares its parent's sockets."""
    own = _own.get()
    if own is not None and own.engine is not None:
        own.engine.close_in_fork()
        _own.set(None)
    if _engine is not None:
        _engine.close_in_fork()
        set_engine(None)


os.register_at_fork(after_in_child=_after_fork)


def current_engine() -> Engine:
    """Returns the engine of this process, or of the inline actor whose code runs.

    Raises:
        RuntimeError: No runtime is running.
    """
    engine = find_engine()
    if engine is None:
        runtime = _last_runtime.get()
        if runtime is not None and not runtime.was_started:
            raise RuntimeError(
                "init() was called but not awaited, so no runtime is running: write "
                "'async with actorlib.init():' or 'await actorlib.init()'. For plain "
                "code: 'import actorlib.blocking as ray' and 'ray.init()'"
            )
        raise RuntimeError(
            "no runtime is running in this process: write "
            "'async with actorlib.init():' around the code that uses actors, or "
            "'await actorlib.init()' in a notebook. Code without an event loop writes "
            "'import actorlib.blocking as ray' instead"
        )
    return engine


def find_engine() -> Engine | None:
    own = _own.get()
    return _engine if own is None else own.engine


def set_engine(engine: Engine | None) -> None:
    own = _own.get()
    if own is not None:
        own.engine = engine
        return
    global _engine  # noqa: PLW0603  # the current engine
    _engine = engine


def note_runtime(runtime: Startable) -> None:
    _last_runtime.set(runtime)


def use_own_engine() -> None:
    """Sets a separate current engine for this context, which is None at first.

    Threads and tasks that are started with a copy of the context share it.
    """
    _own.set(_InlineEngine())


class collecting_ids:  # noqa: N801  # named like a function, as in ``contextlib``
    """Collects the ids of handles, refs and blocks that are pickled inside the block.

    Each of them is counted as a reference of the process that the value is sent to. A
    class, because every call that sends a reference uses it, and a generator takes
    twice as long.
    """

    __slots__ = ("_engine", "_token")
    _token: Token[tuple[Engine, list[CountedId]] | None]

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __enter__(self) -> list[CountedId]:
        ids: list[CountedId] = []
        self._token = _pickling.set((self._engine, ids))
        return ids

    def __exit__(self, *_: object) -> None:
        _pickling.reset(self._token)


def pickling_engine() -> Engine:
    """Returns the engine of the call that a value is being pickled for."""
    collection = _pickling.get()
    if collection is None:
        raise TypeError(
            "a ref can be pickled only in an argument or a result of a call: its "
            "object could be gone when the pickle is loaded. Await the ref, and "
            "pickle its value"
        )
    return collection[0]


def _are_of_one_runtime(one: Engine, other: Engine) -> bool:
    """Whether two engines of this process belong to one runtime, as inline ones do.

    An inline actor imports the class from its owner's process, so the globals of its
    methods may contain handles of its owner's engine.
    """
    return one.context.job_id == other.context.job_id


class Feature(Protocol):
    """An optional part of a runtime: a class of ``_features``, created for its engine.

    Attributes:
        command: The shell command that shows the same; empty for none.
        on_ray: Why Ray's engine does not have it.
    """

    command: ClassVar[str]
    on_ray: ClassVar[str]

    def __init__(self, engine: Any) -> None: ...


FeatureT = TypeVar("FeatureT", bound=Feature)


class RuntimeEngine(Engine, Protocol):
    """The engine of the user's program, with the operations that its Runtime needs.

    ``LocalEngine``, ``AttachedEngine`` and Ray's ``OwnerEngine`` inherit it.

    Attributes:
        loop: The loop that it was started on.
    """

    loop: asyncio.AbstractEventLoop

    def snapshot(self) -> Snapshot:
        """Returns the state of the runtime now."""
        ...

    def calls(self) -> list[CallInfo]:
        """Lists the unanswered calls that the owner knows."""
        ...

    async def all_calls(
        self,
        patience: float,
        most: int | None = None,
        actor: ActorId | None = None,
    ) -> tuple[AllCalls, int]:
        """Lists the unanswered calls, including those that only workers know.

        It runs on the engine's loop. Other tasks run meanwhile, so calls may be made
        and answered.

        Args:
            patience: Seconds that workers may take to answer; 0 asks no worker.
            most: The maximum number of calls to list; None for all.
            actor: The called actor; None for all actors and functions.

        Returns:
            The calls, and how many more there are.
        """
        raise _refusal(self, "all_calls")

    def attached(self, feature: type[FeatureT], api_name: str) -> FeatureT:
        """Returns this runtime's instance of a feature; the first call creates it.

        The message of a refusal has the function that the user has called.
        """
        ...

    def objects(
        self, sort: ObjectOrder = "size", limit: int | None = None
    ) -> list[ObjectInfo]:
        """Lists the contents of the object store."""
        raise _refusal(self, "objects")

    async def drain(self, patience: float) -> list[CallInfo]:
        """Refuses new calls, and waits for the running ones up to a limit.

        Returns:
            The calls that are unanswered then.
        """
        raise _refusal(self, "drain")

    def explain(self, actor: ActorId) -> str:
        """Explains why an actor is not placed yet, or where it is."""
        raise _refusal(self, "explain")

    def survey(self, label: str, options: ActorOptions | FunctionOptions) -> str:
        """Explains where an actor or a call would be placed now, or why it cannot."""
        raise _refusal(self, "survey")

    def explain_group(self, group: GroupId) -> str:
        """Explains why a placement group waits, or where its bundles are."""
        raise _refusal(self, "explain_group")

    @property
    def is_closed(self) -> bool:
        """Whether it was shut down, by any caller."""
        ...

    def abandon(self) -> Callable[[], None]:
        """Ends everything after that loop was closed.

        Returns a function that blocks until all processes have ended.
        """
        ...

    async def aclose(self) -> None:
        """Ends every actor, busy ones after the grace period, and frees everything."""
        ...


class PlacementGroups(Protocol):
    """Reserves and removes placement groups; no method waits for a group.

    The local engine, Ray's and the worker's client have one each, as ``groups``.
    """

    def reserve(self, spec: GroupSpec) -> GroupSpec:
        """Starts to reserve a group, which may have to wait in the queue.

        Returns:
            The spec, with an id.

        Raises:
            PlacementGroupAlreadyExistsError: Another group has its name.
        """
        ...

    def ready(self, group: GroupId, value: object) -> ObjectRef[Any]:
        """Returns a ref that resolves to a value when all bundles are reserved."""
        ...

    def remove(self, group: GroupId) -> asyncio.Future[None]:
        """Removes a group; done when its actors and their shares are gone."""
        ...

    def find(self, name: str) -> GroupSpec:
        """Returns a group by its name, or raises PlacementGroupNotFoundError."""
        ...

    def infos(self) -> list[GroupInfo]: ...


class PendingCalls:
    """Counts the unanswered calls of this process, for ``max_pending_calls``.

    It holds their refs weakly: a call whose ref was dropped may be cancelled.
    """

    def __init__(self) -> None:
        self._refs: dict[bytes, weakref.WeakSet[ObjectRef[Any]]] = {}
        self._begun: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    def begin(self, actor: bytes, limit: int) -> bool:
        """Counts a call before it is made; False if it exceeds the limit."""
        with self._lock:
            refs = self._refs.setdefault(actor, weakref.WeakSet())
            room = limit - self._begun[actor]
            if len(refs) >= room:
                # Some may be done whose callbacks have not run yet.
                refs.difference_update([ref for ref in refs if ref.done()])
            if len(refs) >= room:
                return False
            self._begun[actor] += 1
            return True

    def made(self, actor: bytes, ref: ObjectRef[Any] | None) -> None:
        """Counts the call as made, or as refused if there is no ref."""
        with self._lock:
            self._begun[actor] -= 1
            if ref is not None:
                self._refs[actor].add(ref)
            self._drop_if_idle(actor)

    def end(self, actor: bytes, called: weakref.ref[ObjectRef[Any]]) -> None:
        ref = called()
        with self._lock:
            if ref is not None and actor in self._refs:
                self._refs[actor].discard(ref)
            self._drop_if_idle(actor)

    def _drop_if_idle(self, actor: bytes) -> None:
        if not self._begun[actor] and not self._refs.get(actor):
            del self._begun[actor]
            self._refs.pop(actor, None)
