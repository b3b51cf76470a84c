"""Ray: large arrays as arguments and results of an actor.

By value: Ray puts a large argument into its store by itself, so ``ray.put`` before the
call would be the same copy.
"""

import asyncio
from typing import Any

import numpy as np
import ray

from benchmarks.subjects._payload import Load, moved
from benchmarks.subjects._ray import cluster
from benchmarks.subjects._report import arguments, report


@ray.remote(num_cpus=0)
class Sink:
    """Takes arrays, and gives one."""

    def last(self, array: Any) -> int:
        """The last number."""
        return int(array[-1])

    def make(self, nbytes: int) -> None:
        """Has an array ready."""
        self._array = np.ones(nbytes, dtype=np.uint8)

    def give(self) -> Any:
        """That array."""
        return self._array


def _measured(load: Load) -> dict[str, float]:
    with cluster(object_store_memory=8 * 10**9):
        sink: Any = Sink.remote()

        async def call(method: str, *given: object) -> object:
            return ray.get(getattr(sink, method).remote(*given))

        return asyncio.run(moved(call, load))


if __name__ == "__main__":
    report(_measured(Load(**arguments())))
