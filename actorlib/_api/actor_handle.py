"""Handles of actors, and the methods that they offer: ``handle.method.remote(...)``.

A handle knows the interface of its class, so a misspelt method or a missing argument
fails here, in the line that wrote it. It also keeps its actor alive: when the last
handle is gone, in whatever process, and what the actor was sent is done, it ends.
"""

from __future__ import annotations

import weakref
from functools import partial
from inspect import Parameter
from types import FunctionType
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

from actorlib._api.call_batch import CHUNK, Batch, chunks_of
from actorlib._api.result_parts import collected, parted
from actorlib._core.callee import BoundMethod
from actorlib._core.engine import HandlePin, current_engine, travels
from actorlib._core.ids import ActorId
from actorlib._core.interface import BUILT_IN, TERMINATE
from actorlib._core.object_ref import ObjectRef, watch
from actorlib._core.public import public
from actorlib._core.stream_reader import ObjectRefGenerator
from actorlib._core.validation import closest, count
from actorlib.exceptions import PendingCallsLimitExceeded

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from types import TracebackType

    from actorlib._core.call_options import CallKeywords
    from actorlib._core.callee import Callee
    from actorlib._core.interface import Interface, Method, Own
    from actorlib._core.stream_reader import StreamReader


P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="ObjectRef[Any] | StreamReader")


