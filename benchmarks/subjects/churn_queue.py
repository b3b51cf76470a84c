"""Calls that all wait for one actor, and what is left when they are answered."""

import asyncio
import os
import time
from typing import Any

import actorlib
from benchmarks.subjects._growth import at_rest, of_process
from benchmarks.subjects._report import arguments, report


@actorlib.remote
class Plain:
    """An actor that counts its calls."""

    def __init__(self) -> None:
        self._count = 0

    def step(self, number: int) -> tuple[int, int]:
        """The number, and how many calls came before."""
        self._count += 1
        return number, self._count - 1


@actorlib.remote
class Looped:
    """An actor with a loop that counts its calls."""

    def __init__(self) -> None:
        self._count = 0

    async def step(self, number: int) -> tuple[int, int]:
        """The number, and how many calls came before."""
        self._count += 1
        return number, self._count - 1


async def _wave(actor: actorlib.ActorHandle[Any], calls: int) -> dict[str, float]:
    before = of_process(os.getpid())
    begun = time.perf_counter()
    # No turn of the loop until the last one is made, and no process for the first.
    refs = [actor.step.remote(number) for number in range(calls)]
    made = time.perf_counter()
    metrics = {"made": calls / (made - begun)}
    for name, value in of_process(os.getpid()).items():
        metrics[f"{name} each"] = (value - before[name]) / calls
    made = time.perf_counter()
    answers = await asyncio.gather(*refs)
    metrics["rate"] = calls / (time.perf_counter() - made)
    if answers != [(number, number) for number in range(calls)]:
        raise RuntimeError("calls were lost, or came in another order")
    return metrics


async def _measured(calls: int, kind: str) -> dict[str, float]:
    make = Looped.remote if kind == "async" else Plain.remote
    async with actorlib.init() as runtime:
        # What is made once and kept; the second wave finds the memory of the first.
        fresh = await _wave(make(), calls)
        first = await at_rest(runtime)
        metrics = await _wave(make(), calls)
        last = await at_rest(runtime)
    metrics |= {"memory each": fresh["memory each"]} if "memory each" in fresh else {}
    return metrics | {f"{name} growth": last[name] - first[name] for name in first}


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
