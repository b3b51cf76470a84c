"""Items of a generator, read as they come."""

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import actorlib
from benchmarks.subjects._report import arguments, middle, report


@actorlib.remote
class Source:
    """Gives items, one after the other."""

    def items(self, count: int) -> Iterator[int]:
        """By a plain generator."""
        yield from range(count)

    async def looped(self, count: int) -> AsyncIterator[int]:
        """By an async one."""
        for number in range(count):
            yield number


async def _rate(method: Any, count: int) -> float:
    begun = time.perf_counter()
    last = -1
    async for ref in method.remote(count):
        last = await ref
    took = time.perf_counter() - begun
    if last != count - 1:
        raise RuntimeError(f"the last of {count} items was {last}")
    return count / took


async def _measured(count: int, times: int) -> dict[str, float]:
    metrics: dict[str, float] = {}
    async with actorlib.init():
        source = Source.remote()
        for kind, method in (("sync", source.items), ("async", source.looped)):
            await _rate(method, count // 10)
            rates = [await _rate(method, count) for _ in range(times)]
            metrics[f"{kind} rate"] = middle(rates)
    return metrics


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
