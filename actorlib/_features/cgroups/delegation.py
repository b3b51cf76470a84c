"""Finds out whether this program may limit its own processes by cgroup.

A program may if a part of the tree was delegated to it: by systemd (``Delegate=yes``),
by a container whose root may write its own cgroup, or as it is the machine's root. That
part begins at the cgroup that the program is in. What lies above or beside belongs to
others, also where it may be written: a worker there would escape the limits that the
program has as a whole.

https://docs.kernel.org/admin-guide/cgroup-v2.html, https://systemd.io/CGROUP_DELEGATION
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from actorlib._base.process_stat import parse_stat
from actorlib._features.cgroups.names import OWNER, PREFIX

if TYPE_CHECKING:
    from actorlib.accelerators.host import Host

ROOT = "/sys/fs/cgroup"
CONTROLLERS = ("memory", "cpu")
_WAY_OUT = (
    "systemd-run --user --scope -p Delegate=yes -- python ... starts a program in a "
    "cgroup of its own"
)


class Delegation(NamedTuple):
    """What part of the cgroup tree this program may use.

    Attributes:
        base: The cgroup below which its leaves are; empty if there is none.
        faults: Why a controller cannot be had, by its name; empty if it can.
        is_root: Whether that is the machine's root, which may hold processes and
            limits side by side.
        fault: Why none can be made there at all; empty if one can, maybe without
            controllers.
    """

    base: str
    faults: dict[str, str]
    is_root: bool = False
    fault: str = ""


def find_delegation(host: Host) -> Delegation:
    """Looks what may be used.

    Args:
        host: The machine.
    """
    base, fault = _base(host)
    if fault:
        return Delegation("", dict.fromkeys(CONTROLLERS, fault), fault=fault)
    there = (host.read_text(f"{base}/cgroup.controllers") or "").split()
    enabled = (host.read_text(f"{base}/cgroup.subtree_control") or "").split()
    # The machine's root alone has no such file.
    is_root = host.read_text(f"{base}/cgroup.type") is None
    fault = _writing_fault(host, base)
    if not fault and not is_root and not set(CONTROLLERS) & set(enabled):
        fault = _strangers_fault(host, base)
    faults = {
        name: fault
        or (
            ""
            if name in there
            else f"the {name} controller was not delegated to {base}: its "
            f"cgroup.controllers has {' '.join(there) or 'none'}"
        )
        for name in CONTROLLERS
    }
    return Delegation(base, faults, is_root, fault)


def own_origin(host: Host, process: str = "self") -> tuple[int, int]:
    """Says the id of a process and when it began; zeros if it is not there.

    Args:
        host: The machine.
        process: Its id. Default: this process.
    """
    stat = host.read_text(f"/proc/{process}/stat") or ""
    found = parse_stat(stat)
    return (0, 0) if found is None else (found.pid, found.began)


def ours(host: Host, base: str, owner: int) -> tuple[list[int], list[int]]:
    """Lists the processes in a cgroup: those that come of the owner, and strangers.

    Args:
        host: The machine.
        base: The cgroup.
        owner: The owner's process id.
    """
    mine: list[int] = []
    strangers: list[int] = []
    for word in (host.read_text(f"{base}/cgroup.procs") or "").split():
        pid = int(word) if word.isdecimal() else 0
        (mine if _comes_of(host, pid, owner) else strangers).append(pid)
    return mine, strangers


def leftovers(host: Host, base: str) -> list[str]:
    """Lists the cgroups below another one whose owner is gone: it was killed.

    Args:
        host: The machine.
        base: The other one.
    """
    found: list[str] = []
    for path in host.glob(f"{base}/{PREFIX}*"):
        name = path.rpartition("/")[2]
        owner = re.fullmatch(rf"{PREFIX}(\d+)-(\d+)-[\w-]+", name)
        if owner and own_origin(host, owner[1]) != (int(owner[1]), int(owner[2])):
            found.append(path)
    return found


def _base(host: Host) -> tuple[str, str]:
    """Finds the cgroup that the program is in; or why there is none."""
    if host.system != "linux":
        return "", "cgroups are Linux's"
    if host.read_text(f"{ROOT}/cgroup.controllers") is None:
        return "", f"cgroup v2 is not mounted at {ROOT}"
    lines = (host.read_text("/proc/self/cgroup") or "").splitlines()
    path = next((line[3:] for line in lines if line.startswith("0::")), "")
    if not path.startswith("/"):
        return "", "/proc/self/cgroup names no cgroup of version 2"
    base = f"{ROOT}{path}".rstrip("/")
    above, _, name = base.rpartition("/")
    if name.startswith(PREFIX) and name.endswith(OWNER):
        base = above  # an earlier runtime of this program has made room
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
    """Says who is in the way: a cgroup whose children have limits has no processes."""
    _, strangers = ours(host, base, own_origin(host)[0])
    if not strangers:
        return ""
    named = ", ".join(
        f"pid {pid} ({host.read_word(f'/proc/{pid}/comm') or 'unknown'})"
        for pid in strangers[:3]
    )
    more = f" and {len(strangers) - 3} more" if len(strangers) > 3 else ""
    return (
        f"processes that this program did not start are in {base}, too: {named}{more}. "
        f"They are not ours to move. {_WAY_OUT}; in a container, exec does"
    )


def _comes_of(host: Host, pid: int, owner: int) -> bool:
    """Whether a process is the owner, or descends from it."""
    passed: set[int] = set()
    while pid > 1 and pid != owner and pid not in passed:
        passed.add(pid)
        stat = host.read_text(f"/proc/{pid}/stat")
        if stat is None:
            return True  # it is gone, and in nobody's way
        found = parse_stat(stat)
        pid = 0 if found is None else found.parent
    return pid == owner
