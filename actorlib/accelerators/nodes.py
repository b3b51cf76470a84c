"""The device files of a driver that makes one per device and numbers them.

A driver's sysfs lists every device of the machine, while a container is given the files
of some. A device without a file, or with one that may not be opened, cannot be used,
and both are what people ask about: "it is there, why do I not get it?".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actorlib.accelerators.base import Rejected

if TYPE_CHECKING:
    from actorlib.accelerators.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The device files of one driver.

    Attributes:
        present: Every character device, as number and path, by number.
        usable: Those of them that this process may open.
        rejected: The others, and the devices that have no file here.
        reason: Why nothing is usable although there is a trace of the driver.
    """

    present: tuple[tuple[int, str], ...]
    usable: tuple[tuple[int, str], ...]
    rejected: tuple[Rejected, ...]
    reason: str


def find_nodes(host: Host, prefix: str, listed: str = "") -> Nodes:
    """Finds the device files that are called ``prefix`` and a number.

    Args:
        host: The machine.
        prefix: What comes before the number, for example ``"/dev/rbln"``.
        listed: What comes before the number in the driver's sysfs, where all devices
            of the machine are; empty if it has none.
    """
    present = tuple(
        (number, path)
        for number, path in _numbered(host, prefix)
        if host.is_device(path)
    )
    usable = tuple(node for node in present if host.can_open(node[1]))
    here = {number for number, _ in present}
    known = _numbered(host, listed) if listed else []
    rejected = (
        *(
            Rejected(name=path, why="no permission to read and write it")
            for number, path in present
            if (number, path) not in usable
        ),
        *(
            Rejected(name=path, why=f"there is no {prefix}{number} here")
            for number, path in known
            if number not in here
        ),
    )
    reason = ""
    if rejected and not usable:
        reason = f"{rejected[0].name}: {rejected[0].why}"
    return Nodes(present=present, usable=usable, rejected=rejected, reason=reason)


def _numbered(host: Host, prefix: str) -> list[tuple[int, str]]:
    # By number and not as text, where 10 comes before 2.
    return sorted(
        (int(number), path)
        for path in host.glob(f"{prefix}[0-9]*")
        if (number := path.removeprefix(prefix)).isdecimal()
    )
