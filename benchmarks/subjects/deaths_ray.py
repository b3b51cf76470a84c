"""Ray: an actor is killed from outside while many wait for it.

They wait by ``await``; to wait for all refs in one thread would tell the first alone.
"""

import asyncio
from typing import Any

import ray
from ray.exceptions import RayActorError

from benchmarks.subjects._deaths import Silent, told
from benchmarks.subjects._ray import cluster
from benchmarks.subjects._report import arguments, middle, report


async def _times(callers: int, times: int) -> list[float]:
    silent: Any = ray.remote(num_cpus=0, max_concurrency=1000)(Silent)
    return [await told(silent.remote(), callers, RayActorError) for _ in range(times)]


def _measured(callers: int, times: int) -> dict[str, float]:
    with cluster():
        return {"time": middle(asyncio.run(_times(callers, times)))}


if __name__ == "__main__":
    report(_measured(**arguments()))
