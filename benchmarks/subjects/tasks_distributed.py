"""dask.distributed: calls of functions; windows by ``map`` and one ``gather``.

That is what dask advises for many small calls: one message with all of them.
"""

import asyncio
import time

from benchmarks.subjects._distributed import client_of
from benchmarks.subjects._report import (
    WINDOW,
    Traffic,
    arguments,
    pipelined,
    report,
    round_trips,
)


def echo(value: int) -> int:
    """The value."""
    return value


async def _measured(traffic: Traffic) -> dict[str, float]:
    trips: list[float] = []
    windows: list[float] = []
    async with client_of(traffic.workers) as client:
        for value in range(traffic.trips):
            begun = time.perf_counter()
            await client.submit(echo, value, pure=False)
            trips.append(time.perf_counter() - begun)
        for _ in range(traffic.windows):
            begun = time.perf_counter()
            await client.gather(client.map(echo, range(WINDOW), pure=False))
            windows.append(time.perf_counter() - begun)
    return round_trips(trips) | pipelined(windows)


if __name__ == "__main__":
    report(asyncio.run(_measured(Traffic(**arguments()))))
