"""xoscar: many calls of one method, made at once by ``batch``.

The method is extensible and has no batch of its own, so each call is run by itself, as
it is in actorlib.
"""

import time

import uvloop
import xoscar

from benchmarks.subjects._report import arguments, at_once, middle, report
from benchmarks.subjects._xoscar import placed, pool_of


class Echo(xoscar.StatelessActor):
    """An actor that gives back what it gets."""

    @xoscar.extensible
    def echo(self, value: int) -> int:
        """The value."""
        return value


async def _measured(sizes: list[int], times: int) -> dict[str, float]:
    metrics: dict[str, float] = {}
    async with pool_of(1) as address:
        method = (await placed(Echo, address)).echo
        for size in sizes:
            rates: list[float] = []
            for _ in range(times):
                begun = time.perf_counter()
                answers = await method.batch(*map(method.delay, range(size)))
                rates.append(at_once(answers, size, time.perf_counter() - begun))
            metrics[f"rate {size}"] = middle(rates)
    return metrics


if __name__ == "__main__":
    report(uvloop.run(_measured(**arguments())))
