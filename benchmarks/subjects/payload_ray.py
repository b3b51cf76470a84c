"""Ray: large arrays as arguments and results of an actor, and one put to many."""

import time
from typing import Any

import numpy as np
import ray

from benchmarks.subjects._report import arguments, middle, report


@ray.remote(num_cpus=0)
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


def _measured(sizes: list[int], trips: int, spread: int) -> dict[str, float]:
    metrics: dict[str, float] = {}
    ray.init(
        include_dashboard=False, log_to_driver=False, object_store_memory=8 * 10**9
    )
    sink: Any = Sink.remote()
    for size in sizes:
        array = np.ones(size, dtype=np.uint8)
        ray.get(sink.make.remote(size))
        given: list[float] = []
        got: list[float] = []
        for _ in range(max(trips // max(size // 50_000_000, 1), 5)):
            begun = time.perf_counter()
            ray.get(sink.last.remote(array))
            given.append(time.perf_counter() - begun)
        for _ in range(len(given)):
            begun = time.perf_counter()
            ray.get(sink.give.remote())
            got.append(time.perf_counter() - begun)
        metrics |= {f"argument {size}": middle(given), f"result {size}": middle(got)}
    array = np.ones(spread, dtype=np.uint8)
    sinks: list[Any] = [Sink.remote() for _ in range(8)]
    ray.get([sink.make.remote(1) for sink in sinks])
    begun = time.perf_counter()
    put = ray.put(array)
    ray.get([sink.last.remote(put) for sink in sinks])
    metrics |= {
        "fan-out time": time.perf_counter() - begun,
        "fan-out memory": float(spread),
    }
    ray.shutdown()
    return metrics


if __name__ == "__main__":
    report(_measured(**arguments()))
