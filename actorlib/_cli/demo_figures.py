"""Measures what ``actorlib demo`` shows, with the actor that it places.

Workers import this file for its actor, so it loads nothing that they have not loaded
already; ``demo`` shows the figures.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from actorlib._api.decorators import remote
from actorlib._runtime import get_gpu_ids, get_runtime_context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._api.actor_handle import ActorHandle

_MOST_DEVICES = 8
_FILLING = (0.5, 0.25, 0.25)


class Report(NamedTuple):
    """Says where an actor is, as it sees it.

    Attributes:
        name: The name it was given.
        pid: Its process.
        devices: The ids of its GPUs, as the owner counts them.
        share: How much of a GPU it holds.
        masks: The visibility variables of its process, as ``NAME=value``.
    """

    name: str
    pid: int
    devices: list[int | str]
    share: float
    masks: list[str]


class Probe:
    """An actor that says where it is and answers pings."""

    def __init__(self, name: str) -> None:
        self._name = name

    def report(self, variables: list[str]) -> Report:
        """Where this actor is.

        Args:
            variables: The names of the visibility variables to look at.
        """
        assigned = get_runtime_context().get_assigned_resources()
        environ = os.environ
        return Report(
            name=self._name,
            pid=os.getpid(),
            devices=get_gpu_ids(),
            share=assigned.get("GPU", 0.0),
            masks=[f"{name}={environ[name]}" for name in variables if name in environ],
        )

    def ping(self) -> None:
        """Answers."""


_Probe = remote(Probe)


def shares(devices: int) -> list[float]:
    """Gives shares that fill the first device in pieces and take the next ones whole.

    Args:
        devices: How many there are; no more than eight are used.
    """
    return [*_FILLING, *[1.0] * (min(devices, _MOST_DEVICES) - 1)]


def share_of_many(devices: int, actors: int) -> float:
    """Gives a share of which so many fit on the devices, in whole hundredths.

    If there would be more than a hundred on a device, they get nothing of it.
    """
    on_each = -(-actors // devices)
    return 100 // on_each / 100


async def reports(
    wanted: Sequence[float], variables: Sequence[str]
) -> tuple[list[ActorHandle[Any]], list[Report]]:
    """Places one actor for each share and asks each one where it is.

    Returns:
        Their handles, and their reports, in the order of the shares.
    """
    probes = [
        _Probe.options(num_gpus=share).remote(f"probe {number}")
        for number, share in enumerate(wanted, 1)
    ]
    found = await asyncio.gather(*(p.report.remote(list(variables)) for p in probes))
    return list(probes), list(found)


async def place(count: int, share: float) -> tuple[list[ActorHandle[Any]], float]:
    """Places many actors at once and has each answer one call.

    Returns:
        Their handles, and the seconds until the last one had answered.
    """
    started = time.perf_counter()
    actor_class = _Probe.options(num_gpus=share)
    probes = [actor_class.remote(f"probe {number}") for number in range(count)]
    await asyncio.gather(*(probe.ping.remote() for probe in probes))
    return list(probes), time.perf_counter() - started


async def latencies(probe: ActorHandle[Any], count: int) -> list[float]:
    """Times calls one after the other, each behind the answer of the last.

    Returns:
        The seconds each one took, the shortest first.
    """
    took: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        await probe.ping.remote()
        took.append(time.perf_counter() - started)
    return sorted(took)


async def rate(probe: ActorHandle[Any], windows: int, window: int) -> float:
    """Times calls in windows: all of one are sent before its answers are awaited.

    Returns:
        Calls per second.
    """
    started = time.perf_counter()
    for _ in range(windows):
        await asyncio.gather(*[probe.ping.remote() for _ in range(window)])
    return windows * window / (time.perf_counter() - started)
