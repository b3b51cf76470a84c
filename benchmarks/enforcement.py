"""Measures the cost of enforced shares: of a placement and of a call.

The devices are logical, so it runs anywhere: variables are chosen, they cross, and the
worker looks out for frameworks. What a tier costs on hardware is another question.

Run it with ``python -m benchmarks.enforcement``.
"""

import asyncio
import os
import time
from typing import Any, Final

import actorlib
from benchmarks._cases import OURS, Case, Job, Plan, Scale, Target, Unit
from benchmarks._subject import (
    WINDOW,
    Figures,
    distinct,
    main,
    pipelined,
    round_trips,
)

_RATE = Unit(name="actors/s", more_is_better=True)
_CALLS = Unit(name="calls/s", more_is_better=True)
_TIME = Unit(name="us", scale=1e6)
_OFF: Final = "off"
"""actorlib with ``enforcement="off"``, for comparison."""

_ACTORS: Final = 50

_NOTES = (
    "Actors with 0.001 of a logical GPU, created fifty at a time and ended, until "
    "their first answers. Then calls of one of them, awaited one by one and a thousand "
    "at a time. With enforcement='auto', compared with 'off' (not shown).",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    rounds, trips = (4, 600) if scale.is_quick else (12, 3000)
    jobs = {
        word: Job(
            name=f"{OURS} {word}",
            subject="enforcement.actorlib",
            arguments={"enforcement": word, "rounds": rounds, "trips": trips},
        )
        for word in ("auto", _OFF)
    }
    rows = (
        ("fifty actors to their first answers", _RATE, "rate", 0.95),
        ("a call, awaited", _TIME, "p50", 1.05),
        ("calls, a thousand at a time", _CALLS, "calls", 0.95),
    )
    return Plan(
        name="enforcement",
        question="What enforcement costs",
        notes=_NOTES,
        jobs=list(jobs.values()),
        cases=[
            Case(
                section="actors with a part of a device",
                title=title,
                unit=unit,
                cells={
                    OURS: f"{jobs['auto'].name}/{figure}",
                    _OFF: f"{jobs[_OFF].name}/{figure}",
                },
                targets=(Target(bound=bound, against=_OFF),),
            )
            for title, unit, figure, bound in rows
        ],
    )


@actorlib.remote(num_gpus=0.001)
class Where:
    """An actor that says where it is."""

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


def measure_actorlib(enforcement: Any, rounds: int, trips: int) -> Figures:
    """Actors to their first answers, and calls of one of them."""

    async def placed() -> float:
        begun = time.perf_counter()
        some = [Where.remote() for _ in range(_ACTORS)]
        pids = await asyncio.gather(*(actor.pid.remote() for actor in some))
        taken = time.perf_counter() - begun
        distinct(pids, _ACTORS)
        await asyncio.gather(*(actorlib.kill(actor) for actor in some))
        return taken

    async def measured() -> Figures:
        async with actorlib.init(num_gpus=1, enforcement=enforcement):
            taken = sorted([await placed() for _ in range(rounds)][1:])
            actor = await Where.remote()
            times: list[float] = []
            for _ in range(trips):
                begun = time.perf_counter()
                await actor.pid.remote()
                times.append(time.perf_counter() - begun)
            windows: list[float] = []
            for _ in range(trips // 100):
                begun = time.perf_counter()
                await asyncio.gather(*(actor.pid.remote() for _ in range(WINDOW)))
                windows.append(time.perf_counter() - begun)
            return {
                "rate": _ACTORS / taken[len(taken) // 2],
                "p50": round_trips(times)["p50"],
                "calls": pipelined(windows)["rate"],
            }

    return actorlib.run(measured())


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
