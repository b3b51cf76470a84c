"""Reads how much memory of the machine, or of this program's cgroup, is in use.

Page cache that the kernel can reclaim does not count as used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib.accelerators.host import Host

_RECLAIMABLE = re.compile(
    r"^(?:total_)?(?:active_file|inactive_file|slab_reclaimable) (\d+)$", re.MULTILINE
)
_TOTALS = re.compile(r"^total_\w+ \d+$", re.MULTILINE)


class MemoryUsage(NamedTuple):
    """Memory in use, in bytes.

    Attributes:
        used: Bytes in use that the kernel cannot reclaim.
        total: Bytes that may be used.
    """

    used: int
    total: int

    @property
    def fraction(self) -> float:
        """The part in use, from 0 to 1."""
        return self.used / self.total


def memory_usage(host: Host) -> MemoryUsage | None:
    """Reads the memory of the machine or of a cgroup, whichever is fuller.

    Returns:
        None where the system does not report it.
    """
    usages = [*_machine_usage(host), *_cgroup_usages(host)]
    return max(usages, key=lambda usage: usage.fraction, default=None)


def _machine_usage(host: Host) -> Iterator[MemoryUsage]:
    """Reads ``/proc/meminfo``.

    https://docs.kernel.org/filesystems/proc.html#meminfo
    """
    meminfo = host.read_text("/proc/meminfo") or ""
    pairs = re.findall(r"^(MemTotal|MemAvailable):\s+(\d+)", meminfo, re.MULTILINE)
    sizes = {name: int(kibibytes) * 1024 for name, kibibytes in pairs}
    if len(sizes) == 2 and sizes["MemTotal"]:
        total = sizes["MemTotal"]
        yield MemoryUsage(max(0, total - sizes["MemAvailable"]), total)


def _cgroup_usages(host: Host) -> Iterator[MemoryUsage]:
    """Reads each cgroup above this process that has a limit.

    https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files
    https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
    """
    physical = host.physical_memory()
    for folder, limit in host.memory_limits():
        if not 0 < limit < physical:
            continue  # version 1 writes a huge number for "no limit"
        used = host.read_number(f"{folder}/memory.current")
        if used is None:
            used = host.read_number(f"{folder}/memory.usage_in_bytes")
        if used is not None:
            reclaimable = _reclaimable(host.read_text(f"{folder}/memory.stat") or "")
            yield MemoryUsage(max(0, used - reclaimable), limit)


def _reclaimable(stat: str) -> int:
    """Sums the page cache and the slabs that the kernel can reclaim.

    Version 1 lists each size twice: that of the cgroup alone, and with its descendants,
    whose names begin with ``total_``. The usage includes descendants.
    """
    totals = _TOTALS.findall(stat)
    lines = "\n".join(totals) if totals else stat
    return sum(int(size) for size in _RECLAIMABLE.findall(lines))
