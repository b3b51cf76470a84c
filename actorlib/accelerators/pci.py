"""Reads from sysfs whose a PCI device is, which one, and where it is plugged in.

The kernel's own names for a device file (``accel``, ``vfio``) are used by drivers of
many vendors, and only the PCI ids tell them apart.
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
    """One PCI device; texts are empty where they cannot be read.

    Attributes:
        vendor: Its vendor's id as sysfs writes it, for example ``"0x1ae0"``.
        device: Its own id, likewise.
        subsystem: The id of the board, where one chip is sold as several.
        address: For example ``"0000:3b:00.0"``, or None if unknown.
    """

    vendor: str
    device: str
    subsystem: str
    address: str | None

    @property
    def maker(self) -> str:
        """Whose it is, for people; empty if that cannot be read."""
        unknown = f"PCI vendor {self.vendor}" if self.vendor else ""
        return _MAKERS.get(self.vendor, unknown)


def read_pci(host: Host, folder: str) -> Pci:
    """Reads the ids of the device that a folder or a link in sysfs stands for."""
    vendor, device, subsystem = (
        (host.read_text(f"{folder}/{name}") or "").strip().lower()
        for name in ("vendor", "device", "subsystem_device")
    )
    name = (host.link(folder) or folder).rpartition("/")[2]
    address = name if _ADDRESS.fullmatch(name) else None
    return Pci(vendor=vendor, device=device, subsystem=subsystem, address=address)
