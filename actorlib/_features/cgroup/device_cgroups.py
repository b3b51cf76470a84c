"""Limits the device memory of cgroups by NVIDIA's driver.

NVML gives a cgroup two limits for the memory of a device. Its processes cannot allocate
more than the hard limit, which CUDA reports to them as the total. The driver reserves
the soft limit for them, even if others use the device. Both are the share here.

This needs root and release 615 of the driver. NVML names a cgroup by its folder, which
must exist. Before the cgroup is removed the soft limit has to be 0, or the reserved
memory goes to its ancestors.

A separate thread calls NVML, in order: the memory of one worker is released before the
limits of the next one are set. The loop makes no such call, as a call may hang.

https://docs.nvidia.com/deploy/mps/latest/mpsv3-memory-partitioning.html,
https://docs.nvidia.com/deploy/nvml-api/api/structnvmlSetMemoryLimits__v1__t.html
"""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, final

from actorlib._enforcement.nvml_session import NvmlSession, nvml_started
from actorlib._features.cgroup.delegation import find_delegation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from actorlib.accelerators.base import Share
    from actorlib.accelerators.host import Host

OLDEST = 615
"""The first release of the driver that limits memory by cgroup."""
_SETS = "nvmlDeviceSetMemoryLimits_v1"


def device_cgroup_fault(host: Host) -> str:
    """Returns why the driver limits no cgroup of this program; empty if it does.

    The slowest checks come last.
    """
    if host.system != "linux":
        return "only Linux has cgroups"
    user = _effective_user(host)
    if user != 0:
        who = "the user is unknown" if user is None else f"this is user {user}"
        return f"the driver lets only root limit the memory of devices, and {who}"
    try:
        nvml = host.sdk("pynvml")
    except ImportError as error:
        return f"nvidia-ml-py cannot be imported: {error}"
    if not hasattr(nvml, _SETS):
        return f"this nvidia-ml-py has no {_SETS}: 13.615.71 has"
    return find_delegation(host).fault or _driver_fault(host)


def _effective_user(host: Host) -> int | None:
    status = host.read_text("/proc/self/status") or ""
    match = re.search(r"^Uid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    return int(match[1]) if match else None


def _driver_fault(host: Host) -> str:
    try:
        with nvml_started(host) as nvml:
            version = str(nvml.nvmlSystemGetDriverVersion())
    except Exception as error:  # noqa: BLE001  # around a vendor's SDK
        return f"NVML does not say which driver this is: {error}"
    release = re.match(r"\d+", version)
    if release is None or int(release[0]) < OLDEST:
        return f"the driver is {version}, and limits memory by cgroup from {OLDEST} on"
    return ""


@final
class DeviceCgroups:
    """Sets and clears the limits of cgroups for one runtime."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._session: NvmlSession | None = None
        self._waiting: set[asyncio.Future[str]] = set()

    def limit(
        self, make: Callable[[str], None], folder: str, shares: Sequence[Share]
    ) -> asyncio.Future[str]:
        """Makes a cgroup and limits it, in NVML's thread.

        Returns:
            Done when its processes may begin: the reason of a failure, or the empty
            string.
        """
        return self._do(partial(_limit, make, folder, shares))

    def clear(self, folder: str, devices: Sequence[str]) -> asyncio.Future[str]:
        """Releases the memory that the driver reserves for a cgroup.

        ``devices`` has the UUIDs of the devices; none mean all devices of the machine.

        Returns:
            Done when the cgroup may be removed: the reason of a failure, or the empty
            string.
        """
        return self._do(partial(clear, self._host, {folder: devices}))

    def abandon(self) -> None:
        """Ends the session, because the loop is closed."""
        if self._session is not None:
            self._session.close()

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.aclose()

    def _do(self, work: Callable[[ModuleType], object]) -> asyncio.Future[str]:
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.is_over:
            self._session = NvmlSession(self._host, loop, self._failed)
        done: asyncio.Future[str] = loop.create_future()
        self._waiting.add(done)
        self._session.do(work, partial(self._answer, done))
        return done

    def _answer(self, done: asyncio.Future[str], fault: str) -> None:
        self._waiting.discard(done)
        if not done.done():
            done.set_result(fault)

    def _failed(self, reason: str) -> None:
        """Answers all requests: NVML did not start."""
        for done in list(self._waiting):
            self._answer(done, reason)


def clear_now(host: Host, folders: Mapping[str, Sequence[str]], patience: float) -> str:
    """Releases reserved memory where there is no loop; blocks.

    Returns:
        The reason of a failure, or the empty string.
    """
    fault = f"NVML has not answered for {patience:g} s"

    def work() -> None:
        nonlocal fault
        try:
            with nvml_started(host) as nvml:
                clear(host, folders, nvml)
            fault = ""
        except Exception as error:  # noqa: BLE001  # around a vendor's SDK
            fault = str(error) or type(error).__name__

    thread = threading.Thread(target=work, name="actorlib-nvml", daemon=True)
    thread.start()
    thread.join(patience)
    return fault


def clear(host: Host, folders: Mapping[str, Sequence[str]], nvml: ModuleType) -> None:
    """Releases the memory that the driver reserves for cgroups.

    ``folders`` has the UUIDs of the devices by the folder of the cgroup, or none for
    all devices. A cgroup that does not exist is skipped.

    Raises:
        NVMLError: The driver refuses it.
    """
    for folder, devices in folders.items():
        if host.read_text(f"{folder}/cgroup.procs") is None:
            continue
        for device in devices:
            handle = nvml.nvmlDeviceGetHandleByUUID(device)
            _set(nvml, handle, folder, 0, nvml.NVML_DEVICE_MEMORY_LIMIT_MAX)
        if not devices:
            _clear_everywhere(nvml, folder)


def _clear_everywhere(nvml: ModuleType, folder: str) -> None:
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        with suppress(nvml.NVMLError_NotSupported):  # a device in MIG mode
            _set(nvml, handle, folder, 0, nvml.NVML_DEVICE_MEMORY_LIMIT_MAX)


def _limit(
    make: Callable[[str], None],
    folder: str,
    shares: Sequence[Share],
    nvml: ModuleType,
) -> None:
    make(folder)
    for share in shares:
        handle = nvml.nvmlDeviceGetHandleByUUID(share.device.uuid)
        _set(nvml, handle, folder, share.nbytes or 0, share.nbytes or 0)


def _set(nvml: Any, handle: object, folder: str, soft: int, hard: int) -> None:
    limits = nvml.c_nvmlSetMemoryLimits_v1_t()
    limits.nameSpace = folder.encode()
    limits.softLimit, limits.hardLimit = soft, hard
    nvml.nvmlDeviceSetMemoryLimits_v1(handle, limits)
