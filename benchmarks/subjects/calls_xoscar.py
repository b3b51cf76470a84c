"""xoscar: calls of a plain and of an async method."""

import uvloop
import xoscar

from benchmarks.subjects._calls import awaited
from benchmarks.subjects._report import Traffic, arguments, prefixed, report
from benchmarks.subjects._xoscar import placed, pool_of


class Plain(xoscar.StatelessActor):
    """An actor with a plain method."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


class Looped(xoscar.StatelessActor):
    """An actor with an async method."""

    async def echo(self, value: int) -> int:
        """The value."""
        return value


async def _measured(traffic: Traffic) -> dict[str, float]:
    metrics: dict[str, float] = {}
    async with pool_of(1) as address:
        for name, kind in (("sync", Plain), ("async", Looped)):
            actor = await placed(kind, address)
            metrics |= prefixed(name, await awaited(actor.echo, traffic))
    return metrics


if __name__ == "__main__":
    report(uvloop.run(_measured(Traffic(**arguments()))))
