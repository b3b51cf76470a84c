"""The standard library's process pool: idle workers, made by fork."""

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor

from benchmarks.subjects._idle import Rest
from benchmarks.subjects._processes import children
from benchmarks.subjects._report import arguments, distinct, report


def _measured(actors: int, settle: float, seconds: float) -> dict[str, float]:
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(actors, context) as pool:
        pool.submit(os.getpid).result()
        pids = distinct(children(os.getpid()), actors)
        time.sleep(settle)
        rest = Rest(pids)
        time.sleep(seconds)
        return rest.figures(seconds)


if __name__ == "__main__":
    report(_measured(**arguments()))
