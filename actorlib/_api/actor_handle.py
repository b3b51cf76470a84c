"""Handles of actors, and their methods: ``handle.method.remote(...)``.

A handle has the interface of its class, so a misspelt method or a missing argument
fails in the line of the caller. It also keeps its actor alive: the actor ends when the
last handle in any process is gone and its calls are done.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from functools import partial
from inspect import Parameter
from types import FunctionType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NoReturn,
    ParamSpec,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from actorlib._api.result_parts import collect_items, split_result
from actorlib._base.ids import ActorId
from actorlib._base.public import public
from actorlib._base.validation import check_seconds, closest_names
from actorlib._core.engine import HandlePin, current_engine
from actorlib._futures.object_ref import ObjectRef
from actorlib._futures.stream_reader import ObjectRefGenerator
from actorlib._options.callee import BoundMethod
from actorlib._options.interface import BUILT_IN, TERMINATE
from actorlib.exceptions import (
    ActorHandleNotFoundError,
    PendingCallsLimitExceeded,
    UnknownOptionError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from types import TracebackType

    from actorlib._api.call_batch import MapResult
    from actorlib._api.pipeline import PoolRaises, PoolReturns
    from actorlib._futures.stream_reader import StreamReader, UntypedResult
    from actorlib._options.call_options import CallKeywords
    from actorlib._options.callee import Callee
    from actorlib._options.interface import Interface, Method, MethodDocs
    from actorlib._options.shares import ActorShare


P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="ObjectRef[Any] | StreamReader")

_CHUNK_SIZE = 256
"""The default number of calls in a chunk of a map."""


@public("actorlib.types")
class ActorMethod(Generic[P, R]):
    """A method of a remote actor; ``.remote(...)`` calls it.

    It keeps the actor alive. It may be stored, and may be passed to other actors.

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

    __slots__ = ("_callee", "_changes", "_high", "_low", "_pin")

    def __init__(
        self, pin: HandlePin, callee: BoundMethod, changes: CallKeywords | None = None
    ) -> None:
        self._pin = pin
        self._callee = callee
        self._changes: CallKeywords = changes or {}
        self._low = callee.method.low
        self._high = callee.method.high

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRef[R]:
        """Calls the method; returns at once.

        Calls of one process reach the actor in the order in which they were made, even
        if the actor is not ready yet.

        Args:
            *args: Positional arguments, sent by value. An argument that is an ObjectRef
                arrives as its value.
            **kwargs: Keyword arguments, sent in the same way.

        Returns:
            A ref of the result, which can be awaited.

        Raises:
            TypeError: The arguments do not fit the method, or cannot be sent. Nothing
                was called.
            PendingCallsLimitExceeded: ``max_pending_calls`` calls have no answer.
        """
        if kwargs or not self._low <= len(args) <= self._high:
            self._callee.method.check(len(args), kwargs)
        return self._pin.engine.call(self._callee, args, kwargs)

    def _moving(self, mover: Callable[[], ActorId | None]) -> ActorMethod[P, R]:
        """Returns the method; after a death, ``mover`` finds an actor for its calls."""
        return type(self)(
            self._pin, self._callee.with_header("mover", mover), self._changes
        )

    @overload
    def map(
        self, /, *iterables: Iterable[Any], **options: Unpack[PoolRaises]
    ) -> MapResult[R]: ...
    @overload
    def map(
        self, /, *iterables: Iterable[Any], **options: Unpack[PoolReturns]
    ) -> MapResult[R | Exception]: ...
    def map(
        self,
        /,
        *iterables: Iterable[Any],
        ordered: bool = True,
        chunksize: int | Literal["auto"] = _CHUNK_SIZE,
        progress: bool | str = False,
        on_error: Literal["raise", "return"] = "raise",
        return_exceptions: bool = False,
        cache: None = None,
    ) -> MapResult[Any]:
        """Calls the method for each item, with many calls in one frame.

        The results are those of ``[method.remote(item) for item in items]``, in order.
        For short methods this is many times as fast. The calls of a chunk count as one
        call: they are sent, retried, cancelled, limited (``max_pending_calls``) and
        timed together. An ``async def`` method runs for many items at once, within the
        limits of the actor. The results of a chunk are sent together: a method returns
        a copy of what a later call of the chunk changes.

        Args:
            *iterables: The arguments of the calls, one iterable for each argument, as
                for ``map()``; they are read at once. A single one may be asynchronous:
                it is read when the batch is awaited.
            ordered: False returns the results of each chunk as it is answered. Default:
                True.
            chunksize: The number of calls in a chunk. Use fewer for methods that take
                long, and for large items. ``"auto"`` makes chunks of about 5 ms of
                work: they are sent as others are answered, so later calls may run
                between them. Default: 256.
            progress: As for ``function.map``. Default: False.
            on_error: ``"raise"`` ends all calls at the first error and raises it, with
                a note that names its call. ``"return"`` makes all calls, and returns
                each error in the place of its result. Default: ``"raise"``.
            return_exceptions: The same as ``on_error="return"``. Default: False.
            cache: Only functions have it: see ``function.map``. Default: None.

        Returns:
            A batch: ``await`` it for the list of all results, or iterate over it.

        Raises:
            TypeError: The method does not take so many arguments, is a generator, or
                something is not iterable or cannot be sent.
            ValueError: An option is out of range.
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
        from actorlib._api.call_batch import MapResult  # noqa: PLC0415  # few map
        from actorlib._api.pipeline import map_options  # noqa: PLC0415  # few map

        if not iterables:
            raise TypeError("map() takes an iterable for each argument: there is none")
        if cache is not None:
            self._map_cache(cache, None)
        checked = map_options(
            iterables,
            ordered=ordered,
            chunksize=chunksize,
            progress=progress,
            on_error=on_error,
            return_exceptions=return_exceptions,
        )
        call = self._chunk_caller(len(iterables), stops=not checked.returns_errors)
        return MapResult(iterables, call, checked)

    def _map_cache(self, folder: object, _: object) -> NoReturn:
        """Refuses to keep results; see ``Chunkable``."""
        raise TypeError(
            f"cache={folder!r} is for maps of functions: the result of "
            f"{self._callee.method.name} also depends on the state of its actor"
        )

    def _chunk_caller(
        self, width: int, *, stops: bool
    ) -> Callable[[tuple[object, ...]], ObjectRef[Any]]:
        """Returns a function that calls the method for a chunk; see ``Chunkable``."""
        method = self._callee.method
        where = f"{self._pin.interface.class_name}.{method.name}"
        method.check_batch(where, width, method.options.parts)
        return partial(
            self._call_chunk, self._callee.with_header("batch", (width, stops))
        )

    def _call_chunk(
        self, callee: BoundMethod, args: tuple[object, ...]
    ) -> ObjectRef[Any]:
        return self._pin.engine.call(callee, args, {})

    def options(self, /, **options: Unpack[CallKeywords]) -> ActorMethod[P, R]:
        """Returns the same method with some options replaced.

        Args:
            **options: The options of the calls, by name. With None, the option of the
                class applies. ``help(actorlib.types.CallOptions)`` describes each
                option.

        Returns:
            Another method of the same actor; this one does not change.

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
        pin = self._pin
        key = options.get("key")
        if key is not None:
            raise UnknownOptionError(
                f"key={key!r} chooses one of several replicas: it is an "
                f"option of the methods of Replicas, and {pin.label} is one actor"
            )
        method = pin.interface.with_options(self._callee.method, options)
        changes = cast("CallKeywords", {**self._changes, **options})
        kind = cast("type[ActorMethod[P, R]]", _kind_of(pin, method))
        return kind(pin, bound_method(pin, method), changes)

    def _remote(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        **options: Unpack[CallKeywords],
    ) -> ObjectRef[R]:
        """Calls ``.options(...).remote(*args, **kwargs)``; for older scripts of Ray."""
        method = self.options(**options) if options else self
        call = cast("Callable[..., ObjectRef[R]]", method.remote)
        return call(*(args or ()), **(kwargs or {}))

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refuses: a remote call does not look like a local one."""
        name = self._callee.name
        raise TypeError(
            f"{name}() runs in another process: write .{name}.remote(...) and await it"
        )

    if not TYPE_CHECKING:  # type checkers refuse it anyway

        def __await__(self) -> NoReturn:
            """Refuses: nothing was called."""
            name = self._callee.name
            raise TypeError(
                f"{name} is a method that was not called: write "
                f"'await handle.{name}.remote(...)'"
            )

    def __repr__(self) -> str:
        return f"<method {self._callee}>"

    def __copy__(self) -> ActorMethod[P, R]:
        return self

    def __deepcopy__(self, _: object) -> ActorMethod[P, R]:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        pin = self._pin
        pin.engine.note_pickled(pin.actor_id)
        return _loaded_method, (
            pin.actor_id,
            pin.interface,
            self._callee.name,
            self._changes,
        )


if TYPE_CHECKING:

    class UntypedMethod(ActorMethod[P, Any], Generic[P]):
        """A method whose result has an unknown type, so it may be a generator."""

        def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> UntypedResult: ...
        def options(self, /, **options: Unpack[CallKeywords]) -> UntypedMethod[P]: ...


class _LimitedMethod(ActorMethod[P, R]):
    """A method of an actor with ``max_pending_calls``."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRef[R]:
        """Calls the method, within the limit of pending calls."""
        callee = self._callee
        callee.method.check(len(args), kwargs)
        return _call_within_limit(
            self._pin, self._pin.engine.call, callee, args, kwargs
        )

    def _call_chunk(
        self, callee: BoundMethod, args: tuple[object, ...]
    ) -> ObjectRef[Any]:
        return _call_within_limit(self._pin, self._pin.engine.call, callee, args, {})


