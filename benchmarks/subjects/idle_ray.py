"""Ray: idle actors, the daemons beside them, and the CPU of all."""

import os
import time

import ray

from benchmarks.subjects._idle import Rest
from benchmarks.subjects._ray import cluster
from benchmarks.subjects._report import arguments, distinct, report


@ray.remote(num_cpus=0)
class Where:
    """An actor that says where it is."""

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


def _measured(actors: int, settle: float, seconds: float) -> dict[str, float]:
    with cluster():
        handles = [Where.remote() for _ in range(actors)]
        pids = ray.get([handle.pid.remote() for handle in handles])
        distinct(pids, actors)
        time.sleep(settle)
        rest = Rest(pids)
        time.sleep(seconds)
        return rest.figures(seconds)


if __name__ == "__main__":
    report(_measured(**arguments()))
