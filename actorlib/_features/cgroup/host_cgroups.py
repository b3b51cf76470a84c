"""Limits workers to what they requested by cgroup: memory and CPUs, and devices.

Each worker of an actor or function with ``enforcement="cgroup"`` gets its own leaf
cgroup below the owner's cgroup. So the limits of the program as a whole still apply,
and nothing outside the delegated part is touched. ``delegation`` determines whether
that is possible.

A cgroup whose children have limits may hold no processes itself. So the program first
makes room, once: the owner, its template and all their descendants move to a leaf
beside those of the workers, which has no limits. They stay there until they end: they
could not move back while another runtime of the program still has leaves.

A worker makes its leaf and joins it before any of the user's code is imported
(``worker``), so everything that it starts is in there, too. If its device memory is
limited, its leaf is made before it begins, and the driver gets the limit
(``device_cgroups``). After its end its leaf is emptied and removed. The leaves of
killed owners are removed by their templates (``files``), or else by the next runtime in
the same place.

A process of the same user can write these files, too: the limits stop mistakes, not
attacks.

https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, final

from actorlib._base.log import tell
from actorlib._base.value import dataclass
from actorlib._features.cgroup.delegation import (
    CONTROLLERS,
    Delegation,
    find_delegation,
    leftovers,
    ours,
    own_origin,
)
from actorlib._features.cgroup.files import (
    DEVICES,
    OWNER,
    PREFIX,
    CgroupFiles,
    end,
    remove_tree,
)
from actorlib._options.resources import CPU, MEMORY
from actorlib.accelerators.host import oom_kills
from actorlib.exceptions import EnforcementRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actorlib._features.cgroup.device_cgroups import DeviceCgroups
    from actorlib.accelerators.base import Share
    from actorlib.accelerators.host import Host

_PERIOD = 100_000
"""The period of a CPU quota in microseconds: the kernel's default."""
_LEAST_QUOTA = 1_000
"""The smallest quota in microseconds that the kernel accepts."""
_ROUNDS = 8
"""How often processes are moved: one may fork while others are moved."""
_PATIENCE = 2.0
"""Seconds to wait for NVML at the end of a runtime."""
_LIMIT = 10.0
"""Seconds that the driver may take to limit a leaf before its worker is refused."""
_DMEM = "dmem"
"""The kernel's controller of device memory since Linux 6.14, which drivers use."""
_log = logging.getLogger("actorlib")


def limits_of(amounts: Mapping[str, int]) -> dict[str, str]:
    """Returns the texts to write by the name of the file in a leaf.

    Args:
        amounts: What a worker holds: bytes of memory, units of CPUs.
    """
    limits: dict[str, str] = {}
    if memory := amounts.get(MEMORY):
        limits["memory.max"] = str(memory)
        # A worker without one of its processes is broken: kill all, or none.
        limits["memory.oom.group"] = "1"
    if units := amounts.get(CPU):
        quota = units * _PERIOD // 10_000
        limits["cpu.max"] = f"{max(_LEAST_QUOTA, quota)} {_PERIOD}"
    return limits


@dataclass(slots=True)
class Leaf:
    """The cgroup of a worker, and its limit of memory in bytes; 0 for no limit.

    ``devices`` has the UUIDs of devices whose memory the driver reserves for it.
    """

    path: str
    memory: int = 0
    devices: tuple[str, ...] = ()


