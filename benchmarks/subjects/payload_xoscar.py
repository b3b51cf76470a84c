"""xoscar: large arrays as arguments and results of an actor.

They travel as buffers beside the pickle; on one machine through a Unix socket.
"""

from typing import Any

import numpy as np
import uvloop
import xoscar

from benchmarks.subjects._payload import Load, moved
from benchmarks.subjects._report import arguments, report
from benchmarks.subjects._xoscar import placed, pool_of


class Sink(xoscar.StatelessActor):
    """Takes arrays, and gives one."""

    def last(self, array: Any) -> int:
        """The last number."""
        return int(array[-1])

    def make(self, nbytes: int) -> None:
        """Has an array ready."""
        self._array = np.ones(nbytes, dtype=np.uint8)

    def give(self) -> Any:
        """That array."""
        return self._array


async def _measured(load: Load) -> dict[str, float]:
    async with pool_of(1) as address:
        sink = await placed(Sink, address)

        async def call(method: str, *given: object) -> object:
            return await getattr(sink, method)(*given)

        return await moved(call, load)


if __name__ == "__main__":
    report(uvloop.run(_measured(Load(**arguments()))))
