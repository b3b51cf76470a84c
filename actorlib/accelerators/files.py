"""Lists device files, which a process has to open to use a device, and often cannot.

A driver's sysfs lists every device of the machine, but a container has only some of the
files. A device without a file, or with one that may not be opened, cannot be used.
People ask about both: "it is there, why do I not get it?".

Drivers of many vendors use the kernel's own names for device files (``accel``,
``vfio``), and only the PCI ids in sysfs tell them apart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actorlib._base.value import dataclass
from actorlib.accelerators.base import Rejected

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
class Files:
    """The device files of a driver that makes one numbered file per device.

    Attributes:
        present: Every character device, as number and path, by number.
        usable: Those that this process may open.
        rejected: The others, and the devices that have no file here.
    """

    present: tuple[tuple[int, str], ...]
    usable: tuple[tuple[int, str], ...]
    rejected: tuple[Rejected, ...]


def find_files(host: Host, prefix: str, listed: str = "") -> Files:
    """Lists the device files whose names are ``prefix`` and a number.

    Args:
        host: The machine.
        prefix: The path before the number, for example ``"/dev/rbln"``.
        listed: The path before the number in the driver's sysfs, which lists all
            devices of the machine; empty if there is none.
    """
    present = tuple(file for file in _numbered(host, prefix) if host.is_device(file[1]))
    faults = {path: why for _, path in present if (why := closed(host, path))}
    here = {number for number, _ in present}
    absent = {
        path: closed(host, f"{prefix}{number}")
        for number, path in (_numbered(host, listed) if listed else ())
        if number not in here
    }
    return Files(
        present=present,
        usable=tuple(file for file in present if file[1] not in faults),
        rejected=tuple(
            Rejected(name=path, why=why) for path, why in (faults | absent).items()
        ),
    )


def closed(host: Host, path: str) -> str:
    """Returns why a device file is unusable here; empty if it is usable."""
    if not host.is_device(path):
        return f"there is no {path} here; give it to the container"
    if not host.can_open(path):
        return f"no permission to read and write {path}; join the group of that file"
    return ""


def _numbered(host: Host, prefix: str) -> list[tuple[int, str]]:
    # By number and not as text, where 10 comes before 2.
    return sorted(
        (int(number), path)
        for path in host.glob(f"{prefix}[0-9]*")
        if (number := path.removeprefix(prefix)).isdecimal()
    )


# PCI.


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
