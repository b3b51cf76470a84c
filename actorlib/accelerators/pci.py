"""Reads the ids and the address of a PCI device from sysfs.

Drivers of many vendors use the kernel's own names for device files (``accel``,
``vfio``), and only the PCI ids tell them apart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actorlib._base.value import dataclass

if TYPE_CHECKING:
    from actorlib.accelerators.host import Host

_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_MAKERS = {
    "0x1002": "AMD",
    "0x1022": "AMD",
    "0x10de": "NVIDIA",
    "0x15b3": "NVIDIA (Mellanox)",
    "0x19e5": "Huawei",
    "0x1ae0": "Google",
    "0x1da3": "Intel (Habana)",
    "0x8086": "Intel",
    "0x9999": "MetaX",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pci:
    """One PCI device; texts are empty if they cannot be read.

    Attributes:
        vendor: The vendor's id as in sysfs, for example ``"0x1ae0"``.
        device: The device's id.
        subsystem: The id of the board, where one chip is sold as several.
        address: For example ``"0000:3b:00.0"``, or None if unknown.
    """

    vendor: str
    device: str
    subsystem: str
    address: str | None

    @property
    def maker(self) -> str:
        """The name of the vendor, for people; empty if it cannot be read."""
        unknown = f"PCI vendor {self.vendor}" if self.vendor else ""
        return _MAKERS.get(self.vendor, unknown)


def read_pci(host: Host, folder: str) -> Pci:
    """Reads the device behind a folder or a link in sysfs."""
    vendor, device, subsystem = (
        (host.read_text(f"{folder}/{name}") or "").strip().lower()
        for name in ("vendor", "device", "subsystem_device")
    )
    name = (host.link(folder) or folder).rpartition("/")[2]
    address = name if _ADDRESS.fullmatch(name) else None
    return Pci(vendor=vendor, device=device, subsystem=subsystem, address=address)
