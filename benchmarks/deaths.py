"""Measures the time until all callers of a killed actor have an error.

Run it with ``python -m benchmarks.deaths``.
"""

import asyncio
import os
import signal
import time
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

_CALLERS = 100

_NOTES = (
    "From SIGKILL until the last caller has its error. actorlib and Ray: an async "
    "actor that runs all calls, each awaited by its own caller. process pool: its only "
    "worker, which runs one call while the others wait.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    times = {"callers": _CALLERS, "times": 10 if scale.is_quick else 30}
    few = {"callers": _CALLERS, "times": 3 if scale.is_quick else 10}
    case = Case(
        section="death",
        title=f"told to {_CALLERS} callers",
        unit=Unit(name="ms", scale=1e3),
        cells={column: f"{column}/time" for column in (OURS, RAY, POOL)},
        targets=(Target(bound=0.005),),
    )
    return Plan(
        name="deaths",
        question="The death of an actor",
        notes=_NOTES,
        jobs=[
            Job(name=OURS, subject="deaths.actorlib", arguments=times),
            Job(name=RAY, subject="deaths.ray", arguments=few, peer="ray"),
            Job(name=POOL, subject="deaths.pool", arguments=times, peer="stdlib"),
        ],
        cases=[case],
        panels=[Panel(title=case.title, cases=[case], is_logarithmic=True)],
    )


class Silent:
    """An actor that does not answer."""

    def __init__(self) -> None:
        self._asked = 0
        self._changed = asyncio.Event()

    async def never(self) -> None:
        """Waits for ever."""
        self._asked += 1
        self._changed.set()
        await asyncio.Event().wait()

    async def pid(self, asked: int) -> int:
        """The process it lives in, once so many wait."""
        while self._asked < asked:
            self._changed.clear()
            await self._changed.wait()
        return os.getpid()


async def _told(silent: Any, callers: int, death: type[Exception]) -> float:
    """Seconds from the death of an actor until all who wait have its error.

    Args:
        silent: The handle of a ``Silent``.
        callers: How many wait.
        death: What they are told.
    """

    async def call() -> float:
        try:
            await silent.never.remote()
        except death:
            return time.perf_counter()
        raise RuntimeError("an answer from an actor that has none")

    waiting = [asyncio.ensure_future(call()) for _ in range(callers)]
    await asyncio.sleep(0)
    pid = await silent.pid.remote(callers)
    begun = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    return max(await asyncio.gather(*waiting)) - begun


def measure_actorlib(callers: int, times: int) -> Figures:
    """An actor is killed from outside while many wait for it."""
    import actorlib
    from actorlib.exceptions import ActorDiedError

    silent: Any = actorlib.remote(max_concurrency=1000)(Silent)

    async def measured() -> list[float]:
        async with actorlib.init():
            return [
                await _told(silent.remote(), callers, ActorDiedError)
                for _ in range(times)
            ]

    return {"time": middle(actorlib.run(measured()))}


def measure_ray(callers: int, times: int) -> Figures:
    """The same; they wait by ``await``.

    To wait for all refs in one thread would tell the first alone.
    """
    import ray
    from ray.exceptions import RayActorError

    from benchmarks._ray import cluster

    async def measured() -> list[float]:
        silent: Any = ray.remote(num_cpus=0, max_concurrency=1000)(Silent)
        return [
            await _told(silent.remote(), callers, RayActorError) for _ in range(times)
        ]

    with cluster():
        return {"time": middle(asyncio.run(measured()))}


def measure_pool(callers: int, times: int) -> Figures:
    """A pool's only worker is killed while many wait for it."""
    return {"time": middle([_told_of_worker(callers) for _ in range(times)])}


def _told_of_worker(callers: int) -> float:
    import multiprocessing
    from concurrent.futures import Future, ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool

    ends: list[float] = []

    def told(future: Future[None]) -> None:
        if isinstance(future.exception(), BrokenProcessPool):
            ends.append(time.perf_counter())

    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        pid = pool.submit(os.getpid).result()
        calls = [pool.submit(signal.pause) for _ in range(callers)]
        for call in calls:
            call.add_done_callback(told)
        begun = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        wait(calls)
    if len(ends) != callers:
        raise RuntimeError(f"{len(ends)} of {callers} were told")
    return max(ends) - begun


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "ray": measure_ray,
    "pool": measure_pool,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
