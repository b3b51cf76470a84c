"""Measures the same program on both engines: local, and on a cluster.

The cluster is one machine, this one, and the network is its own loop: what is measured
is what Ray costs where it is nearest.

Run it with ``python -m benchmarks.engines``.
"""

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from benchmarks._cases import ON_RAY, OURS, Case, Job, Panel, Plan, Scale, Unit
from benchmarks._subject import WINDOW, Figures, main, middle, pipelined, round_trips

_TIME = Unit(name="ms", scale=1e3)
_TRIP = Unit(name="us", scale=1e6)
_RATE = Unit(name="calls/s", more_is_better=True)
_ROWS: Final = (
    ("start", "start the runtime", _TIME),
    ("first", "first actor ready", _TIME),
    ("eight", "8 more actors ready", _TIME),
    ("p50", "call, median", _TRIP),
    ("p99", "call, 99th percentile", _TRIP),
    ("rate", "calls in windows of 1,000", _RATE),
    ("large", "call with 10 MB", _TIME),
    ("stop", "stop the runtime", _TIME),
)

_NOTES = (
    "Cells: median of the rounds, then min..max. Ratios are computed for each round.",
    "The same program with engine='local' and with engine='ray', which starts a "
    "cluster of one machine.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    asked = (
        {"trips": 500, "windows": 5}
        if scale.is_quick
        else {
            "trips": 2000,
            "windows": 10,
        }
    )
    engines = {OURS: "local", ON_RAY: "ray"}
    cases = [
        Case(
            section="the same program",
            title=title,
            unit=unit,
            cells={column: f"{column}/{figure}" for column in engines},
        )
        for figure, title, unit in _ROWS
    ]
    return Plan(
        name="engines",
        question="One program on both engines",
        notes=_NOTES,
        jobs=[
            Job(
                name=column,
                subject="engines.program",
                arguments={"engine": engine, **asked},
                peer="ray" if engine == "ray" else "",
            )
            for column, engine in engines.items()
        ],
        cases=cases,
        panels=[
            Panel(title="the same program", cases=cases[:3], is_logarithmic=True),
            Panel(title="a call", cases=cases[3:5], is_logarithmic=True),
        ],
    )


_MEGABYTES: Final = 10


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


async def _calls(worker: Any, trips: int, windows: int) -> Figures:
    import numpy as np

    times = [await _timed(partial(worker.echo.remote, value)) for value in range(trips)]
    bursts = [
        await _timed(
            lambda: asyncio.gather(*(worker.echo.remote(n) for n in range(WINDOW)))
        )
        for _ in range(windows)
    ]
    array = np.ones(_MEGABYTES * 125_000)
    large = [await _timed(partial(worker.total.remote, array)) for _ in range(10)]
    return {**round_trips(times), **pipelined(bursts), "large": middle(large)}


def measure_program(engine: Any, trips: int, windows: int) -> Figures:
    """One program, on the engine that it is told: from its start to its end."""
    importlib.import_module("numpy")  # before the clock runs

    import actorlib

    async def measured() -> Figures:
        runtime = actorlib.init(
            engine=engine,
            num_cpus=2,
            num_gpus=0,
            object_store_memory=200e6,
            log_to_driver=False,
        )
        start = await _timed(lambda: runtime)
        kind: Any = actorlib.remote(Worker)
        made: list[Any] = []

        async def place(count: int) -> None:
            made.extend(await asyncio.gather(*(kind.remote() for _ in range(count))))

        figures = {"start": start, "first": await _timed(partial(place, 1))}
        figures["eight"] = await _timed(partial(place, 8))
        figures |= await _calls(made[0], trips, windows)
        figures["stop"] = await _timed(runtime.shutdown)
        return figures

    return actorlib.run(measured())


SUBJECTS: Final = {
    "program": measure_program,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
