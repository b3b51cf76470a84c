"""One program, on the engine that it is told: from its start to its end."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
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


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    """Seconds from before something is asked for until it is there."""
    begun = time.perf_counter()
    await work()
    return time.perf_counter() - begun


async def _calls(worker: Any, trips: int, windows: int) -> dict[str, float]:
    times = [await _timed(partial(worker.echo.remote, value)) for value in range(trips)]
    bursts = [
        await _timed(
            lambda: asyncio.gather(*(worker.echo.remote(n) for n in range(WINDOW)))
        )
        for _ in range(windows)
    ]
    array = np.ones(MEGABYTES * 125_000)
    large = [await _timed(partial(worker.total.remote, array)) for _ in range(10)]
    return {**round_trips(times), **pipelined(bursts), "large": middle(large)}


async def _measured(engine: Any, trips: int, windows: int) -> dict[str, float]:
    runtime = actorlib.init(
        engine=engine,
        num_cpus=2,
        num_gpus=0,
        object_store_memory=200e6,
        log_to_driver=False,
    )
    start = await _timed(lambda: runtime)
    made: list[Any] = []

    async def place(count: int) -> None:
        made.extend(await asyncio.gather(*(Worker.remote() for _ in range(count))))

    figures = {"start": start, "first": await _timed(partial(place, 1))}
    figures["eight"] = await _timed(partial(place, 8))
    figures |= await _calls(made[0], trips, windows)
    figures["stop"] = await _timed(runtime.shutdown)
    return figures


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
