"""Has workers held to what they asked for by cgroup: memory and CPUs, and devices.

Each worker of an actor or function with ``enforcement="cgroup"`` gets a leaf cgroup of
its own, below the cgroup that the owner is in: so what limits the program as a whole
goes on limiting it, and nothing outside of what was delegated to it is touched.
``delegation`` finds out whether that can be.

A cgroup whose children have limits may hold no processes itself. So the program makes
room first, once: the owner, its template and all that comes of them move to a leaf
beside those of the workers, which has no limits. They stay there until they end, as
nobody could move back while another runtime of the program still has leaves.

A worker makes its leaf and joins it before any of the user's code is imported
(``worker``), so whatever it starts is in there, too. If it is to be held to
memory of a device its leaf is made before it begins, and the driver told of that
(``device_cgroups``). When it is gone its leaf is emptied and removed. Leaves of owners
that were killed are removed by their templates, or else by the next runtime there:
their names say whose they are.

A process of the same user can write these files as we do: they hold mistakes, not
attacks.

https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from actorlib._base.log import warn
from actorlib._base.value import dataclass
from actorlib._features.cgroups.delegation import (
    CONTROLLERS,
    Delegation,
    find_delegation,
    leftovers,
    ours,
    own_origin,
)
from actorlib._features.cgroups.names import DEVICES, OWNER, PREFIX
from actorlib._options.resources import CPU, MEMORY
from actorlib.accelerators.host import oom_kills
from actorlib.exceptions import EnforcementRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actorlib._features.cgroups.device_cgroups import DeviceCgroups
    from actorlib.accelerators.base import Share
    from actorlib.accelerators.host import Host

_PERIOD = 100_000
"""Microseconds in which a share of the CPUs counts: the kernel's default."""
_LEAST_QUOTA = 1_000
"""Microseconds of it that the kernel takes at the least."""
_ROUNDS = 8
"""How often processes are moved, as one may fork while the others are."""
_PATIENCE = 2.0
"""Seconds that a leaf may take to be empty after what was in it was killed."""
_LIMIT = 10.0
"""Seconds that the driver may take to limit a leaf before its worker is refused."""
_DMEM = "dmem"
"""The kernel's controller of device memory, from Linux 6.14 on, which drivers use."""
_log = logging.getLogger("actorlib")


def limits_of(amounts: Mapping[str, int]) -> dict[str, str]:
    """Says what is written into which file of a leaf.

    Args:
        amounts: What a worker holds: bytes of memory, units of CPUs.
    """
    limits: dict[str, str] = {}
    if memory := amounts.get(MEMORY):
        limits["memory.max"] = str(memory)
        # A worker without one of its processes is no worker: all go, or none.
        limits["memory.oom.group"] = "1"
    if units := amounts.get(CPU):
        quota = units * _PERIOD // 10_000
        limits["cpu.max"] = f"{max(_LEAST_QUOTA, quota)} {_PERIOD}"
    return limits


