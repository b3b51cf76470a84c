"""Determines whether this program may limit its own processes by cgroup.

A program may if a part of the tree was delegated to it: by systemd (``Delegate=yes``),
by a container whose root may write its own cgroup, or because it is the machine's root.
That part begins at the cgroup that the program is in. Ancestors and siblings belong to
others, even where they are writable: a worker there would escape the limits of the
program as a whole.

https://docs.kernel.org/admin-guide/cgroup-v2.html, https://systemd.io/CGROUP_DELEGATION
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from actorlib._base.process_stat import parse_stat
from actorlib._features.cgroup.files import OWNER, PREFIX

if TYPE_CHECKING:
    from actorlib.accelerators.host import Host

ROOT = "/sys/fs/cgroup"
CONTROLLERS = ("memory", "cpu")
_WAY_OUT = (
    "systemd-run --user --scope -p Delegate=yes -- python ... starts a program in a "
    "cgroup of its own"
)


class Delegation(NamedTuple):
    """The part of the cgroup tree that this program may use.

    Attributes:
        base: The cgroup whose children the program may make; empty if there is none.
        faults: By controller, the reason why it is unavailable; empty if it is
            available.
        is_root: Whether ``base`` is the machine's root, which may hold processes and
            children with limits at the same time.
        fault: Why the program can make no cgroup at all; empty if it can make some,
            maybe without controllers.
    """

    base: str
    faults: dict[str, str]
    is_root: bool = False
    fault: str = ""


def find_delegation(host: Host) -> Delegation:
    base, fault = _base(host)
    if fault:
        return Delegation("", dict.fromkeys(CONTROLLERS, fault), fault=fault)
    available = (host.read_text(f"{base}/cgroup.controllers") or "").split()
    enabled = (host.read_text(f"{base}/cgroup.subtree_control") or "").split()
    # Only the machine's root has no such file.
    is_root = host.read_text(f"{base}/cgroup.type") is None
    fault = _writing_fault(host, base)
    if not fault and not is_root and not set(CONTROLLERS) & set(enabled):
        fault = _strangers_fault(host, base)
    faults = {
        name: fault
        or (
            ""
            if name in available
            else f"the {name} controller was not delegated to {base}: its "
            f"cgroup.controllers has {' '.join(available) or 'none'}"
        )
        for name in CONTROLLERS
    }
    return Delegation(base, faults, is_root, fault)


def own_origin(host: Host, process: str = "self") -> tuple[int, int]:
    """Returns the id of a process and its start time; zeros if it does not exist."""
    stat = parse_stat(host.read_text(f"/proc/{process}/stat") or "")
    return (0, 0) if stat is None else (stat.pid, stat.began)


def ours(host: Host, base: str, owner: int) -> tuple[list[int], list[int]]:
    """Lists the processes in a cgroup: the owner's and the others."""
    mine: list[int] = []
    strangers: list[int] = []
    for word in (host.read_text(f"{base}/cgroup.procs") or "").split():
        pid = int(word) if word.isdecimal() else 0
        (mine if _comes_of(host, pid, owner) else strangers).append(pid)
    return mine, strangers


def leftovers(host: Host, base: str) -> list[str]:
    """Lists the child cgroups of ``base`` whose owner was killed."""
    paths: list[str] = []
    for path in host.glob(f"{base}/{PREFIX}*"):
        name = path.rpartition("/")[2]
        owner = re.fullmatch(rf"{PREFIX}(\d+)-(\d+)-[\w-]+", name)
        if owner and own_origin(host, owner[1]) != (int(owner[1]), int(owner[2])):
            paths.append(path)
    return paths


def _base(host: Host) -> tuple[str, str]:
    """Returns the cgroup that the program is in; or the reason why there is none."""
    if host.system != "linux":
        return "", "only Linux has cgroups"
    if host.read_text(f"{ROOT}/cgroup.controllers") is None:
        return "", f"cgroup v2 is not mounted at {ROOT}"
    lines = (host.read_text("/proc/self/cgroup") or "").splitlines()
    path = next((line[3:] for line in lines if line.startswith("0::")), "")
    if not path.startswith("/"):
        return "", "/proc/self/cgroup names no cgroup of version 2"
    base = f"{ROOT}{path}".rstrip("/")
    parent, _, name = base.rpartition("/")
    if name.startswith(PREFIX) and name.endswith(OWNER):
        base = parent  # an earlier runtime of this program has moved its processes
    if "/../" in f"{path}/" or host.read_text(f"{base}/cgroup.controllers") is None:
        return "", (
            f"{base}, which /proc/self/cgroup names, cannot be seen here: this "
            "container is not in a cgroup namespace of its own"
        )
    kind = host.read_word(f"{base}/cgroup.type")
    if kind not in (None, "domain"):
        return "", f"{base} is of the type {kind!r}, whose children have no memory.max"
    return base, ""


def _writing_fault(host: Host, base: str) -> str:
    names = ("", "/cgroup.procs", "/cgroup.subtree_control")
    closed = [name for name in names if not host.can_open(f"{base}{name}")]
    if not closed:
        return ""
    return f"{base}{closed[0]} may not be written: it was not delegated. {_WAY_OUT}"


def _strangers_fault(host: Host, base: str) -> str:
    """Checks for foreign processes, as a parent of cgroups with limits has none."""
    _, strangers = ours(host, base, own_origin(host)[0])
    if not strangers:
        return ""
    names = ", ".join(
        f"pid {pid} ({host.read_word(f'/proc/{pid}/comm') or 'unknown'})"
        for pid in strangers[:3]
    )
    more = f" and {len(strangers) - 3} more" if len(strangers) > 3 else ""
    return (
        f"processes that this program did not start are in {base}, too: {names}{more}. "
        f"actorlib must not move them. {_WAY_OUT}; in a container, exec does"
    )


def _comes_of(host: Host, pid: int, owner: int) -> bool:
    """Whether a process is the owner, or descends from it."""
    visited: set[int] = set()
    while pid > 1 and pid != owner and pid not in visited:
        visited.add(pid)
        text = host.read_text(f"/proc/{pid}/stat")
        if text is None:
            return True  # it has ended, so it does not matter
        stat = parse_stat(text)
        pid = 0 if stat is None else stat.parent
    return pid == owner
