"""What the subjects of Ray share: a cluster with an end, and the better of two ways.

Ray's own advice is to ask for many refs with one ``ray.get`` and not in a loop; where
the program is asyncio its refs can be awaited. Both are measured and the better figure
is kept. The dashboard is off, as is the copying of workers' output: both cost.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import ray

from benchmarks.subjects._calls import awaited
from benchmarks.subjects._report import WINDOW, Traffic, pipelined, round_trips


@contextmanager
def cluster(**options: Any) -> Generator[None]:
    """A cluster of this machine that is stopped again."""
    ray.init(include_dashboard=False, log_to_driver=False, **options)
    try:
        yield
    finally:
        ray.shutdown()


def calls(call: Callable[[int], Any], traffic: Traffic) -> dict[str, float]:
    """The figures of calls, by ``ray.get`` or by ``await``."""
    return better(_got(call, traffic), asyncio.run(awaited(call, traffic)))


def better(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Of each figure the better one: of rates the higher, of times the lower."""
    choose = {"rate": max}
    return {name: choose.get(name, min)(one[name], other[name]) for name in one}


def _got(call: Callable[[int], Any], traffic: Traffic) -> dict[str, float]:
    trips: list[float] = []
    for value in range(traffic.trips):
        begun = time.perf_counter()
        ray.get(call(value))
        trips.append(time.perf_counter() - begun)
    windows: list[float] = []
    for _ in range(traffic.windows):
        begun = time.perf_counter()
        ray.get([call(value) for value in range(WINDOW)])
        windows.append(time.perf_counter() - begun)
    return round_trips(trips) | pipelined(windows)