class CgroupFiles:
    """Acts on the files of cgroups; tests act on others."""

    def make(self, path: str) -> None:
        """Makes a cgroup, if it is not there.

        Raises:
            OSError: It may not be made.
        """
        Path(path).mkdir(exist_ok=True)

    def write(self, path: str, text: str) -> None:
        """Writes a file that is there.

        Raises:
            OSError: The kernel refuses it.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def remove(self, path: str) -> None:
        """Removes a cgroup.

        Raises:
            OSError: It is not there, or has processes or children.
        """
        Path(path).rmdir()

    def wait_for_change(self, path: str, limit: float) -> None:
        """Waits until the kernel says that a file of events has changed.

        Args:
            path: The file.
            limit: Seconds after which it waits no more.
        """
        with suppress(OSError), Path(path).open("rb") as events:
            poller = select.poll()
            poller.register(events, select.POLLPRI | select.POLLERR)
            events.read()
            poller.poll(limit * 1000)


@dataclass(slots=True)
class Leaf:
    """A cgroup of a worker.

    Attributes:
        path: Its folder.
        memory: Bytes that it has at the most; 0 for no limit.
        devices: The UUIDs of devices whose memory is kept for it.
    """

    path: str
    memory: int = 0
    devices: tuple[str, ...] = ()


@final
class HostCgroups:
    """The leaf cgroups of one runtime's workers.

    Args:
        host: The machine.
        files: Acts on it.
    """

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
        """What was delegated to this program, found out once."""
        if self._delegation is None:
            self._delegation = find_delegation(self._host)
        return self._delegation

    def fault(self, amounts: Mapping[str, int]) -> str:
        """Says why these amounts cannot be held, or nothing.

        Args:
            amounts: What a worker asks for.
        """
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
            return  # whoever asks for what cannot be had was refused
        base = self.delegation.base
        pid, began = own_origin(self._host)
        self._owner = f"{base}/{PREFIX}{pid}-{began}{OWNER}"
        # One process may have one runtime after another, which number from 1 alike.
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
        """Makes the leaf of a worker that holds devices, before it begins.

        Args:
            number: That of its session.
            shares: What it may have of which.
            ended: Done if its process has ended meanwhile: then nobody is limited.

        Raises:
            EnforcementRefused: The driver refuses it, or does not answer: the worker
                must not begin.
        """
        devices = self._device_cgroups()
        for path in self._leftovers:
            self._leave(Leaf(path), devices.clear(path, ()))
        self._leftovers.clear()
        uuids = tuple(share.device.uuid or "" for share in shares)
        leaf = self._leaves[number] = Leaf(f"{self._name}-{number}{DEVICES}", 0, uuids)
        limiting = devices.limit(self._files.make, leaf.path, shares)
        either: set[asyncio.Future[Any]] = {limiting, ended}
        await asyncio.wait(either, timeout=_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        if limiting.done():
            said = limiting.result()
        else:
            said = "" if ended.done() else f"NVML has not answered for {_LIMIT:g} s"
        if said:
            ids = ", ".join(share.device.id for share in shares)
            raise EnforcementRefused(
                f"enforcement='cgroup': the memory of GPU {ids} cannot be limited for "
                f"{leaf.path}: {said}"
            )

    def plan(self, number: int, amounts: Mapping[str, int]) -> dict[str, str] | None:
        """Says what a worker writes to join a leaf of its own; None if it needs none.

        Args:
            number: That of its session.
            amounts: What it holds.

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
        # "0" is whoever writes it.
        written = {**limits, "cgroup.procs": "0"}
        return {f"{leaf.path}/{name}": text for name, text in written.items()}

    def left(self, number: int) -> int:
        """Removes the leaf of a worker that is gone, if it has one.

        Args:
            number: That of its session.

        Returns:
            The bytes that it could have at the most, if the kernel has killed there for
            lack of more; else 0.
        """
        leaf = self._leaves.pop(number, None)
        if leaf is None:
            return 0
        has_killed = oom_kills(self._read(f"{leaf.path}/memory.events"))
        # Now: who has the share next is limited behind this, and not before.
        clearing = (
            self._device_cgroups().clear(leaf.path, leaf.devices)
            if leaf.devices
            else None
        )
        self._leave(leaf, clearing)
        return leaf.memory if has_killed else 0

    def abandon(self) -> Callable[[], None]:
        """Has the leaves removed where the loop is closed.

        Returns:
            Removes them; blocks. To be called when no worker is left.
        """
        leaves = [*self._leaves.values(), *self._removing.values()]
        self._leaves.clear()
        self._removing.clear()
        if self._devices is not None:
            self._devices.abandon()

        def remove() -> None:
            kept = {leaf.path: leaf.devices for leaf in leaves if leaf.devices}
            said = self._clear_now(kept) if kept else ""
            for leaf in leaves:
                if leaf.devices and said:
                    _tell_of(leaf.path, said)
                else:
                    self._end(leaf.path)

        return remove

    async def aclose(self) -> None:
        """Waits until the leaves are gone."""
        for number in list(self._leaves):
            self.left(number)
        if self._removing:
            _, late = await asyncio.wait(set(self._removing), timeout=_PATIENCE * 2)
            for task in late:
                task.cancel()
                leaf = self._removing[task]
                if leaf.devices:
                    _tell_of(leaf.path, "NVML does not answer")
            if late:
                await asyncio.wait(late)
        if self._devices is not None:
            await self._devices.aclose()

    def _device_cgroups(self) -> DeviceCgroups:
        if self._devices is None:
            from actorlib._features.cgroups.device_cgroups import DeviceCgroups  # noqa: PLC0415  # few hold devices so

            self._devices = DeviceCgroups(self._host)
        return self._devices

    def _clear_now(self, kept: Mapping[str, Sequence[str]]) -> str:
        from actorlib._features.cgroups.device_cgroups import clear_now  # noqa: PLC0415  # few hold devices so

        return clear_now(self._host, kept, _PATIENCE)

    def _leave(self, leaf: Leaf, clearing: asyncio.Future[str] | None) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._remove_leaf(leaf, clearing))
        self._removing[task] = leaf
        task.add_done_callback(lambda done: self._removing.pop(done, None))

    async def _remove_leaf(
        self, leaf: Leaf, clearing: asyncio.Future[str] | None
    ) -> None:
        said = "" if clearing is None else await clearing
        if said:
            _tell_of(leaf.path, said)
            return
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._end, leaf.path)

    def _enable(self, base: str, pid: int) -> None:
        """Has the children of a cgroup have limits.

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
        """Moves all that comes of this process out of a cgroup.

        Raises:
            OSError: It may not be moved.
        """
        leaf = self._owner
        self._files.make(leaf)
        mine, _ = ours(self._host, base, pid)
        # The owner first: what is forked from then on is in the leaf already.
        for each in sorted(mine, key=lambda one: one != pid):
            with suppress(ProcessLookupError):
                self._files.write(f"{leaf}/cgroup.procs", str(each))

    def _remove_leftovers(self, base: str) -> None:
        """Removes what owners left that were killed; what is in use stays."""
        for path in leftovers(self._host, base):
            if path.endswith(DEVICES):  # the driver has to be told before
                self._leftovers.append(path)
                continue
            with suppress(OSError):
                self._remove(path)

    def _end(self, leaf: str) -> None:
        """Kills what is left in a leaf, and removes it; in a thread."""
        with suppress(OSError):  # older than Linux 5.14
            self._files.write(f"{leaf}/cgroup.kill", "1")
        for _ in range(_ROUNDS):
            try:
                self._remove(leaf)
            except FileNotFoundError:
                return  # its worker never came so far
            except OSError:
                limit = _PATIENCE / _ROUNDS
                self._files.wait_for_change(f"{leaf}/cgroup.events", limit)
            else:
                return
        _log.debug("the cgroup %s is not empty, and stays", leaf)

    def _remove(self, path: str) -> None:
        """Removes a cgroup with those that were made in it.

        Raises:
            OSError: One of them is in use, or not there.
        """
        for child in self._host.glob(f"{path}/*/cgroup.procs"):
            self._remove(child.rpartition("/")[0])
        self._files.remove(path)

    def _read(self, path: str) -> str:
        return self._host.read_text(path) or ""


def _tell_of(path: str, why: str) -> None:
    with suppress(Exception):  # a handler of the user's may raise
        warn(
            "the cgroup %s stays, with the memory that the driver keeps for it: %s. "
            "The next program here that limits the memory of devices removes it",
            path,
            why,
        )
