"""An executor of ``concurrent.futures`` that calls remote functions."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import threading
import weakref
from collections import deque
from concurrent import futures
from contextlib import suppress
from functools import partial
from importlib import import_module
from time import monotonic
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, cast

from actorlib._api.remote_function import RemoteFunction
from actorlib._base.public import public
from actorlib._base.validation import check_count, checked_modules
from actorlib._core.engine import RuntimeEngine, current_engine, find_engine
from actorlib._futures.object_ref import fill_future
from actorlib._options.function_options import FunctionOptions, with_given
from actorlib._options.interface import method_of
from actorlib._options.resources import counted
from actorlib._script_runtime import SCRIPT

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from types import TracebackType
    from typing import ParamSpec, Unpack

    from actorlib._futures.object_ref import ObjectRef
    from actorlib._options.function_options import FunctionKeywords

    P = ParamSpec("P")

T = TypeVar("T")

_CLOSED = "cannot schedule new futures after shutdown"
_RUNTIME_ENDED = "the runtime of this executor was shut down"


class Work(NamedTuple):
    """A function with its arguments, and the future that gets its result."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    future: futures.Future[Any]


@public("actorlib")
class Executor(futures.Executor):
    """Runs functions in other processes, each call on a share of the machine.

    It works wherever an executor of ``concurrent.futures`` is accepted: ``submit`` and
    ``map`` from any thread, ``loop.run_in_executor``, and libraries that take an
    executor. Unlike those of a ``ProcessPoolExecutor``, functions may be lambdas and
    closures, large arrays travel through shared memory, and calls may hold parts of
    GPUs.

    It uses the runtime of this process. If there is none, it starts one in a separate
    thread, which ends with the program.

    Args:
        max_workers: The most calls that run at once. Further ones wait, and can be
            cancelled until they start. Default: None, for as many as the machine has
            resources for.
        preload: The modules that are imported in a worker before its first call.
            Default: (), for none.
        **options: What each call asks for, for example ``num_gpus=0.25``: see
            ``FunctionOptions``. A call is not made again if its process dies, unless
            ``max_retries=`` says so.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: An option is unknown, or its value is out of range.
        RuntimeNotStartedError: None is running, and this is a coroutine, or a process
            that may not start one.

    Example:
        >>> import asyncio
        >>> async with actorlib.Executor(num_cpus=1, max_workers=8) as executor:
        ...     loop = asyncio.get_running_loop()
        ...     await loop.run_in_executor(executor, pow, 2, 10)
        1024

        Without an event loop::

            with actorlib.Executor(num_cpus=1) as executor:
                print(executor.submit(pow, 2, 10).result())
                print(list(executor.map(abs, [-1, -2])))
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        preload: Sequence[str] = (),
        **options: Unpack[FunctionKeywords],
    ) -> None:
        self._preload = checked_modules("preload", preload)
        self._options = with_given(FunctionOptions(max_retries=0), options)
        if max_workers is not None:
            check_count("max_workers", max_workers, 1)
        if find_engine() is None:
            _start_runtime(self._preload)
        engine = cast("RuntimeEngine", current_engine())
        if RuntimeEngine not in type(engine).__mro__:
            raise RuntimeError(
                "an Executor belongs to the program that started the runtime, and this "
                "is an actor or a function of it: call 'f.remote(...)' here"
            )
        self._engine = engine
        self._loop = engine.loop
        self.slots = _count_slots(engine, self._options)
        self.limit = self._window = max_workers or self.slots
        # Calls that the machine has no room for may be sent, and wait there.
        self._ahead = _AHEAD if self.limit >= self.slots else 0
        self._lock = threading.Lock()
        self._waiting: deque[Work] = deque()
        self._running: set[futures.Future[Any]] = set()
        self._is_closed = False
        self._is_feeding = False
        self._functions: weakref.WeakKeyDictionary[
            Callable[..., Any], RemoteFunction[..., Any]
        ] = weakref.WeakKeyDictionary()
        self._any = RemoteFunction(_run, self._options)
        _open_executors.add(self)

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> futures.Future[T]:
        """Schedules ``fn(*args, **kwargs)``; returns at once, in any thread.

        Args:
            fn: The function, or anything else that can be called. It travels like an
                argument if workers cannot import it by its name.
            *args: Its arguments, sent by value.
            **kwargs: Its keyword arguments.

        Returns:
            The future of the result. It raises what the function raised, or
            WorkerCrashedError if the process died; TypeError if the function, an
            argument or the result cannot be sent. ``cancel()`` succeeds until the call
            starts.

        Raises:
            RuntimeError: The executor, or the runtime, was shut down.
        """
        work = Work(fn, args, kwargs, futures.Future())
        with self._lock:
            if self._is_closed:
                raise RuntimeError(_CLOSED)
            if find_engine() is not self._engine:
                raise RuntimeError(_RUNTIME_ENDED)
            self._waiting.append(work)
            self._feed_later()
        return work.future

    def map(  # type: ignore[override]  # newer versions of Python have buffersize, too
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """Calls a function with the items of iterables; yields results in their order.

        Args:
            fn: The function; it takes one item of each iterable.
            *iterables: The items. The shortest one ends the calls.
            timeout: The seconds from this call on until a result must be there.
                Default: None, for no limit.
            chunksize: How many items one call of a worker handles. More than 1 costs
                less for many quick calls. Default: 1.
            buffersize: How many results may be computed ahead of the reader; the
                iterables are read no further. Default: None, for all of them.

        Returns:
            An iterator of the results. Its end cancels the calls that have not started.

        Raises:
            TimeoutError: The next result is late; raised by the iterator.
            ValueError: ``chunksize`` or ``buffersize`` is below 1.
            RuntimeError: The executor was shut down.
        """
        check_count("chunksize", chunksize, 1)
        if buffersize is not None:
            check_count("buffersize", buffersize, 1)
        deadline = None if timeout is None else monotonic() + timeout
        inputs = zip(*iterables, strict=False)
        if chunksize == 1:
            calls = (self.submit(fn, *items) for items in inputs)
            submitted = deque(itertools.islice(calls, buffersize))
            return _results(submitted, calls, deadline)
        chunks = iter(lambda: tuple(itertools.islice(inputs, chunksize)), ())
        lists = (self.submit(_run_chunk, fn, chunk) for chunk in chunks)
        ahead = None if buffersize is None else -(-buffersize // chunksize)
        of_lists = deque(itertools.islice(lists, ahead))
        results: Iterator[list[T]] = _results(of_lists, lists, deadline)
        return itertools.chain.from_iterable(results)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  # the signature of the base
        """Refuses new calls, and waits for those that were submitted.

        The runtime goes on.

        Args:
            wait: Whether to wait until all futures are done. Default: True.
            cancel_futures: Whether to cancel those that have not started. Default:
                False.

        Raises:
            RuntimeError: This is the thread of the runtime's event loop, which would
                wait for itself. Use ``async with``, or
                ``await asyncio.to_thread(executor.shutdown)``. New calls are refused.
        """
        with self._lock:
            self._is_closed = True
            waiting = [work.future for work in self._waiting]
            unfinished = {*waiting, *self._running}
        if cancel_futures:
            for future in waiting:
                future.cancel()
        unfinished = {future for future in unfinished if not future.done()}
        if not (wait and unfinished):
            return
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001  # None, and no error, if there is none
            raise RuntimeError(
                "shutdown(wait=True) would block the event loop that its calls need: "
                "write 'async with actorlib.Executor(...)', or "
                "'await asyncio.to_thread(executor.shutdown)'"
            )
        while unfinished := futures.wait(unfinished, timeout=_CHECK_INTERVAL).not_done:
            if find_engine() is not self._engine:  # which has dropped these calls
                for future in unfinished:
                    with suppress(futures.InvalidStateError):  # it is done by now
                        future.set_exception(RuntimeError(_RUNTIME_ENDED))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Shuts down, and waits without blocking the event loop."""
        await asyncio.to_thread(self.shutdown)

    # On the loop.

    def _feed_later(self) -> None:
        """Starts waiting calls soon on the loop; once for a burst of them."""
        if not self._is_feeding:
            self._is_feeding = True
            try:
                self._loop.call_soon_threadsafe(self._feed)
            except BaseException:
                self._is_feeding = False
                self._waiting.pop()
                raise

    def _feed(self) -> None:
        self._is_feeding = False
        while len(self._running) < self._window:
            with self._lock:  # shutdown() finds each future in one of the two
                if not self._waiting:
                    return
                work = self._waiting.popleft()
                self._running.add(work.future)
            if not work.future.set_running_or_notify_cancel():
                self._running.discard(work.future)
            else:
                self._start(work)

    def _start(self, work: Work) -> None:
        try:
            ref = self._call(work)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the caller gets it
            work.future.set_exception(error)
            self._running.discard(work.future)
            return
        ref.watch(partial(self._finish, work.future, ref, monotonic()))

    def _call(self, work: Work) -> ObjectRef[Any]:
        function = work.function
        if isinstance(function, FunctionType) and not self._preload:
            remote = self._functions.get(function)
            if remote is None and _is_sent_once(function):
                remote = RemoteFunction(function, self._options)
                self._functions[function] = remote
            if remote is not None:
                return remote.remote(*work.args, **work.kwargs)
        return self._any.remote(self._preload, function, work.args, work.kwargs)

    def _finish(
        self, future: futures.Future[Any], ref: ObjectRef[Any], began: float
    ) -> None:
        is_quick = monotonic() - began < _QUICK
        self._window = self.limit + self._ahead if is_quick else self.limit
        fill_future(future, ref)
        self._running.discard(future)
        if self._waiting:
            self._feed()


