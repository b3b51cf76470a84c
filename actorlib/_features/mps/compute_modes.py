"""Finds out on which GPUs no MPS daemon of ours can be, by their compute mode.

In the usual mode processes share a GPU, those of several MPS daemons too. In the
exclusive one a single process may have it, which under MPS is a daemon's server; in
the prohibited one nobody may.

It is asked once, before the first worker, and only where there is a control program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib._enforcement.nvml_session import listed_on
from actorlib._features.mps.decisions import mode_fault

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from actorlib.accelerators.base import Device
    from actorlib.accelerators.host import Host


def gpus_without_mps(host: Host, devices: Iterable[Device]) -> dict[str, str]:
    """Says on which GPUs a private MPS daemon cannot be, by UUID, and why.

    Where NVML does not say, nothing is found: the worker verifies in any case.

    Args:
        host: The machine.
        devices: Those that NVML has found; parts of cards are left out.
    """
    found: dict[str, str] = {}
    try:
        nvml: Any = host.sdk("pynvml")
        nvml.nvmlInit()
        try:
            for device in devices:
                if device.uuid and device.parent is None:
                    found[device.uuid] = _fault(host, nvml, device)
        finally:
            nvml.nvmlShutdown()
    except Exception:  # noqa: BLE001  # around a vendor's SDK
        return {}
    return {uuid: why for uuid, why in found.items() if why}


def _fault(host: Host, nvml: ModuleType, device: Device) -> str:
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(device.uuid)
        mode = int(nvml.nvmlDeviceGetComputeMode(handle))
        if mode == nvml.NVML_COMPUTEMODE_DEFAULT:
            return ""
        pids = sorted(listed_on(nvml, handle))
    except (nvml.NVMLError, AttributeError):  # it is lost, or NVML does not know modes
        return ""
    there = {pid: (host.read_text(f"/proc/{pid}/comm") or "").strip() for pid in pids}
    return mode_fault(
        device, there, is_prohibited=mode == nvml.NVML_COMPUTEMODE_PROHIBITED
    )