class _SplitMethod(ActorMethod[P, R]):
    """A method called with ``num_returns``."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Calls the method; returns a list of refs, or None for none."""
        pin, callee = self._pin, self._callee
        is_counted = pin.interface.max_pending > 0
        kind: Any = _LimitedMethod if is_counted else ActorMethod
        ref: ObjectRef[Any] = kind(pin, callee).remote(*args, **kwargs)
        parts = callee.options.parts
        where = f"{pin.interface.class_name}.{callee.name}"
        return split_result(ref, parts, where) if parts else None


class _CollectedMethod(ActorMethod[P, R]):
    """A generator called with ``num_returns``."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Calls the method; returns a list of refs, one ref, or None for none."""
        pin, callee = self._pin, self._callee
        items = _items(pin, callee, args, kwargs)
        where = f"{pin.interface.class_name}.{callee.name}"
        return collect_items(items, callee.options.parts, where)


class _StreamMethod(ActorMethod[P, R]):
    """A generator of a remote actor."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRefGenerator[R]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # typed() tells the two apart
        """Calls the generator; returns the stream of its items."""
        return ObjectRefGenerator(_items(self._pin, self._callee, args, kwargs))


def _items(
    pin: HandlePin,
    callee: BoundMethod,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> StreamReader:
    """Calls a generator, within the limit of pending calls."""
    callee.method.check(len(args), kwargs)
    stream = pin.engine.stream
    if pin.interface.max_pending > 0:
        return _call_within_limit(pin, stream, callee, args, kwargs)
    return stream(callee, args, kwargs)


def _call_within_limit(
    pin: HandlePin,
    operation: Callable[[Callee, tuple[object, ...], Mapping[str, object]], C],
    callee: BoundMethod,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> C:
    """Makes a call, if this process has fewer pending calls than the limit."""
    actor, limit = pin.actor_id, pin.interface.max_pending
    pending = pin.engine.pending
    if not pending.begin(actor, limit):
        raise PendingCallsLimitExceeded(
            f"{callee}: this process has {limit} calls of the actor without an answer, "
            f"and max_pending_calls={limit}: await some of them first",
            limit=limit,
        )
    try:
        result = operation(callee, args, kwargs)
    except BaseException:
        pending.made(actor, None)
        raise
    ref: ObjectRef[Any] = result if isinstance(result, ObjectRef) else result.completed
    pending.made(actor, ref)
    ref.watch(partial(pending.end, actor, weakref.ref(ref)))
    return result


class _Terminate(ActorMethod[[], None]):
    """``__ray_terminate__``: the actor refuses later calls, so it is not a call."""

    __slots__ = ()

    def remote(self, /, *args: object, **kwargs: object) -> asyncio.Future[None]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # awaited like a ref
        """Ends the actor after its calls; done when its process is gone."""
        self._callee.method.check(len(args), kwargs)
        return self._pin.engine.end(self._pin.actor_id)


def method_of(pin: HandlePin, method: Method) -> ActorMethod[..., Any]:
    kind = _kind_of(pin, method)
    return kind(pin, bound_method(pin, method))


def bound_method(pin: HandlePin, method: Method) -> BoundMethod:
    return BoundMethod(pin.actor_id, pin.interface, pin.name, method)


def without_limit(method: ActorMethod[P, R]) -> ActorMethod[P, R]:
    """Returns a method whose calls ``max_pending_calls`` does not refuse."""
    if isinstance(method, _LimitedMethod):
        return ActorMethod(method._pin, method._callee)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    return method


def gives_one_result(method: ActorMethod[..., Any]) -> bool:
    """Whether a call of a method returns one ref, so that ``map`` can call it."""
    callee = method._callee  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    is_plain = not callee.method.is_stream and callee.method is not TERMINATE
    return is_plain and callee.method.options.parts == 1


def _kind_of(pin: HandlePin, method: Method) -> type[ActorMethod[..., Any]]:
    kind: type[ActorMethod[..., Any]] = ActorMethod
    if method is TERMINATE:
        kind = _Terminate
    elif method.is_stream:
        kind = _CollectedMethod if method.options.is_counted else _StreamMethod
    elif method.options.parts != 1:
        kind = _SplitMethod
    elif pin.interface.max_pending > 0:
        kind = _LimitedMethod
    return kind if method.docs is None else _documented(method.docs, kind)


def _documented(
    docs: MethodDocs, kind: type[ActorMethod[..., Any]]
) -> type[ActorMethod[..., Any]]:
    """Returns a subclass with the signature and the docstring of a method.

    Editors and notebooks read these by ``inspect`` from the function of
    ``h.m.remote``, which all methods would share. So each method has a class with a
    copy of that function, which is made once; a call runs the same code.
    """
    subclass = docs.classes.get(kind)
    if subclass is None:
        plain = cast("FunctionType", kind.remote)
        remote = FunctionType(
            plain.__code__, plain.__globals__, "remote", None, plain.__closure__
        )
        remote.__qualname__, remote.__module__ = plain.__qualname__, plain.__module__
        # Python omits the first parameter of a bound method.
        this = "self" * (1 + ("self" in docs.signature.parameters))
        parameters = [
            Parameter(this, Parameter.POSITIONAL_ONLY),
            *docs.signature.parameters.values(),
        ]
        documented: dict[str, Any] = {
            "__doc__": docs.doc or kind.__doc__,
            "__signature__": docs.signature,
        }
        remote.__doc__ = documented["__doc__"]
        cast("Any", remote).__signature__ = docs.signature.replace(
            parameters=parameters
        )
        subclass = docs.classes[kind] = type(
            kind.__name__,
            (kind,),
            {"__slots__": (), "__module__": kind.__module__, "remote": remote}
            | documented,
        )
    return subclass


def _loaded_method(
    actor_id: ActorId, interface: Interface, name: str, changes: CallKeywords
) -> ActorMethod[..., Any]:
    pin = HandlePin(current_engine(), actor_id, interface)
    method = method_of(pin, BUILT_IN.get(name) or interface.methods[name])
    return method.options(**changes) if changes else method


T = TypeVar("T")
_OPERATIONS = ("suspend", "resume")
"""The methods of a handle itself, unless the class has a method of that name."""


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

    __slots__ = ("__dict__", "__pin", "__weakref__")

    __pin: HandlePin

    def __init__(self, pin: HandlePin) -> None:
        object.__setattr__(self, "_ActorHandle__pin", pin)
        methods = pin.interface.methods
        for name in _OPERATIONS:
            if name in methods:  # Python looks here before it looks in the class
                self.__dict__[name] = method_of(pin, methods[name])

    if not TYPE_CHECKING:  # type checkers refuse it anyway

        def __setattr__(self, name: str, value: object) -> None:
            """Refuses: the attribute would not reach the actor."""
            raise _no_attribute(self, name)

        def __delattr__(self, name: str) -> None:
            """Refuses: the actor's attributes are elsewhere."""
            raise _no_attribute(self, name)

    def __getattr__(self, name: str) -> UntypedMethod[...]:
        pin = self.__pin
        method = BUILT_IN.get(name) or pin.interface.methods.get(name)
        if method is None:
            raise no_such_method(pin.interface, name)
        # It is kept, so that Python finds it next time without this method. It refers
        # to the pin and not to the handle, so there is no cycle.
        actor_method = self.__dict__[name] = method_of(pin, method)
        return cast("UntypedMethod[...]", actor_method)

    @property
    def share(self) -> ActorShare:
        """The actor's devices, its share of each, and the enforcement.

        It is empty (and false) for an actor that asked for no device, that waits in the
        queue or for its restart, that is suspended, or that is dead. It is available in
        the program that started the runtime, on the local and on the inline engine. If
        the class has a method of this name, this is that method: write
        ``typed(handle).share`` then, for a type checker.

        Raises:
            RuntimeError: This is the code of an actor, or the engine is Ray's.

        Example:
            >>> @actorlib.remote(num_gpus=0.5)
            ... class Model:
            ...     pass
            >>> model = await Model.remote()
            >>> model.share.units, model.share.enforced_by
            (0.5, 'off')
        """
        pin = self.__pin
        if "share" in pin.interface.methods:
            method = self.__dict__.get("share") or self.__getattr__("share")
            return cast("ActorShare", method)
        return pin.engine.share(pin.actor_id)

    def suspend(self, *, timeout: float | None = None) -> asyncio.Future[None]:
        """Removes the actor from its GPU and frees its share, until it is resumed.

        Its process lives on. Running calls end first, while new ones wait. Then
        NVIDIA's driver copies the process's memory on the GPU to the host, which needs
        as much free memory, and everything that the actor holds becomes free, CPUs and
        memory too. Others may use it until ``resume``.

        The local engine supports it on Linux, for an actor of one NVIDIA GPU, or a part
        of one, with a driver of release 570 or newer. Otherwise SuspendError has the
        reason. Calls that other actors make over links are not delayed: they begin, and
        wait where they use the GPU. An actor that is ended while it is suspended ends
        at once. If the class has a method of this name, this is that method: write
        ``ActorHandle.suspend(handle)`` then.

        Args:
            timeout: The seconds that its running calls may take, 0 or more, and then
                their remaining work on the GPU. After that nothing has changed.
                Default: None, for any time; the work on the GPU has a minute. If a
                suspension has begun, its timeout applies.

        Returns:
            A future that is done when the share is free. The blocking API waits by
            ``get()``.

        Raises:
            SuspendError: The actor is not ready, holds no GPU, holds other devices, has
                calls that run for too long, is being resumed, or the driver refuses. It
                goes on as before.
            ActorDiedError: It has ended.
            UnsupportedOptionError: This is the code of an actor or of a client, or the
                engine is Ray's.

        Example:
            >>> @actorlib.remote(num_gpus=1)
            ... class Model:
            ...     def ask(self, question):
            ...         return question.upper()
            >>> model = await Model.remote()
            >>> try:
            ...     await model.suspend()
            ...     await model.resume()  # waits until the GPU is free again
            ... except actorlib.exceptions.SuspendError:
            ...     print("there is no driver here that can do it")
            there is no driver here that can do it
        """
        if timeout is not None:
            check_seconds("timeout", timeout)
        pin = self.__pin
        return pin.engine.suspend(pin.actor_id, timeout)

    def resume(self) -> asyncio.Future[None]:
        """Puts the actor back on its GPU as soon as its share is free.

        It enters the wait queue like any other actor, for the same device. Its waiting
        calls go on when the driver has restored its memory. If the wait for this is
        cancelled, the actor stays in the queue; ``suspend`` removes it. A method of the
        class with this name takes precedence; see ``suspend``.

        Returns:
            A future that is done when the actor accepts calls.

        Raises:
            SuspendError: It is being suspended, or was suspended again before its turn;
                or the driver has no room on the GPU, or fails: then the actor stays
                suspended.
            ActorUnschedulableError: Its share cannot be granted again, as its placement
                group was removed.
            ActorDiedError: It has ended.
            UnsupportedOptionError: See ``suspend``.

        Example:
            >>> @actorlib.remote
            ... class Model:
            ...     pass
            >>> model = await Model.remote()
            >>> await model.resume()  # it was never suspended
        """
        pin = self.__pin
        return pin.engine.resume(pin.actor_id)

    def __await__(self) -> Generator[Any, None, ActorHandle[T]]:
        """Waits until the actor is ready for calls.

        Raises:
            ActorDiedError: Its constructor raised (that is the ``__cause__``), or its
                process ended before it was ready.
            ActorUnschedulableError: It asks for more than this machine can ever grant.
        """
        pin = self.__pin
        yield from pin.engine.ready(pin.actor_id).__await__()
        return self

    async def __aenter__(self) -> ActorHandle[T]:
        """Waits until the actor is ready; it ends with the block."""
        return await self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the actor after its calls, or at once after an exception."""
        pin = self.__pin
        if kind is None:
            await pin.engine.end(pin.actor_id)
            return
        with suppress(ActorHandleNotFoundError):  # the error of the block counts
            await pin.engine.kill(pin.actor_id)

    def __dir__(self) -> list[str]:
        methods = self.__pin.interface.methods
        own = [name for name in methods if not name.startswith("__")]
        return sorted({"share", "suspend", "resume", *own})

    def __repr__(self) -> str:
        pin = self.__pin
        return f"Actor({pin.label}, {pin.actor_id.hex()})"

    def _repr_html_(self) -> str | None:
        """Shows the actor in a table, in a notebook; None if it is not available."""
        engine, actor = self.__pin.engine, self.__pin.actor_id.hex()
        with suppress(RuntimeError, ConnectionError):  # it has ended, or is elsewhere
            infos = (info for info in engine.actors() if info.actor_id == actor)
            return next((info._repr_html_() for info in infos), None)  # pyright: ignore[reportPrivateUsage]  # what notebooks call
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ActorHandle):
            return NotImplemented
        own, others = self.__pin, pin_of(cast("ActorHandle[Any]", other))
        return own is others or own.actor_id == others.actor_id

    def __hash__(self) -> int:
        return hash(self.__pin.actor_id)

    def __reduce__(self) -> tuple[object, ...]:
        pin = self.__pin
        pin.engine.note_pickled(pin.actor_id)
        name = () if pin.name is None else (pin.name,)
        return _loaded_handle, (pin.actor_id, pin.interface, *name)

    def __copy__(self) -> ActorHandle[T]:
        return self

    def __deepcopy__(self, _: object) -> ActorHandle[T]:
        return self


def pin_of(handle: ActorHandle[Any]) -> HandlePin:
    """Returns the pin of a handle, whatever names the actor's methods have."""
    return cast("HandlePin", object.__getattribute__(handle, "_ActorHandle__pin"))


