"""xoscar: pools of so many processes with an actor in each."""

import asyncio
import os
import time

import uvloop
import xoscar

from benchmarks.subjects._report import Wave, arguments, distinct, report
from benchmarks.subjects._xoscar import placed, pool_of


class Idle(xoscar.StatelessActor):
    """An actor that does nothing but say where it is."""

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


async def _measured(wave: Wave) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for name in ("cold", "second")[: wave.waves]:
        begun = time.perf_counter()
        async with pool_of(wave.size) as address:
            actors = await asyncio.gather(
                *(placed(Idle, address, place + 1) for place in range(wave.size))
            )
            pids = await asyncio.gather(*(actor.pid() for actor in actors))
            metrics[name] = wave.size / (time.perf_counter() - begun)
        distinct(pids, wave.size)
    return metrics


if __name__ == "__main__":
    report(uvloop.run(_measured(Wave(**arguments()))))
