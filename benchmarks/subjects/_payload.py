"""Arrays as arguments and as results, one after another."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.subjects._report import middle

_FEWEST = 5


class Load(NamedTuple):
    """What a subject is told.

    Attributes:
        sizes: Of the arrays, in bytes.
        trips: How often the small ones are sent.
        volume: After how many bytes it is enough for larger ones.
        above: From how many bytes on actorlib shares memory; 0 for its own choice.
    """

    sizes: Sequence[int]
    trips: int
    volume: int
    above: int = 0

    def times(self, size: int) -> int:
        """How often an array of this size is sent."""
        return max(min(self.trips, self.volume // size), _FEWEST)


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


async def moved(call: Callable[..., Awaitable[object]], load: Load) -> dict[str, float]:
    """Bytes a second, by way and size.

    Args:
        call: Calls a method of an actor that is a ``Sink``.
        load: What to send.
    """
    metrics: dict[str, float] = {}
    for size in load.sizes:
        array = np.ones(size, dtype=np.uint8)
        await call("make", size)
        for way, words in (("argument", ("last", array)), ("result", ("give",))):
            await call(*words)  # what is first touched or imported is no trip
            took: list[float] = []
            for _ in range(load.times(size)):
                begun = time.perf_counter()
                answer = await call(*words)
                took.append(time.perf_counter() - begun)
                del answer
            metrics[f"{way} {size}"] = size / middle(took)
    return metrics
