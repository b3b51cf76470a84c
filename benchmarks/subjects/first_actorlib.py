"""The first answer of one actor, again and again in an idle runtime."""

import asyncio
import time

import actorlib
from benchmarks.subjects._report import arguments, middle, report

_REST = 0.05
"""Seconds until nothing is left to do of the actor before."""


@actorlib.remote(num_gpus=0.01)
class Echo:
    """An actor that gives back what it gets."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


async def _measured(times: int) -> dict[str, float]:
    took: list[float] = []
    async with actorlib.init(num_gpus=8):
        for value in range(times):
            await asyncio.sleep(_REST)
            begun = time.perf_counter()
            actor = Echo.remote()
            await actor.echo.remote(value)
            took.append(time.perf_counter() - begun)
            await actorlib.kill(actor)
    return {"time": middle(took), "fastest": min(took)}


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
