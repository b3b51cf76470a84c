"""Measures the rate of calls of one method that are made at once.

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
_ITEMS = 50_000
_CHUNK = 100
_MAPS = {
    "function.map": "function",
    "function.map, chunksize='auto'": "function auto",
    "pool.map": "pool",
    "pool.map, chunksize='auto'": "pool auto",
}

_NOTES = (
    "actorlib: h.echo.map(items). xoscar: batch of an extensible method without its "
    "own batch, so that every call runs. process pool: Pool(1).map with all items in "
    "one chunk. Ray and distributed have no equivalent for actors.",
    "Maps: iteration over 50,000 small items in chunks of 100 by two workers. process "
    "pool: Pool(2).imap_unordered.",
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
    rounds = {"times": 3 if scale.is_quick else 10}
    maps = [
        Case(
            section="items through a map",
            title=title,
            unit=Unit(name="items/s", more_is_better=True),
            cells={OURS: f"maps/{figure}", POOL: "imap/rate"},
            targets=(Target(bound=0.5, against=POOL),),
        )
        for title, figure in _MAPS.items()
    ]
    return Plan(
        name="batches",
        question="Many calls at once",
        notes=_NOTES,
        jobs=[
            Job(name=OURS, subject="batches.actorlib", arguments=told),
            Job(name=XOSCAR, subject="batches.xoscar", arguments=told, peer="xoscar"),
            Job(name=POOL, subject="batches.pool", arguments=told, peer="stdlib"),
            Job(name="maps", subject="batches.maps", arguments=rounds),
            Job(name="imap", subject="batches.imap", arguments=rounds, peer="stdlib"),
        ],
        cases=[*cases, *maps],
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


def measure_maps(times: int) -> Figures:
    """Small items through the maps of a function and of a pool of two actors."""
    import actorlib

    async def measured() -> Figures:
        rates: dict[str, list[float]] = {}
        async with actorlib.init(num_cpus=2):
            function = actorlib.remote(_echo)
            actors = actorlib.remote(num_cpus=0)(Echo)
            pool: Any = actorlib.ActorPool([actors.remote(), actors.remote()])

            def send(actor: Any, value: int) -> Any:
                return actor.echo.remote(value)

            for _ in range(times):
                for name in _MAPS.values():
                    chunks: Any = "auto" if name.endswith("auto") else _CHUNK
                    begun = time.perf_counter()
                    results = (
                        pool.map(send, range(_ITEMS), chunksize=chunks)
                        if name.startswith("pool")
                        else function.map(range(_ITEMS), chunksize=chunks)
                    )
                    answers = [value async for value in results]
                    took = time.perf_counter() - begun
                    rates.setdefault(name, []).append(at_once(answers, _ITEMS, took))
        return {name: middle(each) for name, each in rates.items()}

    return actorlib.run(measured())


def measure_imap(times: int) -> Figures:
    """Small items through ``imap_unordered`` of two workers."""
    import multiprocessing

    rates: list[float] = []
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for _ in range(times):
            begun = time.perf_counter()
            answers = list(pool.imap_unordered(_echo, range(_ITEMS), chunksize=_CHUNK))
            took = time.perf_counter() - begun
            rates.append(at_once(sorted(answers), _ITEMS, took))
    return {"rate": middle(rates)}


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "maps": measure_maps,
    "imap": measure_imap,
    "xoscar": measure_xoscar,
    "pool": measure_pool,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
