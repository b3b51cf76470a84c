"""Measures calls between two actors: their time, and their rate.

It is compared with the same call made by the owner. A round trip is one call awaited
before the next is made; pipelined calls are made in windows of 1,000. Four pairs are
four callers that each call an actor of their own: what they reach together, beside one
pair, says whether the owner is in the way.

Run it with ``python -m benchmarks.actor_to_actor``.
"""

import asyncio
import time
from typing import Any, Final

import actorlib
from benchmarks._cases import OURS, OWNER, Case, Job, Plan, Scale, Target
from benchmarks._subject import WINDOW, Figures, main, pipelined, prefixed, round_trips
from benchmarks._traffic import RATE, SECTIONS, UNITS, Traffic, panels

_GOALS: Final = {"p50": (Target(bound=1.0, against=OWNER),)}
_SORTS: Final = {
    "sync": "plain methods at both ends",
    "async": "async methods at both ends",
}

_NOTES = (
    "Cells: median of the rounds, then min..max. Ratios are computed for each round.",
    "from the owner: the program calls the same actor, on uvloop in the same run.",
    "No process is bound to a CPU. Four pairs need eight CPUs to scale; with fewer "
    "they share the CPUs.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    trips, windows = (1500, 10) if scale.is_quick else (5000, 30)
    job = Job(
        name=OURS,
        subject="actor_to_actor.actorlib",
        arguments={"trips": trips, "windows": windows},
    )
    cases = [
        Case(
            section=section,
            title=title,
            unit=UNITS[figure],
            cells={
                OURS: f"{OURS}/{sort} {figure}",
                OWNER: f"{OURS}/owner {sort} {figure}",
            },
            targets=_GOALS.get(figure, ()),
        )
        for figure, section in SECTIONS.items()
        for sort, title in _SORTS.items()
    ]
    cases += [
        Case(
            section="four pairs at once, together",
            title=title,
            unit=RATE,
            cells={OURS: f"{OURS}/four {sort} {figure}"},
        )
        for sort in _SORTS
        for figure, title in (
            ("trips", f"{_SORTS[sort]}, one after another"),
            ("rate", f"{_SORTS[sort]}, pipelined"),
        )
    ]
    return Plan(
        name="actor_to_actor",
        question="Calls between two actors",
        notes=_NOTES,
        jobs=[job],
        cases=cases,
        panels=panels(cases),
    )


@actorlib.remote
class Plain:
    """An actor with plain methods: it is called, and it calls."""

    def echo(self, value: int) -> int:
        """The value."""
        return value

    def trips(self, other: Any, count: int) -> list[float]:
        """Times of calls made one after another."""
        times: list[float] = []
        for value in range(count):
            begun = time.perf_counter()
            actorlib.get(other.echo.remote(value))
            times.append(time.perf_counter() - begun)
        return times

    def windows(self, other: Any, count: int) -> list[float]:
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

    async def trips(self, other: Any, count: int) -> list[float]:
        """Times of calls made one after another."""
        return await _trips(other, count)

    async def windows(self, other: Any, count: int) -> list[float]:
        """Times of windows of calls."""
        return await _windows(other, count)


async def _trips(other: Any, count: int) -> list[float]:
    times: list[float] = []
    for value in range(count):
        begun = time.perf_counter()
        await other.echo.remote(value)
        times.append(time.perf_counter() - begun)
    return times


async def _windows(other: Any, count: int) -> list[float]:
    times: list[float] = []
    for _ in range(count):
        begun = time.perf_counter()
        await asyncio.gather(*(other.echo.remote(value) for value in range(WINDOW)))
        times.append(time.perf_counter() - begun)
    return times


async def _pair(made: Any, traffic: Traffic) -> Figures:
    """Figures of one actor called by another, and by the owner."""
    caller, callee = made.remote(), made.remote()
    straight = round_trips(await caller.trips.remote(callee, traffic.trips))
    straight |= pipelined(await caller.windows.remote(callee, traffic.windows))
    own = round_trips(await _trips(callee, traffic.trips))
    own |= pipelined(await _windows(callee, traffic.windows))
    return straight | prefixed("owner", own)


async def _four(made: Any, traffic: Traffic) -> Figures:
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


def _named(sort: str, figures: Figures) -> Figures:
    """The same figures, with the sort behind who is called."""
    return {
        f"owner {sort} {name.removeprefix('owner ')}"
        if name.startswith("owner ")
        else f"{sort} {name}": value
        for name, value in figures.items()
    }


def measure_actorlib(**told: Any) -> Figures:
    """Calls of one actor by another, by the owner, and of four actors by four."""
    traffic = Traffic(**told)

    async def measured() -> Figures:
        figures: Figures = {}
        async with actorlib.init(num_cpus=16):
            for sort, made in (("sync", Plain), ("async", Looped)):
                figures |= _named(sort, await _pair(made, traffic))
                figures |= prefixed(f"four {sort}", await _four(made, traffic))
        return figures

    return actorlib.run(measured())


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
