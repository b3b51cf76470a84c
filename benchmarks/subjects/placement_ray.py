"""Ray: waves of fractional actors to their first answers."""

import importlib
import os
import time
from collections.abc import Sequence

import ray

from benchmarks.subjects._processes import await_end
from benchmarks.subjects._report import Wave, arguments, distinct, report


@ray.remote(num_cpus=0, num_gpus=0.01)
class Idle:
    """An actor that does nothing but say where it is."""

    def __init__(self, imports: Sequence[str]) -> None:
        for name in imports:
            importlib.import_module(name)

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


def _measured(wave: Wave) -> dict[str, float]:
    metrics: dict[str, float] = {}
    begun = time.perf_counter()
    ray.init(num_gpus=8, include_dashboard=False, log_to_driver=False)
    metrics["start"] = time.perf_counter() - begun
    for name in ("cold", "second")[: wave.waves]:
        begun = time.perf_counter()
        actors = [Idle.remote(wave.imports) for _ in range(wave.size)]
        pids = ray.get([actor.pid.remote() for actor in actors])
        metrics[name] = wave.size / (time.perf_counter() - begun)
        distinct(pids, wave.size)
        for actor in actors:
            ray.kill(actor)
        await_end(pids)
    ray.shutdown()
    return metrics


if __name__ == "__main__":
    report(_measured(Wave(**arguments())))
