"""Calls that are awaited, one after another and in windows."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from benchmarks.subjects._report import WINDOW, Traffic, pipelined, round_trips

Call = Callable[[int], Awaitable[object]]


async def awaited(call: Call, traffic: Traffic) -> dict[str, float]:
    """The figures of calls that give back what they are given."""
    trips: list[float] = []
    for value in range(traffic.trips):
        begun = time.perf_counter()
        await call(value)
        trips.append(time.perf_counter() - begun)
    windows: list[float] = []
    for _ in range(traffic.windows):
        begun = time.perf_counter()
        await asyncio.gather(*map(call, range(WINDOW)))
        windows.append(time.perf_counter() - begun)
    return round_trips(trips) | pipelined(windows)
