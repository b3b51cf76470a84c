"""Ray: calls of a sync and of an async actor."""

import ray

from benchmarks.subjects._ray import calls, cluster
from benchmarks.subjects._report import Traffic, arguments, prefixed, report


@ray.remote(num_cpus=0)
class Plain:
    """An actor with a plain method."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


@ray.remote(num_cpus=0)
class Looped:
    """An actor with an async method."""

    async def echo(self, value: int) -> int:
        """The value."""
        return value


def _measured(traffic: Traffic) -> dict[str, float]:
    with cluster():
        plain, looped = Plain.remote(), Looped.remote()
        return prefixed("sync", calls(plain.echo.remote, traffic)) | prefixed(
            "async", calls(looped.echo.remote, traffic)
        )


if __name__ == "__main__":
    report(_measured(Traffic(**arguments())))
