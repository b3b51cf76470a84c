"""xoscar: large arrays as arguments and results of an actor.

They travel as buffers beside the pickle; on one machine through a Unix socket.
"""

import uvloop
import xoscar

from benchmarks.subjects._payload import Load, Sink, moved
from benchmarks.subjects._report import arguments, report
from benchmarks.subjects._xoscar import placed, pool_of


class _Sink(Sink, xoscar.StatelessActor):
    """The same, as xoscar has it."""


async def _measured(load: Load) -> dict[str, float]:
    async with pool_of(1) as address:
        sink = await placed(_Sink, address)

        async def call(method: str, *given: object) -> object:
            return await getattr(sink, method)(*given)

        return await moved(call, load)


if __name__ == "__main__":
    report(uvloop.run(_measured(Load(**arguments()))))
