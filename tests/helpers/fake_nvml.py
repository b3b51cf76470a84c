"""What NVML lists and limits, as a test says, with what NVML does wrong.

What real drivers do, and this does when it is told to:

* a process with compute and graphics contexts is in two lists, with the same memory;
  clients of MPS are in that daemon's list, its server in the one of compute;
* ``usedGpuMemory`` is None where a driver does not say (WSL, some containers);
* a card without graphics, or an old driver, does not support one of the lists;
* a driver older than nvidia-ml-py refuses the list by an error of nvidia-ml-py's own,
  and answers to the name of an older version;
* between the question how many there are and the list more come: it is too small;
* a card falls off the bus, and from then on every call says so;
* a call never comes back;
* in many containers nobody is listed, whatever is in use.

And where it limits memory by cgroup:

* an nvidia-ml-py is too old to know the function, a driver does not have it, a card in
  MIG's mode does not support it, and it is for root alone;
* a cgroup is named by its folder, which has to be there;
* what is kept for all cgroups together is not more than there is;
* what was kept for a cgroup that is removed stays taken.
"""

from __future__ import annotations

import importlib
import threading
from collections import Counter, deque
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_real = importlib.import_module("pynvml")

LISTS = ("Compute", "Graphics", "MPSCompute")
_NO_INSTANCE = 0xFFFFFFFF


@final
class Processes:
    """Who is listed on which device; a test changes it while NVML is asked.

    Attributes:
        looks: How often each device was asked for its first list, by UUID.
        is_older: Whether the driver is older than nvidia-ml-py.
        used: Bytes that are in use of a device, by UUID, whoever is listed.
        unsupported: The lists that the driver does not support.
        absent: The lists that nvidia-ml-py does not know.
        asked: Set when a call begins.
        going_on: Set while calls come back; cleared, they hang.
    """

    def __init__(self) -> None:
        self.looks: Counter[str] = Counter()
        self.is_older = False
        self.used: dict[str, int] = {}
        self.unsupported: set[str] = set()
        self.absent: set[str] = set()
        self.asked = threading.Event()
        self.going_on = threading.Event()
        self.going_on.set()
        self._listed: dict[tuple[str, str], dict[int, int | None]] = {}
        self._scripts: dict[str, deque[Mapping[int, int | None]]] = {}
        self._troubles: deque[str] = deque()
        self._lost = ""

    def put(
        self, uuid: str, pid: int, nbytes: int | None, listed_as: str = "Compute"
    ) -> None:
        """Lists a process on a device from now on.

        Args:
            uuid: The device.
            pid: The process.
            nbytes: What it has there; None if the driver does not say.
            listed_as: In which list.
        """
        there = self._listed.get((uuid, listed_as), {})
        self._listed[uuid, listed_as] = {**there, pid: nbytes}  # it is read meanwhile

    def drop(self, pid: int) -> None:
        """Lists a process nowhere any more."""
        for key, there in list(self._listed.items()):
            self._listed[key] = {p: n for p, n in there.items() if p != pid}

    def script(self, uuid: str, *steps: Mapping[int, int | None]) -> None:
        """Lists something else at each look from now on; the last step stays.

        Args:
            uuid: The device.
            *steps: Bytes by process, in the list of compute.
        """
        self._scripts[uuid] = deque(steps)

    def fail(self, code: str, times: int = 1) -> None:
        """Fails the next questions with an error of NVML's."""
        self._troubles.extend([code] * times)

    def lose(self) -> None:
        """Has every card fall off the bus."""
        self._lost = "GPU_IS_LOST"

    # For the module.

    def functions(self) -> dict[str, Any]:
        """The functions of NVML that list processes."""
        made: dict[str, Any] = {}
        for name in LISTS:
            if name in self.absent:
                continue
            question = f"nvmlDeviceGet{name}RunningProcesses"
            made[question] = partial(self._ask, name)
            made[f"{question}_v2"] = partial(self._list, name)
        return made

    def _ask(self, name: str, handle: Any) -> list[SimpleNamespace]:
        if self.is_older:
            raise _real.NVMLLibraryMismatchError("use a versioned function")
        return self._list(name, handle)

    def _list(self, name: str, handle: Any) -> list[SimpleNamespace]:
        self.asked.set()
        self.going_on.wait()
        if self._lost:
            raise error(self._lost)
        if self._troubles:
            raise error(self._troubles.popleft())
        if name in self.unsupported:
            raise error("NOT_SUPPORTED")
        if name == LISTS[0]:
            self.looks[handle.uuid] += 1
            steps = self._scripts.get(handle.uuid)
            if steps:
                step = steps.popleft() if len(steps) > 1 else steps[0]
                self._listed[handle.uuid, name] = dict(step)
        there = self._listed.get((handle.uuid, name), {})
        return [
            SimpleNamespace(
                pid=pid,
                usedGpuMemory=nbytes,
                gpuInstanceId=_NO_INSTANCE,
                computeInstanceId=_NO_INSTANCE,
            )
            for pid, nbytes in there.items()
        ]


