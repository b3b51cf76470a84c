"""dask.distributed: calls of a plain and of an async method of an actor."""

import asyncio

from benchmarks.subjects._calls import awaited
from benchmarks.subjects._distributed import client_of
from benchmarks.subjects._report import Traffic, arguments, prefixed, report


class Plain:
    """An actor with a plain method."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


class Looped:
    """An actor with an async method."""

    async def echo(self, value: int) -> int:
        """The value."""
        return value


async def _measured(traffic: Traffic) -> dict[str, float]:
    metrics: dict[str, float] = {}
    async with client_of(1) as client:
        for name, kind in (("sync", Plain), ("async", Looped)):
            actor = await client.submit(kind, actor=True)
            metrics |= prefixed(name, await awaited(actor.echo, traffic))
    return metrics


if __name__ == "__main__":
    report(asyncio.run(_measured(Traffic(**arguments()))))
