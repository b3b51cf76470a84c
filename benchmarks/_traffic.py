"""Makes calls one after another and in windows, and measures them."""

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple

from benchmarks._cases import Case, Panel, Unit
from benchmarks._subject import WINDOW, Figures, pipelined, round_trips

RATE: Final = Unit(name="calls/s", more_is_better=True)
UNITS: Final = {
    "p50": Unit(name="us", scale=1e6),
    "p99": Unit(name="us", scale=1e6),
    "rate": RATE,
}
SECTIONS: Final = {
    "p50": "round trip, median",
    "p99": "round trip, 99th percentile",
    "rate": "pipelined in windows of 1,000",
}
"""The common title of the rows of each figure."""


def panels(cases: Iterable[Case]) -> list[Panel]:
    """A part of the plot for each figure."""
    shown = list(cases)
    return [
        Panel(
            title=section,
            cases=[case for case in shown if case.section == section],
            is_logarithmic=True,
        )
        for section in SECTIONS.values()
    ]


class Traffic(NamedTuple):
    """What a subject of calls is told.

    Attributes:
        trips: How many calls are made one after another.
        windows: How many windows of calls are sent.
        method: How, in the words of the subject.
        apart: Whether both ends have a CPU each, or share one.
        workers: How many processes run the calls, where there may be several.
    """

    trips: int
    windows: int
    method: str = ""
    apart: bool = True
    workers: int = 1


async def awaited(
    call: Callable[[int], Awaitable[object]], traffic: Traffic
) -> Figures:
    """The figures of calls that give back what they are given."""
    import asyncio

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


def got(
    call: Callable[[int], Any],
    get: Callable[[Any], object],
    get_all: Callable[[list[Any]], object],
    traffic: Traffic,
) -> Figures:
    """The figures of calls whose answers are waited for by the thread."""
    trips: list[float] = []
    for value in range(traffic.trips):
        begun = time.perf_counter()
        get(call(value))
        trips.append(time.perf_counter() - begun)
    windows: list[float] = []
    for _ in range(traffic.windows):
        begun = time.perf_counter()
        get_all([call(value) for value in range(WINDOW)])
        windows.append(time.perf_counter() - begun)
    return round_trips(trips) | pipelined(windows)
