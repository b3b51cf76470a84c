"""How many calls of one method a second there can be if all are made at once.

Run it with ``python -m benchmarks.batches``.
"""

import time
from typing import Any, Final

from benchmarks._cases import (
    OURS,
    POOL,
    XOSCAR,
    Case,
    Job,
    Panel,
    Plan,
    Scale,
    Target,
    Unit,
)
from benchmarks._subject import Figures, at_once, main, middle

_SIZES = (1_000, 10_000, 100_000)

_NOTES = (
    "actorlib: h.echo.map(items). xoscar: batch of an extensible method that has no "
    "batch of its own, so that every call is run. process pool: Pool(1).map with all "
    "items in one chunk. Ray and distributed have nothing of the kind for actors.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    sizes = _SIZES[:2] if scale.is_quick else _SIZES
    told = {"sizes": sizes, "times": 5 if scale.is_quick else 20}
    cases = [
        Case(
            section="calls of one method, all at once",
            title=f"{size:,}",
            unit=Unit(name="calls/s", more_is_better=True),
            cells={column: f"{column}/rate {size}" for column in (OURS, XOSCAR, POOL)},
            targets=(Target(bound=500_000),) if size == _SIZES[1] else (),
        )
        for size in sizes
    ]
    return Plan(
        name="batches",
        question="Many calls at once",
        notes=_NOTES,
        jobs=[
            Job(name=OURS, subject="batches.actorlib", arguments=told),
            Job(name=XOSCAR, subject="batches.xoscar", arguments=told, peer="xoscar"),
            Job(name=POOL, subject="batches.pool", arguments=told, peer="stdlib"),
        ],
        cases=cases,
        panels=[Panel(title="calls a second", cases=cases)],
    )


class Echo:
    """An actor that gives back what it gets."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


def _echo(value: int) -> int:
    return value


def measure_actorlib(sizes: list[int], times: int) -> Figures:
    """Many calls of one method, made at once by ``map``."""
    import actorlib

    async def measured() -> Figures:
        metrics: Figures = {}
        async with actorlib.init():
            method: Any = actorlib.remote(Echo).remote().echo
            for size in sizes:
                rates: list[float] = []
                for _ in range(times):
                    begun = time.perf_counter()
                    answers = await method.map(range(size))
                    rates.append(at_once(answers, size, time.perf_counter() - begun))
                metrics[f"rate {size}"] = middle(rates)
        return metrics

    return actorlib.run(measured())


def measure_xoscar(sizes: list[int], times: int) -> Figures:
    """Many calls of one method, made at once by ``batch``.

    The method is extensible and has no batch of its own, so each call is run by itself,
    as it is in actorlib.
    """
    import uvloop
    import xoscar

    from benchmarks._xoscar import placed, pool_of

    class Extensible(xoscar.StatelessActor):
        @xoscar.extensible
        def echo(self, value: int) -> int:
            return value

    async def measured() -> Figures:
        metrics: Figures = {}
        async with pool_of(1) as address:
            method = (await placed(Extensible, address)).echo
            for size in sizes:
                rates: list[float] = []
                for _ in range(times):
                    begun = time.perf_counter()
                    answers = await method.batch(*map(method.delay, range(size)))
                    rates.append(at_once(answers, size, time.perf_counter() - begun))
                metrics[f"rate {size}"] = middle(rates)
        return metrics

    return uvloop.run(measured())


def measure_pool(sizes: list[int], times: int) -> Figures:
    """Many calls of one function, sent to one worker as one chunk."""
    import multiprocessing

    metrics: Figures = {}
    with multiprocessing.get_context("fork").Pool(1) as pool:
        for size in sizes:
            rates: list[float] = []
            for _ in range(times):
                begun = time.perf_counter()
                answers = pool.map(_echo, range(size), chunksize=size)
                rates.append(at_once(answers, size, time.perf_counter() - begun))
            metrics[f"rate {size}"] = middle(rates)
    return metrics


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "xoscar": measure_xoscar,
    "pool": measure_pool,
}
"""Who is measured, each in an interpreter of its own."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
