"""The only access to the machine: its files, its environment, its vendors' SDKs.

Families read the machine only here, so that a recording of the answers is a test.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from actorlib._base.public import public
from actorlib.accelerators.held_names import LockedFiles, SocketNames

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from actorlib.accelerators.held_names import HeldNames


@public("actorlib.accelerators")
class Host:
    """The machine that this process runs on.

    All questions about the machine go through this class, so a subclass that answers
    from a recording can replay any machine. Nothing is cached: changes of the machine
    appear here. Every method may touch the disk, so none belongs on an event loop.
    """

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of this process, live."""
        return os.environ

    def read_text(self, path: str) -> str | None:
        """Reads a file as text; None if it is missing or may not be read."""
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):
            # Part of the path may be from another file, and may contain a NUL.
            return None

    def read_word(self, path: str) -> str | None:
        """Reads a file without surrounding blanks; None if it is empty."""
        return (self.read_text(path) or "").strip() or None

    def read_number(self, path: str) -> int | None:
        """Reads a file with one number in plain decimal; else None."""
        word = self.read_word(path) or ""
        # Drivers use 64 bits. Python refuses to read a very long number.
        is_number = word.isascii() and word.isdecimal() and len(word) <= 20
        return int(word) if is_number else None

    def glob(self, pattern: str) -> list[str]:
        """Lists the paths that match an absolute pattern, sorted as text.

        Args:
            pattern: For example ``/dev/nvidia[0-9]*``; ``*`` stops at a slash.
        """
        paths = Path("/").glob(pattern.removeprefix("/"))
        return sorted(map(str, paths))

    def is_device(self, path: str) -> bool:
        """Whether the path is a character device."""
        try:
            return Path(path).is_char_device()
        except OSError:
            return False

    def can_open(self, path: str) -> bool:
        """Whether this process may read and write the path."""
        return os.access(path, os.R_OK | os.W_OK)

    def link(self, path: str) -> str | None:
        """Resolves a symbolic link; None if it is not a link, or cannot be read.

        The last part of ``/sys/.../device/driver`` is the driver's name, that of
        ``/sys/.../device`` the PCI address.

        Args:
            path: The link, absolute.
        """
        # An error is raised for another user's /proc/<pid>/ns, for example.
        with contextlib.suppress(OSError):
            if Path(path).is_symlink():
                return os.path.realpath(path)
        return None

    @property
    def system(self) -> str:
        """The operating system as ``sys.platform`` names it, for example ``linux``."""
        return sys.platform

    @property
    def architecture(self) -> str:
        """The processor as ``uname -m`` names it, for example ``x86_64``."""
        return platform.machine()

    def output(self, *command: str, limit: float = 2.0) -> str | None:
        """Returns the output of a command; None if it fails or takes too long.

        Args:
            *command: The program and its arguments.
            limit: Seconds after which it is killed. Default: 2.0.
        """
        try:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=limit,
                check=True,
                text=True,
                errors="replace",
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return ended.stdout

    def program(self, name: str) -> str | None:
        """Returns the path of a program on ``PATH``; None if it is missing.

        Args:
            name: The program, for example ``"nvidia-smi"``.
        """
        return shutil.which(name, path=self.environ.get("PATH", os.defpath))

    def sdk(self, name: str) -> ModuleType:
        """Imports a vendor's module on first use.

        Args:
            name: The module, for example ``"pynvml"``.

        Raises:
            ImportError: It is not installed, or cannot be loaded.
        """
        return importlib.import_module(name)

    def names(self) -> HeldNames:
        """Returns the names that processes of this user hold."""
        if sys.platform == "linux":
            return SocketNames()
        folder = self.environ.get("TMPDIR") or "/tmp"
        return LockedFiles(Path(folder, f"actorlib-{os.getuid()}"))

    def affinity(self) -> int:
        """Counts the logical CPUs that the scheduler may run this process on."""
        if sys.platform == "linux":
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

    def physical_memory(self) -> int:
        """Returns the memory of the machine in bytes, whatever this process may use."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    @property
    def page_size(self) -> int:
        """The size in bytes of a page of memory, the kernel's unit."""
        return os.sysconf("SC_PAGE_SIZE")

    def cpu_count(self) -> int:
        """Counts the logical CPUs that this process may use, at least 1.

        The CPU affinity and the CPU quota of a container limit it. The fraction of a
        quota is
        dropped: actors are promised whole CPUs.
        """
        return max(1, min((self.affinity(), *self._cpu_quotas())))

    def memory(self) -> int:
        """Returns the bytes of memory that this process may use, in a container too."""
        return min(
            (self.physical_memory(), *(limit for _, limit in self.memory_limits()))
        )

    def _cpu_quotas(self) -> Iterator[int]:
        for folder in self._limiting_groups("cpu"):
            # Version 1 has two files for the one line of version 2.
            names = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
            texts = (self.read_text(f"{folder}/{name}") or "" for name in names)
            match " ".join(texts).split():
                case [quota, period] if quota.isdecimal():  # not "max", not -1
                    yield int(quota) // int(period)
                case _:
                    pass

    def memory_limits(self) -> Iterator[tuple[str, int]]:
        """Yields the folder of each cgroup that limits the memory, and its bytes."""
        for folder in self._limiting_groups("memory"):
            for name in ("memory.max", "memory.limit_in_bytes"):
                limit = self.read_number(f"{folder}/{name}")
                if limit is not None:
                    yield folder, limit

    def _limiting_groups(self, controller: str) -> Iterator[str]:
        """Yields the folders whose limits bind this process, its own cgroup's first.

        Every ancestor's limit binds, too. A container without a cgroup namespace reads
        its path on the host, and its own group is mounted at the root: the walk up ends
        there as well.

        https://docs.kernel.org/admin-guide/cgroup-v2.html, cgroups(7)
        """
        for line in (self.read_text("/proc/self/cgroup") or "").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                root = "/sys/fs/cgroup"
            elif controller in controllers.split(","):
                # By its single name: the kernel's order in a joint name (cpuacct,cpu)
                # may differ from the mount's, but each single name is always a link.
                root = f"/sys/fs/cgroup/{controller}"
            else:
                continue
            group = PurePosixPath(path)
            yield from (f"{root}{step}".rstrip("/") for step in (group, *group.parents))


def oom_kills(counters: str) -> int:
    """Reads the number of processes that the kernel has killed for lack of memory.

    Args:
        counters: The content of ``/proc/vmstat``, or of a cgroup's ``memory.events``.
    """
    line = re.search(r"^oom_kill (\d+)$", counters, re.MULTILINE)
    return int(line[1]) if line else 0
