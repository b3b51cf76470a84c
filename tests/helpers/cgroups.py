"""A kernel with cgroups that is not here, and its quirks."""

from __future__ import annotations

import errno
import fnmatch
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from actorlib._features.cgroup.delegation import ROOT
from actorlib._features.cgroup.files import CgroupFiles
from actorlib.accelerators import Host
from helpers.fake_nvml import MemoryLimits
from helpers.host import GIB
from helpers.nvml import Card, FakeNvml

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

OWNER = 100
BEGAN = 7
CARDS = ("GPU-aaaa", "GPU-bbbb")
"""The UUIDs of the cards of a machine that limits their memory by cgroup."""
ALL = ("cpu", "memory", "pids")


@dataclass
class Group:
    """A cgroup.

    Attributes:
        controllers: What it may give to its children.
        enabled: What it gives to them.
        procs: The processes in it.
        kind: What ``cgroup.type`` says; None for the machine's root.
        closed: The files that this user may not write; ``""`` is the folder.
        values: What was written into its other files.
        oom_kills: How often the kernel has killed there for lack of memory.
        dies_late: Whether killed processes are gone only when somebody has waited.
    """

    controllers: tuple[str, ...] = ALL
    enabled: set[str] = field(default_factory=set[str])
    procs: list[int] = field(default_factory=list[int])
    kind: str | None = "domain"
    closed: set[str] = field(default_factory=set[str])
    values: dict[str, str] = field(default_factory=dict[str, str])
    oom_kills: int = 0
    dies_late: bool = False


@final
class Kernel(Host):
    """A machine with a tree of cgroups, where this program is process 100.

    Args:
        path: The cgroup of the program.
        base: What that is like.

    Attributes:
        groups: All there are, by their folder.
        parents: The parent of each process.
        began: When each began, if that is not when the program did.
        own: The cgroup of the program, as ``/proc/self/cgroup`` says.
        on_move: Called after a process was moved.
        on_remove: Called with the folder of a cgroup that was removed.
        user: Who the program is, as a number.
        sdks: Modules by name; others are those that are here.
    """

    def __init__(self, path: str = "/app", base: Group | None = None) -> None:
        self.own = path
        self.base = f"{ROOT}{path}".rstrip("/")
        self.groups: dict[str, Group] = {ROOT: Group(kind=None)}
        self.groups[self.base] = base or Group(procs=[OWNER])
        self.parents = {OWNER: 1}
        self.began: dict[int, int] = {}
        self.on_move: Callable[[int], None] = lambda _: None
        self.on_remove: Callable[[str], None] = lambda _: None
        self.user = 0
        self.sdks: dict[str, ModuleType] = {}

    def sdk(self, name: str) -> ModuleType:
        """One of its modules."""
        return self.sdks.get(name) or super().sdk(name)

    @property
    def system(self) -> str:
        """Linux."""
        return "linux"

    def read_text(self, path: str) -> str | None:
        """What a file of ``/proc`` or of a cgroup says."""
        if path == "/proc/self/cgroup":
            return f"1:name=systemd:/x\n0::{self.own}\n"
        match path.split("/"):
            case ["", "proc", "self", "status"]:
                return f"Name:\tpython\nUid:\t1000\t{self.user}\t1000\t1000\n"
            case ["", "proc", "self", name]:
                return self._of_process(OWNER, name)
            case ["", "proc", pid, name] if pid.isdecimal():
                return self._of_process(int(pid), name)
            case ["", "proc", *_]:
                return super().read_text(path)
            case _:
                return self._of_group(path)

    def _of_group(self, path: str) -> str | None:
        folder, _, name = path.rpartition("/")
        group = self.groups.get(folder)
        if group is None:
            return None
        texts = {
            "cgroup.controllers": " ".join(group.controllers),
            "cgroup.subtree_control": " ".join(sorted(group.enabled)),
            "cgroup.procs": "".join(f"{pid}\n" for pid in group.procs),
            "memory.events": f"low 0\noom 1\noom_kill {group.oom_kills}\n",
            **group.values,
        }
        if group.kind is not None:
            texts["cgroup.type"] = f"{group.kind}\n"
        return texts.get(name)

    def _of_process(self, pid: int, name: str) -> str | None:
        if pid not in self.parents:
            return None
        if name == "comm":
            return f"p{pid}\n"
        began = self.began.get(pid, BEGAN)
        return f"{pid} (p {pid}) S {self.parents[pid]} {'0 ' * 17}{began} 0 0"

    def can_open(self, path: str) -> bool:
        """Whether this user may write a file of a cgroup, or into its folder."""
        if path in self.groups:
            return "" not in self.groups[path].closed
        folder, _, name = path.rpartition("/")
        return folder in self.groups and name not in self.groups[folder].closed

    def glob(self, pattern: str) -> list[str]:
        """Lists cgroups, or a file that each of them has; and NVIDIA's driver."""
        if pattern == "/dev/nvidiactl" and "pynvml" in self.sdks:
            return [pattern]
        folder, _, name = pattern.rpartition("/")
        if name == "cgroup.procs":
            return [f"{path}/{name}" for path in self.like(folder)]
        return self.like(pattern)

    def like(self, pattern: str) -> list[str]:
        """Lists cgroups by a pattern of their folders."""
        depth = pattern.count("/")
        return sorted(
            path
            for path in self.groups
            if path.count("/") == depth and fnmatch.fnmatchcase(path, pattern)
        )


