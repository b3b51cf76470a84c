"""What processes cost that have nothing to do."""

import os
from collections.abc import Collection

from benchmarks.subjects._processes import cpu_of, descendants, memory_of


class Rest:
    """What the actors of this process use at rest, and what there is beside them."""

    def __init__(self, actors: Collection[int]) -> None:
        """Begins to count.

        Args:
            actors: Their processes, at rest by now.
        """
        self._actors = set(actors)
        # This process first at the end and last here, or it would count the counting.
        self._others_cpu = cpu_of(descendants(os.getpid()))
        self._own_cpu = cpu_of([os.getpid()])

    def figures(self, seconds: float) -> dict[str, float]:
        """After so many seconds: memory, processes, the share of a CPU of all.

        ``beside`` is everything but the actors and this process.
        """
        spent = cpu_of([os.getpid()]) - self._own_cpu
        others = descendants(os.getpid())
        spent += cpu_of(others) - self._others_cpu
        beside = set(others) - self._actors
        return {
            "cpu": spent / seconds,
            "actor": memory_of(self._actors) / len(self._actors),
            "beside": memory_of(beside),
            "processes": float(len(beside)),
        }
