"""Asks NVML how busy devices are: the command itself does, and no program that runs.

What cannot be told is left open: a card in MIG mode has no utilisation, one that shares
the machine's memory has no memory of its own, and one that is lost has nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypedDict, final

if TYPE_CHECKING:
    from types import ModuleType

    from actorlib.accelerators import Host


class DeviceMeter(TypedDict):
    """What NVML says of a card now.

    ``busy`` is the per cent of the last moment (a sixth of a second to a second) in
    which it was computing anything at all; ``used`` and ``total`` are bytes.
    """

    index: int
    uuid: str | None
    model: str | None
    busy: int | None
    used: int | None
    total: int | None


@final
class DeviceMeters:
    """A session with NVML, begun with the first look.

    Args:
        host: The machine.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._nvml: ModuleType | None = None
        self._is_off = False

    def look(self) -> list[DeviceMeter]:
        """Asks for every card; nothing where there is no NVML. Takes milliseconds."""
        nvml = self._session()
        if nvml is None:
            return []
        with suppress(nvml.NVMLError):
            return [_metered(nvml, at) for at in range(nvml.nvmlDeviceGetCount())]
        return []

    def close(self) -> None:
        """Ends the session."""
        if self._nvml is not None:
            nvml, self._nvml = self._nvml, None
            with suppress(nvml.NVMLError):
                nvml.nvmlShutdown()

    def _session(self) -> ModuleType | None:
        if self._nvml is None and not self._is_off:
            try:
                nvml = self._host.sdk("pynvml")
                nvml.nvmlInit()
            except Exception:  # noqa: BLE001  # around a vendor's SDK
                self._is_off = True
            else:
                self._nvml = nvml
        return self._nvml


def _metered(nvml: ModuleType, index: int) -> DeviceMeter:
    meter: DeviceMeter = {
        "index": index,
        "uuid": None,
        "model": None,
        "busy": None,
        "used": None,
        "total": None,
    }
    handle = _asked(nvml, "nvmlDeviceGetHandleByIndex", index)
    if handle is None:
        return meter
    meter["uuid"] = _asked(nvml, "nvmlDeviceGetUUID", handle)
    meter["model"] = _asked(nvml, "nvmlDeviceGetName", handle)
    rates = _asked(nvml, "nvmlDeviceGetUtilizationRates", handle)
    if rates is not None:
        meter["busy"] = int(rates.gpu)
    # The first version counts what the driver keeps for itself as used.
    question = "nvmlDeviceGetMemoryInfo"
    memory = _asked(nvml, question, handle, nvml.nvmlMemory_v2)
    memory = memory or _asked(nvml, question, handle)
    if memory is not None:
        meter["used"], meter["total"] = int(memory.used), int(memory.total)
    return meter


def _asked(nvml: ModuleType, question: str, *about: object) -> Any:
    """Asks; None where the card has no answer."""
    with suppress(nvml.NVMLError):
        return getattr(nvml, question)(*about)
    return None
