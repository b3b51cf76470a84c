"""Remote functions: each call runs in a worker, with its own share of devices."""

from __future__ import annotations

import functools
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

from actorlib._api.bindings import CurrentSource, found_by_name
from actorlib._api.group_options import with_context, with_group_spec
from actorlib._api.result_parts import collect_items, split_result
from actorlib._base.public import public
from actorlib._core.engine import current_engine
from actorlib._futures.stream_reader import ObjectRefGenerator
from actorlib._options.function_options import FunctionSpec, with_given
from actorlib._options.interface import method_of
from actorlib.exceptions import UnknownOptionError

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
    from os import PathLike
    from types import FunctionType

    from actorlib._api.cached_map import MapCache
    from actorlib._api.pipeline import (
        Binary,
        MapKeywords,
        MapRaises,
        Ternary,
        Unary,
    )
    from actorlib._api.results import Results
    from actorlib._core.engine import Engine
    from actorlib._core.runtime_context import RuntimeContext
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._futures.stream_reader import StreamReader, UntypedResult
    from actorlib._options.function_options import CallingKeywords, FunctionOptions
    from actorlib._options.group_spec import GroupId
    from actorlib._options.interface import Method

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

_ASYNC_LIMIT = 100
"""How many calls of an ``async def`` run at once in one worker by default."""


