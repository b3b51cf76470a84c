"""Ray: large arrays as arguments and results of an actor.

By value: Ray puts a large argument into its store by itself, so ``ray.put`` before the
call would be the same copy.
"""

import asyncio
from typing import Any

import ray

from benchmarks.subjects._payload import Load, Sink, moved
from benchmarks.subjects._ray import cluster
from benchmarks.subjects._report import arguments, report


def _measured(load: Load) -> dict[str, float]:
    with cluster(object_store_memory=8 * 10**9):
        sink: Any = ray.remote(num_cpus=0)(Sink).remote()

        async def call(method: str, *given: object) -> object:
            return ray.get(getattr(sink, method).remote(*given))

        return asyncio.run(moved(call, load))


if __name__ == "__main__":
    report(_measured(Load(**arguments())))
