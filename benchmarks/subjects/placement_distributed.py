"""dask.distributed: clusters of so many workers with an actor in each."""

import asyncio
import os
import time

from benchmarks.subjects._distributed import client_of
from benchmarks.subjects._report import Wave, arguments, distinct, report


class Idle:
    """An actor that does nothing but say where it is."""

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


async def _measured(wave: Wave) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for name in ("cold", "second")[: wave.waves]:
        begun = time.perf_counter()
        async with client_of(wave.size) as client:
            workers = list(client.cluster.scheduler.workers)
            actors = await asyncio.gather(
                *(client.submit(Idle, actor=True, workers=[each]) for each in workers)
            )
            pids = await asyncio.gather(*(actor.pid() for actor in actors))
            metrics[name] = wave.size / (time.perf_counter() - begun)
        distinct(pids, wave.size)
    return metrics


if __name__ == "__main__":
    report(asyncio.run(_measured(Wave(**arguments()))))
