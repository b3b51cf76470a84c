"""The names and the files of cgroups, and their removal.

The name of each cgroup is ``actorlib-PID-BEGAN-`` and a suffix: ``owner``, or a name of
the runtime and the number of a worker. PID is the owner's process id. BEGAN is its
start time in ticks of the kernel's clock. So the name tells whose cgroup it is.

The template loads this module: it survives a killed owner, and then removes the cgroups
of the owner's workers (``remove_leftovers``). It uses no pathlib for that.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress

PREFIX = "actorlib-"
OWNER = "-owner"
"""The suffix of the cgroup of the owner and of everything else without limits."""
DEVICES = "-devices"
"""The suffix of cgroups for which a driver reserves device memory. The driver must
release that memory before the cgroup is removed."""

_ATTEMPTS = 8
_WAIT = 0.25
"""Seconds to wait for killed processes to end, after each attempt."""


class CgroupFiles:
    """Acts on the files of cgroups. Tests replace it."""

    def make(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)  # noqa: PTH103

    def write(self, path: str, text: str) -> None:
        """Writes an existing file."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def children(self, path: str) -> list[str]:
        with os.scandir(path) as entries:
            return [entry.path for entry in entries if entry.is_dir()]

    def remove(self, path: str) -> None:
        os.rmdir(path)  # noqa: PTH106

    def wait_for_change(self, path: str, limit: float) -> None:
        """Waits until the kernel reports a change of a file of events."""
        with suppress(OSError), open(path, "rb") as events:  # noqa: PTH123
            poller = select.poll()
            poller.register(events, select.POLLPRI | select.POLLERR)
            events.read()
            poller.poll(limit * 1000)


def remove_tree(files: CgroupFiles, path: str) -> None:
    """Removes a cgroup and the cgroups that a worker has made in it.

    Raises:
        OSError: One of them has processes, or does not exist.
    """
    for child in files.children(path):
        remove_tree(files, child)
    files.remove(path)


def kill(files: CgroupFiles, path: str) -> None:
    """Kills all processes in a cgroup."""
    with suppress(OSError):  # kernels before Linux 5.14
        files.write(f"{path}/cgroup.kill", "1")


def end(files: CgroupFiles, path: str) -> bool:
    """Kills all processes in a cgroup and removes it; blocks for up to two seconds.

    Returns:
        Whether the cgroup is gone.
    """
    kill(files, path)
    for _ in range(_ATTEMPTS):
        try:
            remove_tree(files, path)
        except FileNotFoundError:
            return True  # the worker ended before it made the cgroup
        except OSError:
            files.wait_for_change(f"{path}/cgroup.events", _WAIT)
        else:
            return True
    return False


def remove_leftovers(owner: int) -> None:
    """Removes the cgroups of the workers of an owner that has ended."""
    with suppress(OSError):
        with open("/proc/self/cgroup", encoding="utf-8") as lines:  # noqa: PTH123
            paths = [line[3:].rstrip("\n") for line in lines if line.startswith("0::/")]
        with open("/proc/self/mounts", encoding="utf-8") as lines:  # noqa: PTH123
            mounts = [line.split()[1] for line in lines if " cgroup2 " in line]
        if paths and mounts:
            remove_beside(f"{mounts[-1]}{paths[0]}".rstrip("/"), owner)


def remove_beside(own: str, owner: int) -> None:
    """Removes the cgroups of an owner's workers.

    A cgroup for which a driver reserves device memory is only emptied: NVML has to be
    told first, which the next runtime does.

    Args:
        own: The cgroup of this process: the owner's cgroup, which is a sibling of the
            workers' cgroups, or their parent.
        owner: The owner's process id.

    Raises:
        OSError: The cgroup cannot be read.
    """
    base, _, name = own.rpartition("/")
    prefix = f"{PREFIX}{owner}-"
    if name.startswith(prefix) and name.endswith(OWNER):
        prefix = name.removesuffix(OWNER) + "-"  # with the owner's start time
    else:
        base = own
    files = CgroupFiles()
    for path in files.children(base):
        name = path.rpartition("/")[2]
        if name.startswith(prefix) and not name.endswith(OWNER):
            (kill if name.endswith(DEVICES) else end)(files, path)
