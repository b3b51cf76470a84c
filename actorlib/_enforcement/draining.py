"""Decides whether the device memory of an ended process is free.

The kernel reports the end of a process before the driver has freed its memory. An actor
that got the share at that moment would run out of memory on an empty card. So a share
is free when the driver lists no process of the worker's tree any longer. After a time
limit it is given to others anyway, and a warning names the processes that remain.

A drain waits for the worker, for processes that were seen to descend from it, and for
processes that were first listed after its end and are invisible here: they may be
children that no look has seen. Processes that were invisible before its end are of
another pid namespace. Their worker is unknown, so the drain does not wait for them. The
same applies to memory in use without a listed process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from actorlib._enforcement.gpu_processes import UNKNOWN, UNLISTED
from actorlib._options.resources import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._enforcement.gpu_processes import Occupant, Occupants

LIMIT = 10.0
"""Seconds after which a share is released although processes remain."""
_FIRST_PAUSE, _LAST_PAUSE = 0.01, 0.25


class Holder(NamedTuple):
    """A process that still has memory of a device.

    Attributes:
        device: The name of the device in messages.
        name: The name of its program; empty if unknown.
        nbytes: Bytes that it has; None if unknown.
    """

    device: str
    pid: int
    name: str
    nbytes: int | None

    def __str__(self) -> str:
        """Describes it: ``pid 812 (python) still holds 3.1 GiB of GPU 0``."""
        who = f"pid {self.pid} ({self.name})" if self.name else f"pid {self.pid}"
        if self.pid == UNLISTED:
            who = "a process that NVML does not list"
        return (
            f"{who} still holds {format_bytes(self.nbytes, UNKNOWN)} of {self.device}"
        )


def holders(
    occupant: Occupant,
    occupants: Occupants,
    ended_at: float,
) -> tuple[Holder, ...]:
    """Lists the processes that still have memory of the devices of an ended worker.

    Args:
        occupant: The worker.
        occupants: The table with all workers.
        ended_at: When the worker ended, in seconds of the clock of the looks.
    """
    return tuple(
        Holder(name, process.pid, occupant.name_of(process), process.nbytes)
        for device, name in occupant.devices.items()
        for process in occupants.latest.get(device, ())
        if occupant.owns(process) or (process.is_strange and process.since >= ended_at)
    )


def pause(elapsed: float) -> float:
    """Returns the seconds until the next look."""
    return min(max(elapsed / 2, _FIRST_PAUSE), _LAST_PAUSE)


def describe(remaining: Sequence[Holder]) -> str:
    return ", ".join(map(str, remaining)) or "NVML has not listed what remains"
