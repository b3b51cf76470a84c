"""Handles: names become calls.

A handle knows the interface of its class, so a misspelt method or a missing argument
fails here, in the line that wrote it. It also keeps its actor alive: when the last
handle is gone, in whatever process, and what the actor was sent is done, it ends.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NoReturn,
    ParamSpec,
    TypeVar,
    Unpack,
    cast,
)

from actorlib._engine import ActorId, Hold, current_engine, travels
from actorlib._generator import ObjectRefGenerator
from actorlib._interface import BUILT_IN, TERMINATE
from actorlib._parts import parted
from actorlib._ref import watch
from actorlib._spelling import closest
from actorlib.exceptions import PendingCallsLimitExceeded

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator, Mapping, Sequence
    from types import TracebackType

    from actorlib._call_options import CallKeywords
    from actorlib._interface import Interface, Method
    from actorlib._ref import ObjectRef

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


class ActorMethod(Generic[P, R]):
    """A method of a remote actor; ``.remote(...)`` calls it.

    It keeps the actor alive, may be stored, and may be passed to other actors.
    """

    __slots__ = ("_given", "_high", "_hold", "_low", "_method")

    def __init__(
        self, hold: Hold, method: Method, given: CallKeywords | None = None
    ) -> None:
        self._hold = hold
        self._method = method
        self._given: CallKeywords = given or {}
        self._low = method.low
        self._high = method.high

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRef[R]:
        """Calls the method; returns at once.

        Calls of one process reach the actor in the order in which they were made,
        also those made before the actor is ready.

        Args:
            *args: Sent by value. An ObjectRef given by itself arrives as its value.
            **kwargs: Likewise.

        Returns:
            The result to be awaited.

        Raises:
            TypeError: The arguments do not fit the method, or cannot be sent. Nothing
                was called.
            PendingCallsLimitExceeded: ``max_pending_calls`` of them have no answer.
        """
        if kwargs or not self._low <= len(args) <= self._high:
            self._method.check(len(args), kwargs)
        hold = self._hold
        return hold.engine.call(hold.actor_id, self._method, args, kwargs)

    def options(self, /, **options: Unpack[CallKeywords]) -> ActorMethod[P, R]:
        """The same method with some options replaced: for one call, or for several.

        Args:
            **options: See CallOptions. None leaves what the class says.

        Raises:
            TypeError: An option is unknown, or a value has the wrong type.
            ValueError: It names a concurrency group that the actor does not have.
        """
        hold = self._hold
        method = hold.interface.with_options(self._method, options)
        given = {**self._given, **options}
        kind = cast("type[ActorMethod[P, R]]", _kind_of(hold, method))
        return kind(hold, method, cast("CallKeywords", given))

    def _remote(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        **options: Unpack[CallKeywords],
    ) -> ObjectRef[R]:
        """``.options(...).remote(*args, **kwargs)``, as older scripts write it."""
        method = self.options(**options) if options else self
        call = cast("Callable[..., ObjectRef[R]]", method.remote)
        return call(*(args or ()), **(kwargs or {}))

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refuses: what looks like a local call would hide that it is a remote one."""
        name = self._method.name
        raise TypeError(
            f"{name}() runs in another process: write .{name}.remote(...) and await it"
        )

    def __repr__(self) -> str:
        return f"<method {self._hold.interface.class_name}.{self._method.name}>"

    def __reduce__(self) -> tuple[object, ...]:
        handle = _handle(self._hold)
        if self._given:
            return _method_with, (handle, self._method.name, self._given)
        return getattr, (handle, self._method.name)


class _CountedMethod(ActorMethod[P, R]):
    """A method of an actor with ``max_pending_calls``."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRef[R]:
        """Calls the method, if this process does not wait for too many answers."""
        call = super().remote
        return _counted(self._hold, self._method, lambda: call(*args, **kwargs))


class _PartedMethod(ActorMethod[P, R]):
    """A method called with ``num_returns``."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Calls the method; gives a list of refs, or None for none."""
        hold, method = self._hold, self._method
        is_counted = hold.interface.max_pending > 0
        kind: Any = _CountedMethod if is_counted else ActorMethod
        ref: ObjectRef[Any] = kind(hold, method).remote(*args, **kwargs)
        count = method.options.parts
        where = f"{hold.interface.class_name}.{method.name}"
        return parted(ref, count, where) if count else None


