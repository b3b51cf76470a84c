"""Ray: calls of a sync and of an async actor, by ``ray.get`` and by ``await``.

The figure of each is the better one of the two.
"""

import asyncio
import time
from typing import Any

import ray

from benchmarks.subjects._report import (
    WINDOW,
    Traffic,
    arguments,
    pipelined,
    prefixed,
    report,
    round_trips,
)


@ray.remote(num_cpus=0)
class Plain:
    """An actor with a plain method."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


@ray.remote(num_cpus=0)
class Looped:
    """An actor with an async method."""

    async def echo(self, value: int) -> int:
        """The value."""
        return value


def _got(actor: Any, traffic: Traffic) -> dict[str, float]:
    trips: list[float] = []
    for value in range(traffic.trips):
        begun = time.perf_counter()
        ray.get(actor.echo.remote(value))
        trips.append(time.perf_counter() - begun)
    windows: list[float] = []
    for _ in range(traffic.windows):
        begun = time.perf_counter()
        ray.get([actor.echo.remote(value) for value in range(WINDOW)])
        windows.append(time.perf_counter() - begun)
    return round_trips(trips) | pipelined(windows)


async def _awaited(actor: Any, traffic: Traffic) -> dict[str, float]:
    trips: list[float] = []
    for value in range(traffic.trips):
        begun = time.perf_counter()
        await actor.echo.remote(value)
        trips.append(time.perf_counter() - begun)
    windows: list[float] = []
    for _ in range(traffic.windows):
        begun = time.perf_counter()
        await asyncio.gather(*(actor.echo.remote(value) for value in range(WINDOW)))
        windows.append(time.perf_counter() - begun)
    return round_trips(trips) | pipelined(windows)


def _better(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    choose = {"rate": max}
    return {name: choose.get(name, min)(one[name], other[name]) for name in one}


def _measured(traffic: Traffic) -> dict[str, float]:
    metrics: dict[str, float] = {}
    ray.init(include_dashboard=False, log_to_driver=False)
    for kind, actor in (("sync", Plain.remote()), ("async", Looped.remote())):
        got = _got(actor, traffic)
        awaited = asyncio.run(_awaited(actor, traffic))
        metrics |= prefixed(kind, _better(got, awaited))
    ray.shutdown()
    return metrics


if __name__ == "__main__":
    report(_measured(Traffic(**arguments())))
