"""Large arrays as arguments and results of an actor."""

from typing import Any

import numpy as np

import actorlib
from benchmarks.subjects._payload import Load, moved
from benchmarks.subjects._report import arguments, report


@actorlib.remote
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
    options: Any = {"share_above": load.above} if load.above else {}
    async with actorlib.init(object_store_memory=8 << 30, **options):
        sink = Sink.remote()

        async def call(method: str, *given: object) -> object:
            return await getattr(sink, method).remote(*given)

        return await moved(call, load)


if __name__ == "__main__":
    report(actorlib.run(_measured(Load(**arguments()))))
