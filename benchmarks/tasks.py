"""How many calls of a trivial function a second there can be, and how long one takes.

A round trip is one call awaited before the next is made. Pipelined calls are made in
windows of 1,000 that end in one ``asyncio.gather``.

Run it with ``python -m benchmarks.tasks``.
"""

from typing import Final

from benchmarks._cases import (
    DASK,
    FLOOR,
    OURS,
    POOL,
    RAY,
    Case,
    Plan,
    Target,
)
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job
from benchmarks._traffic import SECTIONS, UNITS, panels

_GOALS: Final = {
    "rate": (Target(bound=50_000), Target(bound=4.0, against=POOL)),
    "p50": (Target(bound=2.5, against=FLOOR),),
}

_NOTES = (
    "floor: msgpack frames over a socket pair to one far end, with a future for each "
    "call and no pool; see benchmarks.calls.",
    "Everybody has two processes to run calls in, and is left to the scheduler. "
    "process pool: ProcessPoolExecutor, each call a chunk of its own. Ray: the better "
    "one of ray.get and await. distributed: windows by one map and one gather.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    trips, windows = (600, 15) if scale.is_quick else (3000, 40)
    fast = {"trips": trips, "windows": windows, "workers": 2}
    slow = {"trips": trips // 3, "windows": windows // 5, "workers": 2}
    # A round trip of it takes ten milliseconds, a window three seconds.
    slower = {"trips": trips // 6, "windows": 2, "workers": 2}
    jobs = [
        Job(name=OURS, subject="tasks_actorlib", arguments=fast),
        Job(
            name=FLOOR,
            subject="calls_floor",
            arguments={**fast, "method": "blocking", "apart": True},
        ),
    ]
    jobs += [
        Job(name=POOL, subject="calls_pool", arguments=slow, peer="stdlib"),
        Job(name=RAY, subject="tasks_ray", arguments=slow, peer="ray"),
        Job(
            name=DASK,
            subject="tasks_distributed",
            arguments=slower,
            peer="distributed",
        ),
    ]
    cases = [
        Case(
            section=section,
            title="a function that gives back what it is given",
            unit=UNITS[figure],
            cells={job.name: f"{job.name}/{figure}" for job in jobs},
            targets=_GOALS.get(figure, ()),
        )
        for figure, section in SECTIONS.items()
    ]
    return Plan(
        name="tasks",
        question="Calls of remote functions",
        notes=_NOTES,
        jobs=jobs,
        cases=cases,
        panels=panels(cases),
    )


if __name__ == "__main__":
    conduct(make_plan)
