"""Actors that are all alive at once, and what is left when they are dropped."""

import asyncio
import os
import time

import actorlib
from benchmarks.subjects._growth import at_rest, of_process
from benchmarks.subjects._processes import memory_each
from benchmarks.subjects._report import arguments, distinct, report


@actorlib.remote
class Idle:
    """An actor that does nothing but say where it is."""

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


async def _all_at_once(count: int) -> dict[str, float]:
    begun = time.perf_counter()
    before = of_process(os.getpid())
    actors = [Idle.remote() for _ in range(count)]
    pids = await asyncio.gather(*(actor.pid.remote() for actor in actors))
    metrics = {"rate": count / (time.perf_counter() - begun)}
    distinct(pids, count)
    begun = time.perf_counter()
    again = await asyncio.gather(*(actor.pid.remote() for actor in actors))
    metrics["calls"] = count / (time.perf_counter() - begun)
    if again != pids:
        raise RuntimeError("an actor answered from another process than before")
    for name, value in of_process(os.getpid()).items():
        metrics[f"{name} each"] = (value - before[name]) / count
    return metrics | memory_each(pids)


async def _measured(count: int) -> dict[str, float]:
    async with actorlib.init() as runtime:
        # What is made once and kept; the second time finds the memory of the first.
        fresh = await _all_at_once(count)
        first = await at_rest(runtime)
        metrics = await _all_at_once(count)
        begun = time.perf_counter()
        last = await at_rest(runtime)
        metrics["down"] = count / (time.perf_counter() - begun)
    metrics |= {"memory each": fresh["memory each"]} if "memory each" in fresh else {}
    return metrics | {f"{name} growth": last[name] - first[name] for name in first}


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
