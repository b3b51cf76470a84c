"""Reads how much of the host's memory is in use: in all, and by each worker.

Page cache that the kernel can reclaim does not count as used. The usage is that of the
machine or of this program's cgroup.

Of a worker, the resident size is cheap to read but too large: pages that processes
share, as forks of one template do, are counted for each process. The proportional size
divides such pages among the processes that share them. Reading it is expensive, because
the kernel walks over every page.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from actorlib._base.process_stat import parse_stat

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from actorlib._base.process_stat import ProcessStat
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


# By worker.


class Resident(NamedTuple):
    """The host's memory of a worker and all its descendants."""

    nbytes: int
    pids: tuple[int, ...]


def resident_sizes(host: Host, workers: Collection[int]) -> dict[int, Resident]:
    """Returns the resident size of each worker that exists, by its process id.

    Reads one file for each process of the machine.
    """
    stats = map(host.read_text, host.glob("/proc/[0-9]*/stat"))
    processes = filter(None, (parse_stat(stat) for stat in stats if stat))
    return tallied(processes, workers, host.page_size)


def proportional_size(host: Host, pids: Collection[int]) -> int | None:
    """Returns the proportional size of processes together; None where it is unknown."""
    texts = [host.read_text(f"/proc/{pid}/smaps_rollup") for pid in pids]
    sizes = (proportional_of(text) for text in texts if text)
    listed = [size for size in sizes if size is not None]
    return sum(listed) if listed else None  # processes that have ended have nothing


def private_sizes(host: Host, workers: Collection[int]) -> dict[int, int]:
    """Returns the bytes of each worker that its end would free, by its process id.

    Pages of files and of shared memory do not count. Pages that forks share with their
    template count for each of them: about 12 MiB. This is cheap, unlike the
    proportional size.

    https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html
    """
    return {
        worker: sum(_private_size(host, pid) for pid in resident.pids)
        for worker, resident in resident_sizes(host, workers).items()
    }


def _private_size(host: Host, pid: int) -> int:
    counts = (host.read_text(f"/proc/{pid}/statm") or "").split()
    if len(counts) < 3:
        return 0  # it has ended
    _, resident, shared, *_ = map(int, counts)
    return max(0, resident - shared) * host.page_size


def tallied(
    processes: Iterable[ProcessStat], workers: Collection[int], page: int
) -> dict[int, Resident]:
    """Adds up the memory of each worker and its descendants.

    A worker leads a session. A process outside of it is found by its parents, and
    belongs to the nearest worker above it.

    Returns:
        The memory of each worker that exists.
    """
    by_pid = {process.pid: process for process in processes}
    owners: dict[int, int] = {}
    families: dict[int, list[ProcessStat]] = {}
    for process in by_pid.values():
        owner = _owner(process, by_pid, workers, owners)
        if owner:
            families.setdefault(owner, []).append(process)
    return {
        worker: Resident(
            page * sum(each.pages for each in its), tuple(each.pid for each in its)
        )
        for worker, its in families.items()
        if worker in by_pid
    }


def _owner(
    process: ProcessStat,
    by_pid: Mapping[int, ProcessStat],
    workers: Collection[int],
    owners: dict[int, int],
) -> int:
    """Returns the process id of the worker that a process belongs to, or 0."""
    visited: list[int] = []
    each: ProcessStat | None = process
    owner = 0
    while each is not None and each.pid not in visited:
        if each.pid in workers:
            owner = each.pid
        elif each.session in workers:
            owner = each.session
        else:
            owner = owners.get(each.pid, -1)
        if owner >= 0:
            break
        owner = 0
        visited.append(each.pid)
        each = by_pid.get(each.parent)
    owners.update(dict.fromkeys(visited, owner))
    return owner


def proportional_of(rollup: str) -> int | None:
    """Parses ``/proc/<pid>/smaps_rollup``: the proportional size in bytes, or None.

    https://docs.kernel.org/filesystems/proc.html
    """
    for line in rollup.splitlines():
        name, _, rest = line.partition(":")
        number = rest.partition("kB")[0].strip()
        if name == "Pss" and number.isdecimal():
            return int(number) * 1024
    return None
