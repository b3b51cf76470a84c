"""Ray: an actor is killed from outside while many wait for it.

They wait by ``await``; to wait for all refs in one thread would tell the first alone.
"""

import asyncio
import os
import signal
import time

import ray
from ray.exceptions import RayActorError

from benchmarks.subjects._ray import cluster
from benchmarks.subjects._report import arguments, middle, report


@ray.remote(num_cpus=0, max_concurrency=1000)
class Silent:
    """An actor that does not answer."""

    def __init__(self) -> None:
        self._asked = 0
        self._changed = asyncio.Event()

    async def never(self) -> None:
        """Waits for ever."""
        self._asked += 1
        self._changed.set()
        await asyncio.Event().wait()

    async def pid(self, asked: int) -> int:
        """The process it lives in, once so many wait."""
        while self._asked < asked:
            self._changed.clear()
            await self._changed.wait()
        return os.getpid()


async def _told(callers: int) -> float:
    actor = Silent.remote()

    async def call() -> float:
        try:
            await actor.never.remote()
        except RayActorError:
            return time.perf_counter()
        raise RuntimeError("an answer from an actor that has none")

    waiting = [asyncio.ensure_future(call()) for _ in range(callers)]
    await asyncio.sleep(0)
    pid = await actor.pid.remote(callers)
    begun = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    return max(await asyncio.gather(*waiting)) - begun


async def _times(callers: int, times: int) -> list[float]:
    return [await _told(callers) for _ in range(times)]


def _measured(callers: int, times: int) -> dict[str, float]:
    with cluster():
        return {"time": middle(asyncio.run(_times(callers, times)))}


if __name__ == "__main__":
    report(_measured(**arguments()))
