"""Measures the time of one actor to its first answer in an idle runtime.

Run it with ``python -m benchmarks.first_answer``.
"""

import os
import time
from collections.abc import Sequence
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
from benchmarks._subject import Figures, main, middle

_NOTES = (
    "A fractional actor is created, called once and killed. The next one is created "
    "when the runtime is idle.",
    "Ray starts with as many idle worker processes as CPUs, here two. The first actors "
    "use them and are the fastest; the median is of later ones.",
    "process pool: a ProcessPoolExecutor with one forked worker, from its creation to "
    "its first answer.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    times = 30 if scale.is_quick else 100
    rows = (
        ("time", "made, and its first answer: median", (Target(bound=0.003),)),
        ("fastest", "the fastest", ()),
    )
    cases = [
        Case(
            section="one actor",
            title=title,
            unit=Unit(name="ms", scale=1e3),
            cells={column: f"{column}/{figure}" for column in (OURS, RAY, POOL)},
            targets=targets,
        )
        for figure, title, targets in rows
    ]
    return Plan(
        name="first_answer",
        question="The first answer of one actor",
        notes=_NOTES,
        jobs=[
            Job(name=OURS, subject="first_answer.actorlib", arguments={"times": times}),
            Job(
                name=POOL,
                subject="first_answer.pool",
                arguments={"times": times},
                peer="stdlib",
            ),
            Job(
                name=RAY,
                subject="first_answer.ray",
                arguments={"times": 7 if scale.is_quick else 15},
                peer="ray",
            ),
        ],
        cases=cases,
        panels=[Panel(title="one actor", cases=cases, is_logarithmic=True)],
    )


_REST: Final = 0.05
"""Seconds until the runtime has finished with the previous actor."""


class Echo:
    """An actor that gives back what it gets, or says where it is."""

    def echo(self, value: int) -> int:
        """The value."""
        return value

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


def _echo(value: int) -> int:
    return value


def measure_actorlib(times: int) -> Figures:
    """The first answer of one actor, again and again in an idle runtime."""
    import asyncio

    import actorlib

    async def measured() -> list[float]:
        took: list[float] = []
        made: Any = actorlib.remote(num_gpus=0.01)(Echo)
        async with actorlib.init(num_gpus=8):
            for value in range(times):
                await asyncio.sleep(_REST)
                begun = time.perf_counter()
                actor = made.remote()
                await actor.echo.remote(value)
                took.append(time.perf_counter() - begun)
                await actorlib.kill(actor)
        return took

    return _figures(actorlib.run(measured()))


def measure_pool(times: int) -> Figures:
    """The first answer of a process pool with one worker.

    By fork, which is the fastest that it has: nothing is imported anew.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    took: list[float] = []
    context = multiprocessing.get_context("fork")
    for value in range(times):
        begun = time.perf_counter()
        with ProcessPoolExecutor(1, context) as pool:
            pool.submit(_echo, value).result()
            took.append(time.perf_counter() - begun)
    return _figures(took)


def measure_ray(times: int) -> Figures:
    """The first answer of one actor in a cluster that has nothing to do.

    Ray starts an idle worker process for each CPU in advance, and an actor that comes
    then takes one of them; it starts no others for those taken. With two CPUs the first
    two actors are the fastest, and the median is of those that come later.
    """
    import ray

    from benchmarks._processes import await_end
    from benchmarks._ray import cluster

    took: list[float] = []
    made: Any = ray.remote(num_cpus=0, num_gpus=0.01)(Echo)
    with cluster(num_cpus=2, num_gpus=8):
        for _ in range(times):
            time.sleep(1)  # so that it has nothing to do
            begun = time.perf_counter()
            actor = made.remote()
            pid = ray.get(actor.pid.remote())
            took.append(time.perf_counter() - begun)
            ray.kill(actor)
            await_end([pid])
    return _figures(took)


def _figures(took: Sequence[float]) -> Figures:
    return {"time": middle(took), "fastest": min(took)}


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "pool": measure_pool,
    "ray": measure_ray,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
