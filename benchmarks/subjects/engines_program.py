"""One program, on the engine that it is told: from its start to its end."""

import asyncio
import time
from typing import Any

import numpy as np

import actorlib
from benchmarks.subjects._report import (
    WINDOW,
    arguments,
    middle,
    pipelined,
    report,
    round_trips,
)

MEGABYTES = 10


@actorlib.remote
class Worker:
    """Gives back what it is given."""

    def echo(self, value: int) -> int:
        """The value."""
        return value

    def total(self, array: Any) -> float:
        """The sum of an array."""
        return float(array.sum())


async def _timed(work: Any) -> float:
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun


async def _calls(worker: Any, trips: int, windows: int) -> dict[str, float]:
    times = [await _timed(worker.echo.remote(value)) for value in range(trips)]
    bursts: list[float] = []
    for _ in range(windows):
        calls = asyncio.gather(*(worker.echo.remote(value) for value in range(WINDOW)))
        bursts.append(await _timed(calls))
    array = np.ones(MEGABYTES * 125_000)
    large = [await _timed(worker.total.remote(array)) for _ in range(10)]
    return {**round_trips(times), **pipelined(bursts), "large": middle(large)}


async def _measured(engine: Any, trips: int, windows: int) -> dict[str, float]:
    runtime = actorlib.init(
        engine=engine,
        num_cpus=2,
        num_gpus=0,
        object_store_memory=200e6,
        log_to_driver=False,
    )
    start = await _timed(runtime)
    first = Worker.remote()
    figures = {"start": start, "first": await _timed(first)}
    figures["eight"] = await _timed(asyncio.gather(*(Worker.remote() for _ in "8" * 8)))
    figures |= await _calls(first, trips, windows)
    figures["stop"] = await _timed(runtime.shutdown())
    return figures


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
