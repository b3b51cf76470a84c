"""Many calls of one method, made at once by ``map``."""

import time
from typing import Any

import actorlib
from benchmarks.subjects._report import arguments, at_once, middle, report


@actorlib.remote
class Echo:
    """An actor that gives back what it gets."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


async def _measured(sizes: list[int], times: int) -> dict[str, float]:
    metrics: dict[str, float] = {}
    async with actorlib.init():
        method: Any = Echo.remote().echo
        for size in sizes:
            rates: list[float] = []
            for _ in range(times):
                begun = time.perf_counter()
                answers = await method.map(range(size))
                rates.append(at_once(answers, size, time.perf_counter() - begun))
            metrics[f"rate {size}"] = middle(rates)
    return metrics


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
