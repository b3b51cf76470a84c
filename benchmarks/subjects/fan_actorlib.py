"""Calls in windows: one to one, one to four, actor to actor, four actors to four."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import actorlib
from benchmarks.subjects._report import WINDOW, arguments, report


@actorlib.remote
class Echo:
    """An actor that gives back what it gets."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


@actorlib.remote
class Caller:
    """An actor that calls another one, whose handle it keeps."""

    def __init__(self, target: actorlib.ActorHandle[Any]) -> None:
        self._target = target

    async def drive(self, windows: int) -> None:
        """So many windows of calls."""
        for _ in range(windows):
            await _window([self._target])


async def _window(targets: Sequence[actorlib.ActorHandle[Any]]) -> None:
    each = range(WINDOW // len(targets))
    calls = [target.echo.remote(value) for target in targets for value in each]
    await asyncio.gather(*calls)


async def _from_here(
    targets: Sequence[actorlib.ActorHandle[Any]], windows: int
) -> float:
    await _window(targets)
    begun = time.perf_counter()
    for _ in range(windows):
        await _window(targets)
    return windows * WINDOW / (time.perf_counter() - begun)


async def _between(
    callers: Sequence[actorlib.ActorHandle[Any]], windows: int
) -> tuple[float, float]:
    """Calls a second of all pairs, and the share of a CPU that the owner took."""

    async def drive(count: int) -> None:
        await asyncio.gather(*(caller.drive.remote(count) for caller in callers))

    await drive(1)
    begun, spent = time.perf_counter(), time.process_time()
    await drive(windows)
    took = time.perf_counter() - begun
    return len(callers) * windows * WINDOW / took, (time.process_time() - spent) / took


async def _measured(windows: int) -> dict[str, float]:
    metrics: dict[str, float] = {}
    async with actorlib.init():
        targets = [Echo.remote() for _ in range(4)]
        callers = [Caller.remote(target) for target in targets]
        await asyncio.gather(*targets, *callers)
        metrics["one"] = await _from_here(targets[:1], windows)
        metrics["four"] = await _from_here(targets, windows)
        metrics["pair"], _ = await _between(callers[:1], windows)
        metrics["pairs"], metrics["owner"] = await _between(callers, windows)
    return metrics


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
