"""Accelerators: finds the devices of a machine, and shows a process only its own.

A *family* is the devices of one vendor, and the class that finds and masks them. The
common parts, in reading order:

* ``base``: values (a device, a share of it, a lease), and ``Accelerator``, the base
  class of families.
* ``host``: the only access to the machine, so that a recorded machine is a test.
* ``masks``: reads visibility variables as the vendors' own software does.
* ``types``: the names of models, for ``accelerator_type``.
* ``type_names``: the types that a user's word means, and those of drivers' names.
* ``discovery``: lists all families, and asks all of them at once for their devices.
* ``fake_devices``: fake devices, for trying programs without hardware.
* ``inventory``: the devices that a runtime may grant; turns a lease into an environment
  and into the ids that the user sees.
* ``claims``, ``held_names``: tell other programs which devices this one uses, and read
  their claims.
* ``device_users``: which programs use a device now, read from the names of sockets.
* ``files``: reads device files and the PCI ids in sysfs.

The families, each beginning with its vendor's rules and their sources:

* ``nvidia``, with ``nvml`` and ``nvidia_driver``: cards as listed by NVML or, without
  it, by the kernel.
* ``amd``, with ``rocm``: cards with ROCm's numbers.
* ``intel``, with ``levelzero`` and ``intel_masks``: cards with Level Zero's numbers,
  and oneAPI's two masks.
* ``apple``, ``metax``: the other GPUs, one file each.
* ``tpu``, ``neuron``, ``gaudi``, ``ascend``, ``rbln``, ``furiosa``, ``mobilint``,
  ``tenstorrent``: the other kinds, one file each. ``mobilint`` is the shortest, and a
  model for a new one.

A new family is a class derived from ``Accelerator``: in a file here and in the list of
``discovery``, or in a separate package with an entry point.
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
