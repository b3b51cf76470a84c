"""Measures the rate of items from a generator to its reader.

Run it with ``python -m benchmarks.streams``.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

from benchmarks._cases import (
    OURS,
    RAY,
    XOSCAR,
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
    "One reader, one generator method, small numbers, default backpressure. actorlib "
    "and Ray return a ref for each item, which is awaited (Ray: the better of ray.get "
    "and await); xoscar fetches each item on request. distributed and the standard "
    "library have no equivalent.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    many, few = (20_000, 1_000) if scale.is_quick else (100_000, 3_000)
    cases = [
        Case(
            section="one stream",
            title=f"{kind} generator",
            unit=Unit(name="items/s", more_is_better=True),
            cells={column: f"{column}/{kind} rate" for column in (OURS, RAY, XOSCAR)},
            targets=(Target(bound=100_000),),
        )
        for kind in ("sync", "async")
    ]
    return Plan(
        name="streams",
        question="Items of a stream",
        notes=_NOTES,
        jobs=[
            Job(
                name=name,
                subject=subject,
                arguments={"count": count, "times": 3},
                peer=peer,
            )
            for name, subject, count, peer in (
                (OURS, "streams.actorlib", many, ""),
                (RAY, "streams.ray", few, "ray"),
                (XOSCAR, "streams.xoscar", few // 3, "xoscar"),
            )
        ],
        cases=cases,
        panels=[Panel(title="items a second", cases=cases, is_logarithmic=True)],
    )


class Plain:
    """Gives items, one after the other."""

    def items(self, count: int) -> Iterator[int]:
        """By a plain generator."""
        for number in range(count):  # noqa: UP028  # Ray sends into it
            yield number


class Looped:
    """Gives items, one after the other."""

    async def items(self, count: int) -> AsyncIterator[int]:
        """By an async one."""
        for number in range(count):
            yield number


async def _rates(
    read: Callable[[int], Awaitable[int]], count: int, times: int
) -> list[float]:
    """Items a second, each time; the first, shorter time is left out."""
    rates: list[float] = []
    for size in (count // 10, *[count] * times):
        begun = time.perf_counter()
        found = await read(size)
        rates.append(size / (time.perf_counter() - begun))
        if found != size:
            raise RuntimeError(f"{found} of {size} items came")
    return rates[1:]


def measure_actorlib(count: int, times: int) -> Figures:
    """Items of a generator, read as they come."""
    import actorlib

    async def measured() -> Figures:
        metrics: Figures = {}
        async with actorlib.init():
            for name, kind in (("sync", Plain), ("async", Looped)):
                source: Any = actorlib.remote(kind).remote()

                async def read(size: int, items: Any = source.items) -> int:
                    last = -1
                    async for ref in items.remote(size):
                        last = await ref
                    return last + 1

                metrics[f"{name} rate"] = middle(await _rates(read, count, times))
        return metrics

    return actorlib.run(measured())


def measure_ray(count: int, times: int) -> Figures:
    """Items of a streaming generator, by ``ray.get`` or by ``await``."""
    import ray

    from benchmarks._ray import cluster

    metrics: Figures = {}
    with cluster():
        for name, kind in (("sync", Plain), ("async", Looped)):
            source: Any = ray.remote(num_cpus=0)(kind).remote()

            async def got(size: int, items: Any = source.items) -> int:
                return len([ray.get(ref) for ref in items.remote(size)])

            async def awaited(size: int, items: Any = source.items) -> int:
                return len([await ref async for ref in items.remote(size)])

            both = [asyncio.run(_rates(read, count, times)) for read in (got, awaited)]
            better = [max(pair) for pair in zip(*both, strict=True)]
            metrics[f"{name} rate"] = middle(better)
    return metrics


def measure_xoscar(count: int, times: int) -> Figures:
    """Items of a generator, each fetched when it is asked for."""
    import uvloop
    import xoscar

    from benchmarks._xoscar import placed, pool_of

    class Source(xoscar.StatelessActor):
        @xoscar.generator
        def items(self, count: int) -> Iterator[int]:
            yield from range(count)

        @xoscar.generator
        async def looped(self, count: int) -> AsyncIterator[int]:
            for number in range(count):
                yield number

    async def measured() -> Figures:
        metrics: Figures = {}
        async with pool_of(1) as address:
            source = await placed(Source, address)
            for name, method in (("sync", source.items), ("async", source.looped)):

                async def read(size: int, items: Any = method) -> int:
                    return len([item async for item in await items(size)])

                metrics[f"{name} rate"] = middle(await _rates(read, count, times))
        return metrics

    return uvloop.run(measured())


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "ray": measure_ray,
    "xoscar": measure_xoscar,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
