"""The implementation of every map: makes calls for values while there is room.

The entry points differ in their ``CallMaker``: a method or a function, or the idle
actors of a pool. The rest is shared: reading values (``map_source``), the running calls
(``map_calls``), the order of results and the size of chunks (``map_window``).

The first calls begin when the map is made, the others when results are taken: there is
no background task.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from actorlib._api.map_calls import MapCall, MapCalls
from actorlib._api.map_source import ValueSource
from actorlib._api.map_window import next_chunk_size
from actorlib._api.results import Raised, Results
from actorlib._api.waiting import Steps, WaitRequest
from actorlib._base.public import public
from actorlib._base.validation import check_bool, check_count, wrong_type
from actorlib._base.value import dataclass
from actorlib._futures.object_ref import mark_seen, release_if_unused

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Sequence
    from os import PathLike
    from typing import TypeAlias

    from actorlib._api.cached_map import MapCache
    from actorlib._api.progress import Progress
    from actorlib._futures.object_ref import ObjectRef

    A_contra = TypeVar("A_contra", contravariant=True)
    B_contra = TypeVar("B_contra", contravariant=True)
    C_contra = TypeVar("C_contra", contravariant=True)
    U = TypeVar("U")

    class Unary(Protocol[A_contra, U]):
        """A method or a function with one positional argument."""

        def remote(self, first: A_contra, /) -> ObjectRef[U]: ...

    class Binary(Protocol[A_contra, B_contra, U]):
        """A function with two positional arguments."""

        def remote(self, first: A_contra, second: B_contra, /) -> ObjectRef[U]: ...

    class Ternary(Protocol[A_contra, B_contra, C_contra, U]):
        """A function with three positional arguments."""

        def remote(
            self, first: A_contra, second: B_contra, third: C_contra, /
        ) -> ObjectRef[U]: ...

    ChunkSize: TypeAlias = int | Literal["auto"]
    OnError: TypeAlias = Literal["raise", "return"]

    class Raises(TypedDict, total=False):
        """The options of a map that raises errors."""

        on_error: Literal["raise"]
        return_exceptions: Literal[False]

    class Returns(TypedDict, total=False):
        """The options of a map that returns errors; type checkers try Raises first."""

        on_error: OnError
        return_exceptions: bool

    class PoolKeywords(TypedDict, total=False):
        """The options of every map, except those that determine its type."""

        ordered: bool
        chunksize: ChunkSize
        progress: bool | str

    class MapKeywords(PoolKeywords, total=False):
        """The options of a map of a function, except those for errors."""

        backpressure_size: int
        cache: str | PathLike[str] | None
        version: str | int | None

    class PoolRaises(PoolKeywords, Raises, total=False):
        """The options of a map of a pool that raises errors."""

    class PoolReturns(PoolKeywords, Returns, total=False):
        """The options of a map of a pool that returns errors."""

    class MapRaises(MapKeywords, Raises, total=False):
        """The options of a map of a function that raises errors."""

    class MapReturns(MapKeywords, Returns, total=False):
        """The options of a map of a function that returns errors."""


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
V = TypeVar("V")

MAX_IN_FLIGHT = 100
"""The default limit of calls that run or have results that were not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOptions:
    """The options of a map, checked.

    Attributes:
        is_ordered: Whether results are in the order of the values.
        chunksize: The number of values of one call; None for an automatic size.
        returns_errors: Whether errors are returned in the place of results.
        yields_refs: Whether results are the refs of calls, all done, and no values.
        progress: Shows the number of results, or None.
        cache: Loads and keeps results, or None.
    """

    is_ordered: bool = True
    chunksize: int | None = 1
    returns_errors: bool = False
    yields_refs: bool = False
    progress: Progress | None = None
    cache: MapCache | None = None


def map_options(
    iterables: Sequence[object],
    *,
    ordered: bool,
    chunksize: ChunkSize,
    progress: bool | str,
    on_error: OnError,
    return_exceptions: bool,
) -> MapOptions:
    """Checks the options of a map; the iterables determine the number of results."""
    check_bool("ordered", ordered)
    if chunksize != "auto":
        check_count("chunksize", chunksize, 1)
    display = None
    if progress is not False:
        from actorlib._api.progress import progress_of, total_of  # noqa: PLC0415  # few show it

        display = progress_of(progress, total_of(iterables))
    return MapOptions(
        is_ordered=ordered,
        chunksize=None if chunksize == "auto" else chunksize,
        returns_errors=is_error_returned(on_error, return_exceptions),
        progress=display,
    )


