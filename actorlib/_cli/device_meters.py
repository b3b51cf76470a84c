"""Reads the load of devices from NVML, in the process of the command.

Unknown figures are None: a card in MIG mode has no utilisation, an integrated one has
no memory of its own, and a lost one has neither.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, final

from actorlib._base.value import dataclass

if TYPE_CHECKING:
    from types import ModuleType

    from actorlib.accelerators import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMeter:
    """The figures of a card.

    Attributes:
        index: Its number.
        uuid: Its UUID, or None if unknown.
        model: Its product name, or None if unknown.
        busy: The per cent of the last sixth of a second to second in which it computed
            anything; None if unknown.
        used: Bytes of its memory that are in use, or None if unknown.
        total: Bytes of its memory, or None if unknown.
    """

    index: int
    uuid: str | None = None
    model: str | None = None
    busy: int | None = None
    used: int | None = None
    total: int | None = None


@final
class DeviceMeters:
    """A session with NVML, begun with the first sample."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._nvml: ModuleType | None = None
        self._is_off = False

    def look(self) -> list[DeviceMeter]:
        """Reads all cards; empty without NVML. Takes milliseconds."""
        nvml = self._session()
        if nvml is None:
            return []
        with suppress(nvml.NVMLError):
            return [_read_meter(nvml, at) for at in range(nvml.nvmlDeviceGetCount())]
        return []

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


def _read_meter(nvml: ModuleType, index: int) -> DeviceMeter:
    handle = _query(nvml, "nvmlDeviceGetHandleByIndex", index)
    if handle is None:
        return DeviceMeter(index=index)
    rates = _query(nvml, "nvmlDeviceGetUtilizationRates", handle)
    # The first version counts the driver's reserve as used.
    question = "nvmlDeviceGetMemoryInfo"
    memory = _query(nvml, question, handle, nvml.nvmlMemory_v2)
    memory = memory or _query(nvml, question, handle)
    return DeviceMeter(
        index=index,
        uuid=_query(nvml, "nvmlDeviceGetUUID", handle),
        model=_query(nvml, "nvmlDeviceGetName", handle),
        busy=None if rates is None else int(rates.gpu),
        used=None if memory is None else int(memory.used),
        total=None if memory is None else int(memory.total),
    )


def _query(nvml: ModuleType, question: str, *about: object) -> Any:
    with suppress(nvml.NVMLError):
        return getattr(nvml, question)(*about)
    return None
