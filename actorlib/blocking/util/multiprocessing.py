"""``multiprocessing.Pool`` with actors as processes: ``ray.util.multiprocessing``."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from functools import partial
from itertools import cycle, islice
from multiprocessing import JoinableQueue, TimeoutError  # noqa: A004  # Ray's name
from typing import TYPE_CHECKING, Any, Self

from actorlib.blocking._init import init, is_initialized
from actorlib.blocking._verbs import cluster_resources, get, kill, remote, wait
from actorlib.exceptions import ActorDiedError, TaskError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import TypeAlias

    from actorlib._futures.object_ref import ObjectRef

    _Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

__all__ = ["AsyncResult", "JoinableQueue", "Pool", "TimeoutError"]


@remote
class PoolActor:
    """A process of a pool."""

    def __init__(
        self, initializer: Callable[..., object] | None, initargs: Sequence[Any]
    ) -> None:
        if initializer is not None:
            initializer(*initargs)

    def run(self, function: Callable[..., Any], chunk: list[_Call]) -> list[Any]:
        """Calls a function for each entry of a chunk."""
        return [function(*args, **kwargs) for args, kwargs in chunk]


class AsyncResult:
    """The result of a call of a pool, now or later; see ``multiprocessing``."""

    def __init__(
        self,
        refs: list[ObjectRef[list[Any]]],
        callback: Callable[[Any], object] | None,
        error_callback: Callable[[Exception], object] | None,
        *,
        is_single: bool = False,
    ) -> None:
        self._refs = refs
        self._is_single = is_single
        self._callbacks = callback, error_callback
        self._thread: threading.Thread | None = None
        if callback or error_callback:
            self._thread = threading.Thread(target=self._call_back, daemon=True)
            self._thread.start()

    def get(self, timeout: float | None = None) -> Any:
        """Blocks until the result is there.

        Args:
            timeout: Seconds to wait, or None. Default: None.

        Raises:
            TimeoutError: It took longer; the class is that of ``multiprocessing``.
            Exception: The error that the function raised.
        """
        self.wait(timeout)
        if not self.ready():
            raise TimeoutError
        return self._value()

    def wait(self, timeout: float | None = None) -> None:
        """Blocks until the result is there, or until the timeout."""
        if self._thread is not None:
            self._thread.join(timeout)
        elif self._refs:
            wait(self._refs, num_returns=len(self._refs), timeout=timeout)

    def ready(self) -> bool:
        """Whether the result is there, and the callback has returned."""
        is_called = self._thread is None or not self._thread.is_alive()
        return is_called and all(ref.done() for ref in self._refs)

    def successful(self) -> bool:
        """Whether the function raised no error.

        Raises:
            ValueError: The result is not there yet.
        """
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        return all(
            not ref.cancelled() and ref.exception() is None for ref in self._refs
        )

    def _call_back(self) -> None:
        callback, error_callback = self._callbacks
        try:
            value = self._value()
        except Exception as error:  # noqa: BLE001  # the user's
            if error_callback is not None:
                error_callback(error)
            return
        if callback is not None:
            callback(value)

    def _value(self) -> Any:
        results = [result for chunk in get(self._refs) for result in chunk]
        return results[0] if self._is_single else results


class _Results:
    """Results of ``imap``: one chunk per process is under way.

    Args:
        run: Sends a chunk to the process at a place, or to a new process there.
        chunks: The chunks, taken as processes become free.
        places: The number of processes.
        sent: Called when no further chunk will be sent.
        is_ordered: Whether the results come in the order of the items.

    Attributes:
        is_sent: Whether no further chunk will be sent.
    """

    def __init__(
        self,
        run: Callable[[list[_Call], int, bool], ObjectRef[list[Any]]],
        chunks: Iterator[list[_Call]],
        places: int,
        sent: Callable[[], None],
        *,
        is_ordered: bool,
    ) -> None:
        self._run = run
        self._chunks = chunks
        self._places = range(places)
        self._sent = sent
        self._is_ordered = is_ordered
        self._running: dict[ObjectRef[list[Any]], int] = {}
        self._ready: Iterator[Any] = iter(())
        self._end: Exception = StopIteration()
        self.is_sent = False
        for place in self._places:
            self._submit(place)

    def submit_rest(self) -> None:
        """Takes all items, and sends them to the processes."""
        for place in cycle(self._places):
            if self.is_sent:
                break
            self._submit(place)

    def _submit(self, place: int, *, is_new: bool = False) -> None:
        """Sends the next chunk to a process, if there is one."""
        if self.is_sent:
            return
        try:
            for chunk in islice(self._chunks, 1):
                self._running[self._run(chunk, place, is_new)] = place
                return
        except Exception as error:  # noqa: BLE001  # raised behind the results before it
            self._end = error
        self.is_sent = True
        self._sent()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """Returns the next result.

        Args:
            timeout: Seconds to wait, or None. Default: None.

        Raises:
            StopIteration: There are no more.
            TimeoutError: It took longer; the class is that of ``multiprocessing``.
            Exception: The error that the function raised.
        """
        for result in self._ready:
            return result
        if not self._running:
            end, self._end = self._end, StopIteration()
            raise end
        refs = [next(iter(self._running))]
        if not (self._is_ordered or refs[0].done()):
            refs = [*self._running]
        ready, _ = wait(refs, timeout=timeout)
        if not ready:
            raise TimeoutError
        (ref,) = ready
        error = None if ref.cancelled() else ref.exception()
        has_died = isinstance(error, ActorDiedError) and not isinstance(
            error, TaskError
        )
        self._submit(self._running.pop(ref), is_new=has_died)
        chunk: list[Any] = get(ref)
        self._ready = iter(chunk)
        return self.next(timeout)


class Pool:
    """A pool of processes as in ``multiprocessing``; each process is an actor.

    Args:
        processes: The number of processes. Default: None, for one per CPU.
        initializer: Is called in each process before its first call. Default: None.
        initargs: The arguments of the initializer. Default: None.
        maxtasksperchild: The number of chunks after which a process is replaced.
            Default: None, for any number.
        context: Has no effect.
        ray_address: The ``address`` of ``init``, if no runtime is running. Default:
            None.
        ray_remote_args: Options of the actors. Default: None.

    Raises:
        ValueError: ``processes`` is less than 1.

    Example:
        >>> from actorlib.blocking.util.multiprocessing import Pool
        >>> with Pool(2) as pool:
        ...     print(pool.map(abs, [-1, 2, -3]))
        [1, 2, 3]
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] | None = None,
        maxtasksperchild: int | None = None,
        context: object = None,
        ray_address: str | None = None,
        ray_remote_args: Mapping[str, Any] | None = None,
    ) -> None:
        del context
        if processes is not None and processes < 1:
            raise ValueError("Processes in the pool must be >0.")
        if not is_initialized():
            init(ray_address)
        count = processes or max(1, int(cluster_resources().get("CPU", 0)))
        self._class: Any = PoolActor.options(**(ray_remote_args or {}))  # type: ignore[attr-defined]
        self._initializer = initializer, tuple(initargs or ())
        self._limit = maxtasksperchild
        self._workers = [self._start_worker() for _ in range(count)]
        self._places = cycle(range(count))
        self._chunk_counts = [0] * count
        self._is_closed = False
        self._iterations: weakref.WeakSet[_Results] = weakref.WeakSet()
        # The processes that end behind their work, each with the ref of its end.
        self._ending: deque[tuple[ObjectRef[Any], Any]] = deque()

    def apply(
        self,
        func: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Calls a function in one of the processes and returns its result."""
        return self.apply_async(func, args, kwargs).get()

    def apply_async(
        self,
        func: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        callback: Callable[[Any], object] | None = None,
        error_callback: Callable[[Exception], object] | None = None,
    ) -> AsyncResult:
        """Calls a function in one of the processes."""
        self._check_running()
        call = tuple(args), dict(kwargs or {})
        ref = self._run(func, [call], next(self._places))
        return AsyncResult([ref], callback, error_callback, is_single=True)

    def map(
        self,
        func: Callable[[Any], Any],
        iterable: Iterable[Any],
        chunksize: int | None = None,
    ) -> list[Any]:
        """Calls a function for each item and returns the results in order."""
        results: list[Any] = self.map_async(func, iterable, chunksize).get()
        return results

    def map_async(
        self,
        func: Callable[[Any], Any],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callable[[list[Any]], object] | None = None,
        error_callback: Callable[[Exception], object] | None = None,
    ) -> AsyncResult:
        """Calls a function for each item."""
        calls: list[_Call] = [((item,), {}) for item in iterable]
        return self._map(func, calls, chunksize, callback, error_callback)

    def starmap(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
    ) -> list[Any]:
        """Does the same as ``map``; each item has all arguments of a call."""
        results = self.starmap_async(func, iterable, chunksize=chunksize)
        values: list[Any] = results.get()
        return values

    def starmap_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        callback: Callable[[list[Any]], object] | None = None,
        error_callback: Callable[[Exception], object] | None = None,
        chunksize: int | None = None,
    ) -> AsyncResult:
        """Does the same as ``map_async``; each item has all arguments of a call."""
        calls: list[_Call] = [(tuple(item), {}) for item in iterable]
        return self._map(func, calls, chunksize, callback, error_callback)

    def imap(
        self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int = 1
    ) -> Iterator[Any]:
        """Calls a function for each item, and yields the results in order.

        The items are taken as processes become free. The iterator has
        ``next(timeout)``, too.
        """
        return self._iterate(func, iterable, chunksize, is_ordered=True)

    def imap_unordered(
        self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int = 1
    ) -> Iterator[Any]:
        """Does the same as ``imap``; the results come as they are ready."""
        return self._iterate(func, iterable, chunksize, is_ordered=False)

    def close(self) -> None:
        """Refuses further work; the processes end after their work.

        That includes the items of an iteration that was begun by ``imap``.
        """
        self._is_closed = True
        self._end_workers()

    def terminate(self) -> None:
        """Ends the processes at once."""
        self._is_closed = True
        for results in self._iterations:
            results.is_sent = True
        self._end_workers()
        for _, worker in self._ending:
            kill(worker)

    def join(self) -> None:
        """Waits until the processes of a closed pool have ended.

        It takes the remaining items of iterations that were begun by ``imap``.

        Raises:
            ValueError: The pool is not closed.
        """
        if not self._is_closed:
            raise ValueError("Pool is still running")
        for results in [*self._iterations]:
            results.submit_rest()
        self._end_workers()
        ends = [end for end, _ in self._ending]
        if ends:
            wait(ends, num_returns=len(ends))

    def __enter__(self) -> Self:
        self._check_running()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.terminate()

    def _check_running(self) -> None:
        if self._is_closed:
            raise ValueError("Pool not running")

    def _start_worker(self) -> Any:
        return self._class.remote(*self._initializer)

    def _end_workers(self) -> None:
        """Ends the processes of a closed pool, once all work was sent to them."""
        if self._is_closed and all(each.is_sent for each in self._iterations):
            workers, self._workers = self._workers, []
            for worker in workers:
                self._end_worker(worker)

    def _end_worker(self, worker: Any) -> None:
        while self._ending and self._ending[0][0].done():
            self._ending.popleft()
        self._ending.append((worker.__ray_terminate__.remote(), worker))

    def _run(
        self,
        function: Callable[..., Any],
        chunk: list[_Call],
        place: int,
        is_new: bool = False,  # noqa: FBT001, FBT002  # private
    ) -> ObjectRef[list[Any]]:
        if is_new:
            self._workers[place] = self._start_worker()
            self._chunk_counts[place] = 0
        worker = self._workers[place]
        ref: ObjectRef[list[Any]] = worker.run.remote(function, chunk)
        self._chunk_counts[place] += 1
        if self._chunk_counts[place] == self._limit:
            self._end_worker(worker)
            self._workers[place] = self._start_worker()
            self._chunk_counts[place] = 0
        return ref

    def _map(
        self,
        function: Callable[..., Any],
        calls: list[_Call],
        chunksize: int | None,
        callback: Callable[[list[Any]], object] | None,
        error_callback: Callable[[Exception], object] | None,
    ) -> AsyncResult:
        self._check_running()
        # As in multiprocessing: four chunks per process.
        size = chunksize or -(-len(calls) // (4 * len(self._workers)))
        chunks = _chunks(calls, size)
        refs = [self._run(function, chunk, next(self._places)) for chunk in chunks]
        return AsyncResult(refs, callback, error_callback)

    def _iterate(
        self,
        function: Callable[[Any], Any],
        iterable: Iterable[Any],
        chunksize: int,
        *,
        is_ordered: bool,
    ) -> Iterator[Any]:
        self._check_running()
        if chunksize < 1:
            raise ValueError(f"chunksize takes 1 or more, not {chunksize}")
        calls: Iterator[_Call] = (((item,), {}) for item in iterable)
        results = _Results(
            partial(self._run, function),
            _chunks(calls, chunksize),
            len(self._workers),
            self._end_workers,
            is_ordered=is_ordered,
        )
        self._iterations.add(results)
        return results


def _chunks(calls: Iterable[_Call], size: int) -> Iterator[list[_Call]]:
    rest = iter(calls)
    while chunk := list(islice(rest, size)):
        yield chunk
