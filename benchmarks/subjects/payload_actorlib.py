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
            array = np.ones(spread, dtype=np.uint8)
            sinks = [Sink.remote() for _ in range(8)]
            await asyncio.gather(*sinks)
            before = runtime.snapshot().object_store["used"]
            begun = time.perf_counter()
            await asyncio.gather(*(sink.last.remote(array) for sink in sinks))
            metrics["fan-out time"] = time.perf_counter() - begun
            after = runtime.snapshot().object_store["used"]
            metrics["fan-out memory"] = float(max(after, before))
    return metrics


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
