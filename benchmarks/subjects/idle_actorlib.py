"""Idle actors: memory, what there is beside them, and the CPU of all."""

import asyncio
import os

import actorlib
from benchmarks.subjects._idle import Rest
from benchmarks.subjects._report import arguments, distinct, report


@actorlib.remote
class Where:
    """An actor that says where it is."""

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


async def _measured(actors: int, settle: float, seconds: float) -> dict[str, float]:
    async with actorlib.init():
        handles = [Where.remote() for _ in range(actors)]
        pids = await asyncio.gather(*(handle.pid.remote() for handle in handles))
        distinct(pids, actors)
        await asyncio.sleep(settle)
        rest = Rest(pids)
        await asyncio.sleep(seconds)
        return rest.figures(seconds)


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