@final
class HostCgroups:
    """The leaf cgroups of one runtime's workers."""

    def __init__(self, host: Host, files: CgroupFiles | None = None) -> None:
        self._host = host
        self._files = files or CgroupFiles()
        self._delegation: Delegation | None = None
        self._is_open = False
        self._owner = self._name = ""
        self._leaves: dict[int, Leaf] = {}
        self._removing: dict[asyncio.Task[None], Leaf] = {}
        self._leftovers: list[str] = []
        self._devices: DeviceCgroups | None = None

    @property
    def delegation(self) -> Delegation:
        """The delegated part of the cgroup tree, determined once."""
        if self._delegation is None:
            self._delegation = find_delegation(self._host)
        return self._delegation

    def fault(self, amounts: Mapping[str, int]) -> str:
        """Returns why these amounts cannot be limited; empty if they can."""
        faults = (
            self.delegation.faults.get(controller, "")
            for name, controller in ((MEMORY, "memory"), (CPU, "cpu"))
            if amounts.get(name)
        )
        return next(filter(None, faults), "")

    def open(self) -> None:
        """Makes room for leaves, once; blocks for some milliseconds.

        Raises:
            EnforcementRefused: The kernel refuses it.
        """
        if self._is_open or self.delegation.fault:
            return  # requests that need limits of the host were refused
        base = self.delegation.base
        pid, began = own_origin(self._host)
        self._owner = f"{base}/{PREFIX}{pid}-{began}{OWNER}"
        # A process may have several runtimes in turn, which all number from 1.
        self._name = f"{base}/{PREFIX}{pid}-{began}-{os.urandom(3).hex()}"
        try:
            self._remove_leftovers(base)
            self._enable(base, pid)
        except OSError as error:
            raise EnforcementRefused(
                f"the kernel refuses cgroups below {base}: {error}"
            ) from error
        self._is_open = True

    async def limit_devices(
        self, number: int, shares: Sequence[Share], ended: asyncio.Future[Any]
    ) -> None:
        """Makes the leaf of a worker that holds devices, before the worker begins.

        Args:
            number: The number of the worker's session.
            shares: The worker's shares of devices.
            ended: Done when the worker's process has ended; then there is nothing to
                limit.

        Raises:
            EnforcementRefused: The driver refuses it, or does not answer: the worker
                must not begin.
        """
        devices = self._device_cgroups()
        for path in self._leftovers:
            self._start_removal(Leaf(path), devices.clear(path, ()))
        self._leftovers.clear()
        uuids = tuple(share.device.uuid or "" for share in shares)
        leaf = self._leaves[number] = Leaf(f"{self._name}-{number}{DEVICES}", 0, uuids)
        limiting = devices.limit(self._files.make, leaf.path, shares)
        either: set[asyncio.Future[Any]] = {limiting, ended}
        await asyncio.wait(either, timeout=_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        if limiting.done():
            fault = limiting.result()
        else:
            fault = "" if ended.done() else f"NVML has not answered for {_LIMIT:g} s"
        if fault:
            ids = ", ".join(share.device.id for share in shares)
            raise EnforcementRefused(
                f"enforcement='cgroup': the memory of GPU {ids} cannot be limited for "
                f"{leaf.path}: {fault}"
            )

    def plan(self, number: int, amounts: Mapping[str, int]) -> dict[str, str] | None:
        """Returns what a worker writes to join its own leaf; None if it needs none.

        Returns:
            Texts by the path of the file, in order. Their folder is made first.
        """
        limits = limits_of(amounts)
        leaf = self._leaves.get(number)
        if leaf is None:
            if not limits:
                return None
            leaf = self._leaves[number] = Leaf(f"{self._name}-{number}")
        leaf.memory = amounts.get(MEMORY, 0)
        # "0" is the process that writes it.
        texts = {**limits, "cgroup.procs": "0"}
        return {f"{leaf.path}/{name}": text for name, text in texts.items()}

    def remove(self, number: int) -> int:
        """Removes the leaf of a worker that has ended, if it has one.

        Returns:
            The memory limit of the leaf in bytes if the kernel has killed a process
            there for exceeding it; else 0.
        """
        leaf = self._leaves.pop(number, None)
        if leaf is None:
            return 0
        has_killed = oom_kills(self._read(f"{leaf.path}/memory.events"))
        # Now: NVML works in order, so the next holder of the share is limited later.
        clearing = (
            self._device_cgroups().clear(leaf.path, leaf.devices)
            if leaf.devices
            else None
        )
        self._start_removal(leaf, clearing)
        return leaf.memory if has_killed else 0

    def abandon(self) -> Callable[[], None]:
        """Forgets the leaves, because the loop is closed.

        Returns:
            Removes the leaves; blocks. To be called after the end of all workers.
        """
        leaves = [*self._leaves.values(), *self._removing.values()]
        self._leaves.clear()
        self._removing.clear()
        if self._devices is not None:
            self._devices.abandon()

        def remove() -> None:
            reserved = {leaf.path: leaf.devices for leaf in leaves if leaf.devices}
            fault = self._clear_now(reserved) if reserved else ""
            for leaf in leaves:
                if leaf.devices and fault:
                    _warn_of_leftover(leaf.path, fault)
                else:
                    self._end(leaf.path)

        return remove

    async def aclose(self) -> None:
        """Waits until the leaves are removed."""
        for number in list(self._leaves):
            self.remove(number)
        if self._removing:
            _, late = await asyncio.wait(set(self._removing), timeout=_PATIENCE * 2)
            for task in late:
                task.cancel()
                leaf = self._removing[task]
                if leaf.devices:
                    _warn_of_leftover(leaf.path, "NVML does not answer")
            if late:
                await asyncio.wait(late)
        if self._devices is not None:
            await self._devices.aclose()

    def _device_cgroups(self) -> DeviceCgroups:
        if self._devices is None:
            from actorlib._features.cgroup.device_cgroups import DeviceCgroups  # noqa: PLC0415  # few limit devices so

            self._devices = DeviceCgroups(self._host)
        return self._devices

    def _clear_now(self, devices: Mapping[str, Sequence[str]]) -> str:
        from actorlib._features.cgroup.device_cgroups import clear_now  # noqa: PLC0415  # few limit devices so

        return clear_now(self._host, devices, _PATIENCE)

    def _start_removal(self, leaf: Leaf, clearing: asyncio.Future[str] | None) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._remove_leaf(leaf, clearing))
        self._removing[task] = leaf
        task.add_done_callback(lambda done: self._removing.pop(done, None))

    async def _remove_leaf(
        self, leaf: Leaf, clearing: asyncio.Future[str] | None
    ) -> None:
        fault = "" if clearing is None else await clearing
        if fault:
            _warn_of_leftover(leaf.path, fault)
            return
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._end, leaf.path)

    def _enable(self, base: str, pid: int) -> None:
        """Enables controllers for the children of a cgroup.

        Raises:
            OSError: The kernel refuses it.
        """
        missing = [
            name
            for name in (*CONTROLLERS, _DMEM)
            if name in self._read(f"{base}/cgroup.controllers").split()
            and name not in self._read(f"{base}/cgroup.subtree_control").split()
        ]
        if not missing:
            return
        wanted = " ".join(f"+{name}" for name in missing)
        for rounds_left in reversed(range(_ROUNDS)):
            if not self.delegation.is_root:
                self._move_ours(base, pid)
            try:
                self._files.write(f"{base}/cgroup.subtree_control", wanted)
            except OSError:
                if not rounds_left:
                    raise
            else:
                return

    def _move_ours(self, base: str, pid: int) -> None:
        """Moves this process and all its descendants out of a cgroup.

        Raises:
            OSError: They may not be moved.
        """
        leaf = self._owner
        self._files.make(leaf)
        mine, _ = ours(self._host, base, pid)
        # The owner first: its later forks start in the leaf.
        for each in sorted(mine, key=lambda one: one != pid):
            with suppress(ProcessLookupError):
                self._files.write(f"{leaf}/cgroup.procs", str(each))

    def _remove_leftovers(self, base: str) -> None:
        """Removes the cgroups of killed owners that are not in use."""
        for path in leftovers(self._host, base):
            if path.endswith(DEVICES):  # the driver has to release memory first
                self._leftovers.append(path)
                continue
            with suppress(OSError):
                remove_tree(self._files, path)

    def _end(self, leaf: str) -> None:
        """Kills the processes in a leaf and removes it; blocks."""
        if not end(self._files, leaf):
            _log.debug("the cgroup %s is not empty, and stays", leaf)

    def _read(self, path: str) -> str:
        return self._host.read_text(path) or ""


def _warn_of_leftover(path: str, why: str) -> None:
    tell(
        logging.WARNING,
        "the cgroup %s stays, with the memory that the driver reserves for it: %s. "
        "The next program here that limits the memory of devices removes it",
        path,
        why,
    )