@final
class MemoryLimits:
    """What cgroups may have of the memory of devices.

    Args:
        has_group: Whether there is a cgroup in that folder.
        driver: Its release.

    Attributes:
        driver: As given.
        is_root: Whether the program may set limits.
        set: The soft and the hard limit, by device and folder.
        leaked: Bytes that stay taken for cgroups that were removed, by device.
        calls: What was set, in order: device, the last part of the folder, both limits.
        troubles: The errors that the next calls fail with.
        asked: Set when a call begins.
        going_on: Set while calls come back; cleared, they hang.
    """

    NOTHING = 0, _real.NVML_DEVICE_MEMORY_LIMIT_MAX
    """The limits of a cgroup that has none."""

    def __init__(
        self, has_group: Callable[[str], bool], driver: str = "615.71.05"
    ) -> None:
        self.driver = driver
        self.is_root = True
        self.set: dict[tuple[str, str], tuple[int, int]] = {}
        self.leaked: Counter[str] = Counter()
        self.calls: list[tuple[str, str, int, int]] = []
        self.troubles: deque[str] = deque()
        self.asked = threading.Event()
        self.going_on = threading.Event()
        self.going_on.set()
        self._has_group = has_group

    def group_removed(self, folder: str) -> None:
        """Takes note that a cgroup is gone."""
        for device, path in [key for key in self.set if key[1] == folder]:
            soft, _ = self.set.pop((device, path))
            self.leaked[device] += soft

    # For the module.

    def functions(self) -> dict[str, Any]:
        """The functions of NVML that limit memory."""
        return {
            "nvmlSystemGetDriverVersion": lambda: self.driver,
            "nvmlDeviceSetMemoryLimits_v1": self._set,
            "c_nvmlSetMemoryLimits_v1_t": _real.c_nvmlSetMemoryLimits_v1_t,
        }

    def _set(self, handle: Any, limits: Any) -> None:
        self.asked.set()
        self.going_on.wait()
        if self.troubles:
            raise error(self.troubles.popleft())
        if int(self.driver.partition(".")[0]) < 615:
            raise error("FUNCTION_NOT_FOUND")
        if handle.mig:
            raise error("NOT_SUPPORTED")
        if not self.is_root:
            raise error("NO_PERMISSION")
        folder, device = limits.nameSpace, handle.uuid
        if not self._has_group(folder):
            raise error("NOT_FOUND")
        others = [
            soft
            for (there, path), (soft, _) in self.set.items()
            if there == device and path != folder
        ]
        if sum(others) + self.leaked[device] + limits.softLimit > handle.memory:
            raise error("INSUFFICIENT_RESOURCES")
        both = limits.softLimit, limits.hardLimit
        self.calls.append((device, folder.rpartition("/")[2], *both))
        self.set[device, folder] = both
        if both == self.NOTHING:
            del self.set[device, folder]


def error(code: str) -> Exception:
    """Makes NVML's own error.

    Args:
        code: The end of the name of its number.
    """
    made: Exception = _real.NVMLError(getattr(_real, f"NVML_ERROR_{code}"))
    return made
