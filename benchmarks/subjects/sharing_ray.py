"""Ray: one array to many actors by ``ray.put``, as it advises for that."""

import asyncio
from typing import Any

import ray

from benchmarks.subjects._ray import cluster
from benchmarks.subjects._report import arguments, report
from benchmarks.subjects._sharing import shared


@ray.remote(num_cpus=0)
class Keeper:
    """Keeps an array."""

    def keep(self, array: Any) -> int:
        """Keeps it, and tells its last number."""
        self._array = array
        return int(array[-1])

    def drop(self) -> None:
        """Forgets it."""
        self._array = None


def _measured(nbytes: int, actors: int, times: int) -> dict[str, float]:
    with cluster(object_store_memory=2 << 30):
        keepers: list[Any] = [Keeper.remote() for _ in range(actors)]

        async def give(array: object) -> None:
            ref = ray.put(array)
            ray.get([keeper.keep.remote(ref) for keeper in keepers])

        async def drop() -> None:
            ray.get([keeper.drop.remote() for keeper in keepers])

        return asyncio.run(shared(give, drop, nbytes, times))


if __name__ == "__main__":
    report(_measured(**arguments()))
