"""Workers on devices and what NVML lists of them, as values."""

from __future__ import annotations

from dataclasses import dataclass

from actorlib._enforcement.gpu_processes import Listed, Occupant
from actorlib._options.kinds import UNITS
from actorlib.accelerators import Device, Lease, Share

GIB = 2**30
UUID = "GPU-10cc0000-1111-2222-3333-444455556666"


@dataclass(eq=False)
class Worker:
    """A worker that is nothing but a number; see HasPid."""

    pid: int


def half(
    *, uuid: str | None = UUID, source: str = "NVML", units: int = UNITS // 2
) -> Share:
    """A part of a device of 80 GiB, half of it unless another is said."""
    device = Device(
        family="nvidia",
        kind="GPU",
        index=0,
        id="0",
        uuid=uuid,
        source=source,
        memory=80 * GIB,
    )
    return Share(device, units)


def occupant(pid: int, *shares: Share) -> Occupant:
    """A worker with such shares, or with half of a device."""
    held = shares or (half(),)
    units = sum(share.units for share in held)
    lease = Lease(amounts={"GPU": units}, shares=held)
    return Occupant("Model", Worker(pid), lease)


def alive(
    pid: int, *others: int, nbytes: int = GIB, began: int = 1, name: str = ""
) -> Listed:
    """A process that can be seen from here, with others of its lineage."""
    return Listed(pid, nbytes, frozenset({pid, *others}), began, name)


def gone(pid: int, nbytes: int | None = GIB) -> Listed:
    """One that cannot be seen from here: it has ended, or is in another namespace."""
    return Listed(pid, nbytes)
