"""Actors to their first answers, a hundred at a time, while all the others live."""

import asyncio
import os
import time
from typing import Any

import actorlib
from benchmarks.subjects._report import arguments, distinct, report

_HUNDRED = 100


@actorlib.remote(num_gpus=0.001)
class Where:
    """An actor that says where it is."""

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


async def _measured(hundreds: int) -> dict[str, float]:
    metrics: dict[str, float] = {}
    pids: list[int] = []
    alive: list[actorlib.ActorHandle[Any]] = []
    async with actorlib.init(num_gpus=8):
        for hundred in range(1, hundreds + 1):
            begun = time.perf_counter()
            some = [Where.remote() for _ in range(_HUNDRED)]
            pids += await asyncio.gather(*(actor.pid.remote() for actor in some))
            rate = _HUNDRED / (time.perf_counter() - begun)
            metrics[f"rate {hundred * _HUNDRED}"] = rate
            alive += some
        distinct(pids, len(alive))
    return metrics


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
