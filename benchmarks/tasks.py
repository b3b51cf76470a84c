"""Measures calls of a trivial function: their rate, and their time.

A round trip is one call awaited before the next is made. Pipelined calls are made in
windows of 1,000 that end in one ``asyncio.gather``.

Run it with ``python -m benchmarks.tasks``.
"""

import asyncio
import time
from typing import Any, Final

from benchmarks._cases import (
    DASK,
    FLOOR,
    OURS,
    POOL,
    RAY,
    Case,
    Job,
    Plan,
    Scale,
    Target,
)
from benchmarks._subject import WINDOW, Figures, main, pipelined, round_trips
from benchmarks._traffic import SECTIONS, UNITS, Traffic, awaited, panels

_GOALS: Final = {
    "rate": (Target(bound=50_000), Target(bound=4.0, against=POOL)),
    "p50": (Target(bound=2.5, against=FLOOR),),
}

_NOTES = (
    "floor: msgpack frames over a socket pair to one far end, with a future for each "
    "call and no pool; see benchmarks.calls.",
    "Each subject has two processes to run calls in, not bound to a CPU. process pool: "
    "ProcessPoolExecutor, each call in its own chunk. Ray: the better of ray.get and "
    "await. distributed: windows by one map and one gather.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    trips, windows = (600, 15) if scale.is_quick else (3000, 40)
    fast = {"trips": trips, "windows": windows, "workers": 2}
    slow = {"trips": trips // 3, "windows": windows // 5, "workers": 2}
    # A round trip of it takes ten milliseconds, a window three seconds.
    slower = {"trips": trips // 6, "windows": 2, "workers": 2}
    jobs = [
        Job(name=OURS, subject="tasks.actorlib", arguments=fast),
        Job(
            name=FLOOR,
            subject="calls.floor",
            arguments={**fast, "method": "blocking", "apart": True},
        ),
    ]
    jobs += [
        Job(name=POOL, subject="calls.pool", arguments=slow, peer="stdlib"),
        Job(name=RAY, subject="tasks.ray", arguments=slow, peer="ray"),
        Job(
            name=DASK,
            subject="tasks.distributed",
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


def echo(value: int) -> int:
    """The value."""
    return value


def measure_actorlib(**told: Any) -> Figures:
    """Calls of a remote function, one after another and in windows."""
    import actorlib

    traffic = Traffic(**told)

    async def measured() -> Figures:
        async with actorlib.init(num_cpus=traffic.workers, num_gpus=0):
            return await awaited(actorlib.remote(echo).remote, traffic)

    return actorlib.run(measured())


def measure_ray(**told: Any) -> Figures:
    """Calls of a remote function."""
    import ray

    from benchmarks._ray import calls, cluster

    traffic = Traffic(**told)
    with cluster(num_cpus=traffic.workers):
        return calls(ray.remote(echo).remote, traffic)


def measure_distributed(**told: Any) -> Figures:
    """Calls of functions; windows by ``map`` and one ``gather``.

    That is what dask advises for many small calls: one message with all of them.
    """
    from benchmarks._distributed import client_of

    traffic = Traffic(**told)

    async def measured() -> Figures:
        trips: list[float] = []
        windows: list[float] = []
        async with client_of(traffic.workers) as client:
            for value in range(traffic.trips):
                begun = time.perf_counter()
                await client.submit(echo, value, pure=False)
                trips.append(time.perf_counter() - begun)
            for _ in range(traffic.windows):
                begun = time.perf_counter()
                await client.gather(client.map(echo, range(WINDOW), pure=False))
                windows.append(time.perf_counter() - begun)
        return round_trips(trips) | pipelined(windows)

    return asyncio.run(measured())


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "ray": measure_ray,
    "distributed": measure_distributed,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