@public("actorlib")
class ActorMethod(Generic[P, R]):
    """A method of a remote actor; ``.remote(...)`` calls it.

    It keeps the actor alive, may be stored, and may be passed to other actors.

    Example:
        >>> @actorlib.remote
        ... class Counter:
        ...     def __init__(self, start=0):
        ...         self.value = start
        ...     def add(self, n):
        ...         self.value += n
        ...         return self.value

        >>> counter = Counter.remote()
        >>> add = counter.add
        >>> await add.remote(1), await add.remote(1)
        (1, 2)
    """

    __slots__ = ("_callee", "_given", "_high", "_hold", "_low")

    def __init__(
        self, hold: HandlePin, callee: BoundMethod, given: CallKeywords | None = None
    ) -> None:
        self._hold = hold
        self._callee = callee
        self._given: CallKeywords = given or {}
        self._low = callee.method.low
        self._high = callee.method.high

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
            self._callee.method.check(len(args), kwargs)
        return self._hold.engine.call(self._callee, args, kwargs)

    def map(self, /, *iterables: Iterable[Any], chunksize: int = CHUNK) -> Batch[R]:
        """Calls the method for each item, many calls in one frame.

        Like ``[method.remote(item) for item in items]``, in order, and many times as
        fast for short methods. Calls of one chunk are one call to everything else: they
        are sent, retried, cancelled, limited (``max_pending_calls``) and timed
        together. An ``async def`` method runs for many items at once, as far as the
        limits of the actor allow.

        Args:
            *iterables: The arguments of the calls, one iterable for each argument, as
                for ``map()``; they are used up at once.
            chunksize: How many calls are in a chunk. Fewer suit methods that take long,
                and large items. Default: 256.

        Returns:
            ``await`` it for the list of all results, or iterate over it.

        Raises:
            TypeError: The method does not take so many arguments, is a generator, or
                something is not iterable or cannot be sent.
            ValueError: ``chunksize`` is not positive.
            PendingCallsLimitExceeded: See ``remote``; chunks that were sent are
                cancelled.

        Example:
            >>> @actorlib.remote
            ... class Counter:
            ...     def __init__(self, start=0):
            ...         self.value = start
            ...     def add(self, n):
            ...         self.value += n
            ...         return self.value

            >>> counter = Counter.remote()
            >>> await counter.add.map([1, 2, 3], chunksize=2)
            [1, 3, 6]
        """
        count("chunksize", chunksize, 1)
        if not iterables:
            raise TypeError("map() takes an iterable for each argument, and got none")
        width = len(iterables)
        self._hold.interface.check_batch(self._callee.method, width)
        refs: list[ObjectRef[list[R]]] = []
        try:
            for start, args in chunks_of(iterables, chunksize):
                chunk = self._callee.saying("batch", (width, start))
                refs.append(self._call_chunk(chunk, args))
        except BaseException:
            Batch(refs).cancel()
            raise
        return Batch(refs)

    def _call_chunk(
        self, callee: BoundMethod, args: tuple[object, ...]
    ) -> ObjectRef[list[R]]:
        return self._hold.engine.call(callee, args, {})

    def options(self, /, **options: Unpack[CallKeywords]) -> ActorMethod[P, R]:
        """The same method with some options replaced: for one call, or for several.

        Args:
            **options: How the call is made, by name:
            backpressure: Of a generator: how many items it may be ahead of its reader,
                1 or more; -1 for any number. Default: None, which is 256 items or 8
                MiB, whichever is met first.
            concurrency_group: The group that it counts in: ValueError if the actor has
                none of that name. Default: None, which is that of the methods that name
                none.
            detach: Of a generator: True lets it run on to its end when nobody reads it
                any more, with its items thrown away. Default: None, which is False: it
                is cancelled.
            max_task_retries: How often it is sent again if the actor dies; -1 always.
                Default: None, which is what the actor's options say.
            name: What it is called where it runs (``get_task_name``). Default: None,
                which is the class and the method.
            num_returns: How many refs the call gives: 2 for a method that returns a
                tuple of two, or yields two values, 0 for none. ``"streaming"`` is for
                generators. Default: None, which is streaming for generators and 1 for
                others.
            retry_exceptions: After which exceptions of the method it is sent again:
                True for all, or a list of classes. Default: None, which is what the
                actor's options say.
            timeout: Seconds, above 0, from the call until it fails with
                DeadlineExceededError and is cancelled, with everything that it called.
                They count wherever it is: while it waits for its arguments, for the
                actor, in the queue, and running. Default: None, for no end.

        Returns:
            Another method of the same actor; this one does not change. None for an
            option leaves what the class says.

        Raises:
            TypeError: An option is unknown, or a value has the wrong type.
            ValueError: A value is out of range, or names a concurrency group that the
                actor does not have.

        Example:
            >>> @actorlib.remote
            ... class Model:
            ...     def pair(self):
            ...         return 1, 2
            >>> model = Model.remote()
            >>> one, two = model.pair.options(num_returns=2, timeout=10).remote()
            >>> await one, await two
            (1, 2)
        """
        hold = self._hold
        method = hold.interface.with_options(self._callee.method, options)
        given = {**self._given, **options}
        kind = cast("type[ActorMethod[P, R]]", _kind_of(hold, method))
        return kind(hold, bound(hold, method), cast("CallKeywords", given))

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
        name = self._callee.name
        raise TypeError(
            f"{name}() runs in another process: write .{name}.remote(...) and await it"
        )

    def __repr__(self) -> str:
        return f"<method {self._callee}>"

    def __copy__(self) -> ActorMethod[P, R]:
        return self

    def __deepcopy__(self, _: object) -> ActorMethod[P, R]:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        hold = self._hold
        travels(hold.engine, hold.actor_id)
        return _loaded_method, (
            hold.actor_id,
            hold.interface,
            self._callee.name,
            self._given,
        )


class _CountedMethod(ActorMethod[P, R]):
    """A method of an actor with ``max_pending_calls``."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRef[R]:
        """Calls the method, if this process does not wait for too many answers."""
        callee = self._callee
        callee.method.check(len(args), kwargs)
        return _counted(self._hold, self._hold.engine.call, callee, args, kwargs)

    def _call_chunk(
        self, callee: BoundMethod, args: tuple[object, ...]
    ) -> ObjectRef[list[R]]:
        return _counted(self._hold, self._hold.engine.call, callee, args, {})


class _PartedMethod(ActorMethod[P, R]):
    """A method called with ``num_returns``."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Calls the method; gives a list of refs, or None for none."""
        hold, callee = self._hold, self._callee
        is_counted = hold.interface.max_pending > 0
        kind: Any = _CountedMethod if is_counted else ActorMethod
        ref: ObjectRef[Any] = kind(hold, callee).remote(*args, **kwargs)
        count = callee.options.parts
        where = f"{hold.interface.class_name}.{callee.name}"
        return parted(ref, count, where) if count else None


