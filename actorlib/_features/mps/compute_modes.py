"""Determines which GPUs cannot have our MPS daemon, by their compute mode.

In the default mode several processes share a GPU, even those of several MPS daemons. In
the exclusive mode only one process may use it, which under MPS is a daemon's server. In
the prohibited mode no process may.

The check runs once, before the first worker, and only if there is a control program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._enforcement.nvml_session import listed_on, nvml_started
from actorlib._features.mps.decisions import mode_fault

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from actorlib.accelerators.base import Device
    from actorlib.accelerators.host import Host


def gpus_without_mps(host: Host, devices: Iterable[Device]) -> dict[str, str]:
    """Returns why GPUs cannot have a private MPS daemon, by UUID.

    If NVML does not answer, the result is empty: the worker verifies in any case.

    Args:
        host: The machine.
        devices: The devices that NVML has found; parts of cards are skipped.
    """
    faults: dict[str, str] = {}
    try:
        with nvml_started(host) as nvml:
            for device in devices:
                if device.uuid and device.parent is None:
                    faults[device.uuid] = _fault(host, nvml, device)
    except Exception:  # noqa: BLE001  # around a vendor's SDK
        return {}
    return {uuid: why for uuid, why in faults.items() if why}


def _fault(host: Host, nvml: ModuleType, device: Device) -> str:
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(device.uuid)
        mode = int(nvml.nvmlDeviceGetComputeMode(handle))
        if mode == nvml.NVML_COMPUTEMODE_DEFAULT:
            return ""
        pids = sorted(listed_on(nvml, handle))
    except (nvml.NVMLError, AttributeError):  # it is lost, or NVML knows no modes
        return ""
    programs = {pid: host.read_word(f"/proc/{pid}/comm") or "" for pid in pids}
    return mode_fault(
        device, programs, is_prohibited=mode == nvml.NVML_COMPUTEMODE_PROHIBITED
    )
