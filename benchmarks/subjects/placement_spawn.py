"""The floor of spawning: bare interpreters, as many at a time as there are CPUs."""

import os
import sys
import time

from benchmarks.subjects._report import Wave, arguments, report


def _measured(wave: Wave) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for name in ("cold", "second")[: wave.waves]:
        begun = time.perf_counter()
        _start_each(wave.size, int(wave.method))
        metrics[name] = wave.size / (time.perf_counter() - begun)
    return metrics


def _start_each(count: int, at_a_time: int) -> None:
    for begun in range(count):
        if begun >= at_a_time:
            os.wait()
        command = [sys.executable, "-c", "pass"]
        os.posix_spawn(sys.executable, command, os.environ)
    for _ in range(min(count, at_a_time)):
        os.wait()


if __name__ == "__main__":
    report(_measured(Wave(**arguments())))