class _StreamMethod(ActorMethod[P, R]):
    """A generator of a remote actor."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRefGenerator[R]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # typed() tells the two apart
        """Calls the generator; its items come one after the other."""
        hold, method = self._hold, self._method
        method.check(len(args), kwargs)
        is_capped = hold.interface.max_unread > 0

        def call() -> ObjectRefGenerator[R]:
            engine = hold.engine
            reading = engine.stream(
                hold.actor_id, method, args, kwargs, is_capped=is_capped
            )
            return ObjectRefGenerator(reading)

        if hold.interface.max_pending > 0:
            return _counted(hold, method, call)
        return call()


def _counted(hold: Hold, method: Method, call: Callable[[], C]) -> C:
    """Makes a call, if this process does not wait for too many answers."""
    actor, limit = hold.actor_id, hold.interface.max_pending
    pending = hold.engine.pending
    if not pending.begin(actor, limit):
        raise PendingCallsLimitExceeded(
            f"{hold.interface.class_name}.{method.name}: this process has {limit} "
            "calls of the actor without an answer, and max_pending_calls="
            f"{limit}: await some of them first",
            limit=limit,
        )
    try:
        made = call()
    except BaseException:
        pending.made(actor, None)
        raise
    ref = _answer_of(made)
    pending.made(actor, ref)
    watch(ref, partial(pending.end, actor, weakref.ref(ref)))
    return made


def _answer_of(made: object) -> ObjectRef[Any]:
    if isinstance(made, ObjectRefGenerator):
        return cast("ObjectRefGenerator[Any]", made).completed()
    return cast("ObjectRef[Any]", made)


class _Terminate(ActorMethod[[], None]):
    """``__ray_terminate__``: it refuses what comes later, so it is no usual call."""

    __slots__ = ()

    def remote(self, /, *args: object, **kwargs: object) -> asyncio.Future[None]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # awaited like a ref
        """Ends the actor behind what it was sent; done when its process is gone."""
        self._method.check(len(args), kwargs)
        return self._hold.engine.end(self._hold.actor_id)


class ActorHandle(Generic[T]):
    """A handle of an actor: call its methods with ``handle.method.remote(...)``.

    ``await handle`` waits until the actor is ready and gives the handle back;
    ``async with A.remote() as handle:`` ends the actor at the end of the block. Handles
    may be passed to other actors and returned by them. They are equal if they are of
    the same actor.
    """

    __slots__ = ("__dict__", "__hold", "__weakref__")

    def __init__(self, hold: Hold) -> None:
        self.__hold = hold

    def __getattr__(self, name: str) -> ActorMethod[..., Any]:
        hold = self.__hold
        method = BUILT_IN.get(name) or hold.interface.methods.get(name)
        if method is None:
            raise _no_such_method(hold.interface, name)
        # The method refers to the hold, not to the handle, so keeping it here makes
        # no cycle, and the next look-up does not come this way.
        made = _method(hold, method)
        self.__dict__[name] = made
        return made

    def __await__(self) -> Generator[Any, None, ActorHandle[T]]:
        """Waits until the actor is ready for calls.

        Raises:
            ActorDiedError: Its constructor raised (that is the ``__cause__``), or its
                process ended before it was ready.
            ActorUnschedulableError: It asks for what this machine can never give.
        """
        hold = self.__hold
        yield from hold.engine.ready(hold.actor_id).__await__()
        return self

    async def __aenter__(self) -> ActorHandle[T]:
        """Waits until the actor is ready; on the way out it is ended."""
        return await self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the actor behind what it was sent, or at once after an exception."""
        hold = self.__hold
        if kind is None:
            await hold.engine.end(hold.actor_id)
        else:
            await hold.engine.kill(hold.actor_id)

    def __dir__(self) -> list[str]:
        return sorted({*BUILT_IN, *self.__hold.interface.methods})

    def __repr__(self) -> str:
        hold = self.__hold
        return f"Actor({hold.interface.class_name}, {hold.actor_id.hex()})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ActorHandle):
            return NotImplemented
        return hold_of(self) is hold_of(cast("ActorHandle[Any]", other)) or (
            hold_of(self).actor_id == hold_of(cast("ActorHandle[Any]", other)).actor_id
        )

    def __hash__(self) -> int:
        return hash(self.__hold.actor_id)

    def __reduce__(self) -> tuple[object, ...]:
        hold = self.__hold
        travels(hold.engine, hold.actor_id)
        return _load, (hold.actor_id, hold.interface)

    def __copy__(self) -> ActorHandle[T]:
        return self

    def __deepcopy__(self, _: object) -> ActorHandle[T]:
        return self


def _method(hold: Hold, method: Method) -> ActorMethod[..., Any]:
    return _kind_of(hold, method)(hold, method)


def _kind_of(hold: Hold, method: Method) -> type[ActorMethod[..., Any]]:
    if method is TERMINATE:
        return _Terminate
    if method.is_stream:
        return _StreamMethod
    if method.options.parts != 1:
        return _PartedMethod
    return _CountedMethod if hold.interface.max_pending > 0 else ActorMethod


def _method_with(
    handle: ActorHandle[Any], name: str, options: CallKeywords
) -> ActorMethod[..., Any]:
    return cast("ActorMethod[..., Any]", getattr(handle, name)).options(**options)


def hold_of(handle: ActorHandle[Any]) -> Hold:
    """The hold inside a handle, out of reach of the actor's own method names."""
    return cast("Hold", object.__getattribute__(handle, "_ActorHandle__hold"))


def own_handle() -> ActorHandle[Any]:
    """A handle of the actor whose code this is."""
    engine = current_engine()
    actor_id = ActorId(bytes.fromhex(engine.context.actor_id or ""))
    return ActorHandle(Hold(engine, actor_id, engine.interface()))


def _handle(hold: Hold) -> ActorHandle[Any]:
    return ActorHandle(hold)


def _load(actor_id: ActorId, interface: Interface) -> ActorHandle[Any]:
    return ActorHandle(Hold(current_engine(), actor_id, interface))


def _no_such_method(interface: Interface, name: str) -> AttributeError:
    close = closest(name, interface.methods)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    message = f"actor class {interface.class_name} has no method {name!r}{hint}"
    return AttributeError(message, name=name)