def own_handle() -> ActorHandle[Any]:
    engine = current_engine()
    actor_id = ActorId(bytes.fromhex(engine.context.actor_id or ""))
    name = engine.context.actor_name
    return ActorHandle(HandlePin(engine, actor_id, engine.interface(), name))


def _loaded_handle(
    actor_id: ActorId, interface: Interface, name: str | None = None
) -> ActorHandle[Any]:
    return ActorHandle(HandlePin(current_engine(), actor_id, interface, name))


def _no_attribute(handle: ActorHandle[Any], name: str) -> AttributeError:
    label = pin_of(handle).interface.class_name
    message = (
        f"{name!r} cannot be set on a handle: the attributes of {label} are in the "
        f"actor's process. Give {label} a method that sets it, and call that with "
        ".remote()"
    )
    return AttributeError(message, name=name)


def no_such_method(interface: Interface, name: str) -> AttributeError:
    """Makes the error for a name that is not a method; suggests what to write."""
    cls = interface.class_name
    if name in interface.attributes:
        message = (
            f"{name!r} is {interface.attributes[name]} of {cls}, and its value is in "
            f"the actor's process: give {cls} a method that returns it, and call that "
            "with .remote()"
        )
        return AttributeError(message, name=name)
    close = closest_names(name, interface.methods)
    hint = (
        f"did you mean {close[0]!r}?"
        if close
        else "an attribute of the actor is read by a method that returns it"
    )
    message = f"actor class {cls} has no method {name!r}; {hint}"
    return AttributeError(message, name=name)
