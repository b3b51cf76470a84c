"""Waves of fractional actors to their first answers."""

import asyncio
import importlib
import os
import time
from collections.abc import Sequence
from typing import Literal

import actorlib
from benchmarks.subjects._report import Wave, arguments, distinct, report


@actorlib.remote(num_gpus=0.01)
class Idle:
    """An actor that does nothing but say where it is."""

    def __init__(self, imports: Sequence[str]) -> None:
        for name in imports:
            importlib.import_module(name)

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


async def _measured(wave: Wave) -> dict[str, float]:
    metrics: dict[str, float] = {}
    begun = time.perf_counter()
    method: Literal["spawn", "template"]
    method = "spawn" if wave.method == "spawn" else "template"
    runtime = actorlib.init(num_gpus=8, start_method=method, preload=wave.preloads)
    async with runtime:
        metrics["start"] = time.perf_counter() - begun
        for name in ("cold", "second")[: wave.waves]:
            begun = time.perf_counter()
            actors = [Idle.remote(wave.imports) for _ in range(wave.size)]
            pids = await asyncio.gather(*(actor.pid.remote() for actor in actors))
            metrics[name] = wave.size / (time.perf_counter() - begun)
            distinct(pids, wave.size)
            begun = time.perf_counter()
            await asyncio.gather(*(actorlib.kill(actor) for actor in actors))
            metrics["down"] = wave.size / (time.perf_counter() - begun)
    return metrics


if __name__ == "__main__":
    report(actorlib.run(_measured(Wave(**arguments()))))
