"""Ray: calls of a remote function, by ``ray.get`` and by ``await``.

The figure of each is the better one of the two.
"""

import asyncio
import time

import ray

from benchmarks.subjects._report import (
    WINDOW,
    Traffic,
    arguments,
    pipelined,
    report,
    round_trips,
)


@ray.remote
def echo(value: int) -> int:
    """The value."""
    return value


def _got(traffic: Traffic) -> dict[str, float]:
    trips: list[float] = []
    for value in range(traffic.trips):
        begun = time.perf_counter()
        ray.get(echo.remote(value))
        trips.append(time.perf_counter() - begun)
    windows: list[float] = []
    for _ in range(traffic.windows):
        begun = time.perf_counter()
        ray.get([echo.remote(value) for value in range(WINDOW)])
        windows.append(time.perf_counter() - begun)
    return round_trips(trips) | pipelined(windows)


async def _awaited(traffic: Traffic) -> dict[str, float]:
    trips: list[float] = []
    for value in range(traffic.trips):
        begun = time.perf_counter()
        await echo.remote(value)
        trips.append(time.perf_counter() - begun)
    windows: list[float] = []
    for _ in range(traffic.windows):
        begun = time.perf_counter()
        await asyncio.gather(*(echo.remote(value) for value in range(WINDOW)))
        windows.append(time.perf_counter() - begun)
    return round_trips(trips) | pipelined(windows)


def _better(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    choose = {"rate": max}
    return {name: choose.get(name, min)(one[name], other[name]) for name in one}


def _measured(traffic: Traffic) -> dict[str, float]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    metrics = _better(_got(traffic), asyncio.run(_awaited(traffic)))
    ray.shutdown()
    return metrics


if __name__ == "__main__":
    report(_measured(Traffic(**arguments())))
