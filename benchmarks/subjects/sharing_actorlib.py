"""One array to many actors by ``put``."""

import asyncio
from typing import Any

import actorlib
from benchmarks.subjects._report import arguments, report
from benchmarks.subjects._sharing import shared


@actorlib.remote
class Keeper:
    """Keeps an array."""

    def keep(self, array: Any) -> int:
        """Keeps it, and tells its last number."""
        self._array = array
        return int(array[-1])

    def drop(self) -> None:
        """Forgets it."""
        self._array = None


async def _measured(nbytes: int, actors: int, times: int) -> dict[str, float]:
    async with actorlib.init(object_store_memory=2 << 30):
        keepers = [Keeper.remote() for _ in range(actors)]

        async def give(array: object) -> None:
            ref = actorlib.put(array)
            await asyncio.gather(*(keeper.keep.remote(ref) for keeper in keepers))

        async def drop() -> None:
            await asyncio.gather(*(keeper.drop.remote() for keeper in keepers))

        return await shared(give, drop, nbytes, times)


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
