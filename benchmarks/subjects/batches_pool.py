"""The standard library: many calls of one function, sent to one worker as one chunk."""

import multiprocessing
import time

from benchmarks.subjects._report import arguments, at_once, middle, report


def _echo(value: int) -> int:
    return value


def _measured(sizes: list[int], times: int) -> dict[str, float]:
    metrics: dict[str, float] = {}
    with multiprocessing.get_context("fork").Pool(1) as pool:
        for size in sizes:
            rates: list[float] = []
            for _ in range(times):
                begun = time.perf_counter()
                answers = pool.map(_echo, range(size), chunksize=size)
                rates.append(at_once(answers, size, time.perf_counter() - begun))
            metrics[f"rate {size}"] = middle(rates)
    return metrics


if __name__ == "__main__":
    report(_measured(**arguments()))