@public("actorlib.types")
class RemoteFunction(Generic[P, R]):
    """A function whose calls run in other processes, made by ``.remote(...)``.

    If it cannot be imported by its name, its code is sent, with the globals that it
    uses. It is sent again when one of those names has another value; a value that was
    changed in place is not sent again.

    Example:
        >>> @actorlib.remote(num_cpus=0.5)
        ... def double(x):
        ...     return 2 * x
        >>> await double.remote(21)
        42
        >>> double.__wrapped__(21)  # here, as a plain function
        42
    """

    def __init__(
        self,
        function: Callable[P, R],
        options: FunctionOptions,
        origin: RemoteFunction[P, R] | None = None,
    ) -> None:
        functools.update_wrapper(cast("Any", self), function, updated=())
        self.__wrapped__ = function
        self._origin = origin or self
        self._method = method = method_of(function)
        options = _with_concurrency(options, method)
        options.check(method.name, is_stream=method.is_stream)
        self._options = options
        self._low, self._high = method.low, method.high
        self._spec: FunctionSpec | None = None
        self._inside: tuple[tuple[GroupId, bool], FunctionSpec] | None = None
        self._engine: Callable[[], Engine] = current_engine
        self._source: CurrentSource[RemoteFunction[P, R]]
        if origin is None:
            again = functools.partial(make_function, function, options)
            self._source = CurrentSource(function, self, again, is_kept_if_mutable=True)
        else:
            self._engine = origin._engine  # noqa: SLF001  # of this class
            self._source = origin._source  # noqa: SLF001  # of this class

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRef[R]:
        """Calls the function; returns at once.

        The call waits until the resources that it asks for are free.

        Args:
            *args: Positional arguments, sent by value. An argument that is an ObjectRef
                arrives as its value.
            **kwargs: Keyword arguments, sent in the same way.

        Returns:
            A ref of the result. ``await ref`` may raise an error of the function,
            WorkerCrashedError, or TaskUnschedulableError.

        Raises:
            TypeError: The arguments do not fit the function, or they or the function
                cannot be sent. Nothing was called.
            NotADirectoryError: Its ``working_dir`` does not exist.
            UnsupportedOptionError: The engine does not support an option.
            ValueError: It does not fit into its placement group, or it has
                ``torch=True``: call it by ``group.map``.
            RuntimeError: No runtime is running in this process.
        """
        if kwargs or not self._low <= len(args) <= self._high:
            self._method.check(len(args), kwargs)
        engine = self._engine()
        spec = self._spec
        if spec is None or spec.may_change or engine.context.group is not None:
            spec = self._callee_in(engine.context)
        return engine.call(spec, args, kwargs)

    @overload
    def map(
        self: Unary[A, R],
        first: Iterable[A] | AsyncIterable[A],
        /,
        **options: Unpack[MapRaises],
    ) -> Results[R]: ...
    @overload
    def map(
        self: Binary[A, B, R],
        first: Iterable[A],
        second: Iterable[B],
        /,
        **options: Unpack[MapRaises],
    ) -> Results[R]: ...
    @overload
    def map(
        self: Ternary[A, B, C, R],
        first: Iterable[A],
        second: Iterable[B],
        third: Iterable[C],
        /,
        **options: Unpack[MapRaises],
    ) -> Results[R]: ...
    @overload
    def map(
        self,
        first: Iterable[Any],
        second: Iterable[Any],
        third: Iterable[Any],
        fourth: Iterable[Any],
        /,
        *others: Iterable[Any],
        **options: Unpack[MapRaises],
    ) -> Results[R]: ...
    @overload
    def map(
        self,
        first: Iterable[Any] | AsyncIterable[Any],
        /,
        *others: Iterable[Any],
        on_error: Literal["return"],
        **options: Unpack[MapKeywords],
    ) -> Results[R | Exception]: ...
    @overload
    def map(
        self,
        first: Iterable[Any] | AsyncIterable[Any],
        /,
        *others: Iterable[Any],
        return_exceptions: Literal[True],
        **options: Unpack[MapKeywords],
    ) -> Results[R | Exception]: ...
    def map(
        self,
        /,
        *iterables: object,
        ordered: bool = True,
        chunksize: int | Literal["auto"] = 1,
        backpressure_size: int = 100,
        progress: bool | str = False,
        on_error: Literal["raise", "return"] = "raise",
        return_exceptions: bool = False,
        cache: str | PathLike[str] | None = None,
        version: str | int | None = None,
    ) -> Results[Any]:
        """Calls the function for each item; yields the results in the order of items.

        ``async for result in function.map(items)``, or a plain ``for`` in plain methods
        of actors. Each result is available as soon as it and those before it are done.
        ``await function.map(items)`` returns a list. The first calls are made at once,
        the others as results are taken, so items may be endless.

        Args:
            *iterables: The arguments of the calls, one iterable for each argument, as
                for ``map()``. A single one may be asynchronous: it is read when the
                first result is awaited.
            ordered: False yields each result as soon as it is done. Default: True.
            chunksize: The number of items of one call, 1 or more, or ``"auto"``, for
                chunks of about 5 ms of work, as measured. Larger ones are faster for
                short functions. The items of a chunk are sent, retried, cancelled and
                timed together; after an error of one item the others still have their
                results. Default: 1.
            backpressure_size: The largest number of calls that run or have results that
                were not taken. Default: 100.
            progress: If True, or a label, a bar on standard error shows the number of
                results, and the remaining time. The bar is removed at the end. Nothing
                is shown if standard error is not a terminal. Default: False.
            on_error: ``"raise"`` raises the error of a call in the place of its result,
                with a note that names its item; the iteration may go on after it.
                ``"return"`` yields the error as a value. Default: ``"raise"``.
            return_exceptions: The same as ``on_error="return"``. Default: False.
            cache: A folder that keeps results: each is written there as soon as its
                call is done, and the next map loads it instead of making the call.
                Errors are not kept, so failed items run again. A log record at the
                level INFO, and ``progress``, say how many were loaded. If the folder
                does not exist, it is created, only for this user. Its files are
                pickles, which can run code when they are loaded: do not use a folder
                that other users can write to. Default: None, which keeps nothing.
            version: A text or a whole number that belongs to the key of each result,
                besides the name of the function and its arguments: change it when
                results change. Default: None, for a digest of the function's compiled
                code and of the variables of the function around it. This does not
                notice changed globals and functions that it calls, other versions of
                libraries, and changed data on disk; another minor version of Python
                makes all calls again.

        Returns:
            An iterator for ``async for``, or, in plain methods of actors, for ``for``;
            ``await`` it, or ``get()`` it there, for a list of all results.

        Raises:
            TypeError: The function does not take so many arguments, is a generator, or
                an argument is of the wrong type.
            ValueError: An option is out of range.
            OSError: ``cache`` cannot be created, or is not a writable folder.
            RuntimeError: No runtime is running in this process.

        With ``cache``, a TypeError in the place of a result names a part of its item
        that has no key, such as a model; that call is not made. An item may consist of
        None, bool, int, float, str, bytes, enums, paths, dates and times, tuples,
        lists, sets, dicts, dataclasses, and arrays and scalars of NumPy.

        Example:
            >>> @actorlib.remote
            ... def double(x):
            ...     return 2 * x
            >>> [value async for value in double.map(range(4), chunksize=2)]
            [0, 2, 4, 6]
            >>> await double.map(range(4), chunksize="auto")
            [0, 2, 4, 6]
        """
        from actorlib._api.pipeline import map_options, start_map  # noqa: PLC0415  # few map

        width = len(iterables)
        if not width:
            raise TypeError("map() takes an iterable for each argument: there is none")
        self._method.check_batch(self._method.name, width, self._options.parts)
        self._engine()
        options = map_options(
            iterables,
            ordered=ordered,
            chunksize=chunksize,
            progress=progress,
            on_error=on_error,
            return_exceptions=return_exceptions,
        )
        return start_map(
            "map()",
            self,
            iterables,
            options,
            backpressure_size=backpressure_size,
            cache=cache,
            version=version,
        )

    def _map_cache(self, folder: object, version: object) -> MapCache:
        """Returns the cache of a map; see Chunkable."""
        from actorlib._api.cached_map import MapCache  # noqa: PLC0415  # few use it

        return MapCache(cast("FunctionType", self.__wrapped__), folder, version)

    def _chunk_caller(
        self, width: int, *, stops: bool
    ) -> Callable[[tuple[object, ...]], ObjectRef[Any]]:
        """Returns a function that makes the call of a chunk; see ActorMethod."""
        self._method.check_batch(self._method.name, width, self._options.parts)
        cached: tuple[FunctionSpec, FunctionSpec] | None = None

        def call(args: tuple[object, ...]) -> ObjectRef[Any]:
            nonlocal cached
            engine = self._engine()
            spec = self._callee_in(engine.context)
            if cached is None or cached[0] is not spec:
                cached = spec, spec.with_header("batch", (width, stops))
            return engine.call(cached[1], args, {})

        return call

    def options(self, /, **options: Unpack[CallingKeywords]) -> RemoteFunction[P, R]:
        """Returns the same function with some options replaced.

        Args:
            **options: The changed options of its calls, by name.
                ``help(actorlib.types.FunctionOptions)`` describes each option;
                ``max_calls`` is only for ``@remote``.

        Returns:
            Another remote function; this one does not change.

        Raises:
            TypeError: A value has the wrong type, an option is unknown, or it is
                ``max_calls``, which belongs to ``@remote``.
            ValueError: A value is out of range.

        Example:
            >>> @actorlib.remote
            ... def halves(x):
            ...     return x // 2, x - x // 2
            >>> low, high = halves.options(num_returns=2, num_cpus=0.5).remote(7)
            >>> await low, await high
            (3, 4)
        """
        if "max_calls" in options:
            raise UnknownOptionError(
                "max_calls is an option of all calls of a function: write "
                "@remote(max_calls=...) on the function"
            )
        updated = with_given(self._options, with_group_spec(options))
        return make_function(self.__wrapped__, updated, self._origin)

    def _remote(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        **options: Unpack[CallingKeywords],
    ) -> ObjectRef[R]:
        """Calls ``.options(...).remote(*args, **kwargs)``; for older scripts of Ray."""
        function = self.options(**options) if options else self
        call = cast("Callable[..., ObjectRef[R]]", function.remote)
        return call(*(args or ()), **(kwargs or {}))

    def _callee_in(self, context: RuntimeContext) -> FunctionSpec:
        """Returns the callee for calls of code in a context."""
        source = self._source.get()
        if context.group is None:
            if self._spec is None or self._spec.source is not source:
                self._spec = self._new_spec(source)
            return self._spec
        # In one process there may be code of several groups: see the inline engine.
        place = context.group.id, context.captures
        cached = self._inside
        if cached is None or cached[0] != place or cached[1].source is not source:
            cached = self._inside = place, self._new_spec(source)
        return cached[1]

    def _new_spec(self, source: RemoteFunction[P, R]) -> FunctionSpec:
        label, options = self._label_and_options()
        if options.torch:
            raise ValueError(
                f"{label} has torch=True, and a single call has no rank: call it once "
                "in each bundle of a placement group, await group.map(...)"
            )
        return FunctionSpec(
            source=source,
            may_change=self._source.may_change,
            name=label,
            options=options,
            is_stream=self._method.is_stream,
        )

    def _label_and_options(self) -> tuple[str, FunctionOptions]:
        """Returns the name of a call that is made here, and its options."""
        label = self._options.name or self._method.name
        return label, with_context(label, self._options)

    if not TYPE_CHECKING:  # type checkers refuse it anyway

        def __call__(self, *_: object, **__: object) -> NoReturn:
            """Refuses: a remote call does not look like a local one."""
            name = self._method.name
            raise TypeError(
                "a remote function cannot be called directly: write "
                f"{name}.remote(...) instead of {name}(...), or "
                f"{name}.__wrapped__(...) to run it here"
            )

        def __await__(self) -> NoReturn:
            """Refuses: nothing was called."""
            name = self._method.name
            raise TypeError(
                f"{name} is a function that was not called: write "
                f"'await {name}.remote(...)'"
            )

    def __repr__(self) -> str:
        return f"RemoteFunction({self._method.name})"

    def __reduce__(self) -> str | tuple[object, ...]:
        function = cast("Any", self.__wrapped__)
        if self is not self._origin:
            return _derived, (self._origin, self._options)
        if found_by_name(function.__module__, function.__qualname__) is self:
            return cast("str", function.__qualname__)
        return make_function, (function, self._options)


