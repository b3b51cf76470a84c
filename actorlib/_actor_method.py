"""Methods of remote actors: ``handle.method.remote(...)``, and its kin."""

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

from actorlib._batch import CHUNK, Batch, chunks_of
from actorlib._checks import count
from actorlib._engine import Hold, current_engine, travels
from actorlib._generator import ObjectRefGenerator
from actorlib._interface import BUILT_IN, TERMINATE
from actorlib._parts import collected, parted
from actorlib._ref import ObjectRef, watch
from actorlib.exceptions import PendingCallsLimitExceeded

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from actorlib._call_options import CallKeywords
    from actorlib._ids import ActorId
    from actorlib._interface import Interface, Method, Own
    from actorlib._reading import Reading

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="ObjectRef[Any] | Reading")


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
                and large items.

        Returns:
            ``await`` it for the list of all results, or iterate over it.

        Raises:
            TypeError: The method does not take so many arguments, is a generator, or
                something is not iterable or cannot be sent.
            ValueError: ``chunksize`` is not positive.
            PendingCallsLimitExceeded: See ``remote``; chunks that were sent are
                cancelled.
        """
        count("chunksize", chunksize, 1)
        if not iterables:
            raise TypeError("map() takes an iterable for each argument, and got none")
        width = len(iterables)
        hold = self._hold
        method = hold.interface.batched(self._method, width)
        refs: list[ObjectRef[list[R]]] = []
        try:
            for start, args in chunks_of(iterables, chunksize):
                told = {**(method.told or {}), "batch": (width, start)}
                refs.append(self._call_chunk(method._replace(told=told), args))
        except BaseException:
            Batch(refs).cancel()
            raise
        return Batch(refs)

    def _call_chunk(
        self, method: Method, args: tuple[object, ...]
    ) -> ObjectRef[list[R]]:
        hold = self._hold
        return hold.engine.call(hold.actor_id, method, args, {})

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
        return f"<method {self._hold.label.method(self._method.name)}>"

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
            self._method.name,
            self._given,
        )


class _CountedMethod(ActorMethod[P, R]):
    """A method of an actor with ``max_pending_calls``."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRef[R]:
        """Calls the method, if this process does not wait for too many answers."""
        call = super().remote
        return _counted(self._hold, self._method, lambda: call(*args, **kwargs))

    def _call_chunk(
        self, method: Method, args: tuple[object, ...]
    ) -> ObjectRef[list[R]]:
        call = super()._call_chunk
        return _counted(self._hold, method, lambda: call(method, args))


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


class _CollectedMethod(ActorMethod[P, R]):
    """A generator called with ``num_returns``."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Calls the method; gives a list of refs, one ref, or None for none."""
        hold, method = self._hold, self._method
        method.check(len(args), kwargs)
        items = _items(hold, method, args, kwargs)
        where = f"{hold.interface.class_name}.{method.name}"
        return collected(items, method.options.parts, where)


class _StreamMethod(ActorMethod[P, R]):
    """A generator of a remote actor."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRefGenerator[R]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # typed() tells the two apart
        """Calls the generator; its items come one after the other."""
        hold, method = self._hold, self._method
        method.check(len(args), kwargs)
        return ObjectRefGenerator(_items(hold, method, args, kwargs))


def _items(
    hold: Hold,
    method: Method,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> Reading:
    """Calls a generator, if this process does not wait for too many answers."""
    is_capped = hold.interface.max_unread > 0

    def call() -> Reading:
        return hold.engine.stream(
            hold.actor_id, method, args, kwargs, is_capped=is_capped
        )

    return _counted(hold, method, call) if hold.interface.max_pending > 0 else call()


def _counted(hold: Hold, method: Method, call: Callable[[], C]) -> C:
    """Makes a call, if this process does not wait for too many answers."""
    actor, limit = hold.actor_id, hold.interface.max_pending
    pending = hold.engine.pending
    if not pending.begin(actor, limit):
        raise PendingCallsLimitExceeded(
            f"{hold.label.method(method.name)}: this process has {limit} "
            "calls of the actor without an answer, and max_pending_calls="
            f"{limit}: await some of them first",
            limit=limit,
        )
    try:
        made = call()
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
        self._method.check(len(args), kwargs)
        return self._hold.engine.end(self._hold.actor_id)


def method_of(hold: Hold, method: Method) -> ActorMethod[..., Any]:
    """A method of an actor, of the kind that it is."""
    kind = _kind_of(hold, method)
    return kind(hold, method.on(hold.interface.class_name, hold.name))


def _kind_of(hold: Hold, method: Method) -> type[ActorMethod[..., Any]]:
    kind = _plain_kind_of(hold, method)
    return kind if method.own is None else _looking_like(method.own, kind)


def _plain_kind_of(hold: Hold, method: Method) -> type[ActorMethod[..., Any]]:
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
    hold = Hold(current_engine(), actor_id, interface)
    method = method_of(hold, BUILT_IN.get(name) or interface.methods[name])
    return method.options(**given) if given else method
