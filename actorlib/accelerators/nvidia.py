"""NVIDIA's GPUs, found through NVML and masked by ``CUDA_VISIBLE_DEVICES``.

NVML numbers cards by PCI address and ignores the mask (NVML API reference). CUDA
numbers the fastest first unless ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` is set (CUDA C++
Programming Guide, environment variables), so on a machine of mixed cards "1" is two
different ones: a process gets indices together with their order.

A mask of indices without an order is read by PCI address, as in ``nvidia-smi``, where
people read the indices. An owner who has also set an order has defined the meaning of
the indices: both are passed on. If the order is CUDA's own, the card of an index is
unknown.

MIG instances are separate devices and are written by UUID (MIG user guide). In a mask,
the index of a card in MIG mode means its first instance, as in CUDA; its UUID means no
device, as CUDA's behavior there is not documented. Without NVML, the instances that a
mask names are assumed to exist.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import GPU
from actorlib.accelerators.base import Accelerator, Detection, Device, Rejected, reject
from actorlib.accelerators.masks import CUDA, choose
from actorlib.accelerators.nvidia_driver import (
    BARE,
    MaskTarget,
    Scan,
    may_have_nvml,
    nothing_usable,
    scan_driver,
)
from actorlib.accelerators.nvml import scan_nvml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators.host import Host
    from actorlib.accelerators.masks import Mask

_ORDER = "CUDA_DEVICE_ORDER"
_BY_PCI = "PCI_BUS_ID"


@final
class Nvidia(Accelerator):
    """NVIDIA's family: whole cards and MIG instances."""

    family = "nvidia"
    kind = GPU
    visible_env = "CUDA_VISIBLE_DEVICES"
    takes_uuids = True
    syntax = CUDA

    def detect(self, host: Host) -> Detection:
        """Lists the owner's GPUs, in its mask's order or by PCI address."""
        scan, mask = _scan(host), self.mask(host.environ)
        if mask is None:
            devices, cut, outer = [target.device for target in scan.targets], "", None
            hidden: list[Rejected] = []
        else:
            targets = _targets_of(mask, scan, host.environ.get(_ORDER, _BY_PCI))
            chosen, cut = choose(mask, [target.names for target in targets])
            outer = mask.entries[: len(chosen) if targets else None]
            if not targets:
                cut = mask.reason
            pairs = zip(outer, (targets[at].device for at in chosen), strict=False)
            devices = [device and _renamed(device, word) for word, device in pairs]
            hidden = [
                reject(d, f"hidden by {mask.said}")
                for at, (_, d) in enumerate(targets)
                if d and d.id and at not in chosen
            ]
        return Detection(
            family=self.family,
            devices=tuple(
                replace(d, index=i) for i, d in enumerate(filter(None, devices))
            ),
            outer=outer,
            said=mask.said if mask is not None else "",
            reason="; ".join(filter(None, (scan.reason, cut))),
            rejected=(*scan.rejected, *hidden),
        )

    def formed(self, devices: Sequence[Device], form: str | None) -> tuple[Device, ...]:
        """Sets indices where they are unambiguous, else UUIDs.

        Indices are used if all devices are of one model, the owner named none by UUID,
        and none is missing: then CUDA's numbers are the same, and programs that read a
        number find one. Else UUIDs, in the owner's words if it used any. If one card
        has no UUID, all entries are indices, as CUDA ends a mask where its form
        changes.
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
                    f"mask_form={form!r}: GPU {device.id} has no {form} that is known "
                    f"here (a MIG instance has no index; where {_ORDER} is not "
                    f"{_BY_PCI}, an index tells no card). Leave mask_form out"
                )
            written.append(replace(device, entry=entry or ""))
        return tuple(written)

    def environment(
        self,
        devices: Sequence[Device],
        environ: Mapping[str, str],
        every: Sequence[Device],
    ) -> dict[str, str | None]:
        """Writes the mask, and with indices their order."""
        changes = super().environment(devices, environ, every)
        mask = self.mask(environ)
        is_settled = _ORDER in environ and mask is not None and mask.ordinal
        if devices and not is_settled and all(d.written.isdecimal() for d in devices):
            changes[_ORDER] = _BY_PCI
        return changes


def _scan(host: Host) -> Scan:
    """Scans the machine by NVML or, without it, by the kernel's lists."""
    if not may_have_nvml(host):
        return Scan()
    try:
        nvml = host.sdk("pynvml")
    except ImportError as error:
        return scan_driver(host, f"NVML cannot be asked: {error}")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError_LibraryNotFound as error:
        return scan_driver(host, f"NVML does not start: {error}")
    except nvml.NVMLError as error:
        # No driver, or one that was upgraded under a running kernel.
        return nothing_usable(host, f"NVML does not start: {error}")
    try:
        targets, rejected = scan_nvml(host, nvml)
    finally:
        nvml.nvmlShutdown()
    lost = "; ".join(f"{gpu.name} is left out: {gpu.why}" for gpu in rejected)
    return Scan(targets, rejected, lost if targets else "NVML finds no GPU")


def _targets_of(mask: Mask, scan: Scan, order: str) -> Sequence[MaskTarget]:
    """Returns the devices that a mask chooses from, as far as they are known."""
    if scan.may_miss_parts and mask.entries and mask.entries[0].startswith("MIG-"):
        return [MaskTarget((word,), replace(BARE, uuid=word)) for word in mask.entries]
    if mask.entries and mask.ordinal and order != _BY_PCI:
        usable = [target for target in scan.targets if target.device]
        return [MaskTarget((str(number),), BARE) for number, _ in enumerate(usable)]
    return scan.targets


def _renamed(device: Device, word: str) -> Device:
    """Renames a device to the owner's word for it; keeps its index in the entry."""
    index = "" if word.startswith("MIG-") else device.id
    return replace(device, id=word, entry=device.entry if word.isdecimal() else index)


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
