"""xoscar: items of a generator, each fetched when it is asked for."""

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvloop
import xoscar

from benchmarks.subjects._report import arguments, middle, report
from benchmarks.subjects._xoscar import placed, pool_of


class Source(xoscar.StatelessActor):
    """Gives items, one after the other."""

    @xoscar.generator
    def items(self, count: int) -> Iterator[int]:
        """By a plain generator."""
        yield from range(count)

    @xoscar.generator
    async def looped(self, count: int) -> AsyncIterator[int]:
        """By an async one."""
        for number in range(count):
            yield number


async def _rate(method: Any, count: int) -> float:
    begun = time.perf_counter()
    found = [item async for item in await method(count)]
    return len(found) / (time.perf_counter() - begun)


async def _measured(count: int, times: int) -> dict[str, float]:
    metrics: dict[str, float] = {}
    async with pool_of(1) as address:
        source = await placed(Source, address)
        for kind, method in (("sync", source.items), ("async", source.looped)):
            await _rate(method, count // 10)
            rates = [await _rate(method, count) for _ in range(times)]
            metrics[f"{kind} rate"] = middle(rates)
    return metrics


if __name__ == "__main__":
    report(uvloop.run(_measured(**arguments())))