def is_error_returned(on_error: OnError, return_exceptions: bool) -> bool:  # noqa: FBT001  # the option
    """Whether errors are returned in the place of results; checks the two options."""
    check_bool("return_exceptions", return_exceptions)
    if on_error not in ("raise", "return"):
        raise ValueError(f"on_error takes 'raise' or 'return', not {on_error!r}")
    return return_exceptions or on_error == "return"


class CallMaker(Protocol):
    """Makes the calls of a map.

    ``LimitedCalls``, for a method or a function, and ``PoolCalls``, for a pool of
    actors, implement it.
    """

    def has_room(self, calls: MapCalls) -> bool:
        """Whether one more call may be made now.

        Raises:
            RuntimeError: The map was ended.
        """
        ...

    @property
    def make(self) -> Callable[[MapCall, tuple[object, ...]], None]:
        """Makes the calls for the arguments of items; may raise anything."""
        ...

    def pending(self, calls: MapCalls, *, is_ordered: bool) -> list[ObjectRef[Any]]:
        """Returns the refs to wait for, if they have no callbacks."""
        ...

    def stuck(self) -> Exception:
        """Makes the error for the case that there are no calls and no room."""
        ...


class Chunkable(Protocol):
    """A method or a function that can be called for a chunk of items."""

    def _map_cache(self, folder: object, version: object) -> MapCache:
        """Returns the cache of a map; see ``function.map``.

        Raises:
            TypeError: It is a method, or cannot be identified.
        """
        ...

    def _chunk_caller(
        self, width: int, *, stops: bool
    ) -> Callable[[tuple[object, ...]], ObjectRef[Any]]:
        """Returns a function that makes the call of a chunk.

        Args:
            width: The number of arguments of each item.
            stops: Whether the first error ends the call.

        Raises:
            TypeError: It does not take so many, or does not return one result.
        """
        ...


class LimitedCalls:
    """Makes calls of a method or a function; see CallMaker.

    The limit is for calls that run or have results that were not taken.
    """

    def __init__(
        self, make: Callable[[MapCall, tuple[object, ...]], None], limit: float
    ) -> None:
        self.make = make
        self._limit = limit

    def has_room(self, calls: MapCalls) -> bool:
        return len(calls) < self._limit

    def pending(self, calls: MapCalls, *, is_ordered: bool) -> list[ObjectRef[Any]]:
        """Returns the refs to wait for; in order, only those of the first call."""
        first = calls.first() if is_ordered else None
        if first is None:
            return calls.pending()
        return [ref for ref in first.refs if not ref.done()]

    def stuck(self) -> Exception:
        """Is never called: without calls there is room; see CallMaker."""
        return AssertionError("there are no calls, so there is room")