class _CollectedMethod(ActorMethod[P, R]):
    """A generator called with ``num_returns``."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Calls the method; gives a list of refs, one ref, or None for none."""
        hold, callee = self._hold, self._callee
        items = _items(hold, callee, args, kwargs)
        where = f"{hold.interface.class_name}.{callee.name}"
        return collected(items, callee.options.parts, where)


class _StreamMethod(ActorMethod[P, R]):
    """A generator of a remote actor."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRefGenerator[R]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # typed() tells the two apart
        """Calls the generator; its items come one after the other."""
        return ObjectRefGenerator(_items(self._hold, self._callee, args, kwargs))


def _items(
    hold: HandlePin,
    callee: BoundMethod,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> StreamReader:
    """Calls a generator, if this process does not wait for too many answers."""
    callee.method.check(len(args), kwargs)
    stream = hold.engine.stream
    if hold.interface.max_pending > 0:
        return _counted(hold, stream, callee, args, kwargs)
    return stream(callee, args, kwargs)


def _counted(
    hold: HandlePin,
    verb: Callable[[Callee, tuple[object, ...], Mapping[str, object]], C],
    callee: BoundMethod,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> C:
    """Makes a call, if this process does not wait for too many answers."""
    actor, limit = hold.actor_id, hold.interface.max_pending
    pending = hold.engine.pending
    if not pending.begin(actor, limit):
        raise PendingCallsLimitExceeded(
            f"{callee}: this process has {limit} calls of the actor without an answer, "
            f"and max_pending_calls={limit}: await some of them first",
            limit=limit,
        )
    try:
        made = verb(callee, args, kwargs)
    except BaseException:
        pending.made(actor, None)
        raise
    ref: ObjectRef[Any] = made if isinstance(made, ObjectRef) else made.completed
    pending.made(actor, ref)
    watch(ref, partial(pending.end, actor, weakref.ref(ref)))
    return made


class _Terminate(ActorMethod[[], None]):
    """``__ray_terminate__``: it refuses what comes later, so it is no usual call."""

    __slots__ = ()

    def remote(self, /, *args: object, **kwargs: object) -> asyncio.Future[None]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # awaited like a ref
        """Ends the actor behind what it was sent; done when its process is gone."""
        self._callee.method.check(len(args), kwargs)
        return self._hold.engine.end(self._hold.actor_id)


def method_of(hold: HandlePin, method: Method) -> ActorMethod[..., Any]:
    """A method of an actor, of the kind that it is."""
    kind = _kind_of(hold, method)
    return kind(hold, bound(hold, method))


def bound(hold: HandlePin, method: Method) -> BoundMethod:
    """A method as calls of the actor name it."""
    return BoundMethod(hold.actor_id, hold.interface, hold.name, method)


def _kind_of(hold: HandlePin, method: Method) -> type[ActorMethod[..., Any]]:
    kind = _plain_kind_of(hold, method)
    return kind if method.own is None else _looking_like(method.own, kind)


def _plain_kind_of(hold: HandlePin, method: Method) -> type[ActorMethod[..., Any]]:
    if method is TERMINATE:
        return _Terminate
    if method.is_stream:
        return _CollectedMethod if method.options.is_counted else _StreamMethod
    if method.options.parts != 1:
        return _PartedMethod
    return _CountedMethod if hold.interface.max_pending > 0 else ActorMethod


def _looking_like(
    own: Own, kind: type[ActorMethod[..., Any]]
) -> type[ActorMethod[..., Any]]:
    """The same kind, with the signature and the docstring of a method.

    ``inspect`` looks at the function behind ``h.m.remote``, which all methods would
    share, and editors and notebooks ask ``inspect``. So each method has a class with a
    copy of that function; a call goes the same way as ever. It is made once.
    """
    known = own.kinds.get(kind)
    if known is None:
        plain = cast("FunctionType", kind.remote)
        remote = FunctionType(
            plain.__code__, plain.__globals__, "remote", None, plain.__closure__
        )
        remote.__qualname__, remote.__module__ = plain.__qualname__, plain.__module__
        # Of a bound method Python leaves the first parameter out.
        this = "self" * (1 + ("self" in own.signature.parameters))
        parameters = [
            Parameter(this, Parameter.POSITIONAL_ONLY),
            *own.signature.parameters.values(),
        ]
        documented: dict[str, Any] = {
            "__doc__": own.doc or kind.__doc__,
            "__signature__": own.signature,
        }
        remote.__doc__ = documented["__doc__"]
        cast("Any", remote).__signature__ = own.signature.replace(parameters=parameters)
        known = own.kinds[kind] = type(
            kind.__name__,
            (kind,),
            {"__slots__": (), "__module__": kind.__module__, "remote": remote}
            | documented,
        )
    return known


def _loaded_method(
    actor_id: ActorId, interface: Interface, name: str, given: CallKeywords
) -> ActorMethod[..., Any]:
    hold = HandlePin(current_engine(), actor_id, interface)
    method = method_of(hold, BUILT_IN.get(name) or interface.methods[name])
    return method.options(**given) if given else method


T = TypeVar("T")


@public("actorlib")
class ActorHandle(Generic[T]):
    """A handle of an actor: call its methods with ``handle.method.remote(...)``.

    ``await handle`` waits until the actor is ready and gives the handle back;
    ``async with A.remote() as handle:`` ends the actor at the end of the block. Handles
    may be passed to other actors and returned by them. They are equal if they are of
    the same actor.

    Example:
        >>> @actorlib.remote
        ... class Counter:
        ...     def __init__(self, start=0):
        ...         self.value = start
        ...     def add(self, n):
        ...         self.value += n
        ...         return self.value

        >>> async with Counter.remote() as counter:
        ...     print(await counter.add.remote(1))
        1
    """

    __slots__ = ("__dict__", "__hold", "__weakref__")

    __hold: HandlePin

    def __init__(self, hold: HandlePin) -> None:
        object.__setattr__(self, "_ActorHandle__hold", hold)

    if not TYPE_CHECKING:  # type checkers refuse it by themselves

        def __setattr__(self, name: str, value: object) -> None:
            """Refuses: what is set here would never get to the actor."""
            raise _no_attribute(self, name)

        def __delattr__(self, name: str) -> None:
            """Refuses likewise."""
            raise _no_attribute(self, name)

    def __getattr__(self, name: str) -> ActorMethod[..., Any]:
        hold = self.__hold
        method = BUILT_IN.get(name) or hold.interface.methods.get(name)
        if method is None:
            raise _no_such_method(hold.interface, name)
        # The method refers to the hold, not to the handle, so keeping it here makes
        # no cycle, and the next look-up does not come this way.
        made = method_of(hold, method)
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
        return f"Actor({hold.label}, {hold.actor_id.hex()})"

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
        if hold.name is None:
            return _loaded_handle, (hold.actor_id, hold.interface)
        return _loaded_handle, (hold.actor_id, hold.interface, hold.name)

    def __copy__(self) -> ActorHandle[T]:
        return self

    def __deepcopy__(self, _: object) -> ActorHandle[T]:
        return self


def hold_of(handle: ActorHandle[Any]) -> HandlePin:
    """The hold inside a handle, out of reach of the actor's own method names."""
    return cast("HandlePin", object.__getattribute__(handle, "_ActorHandle__hold"))


def own_handle() -> ActorHandle[Any]:
    """A handle of the actor whose code this is."""
    engine = current_engine()
    actor_id = ActorId(bytes.fromhex(engine.context.actor_id or ""))
    name = engine.context.actor_name
    return ActorHandle(HandlePin(engine, actor_id, engine.interface(), name))


def _loaded_handle(
    actor_id: ActorId, interface: Interface, name: str | None = None
) -> ActorHandle[Any]:
    return ActorHandle(HandlePin(current_engine(), actor_id, interface, name))


def _no_attribute(handle: ActorHandle[Any], name: str) -> AttributeError:
    label = hold_of(handle).interface.class_name
    message = (
        f"{name!r} cannot be set on a handle: the attributes of {label} are in the "
        f"actor's process. Give {label} a method that sets it, and call that with "
        ".remote()"
    )
    return AttributeError(message, name=name)


def _no_such_method(interface: Interface, name: str) -> AttributeError:
    close = closest(name, interface.methods)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    message = f"actor class {interface.class_name} has no method {name!r}{hint}"
    return AttributeError(message, name=name)
