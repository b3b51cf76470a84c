"""Accelerators: which devices there are, and how a process is shown only its own.

The rooms, in reading order:

* ``base``: the words. A device, a share of it, a lease; and ``Accelerator``, what a
  family of devices has to answer.
* ``host``: the only window on the machine, so that a recorded machine is a test.
* ``masks``: what a visibility variable says, and what it loses.
* ``types``: what models are called, and who else calls them so.
* ``discovery``: every family is asked what it has, side by side.
* ``inventory``: what a runtime may grant; a lease becomes an environment, and the ids
  that the user is told.
* ``files``, ``pci``: which device files open; what sysfs says of a PCI device.
* ``nvidia``, ``amd``, ``intel``, ``apple``, ``metax``: the families of GPUs, one file
  each. What their own software sees of a machine, and how it reads its masks:
* ``nvml``, ``nvidia_driver``, ``nvidia_masks``: NVIDIA's.
* ``rocm``: AMD's.
* ``levelzero``, ``intel_masks``: Intel's.
* ``tpu``, ``neuron``, ``gaudi``, ``ascend``, ``rbln``, ``furiosa``, ``mobilint``,
  ``tenstorrent``: the other families.

A new family is a class derived from ``Accelerator``, in a file beside ``nvidia`` and in
the list of ``discovery``, or in a package of its own that names it as an entry point.
"""

from __future__ import annotations

from actorlib._core.kinds import Kind
from actorlib.accelerators.base import (
    Accelerator,
    Detection,
    Device,
    Lease,
    Rejected,
    Share,
)
from actorlib.accelerators.discovery import discover, families
from actorlib.accelerators.host import Host
from actorlib.accelerators.inventory import (
    Inventory,
    accelerator_ids,
    environment,
    inventory,
)
from actorlib.accelerators.masks import Mask, Syntax

__all__ = [
    "Accelerator",
    "Detection",
    "Device",
    "Host",
    "Inventory",
    "Kind",
    "Lease",
    "Mask",
    "Rejected",
    "Share",
    "Syntax",
    "accelerator_ids",
    "discover",
    "environment",
    "families",
    "inventory",
]


def __dir__() -> list[str]:
    return sorted([*__all__, "types"])
