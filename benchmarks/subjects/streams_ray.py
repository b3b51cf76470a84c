"""Ray: items of a streaming generator, by ``ray.get`` or by ``await``."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import ray

from benchmarks.subjects._ray import better, cluster
from benchmarks.subjects._report import arguments, middle, report


@ray.remote(num_cpus=0)
class Plain:
    """Gives items, one after the other."""

    def items(self, count: int) -> Iterator[int]:
        """By a plain generator."""
        for number in range(count):  # noqa: UP028  # Ray sends into it
            yield number


@ray.remote(num_cpus=0)
class Looped:
    """Gives items, one after the other."""

    async def items(self, count: int) -> AsyncIterator[int]:
        """By an async one."""
        for number in range(count):
            yield number


def _got(actor: Any, count: int) -> dict[str, float]:
    begun = time.perf_counter()
    found = [ray.get(ref) for ref in actor.items.remote(count)]
    return {"rate": len(found) / (time.perf_counter() - begun)}


async def _awaited(actor: Any, count: int) -> dict[str, float]:
    begun = time.perf_counter()
    found = [await ref async for ref in actor.items.remote(count)]
    return {"rate": len(found) / (time.perf_counter() - begun)}


def _measured(count: int, times: int) -> dict[str, float]:
    metrics: dict[str, float] = {}
    with cluster():
        for kind, actor in (("sync", Plain.remote()), ("async", Looped.remote())):
            _got(actor, count // 10)
            rates = [
                better(_got(actor, count), asyncio.run(_awaited(actor, count)))["rate"]
                for _ in range(times)
            ]
            metrics[f"{kind} rate"] = middle(rates)
    return metrics


if __name__ == "__main__":
    report(_measured(**arguments()))