@final
class LimitingMachine:
    """A kernel with cgroups, and a driver of two cards that limits them.

    Args:
        driver: Its release.
        base: The cgroup of the program.

    Attributes:
        kernel: The kernel.
        limits: What cgroups may have of the cards.
        nvml: What speaks to the driver.
    """

    def __init__(self, driver: str = "615.71.05", base: Group | None = None) -> None:
        self.kernel = Kernel(base=base)
        self.limits = MemoryLimits(lambda path: path in self.kernel.groups, driver)
        self.kernel.on_remove = self.limits.group_removed
        cards = [Card(uuid=uuid, memory=80 * GIB) for uuid in CARDS]
        self.nvml = FakeNvml(*cards, limits=self.limits)
        self.kernel.sdks["pynvml"] = self.nvml

    @property
    def leaves(self) -> set[str]:
        """The names of the cgroups of workers."""
        base = f"{self.kernel.base}/"
        names = {path.rpartition("/")[2] for path in self.kernel.groups if base in path}
        return {name for name in names if not name.endswith("-owner")}


@final
class KernelFiles(CgroupFiles):
    """Acts on that kernel, which refuses what the real one does.

    Args:
        kernel: The kernel.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def make(self, path: str) -> None:
        """Makes a cgroup below one that is there."""
        above = self._group(path.rpartition("/")[0])
        if "" in above.closed:
            raise _refusal(errno.EACCES)
        available = tuple(sorted(above.enabled))
        self._kernel.groups.setdefault(path, Group(controllers=available))

    def write(self, path: str, text: str) -> None:
        """Writes a file of a cgroup."""
        folder, _, name = path.rpartition("/")
        group = self._group(folder)
        if name in group.closed:
            raise _refusal(errno.EACCES)
        if name == "cgroup.procs":
            self._move(group, int(text) or OWNER)
        elif name == "cgroup.subtree_control":
            self._enable(group, text)
        elif name == "cgroup.kill":
            if not group.dies_late:
                self._end_all(group)
        else:
            controller = name.partition(".")[0]
            if controller not in group.controllers:
                raise _refusal(errno.ENOENT)
            group.values[name] = text

    def _move(self, group: Group, pid: int) -> None:
        kernel = self._kernel
        if pid not in kernel.parents:
            raise _refusal(errno.ESRCH)
        if group.enabled and group.kind is not None:
            raise _refusal(errno.EBUSY)  # no processes where children have limits
        for each in kernel.groups.values():
            if pid in each.procs:
                each.procs.remove(pid)
        group.procs.append(pid)
        kernel.on_move(pid)

    def _enable(self, group: Group, text: str) -> None:
        names = [word.removeprefix("+") for word in text.split()]
        if not set(names) <= set(group.controllers):
            raise _refusal(errno.ENOENT)
        if group.procs and group.kind is not None:
            raise _refusal(errno.EBUSY)
        group.enabled.update(names)

    def _end_all(self, group: Group) -> None:
        for pid in group.procs:
            self._kernel.parents.pop(pid, None)
        group.procs.clear()

    def children(self, path: str) -> list[str]:
        """Lists the cgroups below one."""
        self._group(path)
        return self._kernel.like(f"{path}/*")

    def remove(self, path: str) -> None:
        """Removes a cgroup."""
        group = self._group(path)
        if group.procs or self._kernel.glob(f"{path}/*"):
            raise _refusal(errno.EBUSY)
        del self._kernel.groups[path]
        self._kernel.on_remove(path)

    def wait_for_change(self, path: str, limit: float) -> None:
        """Has what was killed be gone."""
        del limit
        self._end_all(self._group(path.rpartition("/")[0]))

    def _group(self, folder: str) -> Group:
        if folder not in self._kernel.groups:
            raise _refusal(errno.ENOENT)
        return self._kernel.groups[folder]


def _refusal(number: int) -> OSError:
    return OSError(number, os.strerror(number))
