"""Measures the cost of idle actors: memory, processes beside them, CPU.

Run it with ``python -m benchmarks.idle``.
"""

import os
import time
from collections.abc import Collection
from typing import Any, Final

from benchmarks._cases import (
    OURS,
    POOL,
    RAY,
    Case,
    Job,
    Panel,
    Plan,
    Scale,
    Target,
    Unit,
)
from benchmarks._processes import children, cpu_of, descendants, memory_of
from benchmarks._subject import Figures, distinct, main

_MEMORY = Unit(name="MiB", scale=2**-20)
_COUNT = Unit(name="")
_SHARE = Unit(name="% CPU", scale=100)

_ACTORS = 16

_ROWS = (
    ("memory of each actor", _MEMORY, "actor", 6 * 2**20),
    ("memory beside actors and owner", _MEMORY, "beside", 15 * 2**20),
    ("processes beside actors and owner", _COUNT, "processes", 1),
    ("CPU of all processes", _SHARE, "cpu", 0.001),
)
"""A title, its unit, the subject's name of it, and what is aimed at."""

_NOTES = (
    "Memory is the proportional set size: shared bytes are divided among the "
    "processes. CPU: of all processes including the owner, as a share of one CPU. The "
    "target is zero, but reading the figures takes a millisecond or two.",
    "process pool: the same number of forked workers.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    told = {
        "actors": _ACTORS,
        "settle": 1.0,
        "seconds": 4.0 if scale.is_quick else 20.0,
    }
    cases = [
        Case(
            section=f"{_ACTORS} idle actors",
            title=title,
            unit=unit,
            cells={column: f"{column}/{figure}" for column in (OURS, RAY, POOL)},
            targets=(Target(bound=bound),),
        )
        for title, unit, figure, bound in _ROWS
    ]
    return Plan(
        name="idle",
        question="What idle actors cost",
        notes=_NOTES,
        jobs=[
            Job(name=OURS, subject="idle.actorlib", arguments=told),
            Job(name=RAY, subject="idle.ray", arguments=told, peer="ray"),
            Job(name=POOL, subject="idle.pool", arguments=told, peer="stdlib"),
        ],
        cases=cases,
        panels=[Panel(title="memory", cases=cases[:2], is_logarithmic=True)],
    )


class Where:
    """An actor that says where it is."""

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


class _Rest:
    """What the actors of this process use at rest, and what there is beside them."""

    def __init__(self, actors: Collection[int]) -> None:
        """Begins to count.

        Args:
            actors: Their processes, at rest by now.
        """
        self._actors = set(actors)
        # This process first at the end and last here, or it would count the counting.
        self._others_cpu = cpu_of(descendants(os.getpid()))
        self._own_cpu = cpu_of([os.getpid()])

    def figures(self, seconds: float) -> Figures:
        """After so many seconds: memory, processes, the share of a CPU of all.

        ``beside`` is everything but the actors and this process.
        """
        spent = cpu_of([os.getpid()]) - self._own_cpu
        others = descendants(os.getpid())
        spent += cpu_of(others) - self._others_cpu
        beside = set(others) - self._actors
        return {
            "cpu": spent / seconds,
            "actor": memory_of(self._actors) / len(self._actors),
            "beside": memory_of(beside),
            "processes": float(len(beside)),
        }


def measure_actorlib(actors: int, settle: float, seconds: float) -> Figures:
    """Idle actors: memory, what there is beside them, and the CPU of all."""
    import asyncio

    import actorlib

    async def measured() -> Figures:
        made: Any = actorlib.remote(Where)
        async with actorlib.init():
            handles = [made.remote() for _ in range(actors)]
            pids = await asyncio.gather(*(handle.pid.remote() for handle in handles))
            distinct(pids, actors)
            await asyncio.sleep(settle)
            rest = _Rest(pids)
            await asyncio.sleep(seconds)
            return rest.figures(seconds)

    return actorlib.run(measured())


def measure_ray(actors: int, settle: float, seconds: float) -> Figures:
    """Idle actors, the daemons beside them, and the CPU of all."""
    import ray

    from benchmarks._ray import cluster

    made: Any = ray.remote(num_cpus=0)(Where)
    with cluster():
        handles = [made.remote() for _ in range(actors)]
        pids = ray.get([handle.pid.remote() for handle in handles])
        distinct(pids, actors)
        time.sleep(settle)
        rest = _Rest(pids)
        time.sleep(seconds)
        return rest.figures(seconds)


def measure_pool(actors: int, settle: float, seconds: float) -> Figures:
    """Idle workers, made by fork."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(actors, context) as pool:
        pool.submit(os.getpid).result()
        pids = distinct(children(os.getpid()), actors)
        time.sleep(settle)
        rest = _Rest(pids)
        time.sleep(seconds)
        return rest.figures(seconds)


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "ray": measure_ray,
    "pool": measure_pool,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
