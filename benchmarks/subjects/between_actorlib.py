"""Calls of one actor by another, by the owner, and of four actors by four."""

import asyncio
import time
from typing import Any

import actorlib
from benchmarks.subjects._report import (
    WINDOW,
    Traffic,
    arguments,
    pipelined,
    prefixed,
    report,
    round_trips,
)


@actorlib.remote
class Plain:
    """An actor with plain methods: it is called, and it calls."""

    def echo(self, value: int) -> int:
        """The value."""
        return value

    def trips(self, other: actorlib.ActorHandle[Any], count: int) -> list[float]:
        """Times of calls made one after another."""
        times: list[float] = []
        for value in range(count):
            begun = time.perf_counter()
            actorlib.get(other.echo.remote(value))
            times.append(time.perf_counter() - begun)
        return times

    def windows(self, other: actorlib.ActorHandle[Any], count: int) -> list[float]:
        """Times of windows of calls."""
        times: list[float] = []
        for _ in range(count):
            begun = time.perf_counter()
            actorlib.get([other.echo.remote(value) for value in range(WINDOW)])
            times.append(time.perf_counter() - begun)
        return times


@actorlib.remote
class Looped:
    """The same with async methods."""

    async def echo(self, value: int) -> int:
        """The value."""
        return value

    async def trips(self, other: actorlib.ActorHandle[Any], count: int) -> list[float]:
        """Times of calls made one after another."""
        return await _trips(other, count)

    async def windows(
        self, other: actorlib.ActorHandle[Any], count: int
    ) -> list[float]:
        """Times of windows of calls."""
        return await _windows(other, count)


async def _trips(other: actorlib.ActorHandle[Any], count: int) -> list[float]:
    times: list[float] = []
    for value in range(count):
        begun = time.perf_counter()
        await other.echo.remote(value)
        times.append(time.perf_counter() - begun)
    return times


async def _windows(other: actorlib.ActorHandle[Any], count: int) -> list[float]:
    times: list[float] = []
    for _ in range(count):
        begun = time.perf_counter()
        await asyncio.gather(*(other.echo.remote(value) for value in range(WINDOW)))
        times.append(time.perf_counter() - begun)
    return times


async def _pair(made: Any, traffic: Traffic) -> dict[str, float]:
    """Figures of one actor called by another, and by the owner."""
    caller, callee = made.remote(), made.remote()
    straight = round_trips(await caller.trips.remote(callee, traffic.trips))
    straight |= pipelined(await caller.windows.remote(callee, traffic.windows))
    own = round_trips(await _trips(callee, traffic.trips))
    own |= pipelined(await _windows(callee, traffic.windows))
    return straight | prefixed("owner", own)


async def _four(made: Any, traffic: Traffic) -> dict[str, float]:
    """Calls a second of four pairs together."""
    pairs = [(made.remote(), made.remote()) for _ in range(4)]
    await asyncio.gather(
        *(caller.trips.remote(callee, 100) for caller, callee in pairs)
    )
    begun = time.perf_counter()
    await asyncio.gather(
        *(caller.trips.remote(callee, traffic.trips) for caller, callee in pairs)
    )
    trips = 4 * traffic.trips / (time.perf_counter() - begun)
    begun = time.perf_counter()
    await asyncio.gather(
        *(caller.windows.remote(callee, traffic.windows) for caller, callee in pairs)
    )
    rate = 4 * WINDOW * traffic.windows / (time.perf_counter() - begun)
    return {"trips": trips, "rate": rate}


def _named(sort: str, figures: dict[str, float]) -> dict[str, float]:
    """The same figures, with the sort behind who is called."""
    return {
        f"owner {sort} {name.removeprefix('owner ')}"
        if name.startswith("owner ")
        else f"{sort} {name}": value
        for name, value in figures.items()
    }


async def _measured(traffic: Traffic) -> dict[str, float]:
    figures: dict[str, float] = {}
    async with actorlib.init(num_cpus=16):
        for sort, made in (("sync", Plain), ("async", Looped)):
            figures |= _named(sort, await _pair(made, traffic))
            four = await _four(made, traffic)
            figures |= prefixed(f"four {sort}", four)
    return figures


if __name__ == "__main__":
    report(actorlib.run(_measured(Traffic(**arguments()))))
