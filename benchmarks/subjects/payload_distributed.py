"""dask.distributed: large arrays as arguments and results of an actor."""

import asyncio
from typing import Any

import numpy as np

from benchmarks.subjects._distributed import client_of
from benchmarks.subjects._payload import Load, moved
from benchmarks.subjects._report import arguments, report


class Sink:
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
    async with client_of(1) as client:
        sink = await client.submit(Sink, actor=True)

        async def call(method: str, *given: object) -> object:
            return await getattr(sink, method)(*given)

        return await moved(call, load)


if __name__ == "__main__":
    report(asyncio.run(_measured(Load(**arguments()))))
