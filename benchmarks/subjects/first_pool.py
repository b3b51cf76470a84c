"""The standard library: the first answer of a process pool with one worker.

By fork, which is the fastest that it has: nothing is imported anew.
"""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

from benchmarks.subjects._report import arguments, middle, report


def _echo(value: int) -> int:
    return value


def _measured(times: int) -> dict[str, float]:
    took: list[float] = []
    context = multiprocessing.get_context("fork")
    for value in range(times):
        begun = time.perf_counter()
        with ProcessPoolExecutor(1, context) as pool:
            pool.submit(_echo, value).result()
            took.append(time.perf_counter() - begun)
    return {"time": middle(took), "fastest": min(took)}


if __name__ == "__main__":
    report(_measured(**arguments()))
