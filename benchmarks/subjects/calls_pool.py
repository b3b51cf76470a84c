"""The standard library's process pool: calls of functions, sent one at a time.

With one worker it is the nearest that the standard library has to an actor.
"""

import time
from concurrent.futures import ProcessPoolExecutor

from benchmarks.subjects._report import (
    WINDOW,
    Traffic,
    arguments,
    pipelined,
    report,
    round_trips,
)


def _echo(value: int) -> int:
    return value


def _measured(traffic: Traffic) -> dict[str, float]:
    trips: list[float] = []
    windows: list[float] = []
    with ProcessPoolExecutor(traffic.workers) as pool:
        for value in range(traffic.trips):
            begun = time.perf_counter()
            pool.submit(_echo, value).result()
            trips.append(time.perf_counter() - begun)
        for _ in range(traffic.windows):
            begun = time.perf_counter()
            answers = [pool.submit(_echo, value) for value in range(WINDOW)]
            for answer in answers:
                answer.result()
            windows.append(time.perf_counter() - begun)
    return round_trips(trips) | pipelined(windows)


if __name__ == "__main__":
    report(_measured(Traffic(**arguments())))
