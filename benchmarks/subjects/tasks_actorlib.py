"""Calls of a remote function, one after another and in windows."""

import actorlib
from benchmarks.subjects._calls import awaited
from benchmarks.subjects._report import Traffic, arguments, report


@actorlib.remote
def echo(value: int) -> int:
    """The value."""
    return value


async def _measured(traffic: Traffic) -> dict[str, float]:
    async with actorlib.init(num_cpus=traffic.workers, num_gpus=0):
        return await awaited(echo.remote, traffic)


if __name__ == "__main__":
    report(actorlib.run(_measured(Traffic(**arguments()))))
