"""Ray: calls in windows, one to one, one to four, actor to actor, four to four.

By one ``ray.get`` for each window, also in actors: it is faster than to await the refs.
"""

import time
from collections.abc import Sequence
from typing import Any

import ray

from benchmarks.subjects._ray import cluster
from benchmarks.subjects._report import WINDOW, arguments, report


@ray.remote(num_cpus=0)
class Echo:
    """An actor that gives back what it gets."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


@ray.remote(num_cpus=0)
class Caller:
    """An actor that calls another one, whose handle it keeps."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def drive(self, windows: int) -> None:
        """So many windows of calls."""
        for _ in range(windows):
            _window([self._target])


def _window(targets: Sequence[Any]) -> None:
    each = range(WINDOW // len(targets))
    ray.get([target.echo.remote(value) for target in targets for value in each])


def _from_here(targets: Sequence[Any], windows: int) -> float:
    _window(targets)
    begun = time.perf_counter()
    for _ in range(windows):
        _window(targets)
    return windows * WINDOW / (time.perf_counter() - begun)


def _between(callers: Sequence[Any], windows: int) -> tuple[float, float]:
    """Calls a second of all pairs, and the share of a CPU that the driver took."""

    def drive(count: int) -> None:
        ray.get([caller.drive.remote(count) for caller in callers])

    drive(1)
    begun, spent = time.perf_counter(), time.process_time()
    drive(windows)
    took = time.perf_counter() - begun
    return len(callers) * windows * WINDOW / took, (time.process_time() - spent) / took


def _measured(windows: int) -> dict[str, float]:
    metrics: dict[str, float] = {}
    with cluster():
        targets: list[Any] = [Echo.remote() for _ in range(4)]
        callers: list[Any] = [Caller.remote(target) for target in targets]
        metrics["one"] = _from_here(targets[:1], windows)
        metrics["four"] = _from_here(targets, windows)
        metrics["pair"], _ = _between(callers[:1], windows)
        metrics["pairs"], metrics["owner"] = _between(callers, windows)
    return metrics


if __name__ == "__main__":
    report(_measured(**arguments()))
