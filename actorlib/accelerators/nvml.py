"""Scans NVIDIA's cards by NVML, without regard to masks.

A card in MIG mode is not a device: CUDA sees the instances on it, or nothing. A fault
of one card affects only that card. It keeps its number, but CUDA may skip it when it
numbers cards, so then the others are written by UUID. Where NVML has no UUIDs, as on a
Jetson or under WSL, the number is the name of a card.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actorlib.accelerators.base import Device, Rejected, reject
from actorlib.accelerators.files import closed
from actorlib.accelerators.nvidia_driver import BARE, MaskTarget
from actorlib.accelerators.type_names import of_nvidia

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from actorlib.accelerators.host import Host


def scan_nvml(host: Host, nvml: ModuleType) -> tuple[list[MaskTarget], list[Rejected]]:
    """Asks NVML, which was started, about every card, in the order of its numbers."""
    targets: list[MaskTarget] = []
    rejected: list[Rejected] = []
    whole: dict[Device, object] = {}
    for number in range(nvml.nvmlDeviceGetCount()):
        card = replace(BARE, id=str(number), source="NVML")
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            card = _described(nvml, handle, card)
            usable, why = _usable(host, nvml, handle, card)
            if usable and usable[0].device == card:
                whole[card] = handle
        except nvml.NVMLError as error:
            usable, why = [], str(error)
        if why:
            rejected.append(reject(card, why))
        targets += usable or [MaskTarget((card.id,), None)]
    finished = [
        _finished(nvml, target, whole, exact=bool(rejected)) for target in targets
    ]
    return finished, rejected


def _ask(nvml: ModuleType, question: str, *about: object) -> Any:
    """Asks for a fact; None if the card, or an old version of NVML, has no answer."""
    try:
        return getattr(nvml, question)(*about) if hasattr(nvml, question) else None
    except nvml.NVMLError:
        return None


def _supported(nvml: ModuleType, question: str, *about: object) -> Any:
    """Asks for a fact; None if NVML does not support the question on that card.

    Raises:
        NVMLError: The card is lost, or may not be queried.
    """
    try:
        return getattr(nvml, question)(*about) or None
    except nvml.NVMLError_NotSupported:
        return None


def _described(nvml: ModuleType, handle: object, card: Device) -> Device:
    # The second version of the memory call differs in the used bytes, not in the
    # total. Cards that share the machine's memory (GB10) support neither.
    memory = _ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    model = _supported(nvml, "nvmlDeviceGetName", handle)
    at = _ask(nvml, "nvmlDeviceGetPciInfo", handle)
    return replace(
        card,
        uuid=_supported(nvml, "nvmlDeviceGetUUID", handle),
        model=model,
        type=model and of_nvidia(model),
        memory=memory and memory.total,
        pci=f"{at.domain:04x}:{at.bus:02x}:{at.device:02x}.0" if at else card.pci,
    )


def _usable(
    host: Host, nvml: ModuleType, handle: object, card: Device
) -> tuple[list[MaskTarget], str]:
    """Returns the card, or the instances on it; or nothing, and the reason."""
    file = f"/dev/nvidia{_ask(nvml, 'nvmlDeviceGetMinorNumber', handle)}"
    if host.is_device(file) and (why := closed(host, file)):
        return [], why
    mode = _ask(nvml, "nvmlDeviceGetMigMode", handle)
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return [MaskTarget((card.id, card.key), card)], ""
    parts = list(_parts(nvml, handle, card))
    if not parts:
        return [], "it is in MIG mode and has no instance"
    parts[0] = MaskTarget((*parts[0].names, card.id), parts[0].device)
    return parts, ""


def _parts(nvml: ModuleType, handle: object, card: Device) -> Iterator[MaskTarget]:
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except nvml.NVMLError_NotFound:
            continue  # the numbers have gaps
        uuid = nvml.nvmlDeviceGetUUID(part)
        instance = replace(card, id=uuid, entry=uuid, parent=card.uuid)
        gpu = _ask(nvml, "nvmlDeviceGetGpuInstanceId", part)
        compute = _ask(nvml, "nvmlDeviceGetComputeInstanceId", part)
        names = (uuid, f"MIG-{card.uuid}/{gpu}/{compute}")
        yield MaskTarget(names, _described(nvml, part, instance))


def _finished(
    nvml: ModuleType, target: MaskTarget, whole: Mapping[Device, object], *, exact: bool
) -> MaskTarget:
    """Adds to a whole card its entry and peers, which depend on all cards."""
    card = target.device
    if card is None or card not in whole:
        return target
    by_nvlink = nvml.NVML_P2P_CAPS_INDEX_NVLINK
    peers = {
        other.key
        for other, handle in whole.items()
        if other != card
        and _ask(nvml, "nvmlDeviceGetP2PStatus", whole[card], handle, by_nvlink)
        == nvml.NVML_P2P_STATUS_OK
    }
    entry = card.key if exact else ""
    return MaskTarget(target.names, replace(card, entry=entry, peers=frozenset(peers)))
