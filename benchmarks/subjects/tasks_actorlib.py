"""Calls of a remote function, one after another and in windows."""

import asyncio
import time

import actorlib
from benchmarks.subjects._report import (
    WINDOW,
    Traffic,
    arguments,
    pipelined,
    report,
    round_trips,
)


@actorlib.remote
def echo(value: int) -> int:
    """The value."""
    return value


async def _measured(traffic: Traffic) -> dict[str, float]:
    trips: list[float] = []
    windows: list[float] = []
    async with actorlib.init(num_cpus=2, num_gpus=0):
        for value in range(traffic.trips):
            begun = time.perf_counter()
            await echo.remote(value)
            trips.append(time.perf_counter() - begun)
        for _ in range(traffic.windows):
            begun = time.perf_counter()
            await asyncio.gather(*(echo.remote(value) for value in range(WINDOW)))
            windows.append(time.perf_counter() - begun)
    return round_trips(trips) | pipelined(windows)


if __name__ == "__main__":
    report(actorlib.run(_measured(Traffic(**arguments()))))
