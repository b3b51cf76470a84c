"""Ray: the first answer of one actor in a cluster that has nothing to do.

Ray starts an idle worker process for each CPU in advance, and an actor that comes then
takes one of them; it starts no others for those taken. With two CPUs the first two
actors are the fastest, and the median is of those that come later.
"""

import os
import time

import ray

from benchmarks.subjects._processes import await_end
from benchmarks.subjects._ray import cluster
from benchmarks.subjects._report import arguments, middle, report


@ray.remote(num_cpus=0, num_gpus=0.01)
class Where:
    """An actor that says where it is."""

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


def _measured(times: int) -> dict[str, float]:
    took: list[float] = []
    with cluster(num_cpus=2, num_gpus=8):
        for _ in range(times):
            time.sleep(1)  # so that it has nothing to do
            begun = time.perf_counter()
            actor = Where.remote()
            pid = ray.get(actor.pid.remote())
            took.append(time.perf_counter() - begun)
            ray.kill(actor)
            await_end([pid])
    return {"time": middle(took), "fastest": min(took)}


if __name__ == "__main__":
    report(_measured(**arguments()))
