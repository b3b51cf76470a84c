"""Handles of actors, and the methods that they offer: ``handle.method.remote(...)``.

A handle knows the interface of its class, so a misspelt method or a missing argument
fails here, in the line that wrote it. It also keeps its actor alive: when the last
handle is gone, in whatever process, and what the actor was sent is done, it ends.
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
from actorlib.exceptions import PendingCallsLimitExceeded

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from types import TracebackType

    from actorlib._api.call_batch import Batch
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
"""How many calls a chunk of a map has by default."""


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

    __slots__ = ("_callee", "_given", "_high", "_low", "_pin")

    def __init__(
        self, pin: HandlePin, callee: BoundMethod, given: CallKeywords | None = None
    ) -> None:
        self._pin = pin
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
        return self._pin.engine.call(self._callee, args, kwargs)

    def _moving(self, mover: Callable[[], ActorId | None]) -> ActorMethod[P, R]:
        """The same method; its calls may go to another actor if this one dies.

        Args:
            mover: Gives the other actor; None if there is none.
        """
        return type(self)(
            self._pin, self._callee.with_header("mover", mover), self._given
        )

    @overload
    def map(
        self, /, *iterables: Iterable[Any], **options: Unpack[PoolRaises]
    ) -> Batch[R]: ...
    @overload
    def map(
        self, /, *iterables: Iterable[Any], **options: Unpack[PoolReturns]
    ) -> Batch[R | Exception]: ...
    def map(
        self,
        /,
        *iterables: Iterable[Any],
        ordered: bool = True,
        chunksize: int | Literal["auto"] = _CHUNK_SIZE,
        progress: bool | str = False,
        on_error: Literal["raise", "return"] = "raise",
        return_exceptions: bool = False,
    ) -> Batch[Any]:
        """Calls the method for each item, many calls in one frame.

        The results are those of ``[method.remote(item) for item in items]``, in order.
        For short methods this is many times as fast. The calls of a chunk count as one
        call: they are sent, retried, cancelled, limited (``max_pending_calls``) and
        timed together. An ``async def`` method runs for many items at once, as far as
        the limits of the actor allow.

        Args:
            *iterables: The arguments of the calls, one iterable for each argument, as
                for ``map()``; they are used up at once. A single one may be
                asynchronous: it is used up when the batch is awaited.
            ordered: False gives the results of each chunk as it is answered. Default:
                True.
            chunksize: How many calls are in a chunk. Fewer suit methods that take long,
                and large items. ``"auto"`` makes chunks of about 5 ms of work: they are
                sent as others are answered, so calls that are made later may come
                between them. Default: 256.
            progress: As for ``function.map``. Default: False.
            on_error: ``"raise"`` ends all calls at the first error and raises it, with
                a note that names its call. ``"return"`` makes all calls, and gives each
                error in the place of its result. Default: ``"raise"``.
            return_exceptions: The same as ``on_error="return"``. Default: False.

        Returns:
            ``await`` it for the list of all results, or iterate over it.

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
        from actorlib._api.call_batch import Batch  # noqa: PLC0415  # few map
        from actorlib._api.pipeline import map_options  # noqa: PLC0415  # likewise

        if not iterables:
            raise TypeError("map() takes an iterable for each argument, and got none")
        checked = map_options(
            iterables,
            ordered=ordered,
            chunksize=chunksize,
            progress=progress,
            on_error=on_error,
            return_exceptions=return_exceptions,
        )
        call = self._chunk_caller(len(iterables), stops=not checked.returns_errors)
        return Batch(iterables, call, checked)

    def _chunk_caller(
        self, width: int, *, stops: bool
    ) -> Callable[[tuple[object, ...]], ObjectRef[Any]]:
        """Returns what makes one call of many items; see ``Chunkable``.

        Args:
            width: How many arguments each item has.
            stops: Whether the first error ends the call.

        Raises:
            TypeError: The method does not take so many, or gives no single result.
        """
        self._pin.interface.check_batch(self._callee.method, width)
        return partial(
            self._call_chunk, self._callee.with_header("batch", (width, stops))
        )

    def _call_chunk(
        self, callee: BoundMethod, args: tuple[object, ...]
    ) -> ObjectRef[Any]:
        return self._pin.engine.call(callee, args, {})

    def options(self, /, **options: Unpack[CallKeywords]) -> ActorMethod[P, R]:
        """The same method with some options replaced: for one call, or for several.

        Args:
            **options: How the call is made, by name.
                ``help(actorlib.CallOptions)`` describes each option.

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
        pin = self._pin
        method = pin.interface.with_options(self._callee.method, options)
        given = {**self._given, **options}
        kind = cast("type[ActorMethod[P, R]]", _kind_of(pin, method))
        return kind(pin, bound_method(pin, method), cast("CallKeywords", given))

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

    if not TYPE_CHECKING:  # type checkers refuse it by themselves

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
            self._given,
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
        """Calls the method, if this process does not wait for too many answers."""
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
        """Calls the method; gives a list of refs, or None for none."""
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
        """Calls the method; gives a list of refs, one ref, or None for none."""
        pin, callee = self._pin, self._callee
        items = _items(pin, callee, args, kwargs)
        where = f"{pin.interface.class_name}.{callee.name}"
        return collect_items(items, callee.options.parts, where)


class _StreamMethod(ActorMethod[P, R]):
    """A generator of a remote actor."""

    __slots__ = ()

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRefGenerator[R]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # typed() tells the two apart
        """Calls the generator; its items come one after the other."""
        return ObjectRefGenerator(_items(self._pin, self._callee, args, kwargs))


def _items(
    pin: HandlePin,
    callee: BoundMethod,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> StreamReader:
    """Calls a generator, if this process does not wait for too many answers."""
    callee.method.check(len(args), kwargs)
    stream = pin.engine.stream
    if pin.interface.max_pending > 0:
        return _call_within_limit(pin, stream, callee, args, kwargs)
    return stream(callee, args, kwargs)


def _call_within_limit(
    pin: HandlePin,
    verb: Callable[[Callee, tuple[object, ...], Mapping[str, object]], C],
    callee: BoundMethod,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> C:
    """Makes a call, if this process does not wait for too many answers."""
    actor, limit = pin.actor_id, pin.interface.max_pending
    pending = pin.engine.pending
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
    ref.watch(partial(pending.end, actor, weakref.ref(ref)))
    return made


class _Terminate(ActorMethod[[], None]):
    """``__ray_terminate__``: it refuses what comes later, so it is no usual call."""

    __slots__ = ()

    def remote(self, /, *args: object, **kwargs: object) -> asyncio.Future[None]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # awaited like a ref
        """Ends the actor behind what it was sent; done when its process is gone."""
        self._callee.method.check(len(args), kwargs)
        return self._pin.engine.end(self._pin.actor_id)


def method_of(pin: HandlePin, method: Method) -> ActorMethod[..., Any]:
    """A method of an actor, of the kind that it is."""
    kind = _kind_of(pin, method)
    return kind(pin, bound_method(pin, method))


def bound_method(pin: HandlePin, method: Method) -> BoundMethod:
    """A method as calls of the actor name it."""
    return BoundMethod(pin.actor_id, pin.interface, pin.name, method)


def gives_one_result(method: ActorMethod[..., Any]) -> bool:
    """Whether a call of a method gives one ref, so that ``map`` can call it."""
    callee = method._callee  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    is_plain = not callee.method.is_stream and callee.method is not TERMINATE
    return is_plain and callee.method.options.parts == 1


def _kind_of(pin: HandlePin, method: Method) -> type[ActorMethod[..., Any]]:
    kind = _plain_kind_of(pin, method)
    return kind if method.docs is None else _documented(method.docs, kind)


def _plain_kind_of(pin: HandlePin, method: Method) -> type[ActorMethod[..., Any]]:
    if method is TERMINATE:
        return _Terminate
    if method.is_stream:
        return _CollectedMethod if method.options.is_counted else _StreamMethod
    if method.options.parts != 1:
        return _SplitMethod
    return _LimitedMethod if pin.interface.max_pending > 0 else ActorMethod


def _documented(
    docs: MethodDocs, kind: type[ActorMethod[..., Any]]
) -> type[ActorMethod[..., Any]]:
    """The same kind, with the signature and the docstring of a method.

    ``inspect`` looks at the function behind ``h.m.remote``, which all methods would
    share, and editors and notebooks ask ``inspect``. So each method has a class with a
    copy of that function; a call goes the same way as ever. It is made once.
    """
    known = docs.classes.get(kind)
    if known is None:
        plain = cast("FunctionType", kind.remote)
        remote = FunctionType(
            plain.__code__, plain.__globals__, "remote", None, plain.__closure__
        )
        remote.__qualname__, remote.__module__ = plain.__qualname__, plain.__module__
        # Of a bound method Python leaves the first parameter out.
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
        known = docs.classes[kind] = type(
            kind.__name__,
            (kind,),
            {"__slots__": (), "__module__": kind.__module__, "remote": remote}
            | documented,
        )
    return known


def _loaded_method(
    actor_id: ActorId, interface: Interface, name: str, given: CallKeywords
) -> ActorMethod[..., Any]:
    pin = HandlePin(current_engine(), actor_id, interface)
    method = method_of(pin, BUILT_IN.get(name) or interface.methods[name])
    return method.options(**given) if given else method


T = TypeVar("T")
_VERBS = ("suspend", "resume")
"""What a handle does with its actor, unless the class has a method of that name."""


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
        for name in _VERBS:
            if name in methods:  # what is in here is found before the verb
                self.__dict__[name] = method_of(pin, methods[name])

    if not TYPE_CHECKING:  # type checkers refuse it by themselves

        def __setattr__(self, name: str, value: object) -> None:
            """Refuses: what is set here would never get to the actor."""
            raise _no_attribute(self, name)

        def __delattr__(self, name: str) -> None:
            """Refuses likewise."""
            raise _no_attribute(self, name)

    def __getattr__(self, name: str) -> UntypedMethod[...]:
        pin = self.__pin
        method = BUILT_IN.get(name) or pin.interface.methods.get(name)
        if method is None:
            raise no_such_method(pin.interface, name)
        # The method refers to the pin, not to the handle, so keeping it here makes
        # no cycle, and the next look-up does not come this way.
        made = method_of(pin, method)
        self.__dict__[name] = made
        return cast("UntypedMethod[...]", made)

    @property
    def share(self) -> ActorShare:
        """Tells which devices the actor holds, how much, and what keeps it to that.

        Empty (and false) for an actor that asked for no device, that waits in line or
        for its restart, that is suspended, or that is dead. It is known in the program
        that started the runtime, on the local and on the inline engine. If the class
        has a method of this name, that is what is found here: write
        ``typed(handle).share`` then, for a type checker.

        Raises:
            RuntimeError: This is an actor's code, or the engine is Ray's.

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
            made = self.__dict__.get("share") or self.__getattr__("share")
            return cast("ActorShare", made)
        return pin.engine.share(pin.actor_id)

    def suspend(self, *, timeout: float | None = None) -> asyncio.Future[None]:
        """Takes the actor off its GPU, and gives its share back, until it is resumed.

        Its process lives on. Calls under way end first, while new ones wait. Then
        NVIDIA's driver copies what the process has on its GPU to the host's memory, so
        that much of that has to be free, and all that the actor holds is given back,
        CPUs and memory too. Others may have it until ``resume``.

        The local engine does it on Linux, for an actor of one NVIDIA GPU, or a part of
        one, whose driver is 570 or newer. What cannot be is refused with the reason.
        Calls that other actors make over links are not held back: they begin, and wait
        where they use the GPU. An actor that is ended while it is suspended is ended at
        once. If the class has a method of this name, that is what is found here: write
        ``ActorHandle.suspend(handle)`` then.

        Args:
            timeout: How many seconds its calls under way may take, 0 or more, and
                behind them what they have left to be done on the GPU. Then nothing has
                changed. Default: None, for any time; what is left on the GPU has a
                minute. Where it is being suspended already, the first one's counts.

        Returns:
            Awaited, it is done when the share is given back; at once if it was before.
            The blocking API waits by ``get()``.

        Raises:
            SuspendError: The actor is not ready, holds no GPU, or another that cannot
                be given back so, has calls under way for too long, is being resumed, or
                the driver refuses. It goes on as before.
            ActorDiedError: It has ended.
            UnsupportedOptionError: This is an actor's code, a client's, or the engine
                is Ray's.

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

        It gets in line like any other, for the very device that it was on, and what it
        was asked meanwhile goes on when the driver has put everything back. Whoever
        stops waiting for this leaves the actor in line; ``suspend`` takes it out again.
        A method of the class by this name is found before this; see ``suspend``.

        Returns:
            Awaited, it is done when the actor takes calls; at once if it does.

        Raises:
            SuspendError: It is being suspended, or was suspended again before its turn;
                or the driver has no room on the GPU, or fails: then the actor stays
                suspended.
            ActorUnschedulableError: Its share can never be had again, as its placement
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
            ActorUnschedulableError: It asks for what this machine can never give.
        """
        pin = self.__pin
        yield from pin.engine.ready(pin.actor_id).__await__()
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
        pin = self.__pin
        if kind is None:
            await pin.engine.end(pin.actor_id)
        else:
            await pin.engine.kill(pin.actor_id)

    def __dir__(self) -> list[str]:
        return sorted({*BUILT_IN, *self.__pin.interface.methods})

    def __repr__(self) -> str:
        pin = self.__pin
        return f"Actor({pin.label}, {pin.actor_id.hex()})"

    def _repr_html_(self) -> str | None:
        """Tells of the actor in a table, for a notebook; None if nobody knows of it."""
        engine, actor = self.__pin.engine, self.__pin.actor_id.hex()
        with suppress(RuntimeError, ConnectionError):  # it has ended, or is elsewhere
            infos = (info for info in engine.actors() if info.actor_id == actor)
            return next((info._repr_html_() for info in infos), None)  # pyright: ignore[reportPrivateUsage]  # what notebooks call
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ActorHandle):
            return NotImplemented
        return pin_of(self) is pin_of(cast("ActorHandle[Any]", other)) or (
            pin_of(self).actor_id == pin_of(cast("ActorHandle[Any]", other)).actor_id
        )

    def __hash__(self) -> int:
        return hash(self.__pin.actor_id)

    def __reduce__(self) -> tuple[object, ...]:
        pin = self.__pin
        pin.engine.note_pickled(pin.actor_id)
        if pin.name is None:
            return _loaded_handle, (pin.actor_id, pin.interface)
        return _loaded_handle, (pin.actor_id, pin.interface, pin.name)

    def __copy__(self) -> ActorHandle[T]:
        return self

    def __deepcopy__(self, _: object) -> ActorHandle[T]:
        return self


def pin_of(handle: ActorHandle[Any]) -> HandlePin:
    """The pin inside a handle, out of reach of the actor's own method names."""
    return cast("HandlePin", object.__getattribute__(handle, "_ActorHandle__pin"))


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
