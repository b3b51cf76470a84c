"""One array to many actors: how long it takes, and what it takes of memory."""

import os
import time
from collections.abc import Awaitable, Callable

import numpy as np

from benchmarks.subjects._processes import descendants, memory_of
from benchmarks.subjects._report import middle

Give = Callable[[object], Awaitable[None]]
Drop = Callable[[], Awaitable[None]]


async def shared(give: Give, drop: Drop, nbytes: int, times: int) -> dict[str, float]:
    """The figures ``memory`` and ``time``.

    Memory is what all processes together have more of (PSS) while the actors hold the
    array, the first time, when no memory is there to be used again.

    Args:
        give: Puts an array once, and has every actor keep it.
        drop: Has every actor forget it.
        nbytes: The size of the array.
        times: How often it is timed.
    """
    # Small, so that everybody has run the code before memory is counted.
    await give(np.ones(1, dtype=np.uint8))
    await drop()
    array = np.ones(nbytes, dtype=np.uint8)
    before = _memory()
    await give(array)
    metrics = {"memory": _memory() - before}
    await drop()
    took: list[float] = []
    for _ in range(times):
        begun = time.perf_counter()
        await give(array)
        took.append(time.perf_counter() - begun)
        await drop()
    return metrics | {"time": middle(took)}


def _memory() -> float:
    return memory_of([os.getpid(), *descendants(os.getpid())])
