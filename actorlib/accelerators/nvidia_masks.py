"""Maps the entries of a CUDA mask to NVIDIA's devices, and writes our masks.

An index identifies a card only together with an order. CUDA's own order,
``FASTEST_FIRST``, is known only after starting CUDA, so under it an index is passed on
unchanged and its card is unknown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actorlib.accelerators.nvidia_driver import BARE, MaskTarget, Scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib.accelerators.base import Device
    from actorlib.accelerators.masks import Mask

ORDER = "CUDA_DEVICE_ORDER"
BY_PCI = "PCI_BUS_ID"


def targets_of(mask: Mask, scan: Scan, order: str) -> Sequence[MaskTarget]:
    """Returns the devices that a mask chooses from, as far as they are known."""
    if scan.may_miss_parts and mask.entries and mask.entries[0].startswith("MIG-"):
        return [MaskTarget((word,), replace(BARE, uuid=word)) for word in mask.entries]
    if mask.entries and mask.ordinal and order != BY_PCI:
        usable = [target for target in scan.targets if target.device]
        return [MaskTarget((str(number),), BARE) for number, _ in enumerate(usable)]
    return scan.targets


def renamed(device: Device, word: str) -> Device:
    """Renames a device to the owner's word for it; keeps its index in the entry."""
    index = "" if word.startswith("MIG-") else device.id
    return replace(device, id=word, entry=device.entry if word.isdecimal() else index)


def formed(devices: Sequence[Device], form: str | None) -> tuple[Device, ...]:
    """Sets the entries of devices in masks.

    They are indices if all devices are of one model, the owner named none by UUID, and
    none
    is missing: then CUDA's numbers are the same, and programs that read a number find
    one.
    Else they are UUIDs, in the owner's words if it used any. If one card has no UUID,
    all
    entries are indices, as CUDA ends a mask where its form changes.

    Args:
        devices: All that may be granted.
        form: ``"index"`` or ``"uuid"``; None for the better one.

    Raises:
        ValueError: A device has no such entry, or it is unknown.
    """
    real = [device for device in devices if not device.logical]
    models = {device.model for device in real}
    is_any_nameless = any(device.uuid is None for device in real)
    plain = all(device.id.isdecimal() and not device.entry for device in devices)
    best = "index" if is_any_nameless or (plain and len(models) <= 1) else "uuid"
    written: list[Device] = []
    for device in devices:
        entry = _entry(device, form or best)
        if form and entry is None:
            raise ValueError(
                f"mask_form={form!r}: GPU {device.id} has no {form} that is known here "
                f"(a MIG instance has no index; where {ORDER} is not {BY_PCI}, an "
                "index tells no card). Leave mask_form out"
            )
        written.append(replace(device, entry=entry or ""))
    return tuple(written)


def _entry(device: Device, form: str) -> str | None:
    """Returns a device's entry in that form, empty if its id; None if it has none."""
    is_part = (device.uuid or device.id).startswith("MIG-")
    if device.logical:
        return ""
    if form == "uuid":
        return device.uuid if device.id.isdecimal() else ""
    if device.id.isdecimal():
        return None if is_part else ""
    return device.entry if device.entry.isdecimal() else None
