"""Measures the figures of ``actorlib demo``, with the actor that it places.

Workers import this file for its actor, so it imports only modules that they have loaded
already.
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
    """The placement of an actor, as seen by itself.

    Attributes:
        devices: The ids of its GPUs, as the owner counts them.
        share: Its share of a GPU.
        masks: The visibility variables of its process, as ``NAME=value``.
    """

    name: str
    pid: int
    devices: list[int | str]
    share: float
    masks: list[str]


class Probe:
    """An actor that reports its placement and answers pings."""

    def __init__(self, name: str) -> None:
        self._name = name

    def report(self, variables: list[str]) -> Report:
        """Returns the placement, with the values of these visibility variables."""
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
    """Returns shares: three of the first device, and at most 7 others whole."""
    return [*_FILLING, *[1.0] * (min(devices, _MOST_DEVICES) - 1)]


def share_of_many(devices: int, actors: int) -> float:
    """Returns a share for so many actors, in whole hundredths; 0 below a hundredth."""
    on_each = -(-actors // devices)
    return 100 // on_each / 100


async def reports(
    wanted: Sequence[float], variables: Sequence[str]
) -> tuple[list[ActorHandle[Any]], list[Report]]:
    """Places an actor for each share; returns the handles and reports in that order."""
    probes = [
        _Probe.options(num_gpus=share).remote(f"probe {number}")
        for number, share in enumerate(wanted, 1)
    ]
    refs = [probe.report.remote(list(variables)) for probe in probes]
    return list(probes), list(await asyncio.gather(*refs))


async def place(count: int, share: float) -> tuple[list[ActorHandle[Any]], float]:
    """Places actors at once, calls each once; returns them, and the seconds it took."""
    started = time.perf_counter()
    actor_class = _Probe.options(num_gpus=share)
    probes = [actor_class.remote(f"probe {number}") for number in range(count)]
    await asyncio.gather(*(probe.ping.remote() for probe in probes))
    return list(probes), time.perf_counter() - started


async def latencies(probe: ActorHandle[Any], count: int) -> list[float]:
    """Times calls, each after the answer to the one before; returns sorted seconds."""
    took: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        await probe.ping.remote()
        took.append(time.perf_counter() - started)
    return sorted(took)


async def rate(probe: ActorHandle[Any], windows: int, window: int) -> float:
    """Returns calls per second; all calls of a window are sent before its answers."""
    started = time.perf_counter()
    for _ in range(windows):
        await asyncio.gather(*[probe.ping.remote() for _ in range(window)])
    return windows * window / (time.perf_counter() - started)
