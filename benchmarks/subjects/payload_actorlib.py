"""Large arrays as arguments and results of an actor, and one array to many actors."""

import asyncio
import time
from typing import Any

import numpy as np

import actorlib
from benchmarks.subjects._report import arguments, middle, report


@actorlib.remote
class Sink:
    """Takes arrays, and gives one."""

    def last(self, array: Any) -> int:
        """The last number."""
        return int(array[-1])

    def make(self, nbytes: int) -> None:
        """Has an array ready."""
        self._array = np.ones(nbytes, dtype=np.uint8)

    def give(self) -> Any:
        """That array."""
        return self._array


async def _spread(runtime: actorlib.Runtime, nbytes: int) -> tuple[float, float]:
    """One array to 8 actors at once: the time, and the shared memory in use."""
    array = np.ones(nbytes, dtype=np.uint8)
    sinks = [Sink.remote() for _ in range(8)]
    await asyncio.gather(*sinks)
    begun = time.perf_counter()
    ref = actorlib.put(array)
    await asyncio.gather(*(sink.last.remote(ref) for sink in sinks))
    took = time.perf_counter() - begun
    return took, float(runtime.snapshot().object_store["used"])


async def _measured(
    sizes: list[int], trips: int, spread: int, above: int = 0
) -> dict[str, float]:
    metrics: dict[str, float] = {}
    options: Any = {"share_above": above} if above else {}
    async with actorlib.init(object_store_memory=8 << 30, **options) as runtime:
        sink = Sink.remote()
        for size in sizes:
            array = np.ones(size, dtype=np.uint8)
            await sink.make.remote(size)
            given: list[float] = []
            got: list[float] = []
            for _ in range(max(trips // max(size // 50_000_000, 1), 5)):
                begun = time.perf_counter()
                await sink.last.remote(array)
                given.append(time.perf_counter() - begun)
            for _ in range(len(given)):
                begun = time.perf_counter()
                await sink.give.remote()
                got.append(time.perf_counter() - begun)
            metrics |= {
                f"argument {size}": middle(given),
                f"result {size}": middle(got),
            }
        await actorlib.kill(sink)
        if spread:
            metrics["fan-out time"], _ = await _spread(runtime, spread)
    if spread:  # again where nothing is warm, so that all that it takes is seen
        async with actorlib.init(object_store_memory=8 << 30, **options) as runtime:
            _, metrics["fan-out memory"] = await _spread(runtime, spread)
    return metrics


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
