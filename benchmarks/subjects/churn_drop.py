"""Actors that are made, asked once and dropped, a thousand and a thousand again."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import actorlib
from benchmarks.subjects._growth import at_rest
from benchmarks.subjects._report import arguments, distinct, report

_THOUSAND = 1000


class _Churn(NamedTuple):
    """What this subject is told.

    Attributes:
        thousands: How many thousand actors are made in all.
        kind: ``plain``, ``async`` or ``named``.
        lanes: How many are made at a time.
    """

    thousands: int
    kind: str
    lanes: int


@actorlib.remote
class Plain:
    """An actor with a plain method."""

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


@actorlib.remote
class Looped:
    """An actor with a loop."""

    async def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


def _maker(kind: str, lane: int) -> Callable[[], actorlib.ActorHandle[Any]]:
    if kind == "async":
        return Looped.remote
    if kind == "named":  # one name for each lane, again and again
        return Plain.options(name=f"lane {lane}", get_if_exists=True).remote
    return Plain.remote


async def _lane(make: Callable[[], actorlib.ActorHandle[Any]], count: int) -> list[int]:
    pids: list[int] = []
    for _ in range(count):
        actor = make()
        pids.append(await actor.pid.remote())
        del actor
        # A handle that is gone is counted in the next turn of the loop. From then on
        # the actor leaves, and has lost its name, while the next one is made.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    return pids


async def _thousand(churn: _Churn) -> float:
    count = _THOUSAND // churn.lanes
    begun = time.perf_counter()
    lanes = await asyncio.gather(
        *(_lane(_maker(churn.kind, lane), count) for lane in range(churn.lanes))
    )
    took = time.perf_counter() - begun
    pids = [pid for lane in lanes for pid in lane]
    distinct(pids, len(pids))
    return len(pids) / took


async def _measured(churn: _Churn) -> dict[str, float]:
    metrics: dict[str, float] = {}
    rates: list[float] = []
    levels: list[dict[str, float]] = []
    async with actorlib.init() as runtime:
        for thousand in range(1, churn.thousands + 1):
            rates.append(await _thousand(churn))
            levels.append(await at_rest(runtime))
            for name, value in levels[-1].items():
                metrics[f"{name} {thousand * _THOUSAND}"] = value
    for name, first in levels[0].items():
        growth = (levels[-1][name] - first) / max(1, churn.thousands - 1)
        metrics[f"{name} growth"] = growth
    return metrics | {"rate": sum(rates) / len(rates)}


if __name__ == "__main__":
    report(actorlib.run(_measured(_Churn(**arguments()))))