_AHEAD = 16
"""Quick calls that are sent although no worker is free for them. They cannot be
cancelled; without them each call costs a wait for the answer of another."""
_CHECK_INTERVAL = 1.0
"""Seconds between two checks, during a shutdown, that the runtime goes on."""
_QUICK = 0.02
"""Seconds from the sending of a call to its answer."""
_open_executors: weakref.WeakSet[Executor] = weakref.WeakSet()


def _count_slots(engine: RuntimeEngine, options: FunctionOptions) -> int:
    """Counts how many calls the machine has resources for at once; at least 1."""
    total = engine.total()
    amounts = counted(options.request.amounts)
    counts = [int(total.get(name, 0) / each) for name, each in amounts.items() if each]
    return max(1, min(counts, default=os.cpu_count() or 1))


def _start_runtime(preload: Sequence[str]) -> None:
    """Starts a runtime for this process, unless an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        SCRIPT.start({"preload": list(preload)} if preload else {})
        atexit.register(_shut_down_all)
        return
    current_engine()


def _shut_down_all() -> None:
    """Waits for all calls at the end of the program, before its runtime ends."""
    for executor in list(_open_executors):
        executor.shutdown()


def _is_sent_once(function: FunctionType) -> bool:
    """Whether a worker gets a function once, and not with each call.

    Programs make lambdas and closures again and again. Workers would keep all of them.
    """
    return (
        function.__closure__ is None
        and "<" not in function.__qualname__
        and not method_of(function).is_stream
    )


def _run(
    modules: Sequence[str],
    function: Callable[..., T],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> T:
    for name in modules:
        import_module(name)
    return function(*args, **kwargs)


def _run_chunk(function: Callable[..., T], chunk: Iterable[tuple[Any, ...]]) -> list[T]:
    return [function(*items) for items in chunk]


def _results(
    submitted: deque[futures.Future[T]],
    following: Iterator[futures.Future[T]],
    deadline: float | None,
) -> Iterator[T]:
    try:
        while submitted:
            timeout = None if deadline is None else deadline - monotonic()
            result = submitted.popleft().result(timeout)
            submitted.extend(itertools.islice(following, 1))
            yield result
    finally:
        for future in submitted:
            future.cancel()
