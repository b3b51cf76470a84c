"""Accelerators: finds the devices of a machine, and shows a process only its own.

A *family* is the devices of one vendor, and the class that finds and masks them. What
all families have in common, in reading order:

* ``base``: values (a device, a share of it, a lease), and ``Accelerator``, the class
  that a family derives from.
* ``host``: the only window on the machine, so that a recorded machine is a test.
* ``masks``: reads visibility variables as the vendors' own software does.
* ``types``: what models are called, for ``accelerator_type``.
* ``discovery``: lists all families, and asks them side by side what they have.
* ``fake_devices``: makes devices up, for programs that are tried without hardware.
* ``inventory``: draws up what a runtime may grant; turns a lease into an environment,
  and into the ids that the user is told.
* ``claims``, ``held_names``: tell other programs which devices this one has, and who
  else has them.
* ``files``, ``pci``: read device files, and what sysfs says of a PCI device.

The families, each beginning with its vendor's rules and their sources:

* ``nvidia``, with ``nvml``, ``nvidia_driver`` and ``nvidia_masks``: its cards as NVML
  knows them, as the kernel does without NVML, and what a mask calls them.
* ``amd``, with ``rocm``: its cards as ROCm numbers them.
* ``intel``, with ``levelzero`` and ``intel_masks``: its cards as Level Zero numbers
  them, and oneAPI's two masks.
* ``apple``, ``metax``: the other GPUs, one file each.
* ``tpu``, ``neuron``, ``gaudi``, ``ascend``, ``rbln``, ``furiosa``, ``mobilint``,
  ``tenstorrent``: the other kinds, one file each. ``mobilint`` is the shortest, and a
  model for a new one.

A new family is a class derived from ``Accelerator``: in a file here and in the list of
``discovery``, or in a package of its own that names it as an entry point.
"""

from __future__ import annotations

from actorlib._options.kinds import Kind
from actorlib.accelerators.base import (
    Accelerator,
    Detection,
    Device,
    Lease,
    Rejected,
    Share,
)
from actorlib.accelerators.claims import Claimant
from actorlib.accelerators.discovery import discover, families
from actorlib.accelerators.held_names import HeldNames
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
    "Claimant",
    "Detection",
    "Device",
    "HeldNames",
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