class MapResults(Results[T_co]):
    """The results of a map; see Results.

    Asynchronous values are read when the first result is awaited.
    """

    _values: ValueSource

    def __init__(
        self,
        values: ValueSource,
        maker: CallMaker,
        options: MapOptions,
        calls: MapCalls | None = None,
    ) -> None:
        super().__init__(options.progress)
        self._values = values
        self._maker = maker
        self._options = options
        self._calls = calls = MapCalls() if calls is None else calls
        self._size = options.chunksize or 1
        self._item_count = 0
        self._is_over = False
        if options.progress is not None:
            ready = self._ready
            options.progress.ready = lambda: calls.ready() + len(ready)
        if not values.is_async:
            self._make_calls()

    async def aclose(self) -> None:
        """Reads no more values; the results of existing calls may still be taken."""
        coming = self._close()
        if coming is not None:
            await asyncio.wait([coming])
            mark_seen(coming)

    def cancel(self) -> None:
        self._close()
        self._calls.cancel()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # __init__ has raised
            self._close()

    def _close(self) -> asyncio.Task[Any] | None:
        if self._progress is not None:
            self._progress.hide()
        if self._options.cache is not None:
            self._options.cache.report()
        return self._values.close()

    def _prepare_async(self) -> None:
        self._calls.watch()

    def _leave(self) -> None:
        if self._calls.is_watched:
            release_if_unused(self._calls.pending())

    def _prepare_blocking(self) -> None:
        if self._values.is_async:
            raise TypeError(
                "the values come from an asynchronous iterable, which needs an event "
                "loop: write 'async for' in place of 'for', in an async def"
            )
        self._calls.is_watched = False

    def _fill(self) -> Steps[bool]:
        while not self._ready:
            request = self._advance(fails_early=self._fails_early)
            if request is not None:
                yield request
            elif self._is_over:
                return False
        return True

    def _advance(self, *, fails_early: bool) -> WaitRequest | None:
        """Makes results ready, or returns the next wait."""
        calls, values = self._calls, self._values
        has_room = self._make_calls()
        if fails_early and not self._options.returns_errors:
            error = calls.early_error()
            if error is not None:
                raise error
        call = calls.take(is_ordered=self._options.is_ordered)
        if call is not None:
            self._load(call)
            return None
        also = values.coming if has_room else None
        pending: Sequence[ObjectRef[Any]] = ()
        if not calls.is_watched:
            pending = self._maker.pending(calls, is_ordered=self._options.is_ordered)
        if pending or also is not None or (calls.is_watched and len(calls)):
            return WaitRequest(pending, also=also, wakeup=calls.wakeup)
        if not values.is_over:
            raise self._maker.stuck()
        self._is_over = True
        self._close()
        return None

    def _make_calls(self) -> bool:
        """Makes calls while there is room and a value; True if there is room left."""
        while self._maker.has_room(self._calls):
            # While other calls run, it waits for a whole chunk of slow values.
            is_partial = self._options.chunksize is None and not len(self._calls)
            try:
                args = self._values.take(self._size, is_partial=is_partial)
            except Exception as error:  # noqa: BLE001  # the user's iterable
                self._refuse_values(error)
                continue
            if not args:
                return True
            call = MapCall(self._item_count, len(args) // self._values.width)
            self._item_count += call.size
            self._make(call, args)
        return False

    def _make(self, call: MapCall, args: tuple[object, ...]) -> None:
        self._calls.add(call)
        begun = time.perf_counter()
        try:
            self._maker.make(call, args)
        except Exception as error:  # noqa: BLE001  # the user's function, or arguments that cannot be sent
            self._refuse(call, error)
        finally:  # after Ctrl-C as well, or results would be waited for in vain
            # Encoding large items takes long here, and no time of the worker.
            call.seconds = time.perf_counter() - begun
            self._calls.begin(call)

    def _refuse(self, call: MapCall, error: Exception) -> None:
        """Sets an error for all items of a call that was not made."""
        for _ in range(call.size):
            call.add_error(error)

    def _refuse_values(self, error: Exception) -> None:
        """Adds the error of the iterable after the results so far."""
        call = MapCall(self._item_count, size=0)
        self._calls.add(call)
        call.add_error(error)
        self._calls.begin(call)

    def _load(self, call: MapCall) -> None:
        outcomes = call.outcomes()
        self._calls.seconds = call.seconds
        if self._options.yields_refs and call.refs:
            outcomes = call.refs
        if self._options.chunksize is None and call.seconds and call.sent:
            self._size = next_chunk_size(self._size, call.sent, call.seconds)
        if self._options.returns_errors and call.size:
            outcomes = [
                outcome.error if type(outcome) is Raised else outcome
                for outcome in outcomes
            ]
        self._add_ready(outcomes)

    def _add_ready(self, outcomes: list[Any]) -> None:
        self._ready.extend(outcomes)


@overload
def map_unordered(
    fn: Unary[V, T],
    items: Iterable[V] | AsyncIterable[V],
    **options: Unpack[MapRaises],
) -> Results[T]: ...
@overload
def map_unordered(
    fn: Callable[[V], ObjectRef[T]],
    items: Iterable[V] | AsyncIterable[V],
    **options: Unpack[MapRaises],
) -> Results[T]: ...
@overload
def map_unordered(
    fn: Unary[V, T] | Callable[[V], ObjectRef[T]],
    items: Iterable[V] | AsyncIterable[V],
    **options: Unpack[MapReturns],
) -> Results[T | Exception]: ...
@public("actorlib")
def map_unordered(
    fn: Unary[V, T] | Callable[[V], ObjectRef[T]],
    items: Iterable[V] | AsyncIterable[V],
    *,
    ordered: bool = False,
    chunksize: int | Literal["auto"] = 1,
    backpressure_size: int = MAX_IN_FLIGHT,
    progress: bool | str = False,
    on_error: Literal["raise", "return"] = "raise",
    return_exceptions: bool = False,
    cache: str | PathLike[str] | None = None,
    version: str | int | None = None,
) -> Results[Any]:
    """Makes a call for each item; yields the results in the order of their completion.

    ``async for value in actorlib.map_unordered(handle.double, range(1000))``, or a
    plain ``for`` in plain methods of actors. The first calls are made at once, the
    others as results are taken, so items may be endless.

    Args:
        fn: A method of an actor, a remote function, or a function that returns the ref
            of a call.
        items: An iterable, or an asynchronous one.
        ordered: If True, the results are in the order of the items. Default: False.
        chunksize: See ``function.map``; it has to be 1 for a function that returns a
            ref. Default: 1.
        backpressure_size: The largest number of calls that run or have results that
            were not taken. Default: 100.
        progress: Shows the number of results, as for ``as_completed``. Default: False.
        on_error: See ``function.map``. Default: ``"raise"``.
        return_exceptions: The same as ``on_error="return"``. Default: False.
        cache: See ``function.map``; only for a remote function. Default: None.
        version: See ``function.map``. Default: None.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An option is out of range.
        OSError: ``cache`` cannot be created, or is not a writable folder.

    Example:
        >>> @actorlib.remote
        ... class Doubler:
        ...     def double(self, x):
        ...         return 2 * x
        >>> double = Doubler.remote().double
        >>> results = actorlib.map_unordered(double, range(4), backpressure_size=2)
        >>> sorted([value async for value in results])
        [0, 2, 4, 6]
    """
    options = map_options(
        (items,),
        ordered=ordered,
        chunksize=chunksize,
        progress=progress,
        on_error=on_error,
        return_exceptions=return_exceptions,
    )
    return start_map(
        "map_unordered()",
        fn,
        (items,),
        options,
        backpressure_size=backpressure_size,
        cache=cache,
        version=version,
    )


def start_map(
    where: str,
    fn: object,
    iterables: Sequence[object],
    options: MapOptions,
    *,
    backpressure_size: int,
    cache: object = None,
    version: object = None,
) -> MapResults[Any]:
    """Maps a method or a function over iterables, one for each argument.

    ``where`` is the public function, for messages.
    """
    check_count("backpressure_size", backpressure_size, 1)
    if version is not None and cache is None:
        raise ValueError(
            f"version={version!r} is a part of the keys of cached results: set cache=, "
            "the folder for them, too"
        )
    call = getattr(fn, "remote", fn)
    if not callable(call):
        raise wrong_type(
            f"{where} takes a method of an actor (handle.method), a remote function, "
            "or a function that returns the ref of a call",
            fn,
        )
    source = ValueSource(where, iterables)
    if options.chunksize == 1:

        def make(map_call: MapCall, args: tuple[object, ...]) -> None:
            map_call.add(call(*args))

    else:
        call_chunk = _chunk_caller_of(where, call, source.width)

        def make(map_call: MapCall, args: tuple[object, ...]) -> None:
            map_call.add_items(call_chunk, args, source.width)

    maker = LimitedCalls(make, backpressure_size)
    if cache is not None:
        results = _cache_of(where, call, cache, version)
        results.progress = options.progress
        options = replace(options, cache=results)
        maker = LimitedCalls(
            results.only_missing(make, source.width), backpressure_size
        )
    return MapResults(source, maker, options)


def _cache_of(where: str, call: object, cache: object, version: object) -> MapCache:
    owner = _owner_of(call)
    if owner is None:
        raise TypeError(
            f"{where} has cache={cache!r} and calls {call!r}: cache is for a remote "
            "function that is passed directly"
        )
    return owner._map_cache(cache, version)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # not for users


def _owner_of(call: object) -> Chunkable | None:
    """Returns the method or the function of a bound ``remote``, or None."""
    owner: object = getattr(call, "__self__", None)
    is_remote = getattr(call, "__name__", "") == "remote"
    if is_remote and hasattr(owner, "_chunk_caller"):
        return cast("Chunkable", owner)
    return None


def _chunk_caller_of(
    where: str, call: object, width: int
) -> Callable[[tuple[object, ...]], ObjectRef[Any]]:
    owner = _owner_of(call)
    if owner is None:
        raise TypeError(
            f"{where} calls {call!r} for one item at a time: chunksize is for a method "
            "of an actor or a remote function that is passed directly"
        )
    return owner._chunk_caller(width, stops=False)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # not for users
