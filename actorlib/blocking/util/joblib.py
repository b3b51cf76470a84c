"""``ray.util.joblib``: joblib's batches as calls of a remote function."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from actorlib.blocking._init import init, is_initialized
from actorlib.blocking._verbs import cluster_resources, remote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

__all__ = ["register_ray"]

# joblib ships no types.
_backends: Any = importlib.import_module("joblib._parallel_backends")
_parallel: Any = importlib.import_module("joblib.parallel")


def register_ray() -> None:
    """Makes ``parallel_backend("ray")`` of joblib run its calls on this runtime.

    Example:
        >>> import joblib
        >>> from actorlib.blocking.util.joblib import register_ray
        >>> register_ray()
        >>> with joblib.parallel_backend("ray"):
        ...     joblib.Parallel()(joblib.delayed(abs)(x) for x in [-1, 2])
        [1, 2]
    """
    _parallel.register_parallel_backend("ray", Backend)


@remote
def run_batch(batch: Callable[[], list[Any]]) -> list[Any]:
    """Runs a batch of joblib's calls."""
    return batch()


class Backend(_backends.AutoBatchingMixin, _backends.ParallelBackendBase):  # type: ignore[misc]  # pyright: ignore[reportUntypedBaseClass]  # as above
    """Runs batches of joblib's calls as calls of a remote function.

    Args:
        ray_remote_args: Options of the calls. Default: None.
        **options: See joblib.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(
        self, ray_remote_args: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        super().__init__(**options)  # pyright: ignore[reportUnknownMemberType]  # as above
        run: Any = run_batch
        self._run = run.options(**(ray_remote_args or {}))

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """The number of batches that run at once; -1 is one per CPU."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is not None and n_jobs > 0:
            return n_jobs
        if not is_initialized():
            init()
        cpus = max(1, int(cluster_resources()["CPU"]))
        return 1 if n_jobs is None else max(1, cpus + 1 + n_jobs)

    def configure(
        self, n_jobs: int = 1, parallel: Any = None, **options: object
    ) -> int:
        """Prepares a run; see joblib."""
        del options
        self.parallel = parallel
        # joblib makes further calls in the callback, which takes the user's items: not
        # on the thread of the runtime, which those may need.
        self._callbacks = ThreadPoolExecutor(1)
        return self.effective_n_jobs(n_jobs)

    def submit(
        self, func: Callable[[], list[Any]], callback: Callable[[Any], object]
    ) -> Future[list[Any]]:
        """Runs a batch; see joblib."""
        future: Future[list[Any]] = self._run.remote(func).future()
        future.add_done_callback(lambda done: self._callbacks.submit(callback, done))
        return future

    apply_async = submit  # its name before joblib 1.5

    def retrieve_result_callback(self, out: Future[list[Any]]) -> list[Any]:
        """Returns the results of a batch that is done; see joblib."""
        return out.result()

    def terminate(self) -> None:
        """Ends a run; see joblib."""
        self._callbacks.shutdown(wait=False)
