"""The floor of one array to many: one copy of it, into shared memory once used."""

import asyncio
import mmap
from typing import Any

import numpy as np

from benchmarks.subjects._report import arguments, report
from benchmarks.subjects._sharing import shared


async def _measured(nbytes: int, actors: int, times: int) -> dict[str, float]:
    del actors  # they would map the same memory
    with mmap.mmap(-1, nbytes) as memory:

        async def give(array: Any) -> None:
            np.frombuffer(memory, dtype=np.uint8)[: len(array)] = array

        async def drop() -> None:
            """The memory stays, to be used again."""

        return await shared(give, drop, nbytes, times)


if __name__ == "__main__":
    report(asyncio.run(_measured(**arguments())))
