"""A joblib backend: ``n_jobs`` of joblib and scikit-learn runs on actorlib."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from actorlib._api.remote_function import RemoteFunction
from actorlib._core.engine import current_engine, find_engine
from actorlib._executor import Executor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent import futures

    from actorlib._executor import Work
    from actorlib._futures.object_ref import ObjectRef

__all__ = ["register"]

try:
    # Any: joblib has no types.
    _parallel: Any = import_module("joblib.parallel")
    _backends: Any = import_module("joblib._parallel_backends")
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "actorlib.joblib needs joblib: pip install joblib", name=error.name
    ) from error

_SHARED_ABOVE = 64 * 1024
"""Bytes from which on an array is put into shared memory once for all tasks."""


def register(*, make_default: bool = False) -> None:
    """Registers the backend ``"actorlib"`` with joblib.

    ``parallel_config(backend="actorlib")`` selects it. Options of ``actorlib.Executor``
    may follow: ``parallel_config(backend="actorlib", num_gpus=0.25)``. It uses the
    runtime of this process, or starts one. ``n_jobs=-1`` runs as many tasks at once as
    the machine has resources for.

    NumPy arrays among the arguments are put into shared memory once, however many tasks
    get them; tasks find them read-only. Parallel calls inside a task run one after the
    other, and numerical libraries use as many threads as a task has CPUs.

    Args:
        make_default: Whether joblib uses it where no backend is named. Default: False.

    Raises:
        ModuleNotFoundError: joblib is not installed.

    Example:
        >>> import actorlib.joblib
        >>> from joblib import Parallel, delayed, parallel_config
        >>> actorlib.joblib.register()
        >>> with parallel_config(backend="actorlib", n_jobs=-1):
        ...     print(Parallel()(delayed(pow)(x, 2) for x in range(5)))
        [0, 1, 4, 9, 16]
    """
    register_backend("actorlib", Backend, make_default=make_default)


def register_backend(
    name: str, make: Callable[..., Backend], *, make_default: bool = False
) -> None:
    _parallel.register_parallel_backend(name, make, make_default=make_default)


class _Slot(NamedTuple):
    """Stands for an array among the arguments of a task."""

    number: int


class Backend(_parallel.AutoBatchingMixin, _parallel.ParallelBackendBase):  # type: ignore[misc]  # Any
    """Submits batches of tasks to an executor."""

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]  # Any
            nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads
        )
        self._options = options
        self._executor: _TaskExecutor | None = None

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Returns how many tasks run at once."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        if n_jobs > 0:
            return n_jobs
        if self._executor is not None:
            slots = self._executor.slots
        elif find_engine() is not None:
            slots = Executor(**self._options).slots
        else:
            slots = int(_parallel.cpu_count())
        return max(1, slots + 1 + n_jobs)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Makes the executor of a ``Parallel``."""
        self.parallel = parallel
        count = self.effective_n_jobs(n_jobs)
        self._executor = _TaskExecutor(max_workers=count, **self._options)
        # The callback takes further items from the user's iterable. That may wait for
        # calls, and so must not run on the runtime's loop.
        self._callbacks = ThreadPoolExecutor(1)
        return count

    def submit(
        self, func: Any, callback: Callable[[Any], object] | None = None
    ) -> futures.Future[Any]:
        """Submits a batch of tasks."""
        assert self._executor is not None  # joblib configures it first
        future = self._executor.submit(func)
        if callback is not None:
            callbacks = self._callbacks
            future.add_done_callback(lambda done: callbacks.submit(callback, done))
        return future

    apply_async = submit  # its name before joblib 1.5

    def retrieve_result_callback(self, out: futures.Future[Any]) -> object:
        """Returns the results of a batch, or raises its error."""
        return out.result()

    def terminate(self) -> None:
        """Ends the executor; the runtime goes on."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)
            self._callbacks.shutdown(wait=False)
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:  # noqa: FBT001, FBT002  # joblib's signature
        """Cancels the batches that have not started."""
        executor = self._executor
        self.terminate()
        if ensure_ready and executor is not None:
            self.configure(executor.limit, self.parallel)

    def get_nested_backend(self) -> tuple[Any, None]:
        """Returns a sequential backend: a task has no CPUs to spare."""
        level = (self.nesting_level or 0) + 1
        return _backends.SequentialBackend(nesting_level=level), None


class _TaskExecutor(Executor):
    """Runs batches of tasks; each large array is put into shared memory once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._run_batch = RemoteFunction(_run_batch, self._options)
        self._shared: dict[int, tuple[weakref.ref[Any], ObjectRef[Any]]] = {}

    def _call(self, work: Work) -> ObjectRef[Any]:
        batch: Any = work.function
        arrays: list[ObjectRef[Any]] = []

        def take_out(value: Any) -> Any:
            if _is_large_array(value):
                arrays.append(self._put(value))
                return _Slot(len(arrays) - 1)
            return value

        items = [
            (
                function,
                [take_out(value) for value in args],
                {name: take_out(value) for name, value in kwargs.items()},
            )
            for function, args, kwargs in batch.items
        ]
        return self._run_batch.remote(batch._backend, items, *arrays)  # noqa: SLF001  # joblib has no other way

    def _put(self, array: Any) -> ObjectRef[Any]:
        shared = self._shared.get(id(array))
        if shared is not None and shared[0]() is array:
            return shared[1]
        ref = current_engine().put(array)
        self._shared[id(array)] = weakref.ref(array), ref
        return ref


def _is_large_array(value: object) -> bool:
    kind = type(value)
    return (
        kind.__name__ == "ndarray"
        and kind.__module__ == "numpy"
        and getattr(value, "nbytes", 0) >= _SHARED_ABOVE
    )


def _run_batch(
    backend: object,
    items: Sequence[tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]],
    *arrays: Any,
) -> list[Any]:
    def put_in(value: Any) -> Any:
        return arrays[value.number] if isinstance(value, _Slot) else value

    tasks = [
        (
            function,
            tuple(map(put_in, args)),
            {name: put_in(value) for name, value in kwargs.items()},
        )
        for function, args, kwargs in items
    ]
    results: list[Any] = _parallel.BatchedCalls(tasks, (backend, None))()
    return results
