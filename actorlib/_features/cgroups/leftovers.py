"""Removes the cgroups that an owner leaves which was killed, in its template's end.

The template is what outlives the owner, and it is beside them: it was moved with the
owner to a cgroup whose name begins as theirs do, or is where they are made. Those for
which a driver keeps memory of a device stay, as NVML has to be told before: the next
runtime does that. So does the one that the template is in itself.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from actorlib._features.cgroups.names import DEVICES, OWNER, PREFIX

_ROUNDS = 20
_PAUSE = 0.01
"""Seconds between two tries to remove one in which something is ending."""


def remove_leftovers(owner: int) -> None:
    """Ends what is left in the cgroups of an owner's workers, and removes them.

    Args:
        owner: The process id of an owner that has ended.
    """
    with suppress(OSError):
        own = _own_cgroup()
        if own is not None:
            remove_beside(own, owner)


def remove_beside(own: str, owner: int) -> None:
    """Removes the cgroups of an owner's workers.

    Args:
        own: The cgroup of this process: that of the owner, or the one that holds all.
        owner: The process id of the owner.

    Raises:
        OSError: The cgroup cannot be read.
    """
    base, _, name = own.rpartition("/")
    begin = f"{PREFIX}{owner}-"
    if name.startswith(begin) and name.endswith(OWNER):
        begin = name.removesuffix(OWNER) + "-"  # with when it began
    else:
        base = own
    for each in os.listdir(base):  # noqa: PTH208  # no pathlib in the template
        if each.startswith(begin) and not each.endswith(OWNER):
            _end(f"{base}/{each}", keeps=each.endswith(DEVICES))


def _own_cgroup() -> str | None:
    """Finds the folder of the cgroup of version 2 that this process is in."""
    path = mount = None
    with open("/proc/self/cgroup", encoding="utf-8") as lines:  # noqa: PTH123
        for line in lines:
            if line.startswith("0::/"):
                path = line[3:].rstrip("\n")
    with open("/proc/self/mounts", encoding="utf-8") as lines:  # noqa: PTH123
        for line in lines:
            words = line.split()
            if len(words) > 2 and words[2] == "cgroup2":
                mount = words[1]
    return None if path is None or mount is None else f"{mount}{path}".rstrip("/")


def _end(folder: str, *, keeps: bool) -> None:
    with suppress(OSError):  # older than Linux 5.14
        descriptor = os.open(f"{folder}/cgroup.kill", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"1")
        finally:
            os.close(descriptor)
    for _ in range(0 if keeps else _ROUNDS):
        try:
            for below, _, _ in os.walk(folder, topdown=False):
                os.rmdir(below)  # noqa: PTH106
        except OSError:
            time.sleep(_PAUSE)
        else:
            return
