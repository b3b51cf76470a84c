"""Decides whether memory of a device is back that a process had which has ended.

The kernel reports the end of a process before the driver has taken its memory apart:
who is given the share at that moment runs out of memory on an empty card. So a share is
back when the driver lists nothing of the process's tree any more, or when too much time
has passed, and then somebody has to be told what is still there.

What is waited for: the worker, what was seen to descend from it, and what is listed
since its end and cannot be seen from here, as that may have been a child of its that
nobody saw. What could not be seen before its end either is of another pid namespace:
whose it is cannot be told, so it is not waited for. Likewise for memory that is in use
though nobody is listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from actorlib._enforcement.gpu_processes import UNKNOWN, UNLISTED
from actorlib._options.resources import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._enforcement.gpu_processes import Occupant, Occupants

LIMIT = 10.0
"""Seconds after which a share is given back whatever is still there."""
_FIRST_PAUSE, _LAST_PAUSE = 0.01, 0.25


class Holder(NamedTuple):
    """A process that still has memory of a device.

    Attributes:
        device: What the device is called.
        pid: Its process id.
        name: What its program is called; empty if unknown.
        nbytes: Bytes that it has; None if nobody says.
    """

    device: str
    pid: int
    name: str
    nbytes: int | None

    def __str__(self) -> str:
        """Names it: ``pid 812 (python) still holds 3.1 GiB of GPU 0``."""
        who = f"pid {self.pid} ({self.name})" if self.name else f"pid {self.pid}"
        if self.pid == UNLISTED:
            who = "somebody that NVML does not list"
        return (
            f"{who} still holds {format_bytes(self.nbytes, UNKNOWN)} of {self.device}"
        )


def holders(
    occupant: Occupant,
    occupants: Occupants,
    ended_at: float,
) -> tuple[Holder, ...]:
    """Lists what still has memory of the devices of a worker that has ended.

    Args:
        occupant: The worker.
        occupants: The table, with this worker and all others.
        ended_at: When the worker ended, in seconds of the clock of the looks.
    """
    return tuple(
        Holder(name, process.pid, occupant.name_of(process), process.nbytes)
        for device, name in occupant.devices.items()
        for process in occupants.latest.get(device, ())
        if occupant.owns(process) or (process.is_strange and process.since >= ended_at)
    )


def pause(elapsed: float) -> float:
    """Says for how many seconds to wait until the next look.

    Args:
        elapsed: Seconds since the end of the process.
    """
    return min(max(elapsed / 2, _FIRST_PAUSE), _LAST_PAUSE)


def in_words(left: Sequence[Holder]) -> str:
    """Says what is still there, for people."""
    return ", ".join(map(str, left)) or "NVML has not said what is still there"