@public("actorlib.types")
class GeneratorFunction(RemoteFunction[P, R]):
    """A remote generator: a call returns a stream of refs.

    Example:
        >>> @actorlib.remote
        ... def squares(n):
        ...     for i in range(n):
        ...         yield i * i
        >>> [await ref async for ref in squares.remote(4)]
        [0, 1, 4, 9]
    """

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRefGenerator[R]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # @remote tells the two apart
        """Calls the generator; returns the stream of its items. See RemoteFunction."""
        return ObjectRefGenerator(self._items(args, kwargs))

    def _items(
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> StreamReader:
        self._method.check(len(args), kwargs)
        engine = self._engine()
        return engine.stream(self._callee_in(engine.context), args, kwargs)

    if TYPE_CHECKING:

        def options(
            self, /, **options: Unpack[CallingKeywords]
        ) -> GeneratorFunction[P, R]: ...


if TYPE_CHECKING:

    class UntypedFunction(RemoteFunction[P, Any], Generic[P]):
        """A function whose result has an unknown type, so it may be a generator."""

        def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> UntypedResult: ...
        def options(
            self, /, **options: Unpack[CallingKeywords]
        ) -> UntypedFunction[P]: ...


class _CollectedFunction(GeneratorFunction[P, R]):
    """A generator called with ``num_returns``."""

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Calls the function; returns a list of refs, one ref, or None for none."""
        items = self._items(args, kwargs)
        return collect_items(items, self._options.parts, self._method.name)


class _SplitFunction(RemoteFunction[P, R]):
    """A function called with ``num_returns``."""

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Calls the function; returns a list of refs, or None for none."""
        count = self._options.parts
        ref = super().remote(*args, **kwargs)
        return split_result(ref, count, self._method.name) if count else None


def label_and_options(
    function: RemoteFunction[..., Any],
) -> tuple[str, FunctionOptions]:
    return function._label_and_options()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file


def gang_call(
    function: RemoteFunction[..., Any],
) -> tuple[Method, FunctionOptions, Callable[[], Engine]]:
    """Returns the signature of a function with one result, its options, its engine."""
    options, method = function._options, function._method  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    if method.is_stream or options.parts != 1:
        kind = "yields" if method.is_stream else "returns several refs (num_returns)"
        raise ValueError(
            f"group.map returns one result for each rank, and {method.name} {kind}: "
            "let it return a list"
        )
    return method, options, function._engine  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file


def _with_concurrency(options: FunctionOptions, method: Method) -> FunctionOptions:
    """Sets the default ``max_concurrency``, and refuses it for a plain function."""
    if method.is_async:
        if options.max_concurrency:
            return options
        return options.updated({"max_concurrency": _ASYNC_LIMIT})
    if options.max_concurrency is not None:
        raise ValueError(
            f"{method.name} is to have max_concurrency={options.max_concurrency}, and "
            "one process runs only one call of a plain function at a time: make it an "
            "async def, or set num_cpus=, which limits how many processes run it"
        )
    return options


def make_function(
    function: Callable[P, R],
    options: FunctionOptions,
    origin: RemoteFunction[P, R] | None = None,
) -> RemoteFunction[P, R]:
    kind: type[RemoteFunction[P, R]] = RemoteFunction
    if method_of(function).is_stream:
        kind = GeneratorFunction
        if options.is_counted:
            kind = _CollectedFunction
    elif options.parts != 1:
        kind = _SplitFunction
    return kind(function, options, origin)


def _derived(
    origin: RemoteFunction[P, R], options: FunctionOptions
) -> RemoteFunction[P, R]:
    return make_function(origin.__wrapped__, options, origin)
