"""Ray: calls of a remote function."""

import ray

from benchmarks.subjects._ray import calls, cluster
from benchmarks.subjects._report import Traffic, arguments, report


@ray.remote
def echo(value: int) -> int:
    """The value."""
    return value


def _measured(traffic: Traffic) -> dict[str, float]:
    with cluster(num_cpus=traffic.workers):
        return calls(echo.remote, traffic)


if __name__ == "__main__":
    report(_measured(Traffic(**arguments())))
