"""Has NVIDIA's driver hold cgroups to their memory of devices.

NVML gives a cgroup two limits of a device's memory. The hard one is what its processes
can allocate, and what CUDA tells them is all there is. The soft one is kept for them,
whoever else is on the device. Both are the share here.

It needs root, and the driver's release 615. NVML names a cgroup by its folder, which
has to be there; and before that is removed the soft limit has to be 0, or what was kept
stays with the cgroups above.

NVML is spoken to in a thread of its own, in order: what was kept for one worker is free
when the next one's limits are set. None of it is on the loop, as a call may hang.

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

from actorlib._enforcement.nvml_session import NvmlSession
from actorlib._features.cgroups.delegation import find_delegation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from actorlib.accelerators.base import Share
    from actorlib.accelerators.host import Host

OLDEST = 615
"""The first release of the driver that limits memory by cgroup."""
_SETS = "nvmlDeviceSetMemoryLimits_v1"


def device_cgroup_fault(host: Host) -> str:
    """Says why the driver limits no cgroup of this program; empty if it does.

    What takes longest is asked last, and only where nothing else is in the way.

    Args:
        host: The machine; NVML has found devices there.
    """
    if host.system != "linux":
        return "cgroups are Linux's"
    user = _effective_user(host)
    if user != 0:
        who = "nobody says who this is" if user is None else f"this is user {user}"
        return f"the driver lets root alone limit the memory of devices, and {who}"
    try:
        nvml = host.sdk("pynvml")
    except ImportError as error:
        return f"nvidia-ml-py cannot be imported: {error}"
    if not hasattr(nvml, _SETS):
        return f"this nvidia-ml-py has no {_SETS}: 13.615.71 has"
    return find_delegation(host).fault or _driver_fault(nvml)


def _effective_user(host: Host) -> int | None:
    status = host.read_text("/proc/self/status") or ""
    found = re.search(r"^Uid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    return int(found[1]) if found else None


def _driver_fault(nvml: ModuleType) -> str:
    try:
        nvml.nvmlInit()
        try:
            version = str(nvml.nvmlSystemGetDriverVersion())
        finally:
            nvml.nvmlShutdown()
    except Exception as error:  # noqa: BLE001  # around a vendor's SDK
        return f"NVML does not say which driver this is: {error}"
    release = re.match(r"\d+", version)
    if release is None or int(release[0]) < OLDEST:
        return f"the driver is {version}, and limits memory by cgroup from {OLDEST} on"
    return ""


@final
class DeviceCgroups:
    """Sets and clears the limits of cgroups for one runtime.

    Args:
        host: The machine.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._session: NvmlSession | None = None
        self._waiting: set[asyncio.Future[str]] = set()

    def limit(
        self, make: Callable[[str], None], folder: str, shares: Sequence[Share]
    ) -> asyncio.Future[str]:
        """Makes a cgroup and limits it, in NVML's thread.

        Args:
            make: Makes a cgroup.
            folder: Its folder.
            shares: What its processes may have of devices.

        Returns:
            Done when its processes may begin: why that has failed, or the empty string.
        """
        return self._do(partial(_limit, make, folder, shares))

    def clear(self, folder: str, devices: Sequence[str]) -> asyncio.Future[str]:
        """Has the driver keep nothing for a cgroup any more.

        Args:
            folder: Its folder.
            devices: The UUIDs of the devices; none for all that there are.

        Returns:
            Done when it may be removed: why that has failed, or the empty string.
        """
        return self._do(partial(clear, self._host, {folder: devices}))

    def abandon(self) -> None:
        """Ends the session where the loop is closed."""
        if self._session is not None:
            self._session.close()

    async def aclose(self) -> None:
        """Ends the session with NVML."""
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

    def _answer(self, done: asyncio.Future[str], said: str) -> None:
        self._waiting.discard(done)
        if not done.done():
            done.set_result(said)

    def _failed(self, reason: str) -> None:
        """Tells all who wait that NVML did not start."""
        for done in list(self._waiting):
            self._answer(done, reason)


def clear_now(host: Host, folders: Mapping[str, Sequence[str]], patience: float) -> str:
    """Clears where there is no loop; blocks, but not for ever.

    Args:
        host: The machine.
        folders: As for ``clear``.
        patience: Seconds that NVML may take for all.

    Returns:
        Why that has failed, or the empty string.
    """
    said = [f"NVML has not answered for {patience:g} s"]

    def work() -> None:
        try:
            nvml = host.sdk("pynvml")
            nvml.nvmlInit()
            try:
                clear(host, folders, nvml)
            finally:
                nvml.nvmlShutdown()
            said[0] = ""
        except Exception as error:  # noqa: BLE001  # around a vendor's SDK
            said[0] = str(error) or type(error).__name__

    thread = threading.Thread(target=work, name="actorlib-nvml", daemon=True)
    thread.start()
    thread.join(patience)
    return said[0]


def clear(host: Host, folders: Mapping[str, Sequence[str]], nvml: ModuleType) -> None:
    """Has the driver keep nothing for cgroups any more.

    Args:
        host: The machine.
        folders: The UUIDs of the devices by the folder of the cgroup; none for all
            devices. A cgroup that is not there needs nothing.
        nvml: The module, begun.

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
        with suppress(nvml.NVMLError_NotSupported):  # one in MIG's mode
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
