"""The floor of large arrays: one copy into shared memory that was touched before."""

import mmap
import time

import numpy as np

from benchmarks.subjects._payload import Load
from benchmarks.subjects._report import arguments, middle, report


def _measured(load: Load) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for size in load.sizes:
        source = memoryview(np.ones(size, dtype=np.uint8))
        with mmap.mmap(-1, size) as memory, memoryview(memory) as target:
            times: list[float] = []
            for _ in range(load.times(size) + 1):
                begun = time.perf_counter()
                target[:] = source
                times.append(time.perf_counter() - begun)
        metrics[f"copy {size}"] = size / middle(times[1:])
    return metrics


if __name__ == "__main__":
    report(_measured(Load(**arguments())))
