"""Scans NVIDIA's cards as listed by the kernel's driver, where NVML is missing.

``/proc/driver/nvidia/gpus`` has a folder for each card by its PCI address. In a
container it may list cards whose device files are missing, or only root may read it
(ray#28064). It has no memory and no MIG instances, and has question marks for the UUID
of a card that was never used. The folder ``capabilities`` shows that there are
instances (NVIDIA's MIG guide). The GPU of a Jetson is part of its processor and not on
PCI, so it has other device files (not tried on one). WSL2 has none: the driver is that
of Windows, behind ``/dev/dxg``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from actorlib._options.kinds import GPU
from actorlib.accelerators.base import Device, Rejected
from actorlib.accelerators.files import closed
from actorlib.accelerators.type_names import of_nvidia

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib.accelerators.host import Host

BARE = Device(family="nvidia", kind=GPU.name, id="")

_PROC = "/proc/driver/nvidia"
_JETSON = ("/dev/nvhost-gpu", "/dev/nvgpu/igpu*/ctrl")
_TRACES = ("/dev/nvidiactl", "/dev/nvidia[0-9]*", "/dev/dxg", _PROC, *_JETSON)
_ON_PCI = re.compile(r"^[0-9a-f]{4}\t10de", re.MULTILINE)
_UUID = re.compile(r"GPU-[0-9a-f-]+")


class MaskTarget(NamedTuple):
    """A device with its names in masks.

    Attributes:
        names: The names.
        device: The device; None for one that exists and is unusable.
    """

    names: tuple[str, ...]
    device: Device | None


class Scan(NamedTuple):
    """NVIDIA's devices, and what went wrong.

    Attributes:
        targets: The devices that a mask may name, in the order of PCI addresses.
        rejected: The unusable ones.
        reason: What went wrong; else empty.
        may_miss_parts: Whether MIG instances may exist that were not found.
    """

    targets: Sequence[MaskTarget] = ()
    rejected: Sequence[Rejected] = ()
    reason: str = ""
    may_miss_parts: bool = False


def may_have_nvml(host: Host) -> bool:
    """Whether NVML may start here, so that it is worth the time to import it.

    NVML needs its driver, or a card on PCI: for that it loads the driver and makes the
    device files (nvidia-modprobe).
    """
    on_pci = host.read_text("/proc/bus/pci/devices") or ""
    return any(map(host.glob, _TRACES)) or bool(_ON_PCI.search(on_pci))


def scan_driver(host: Host, why: str) -> Scan:
    """Scans without NVML.

    ``why`` is the reason why NVML is missing.
    """
    cards: list[Device] = []
    rejected: list[Rejected] = []
    for path in host.glob(f"{_PROC}/gpus/*/information"):
        lines = (host.read_text(path) or "").splitlines()
        facts = {
            key: value.strip() for key, _, value in (x.partition(":") for x in lines)
        }
        address, model = path.split("/")[-2], facts.get("Model") or None
        fault = _fault(host, facts.get("Device Minor"))
        if fault:
            name = f"GPU at {address}"
            rejected.append(Rejected(name=name, why=fault, model=model))
            continue
        uuid = facts.get("GPU UUID", "")
        card = replace(BARE, pci=address, model=model, type=model and of_nvidia(model))
        cards.append(
            replace(card, uuid=uuid if _UUID.fullmatch(uuid) else None, source=_PROC)
        )
    for file in [file for pattern in _JETSON for file in host.glob(pattern)][:1]:
        if fault := closed(host, file):
            rejected.append(Rejected(name=file, why=fault))
        else:
            board = (host.read_text("/proc/device-tree/model") or "").strip("\0\n")
            cards.append(
                replace(BARE, model=board or None, integrated=True, source=file)
            )
    if not cards and not rejected:
        return nothing_usable(host, why)
    targets = [
        MaskTarget((str(number), card.uuid or ""), replace(card, id=str(number)))
        for number, card in enumerate(cards)
    ]
    lacking = f"{why}; without it memory and MIG instances are unknown"
    return Scan(targets, rejected, lacking, may_miss_parts=True)


def nothing_usable(host: Host, why: str) -> Scan:
    """Returns a scan without devices; device files are useless without NVML."""
    rejected = [Rejected(name=n, why=why) for n in host.glob("/dev/nvidia[0-9]*")]
    if host.is_device("/dev/dxg"):
        why += "; under WSL2 (/dev/dxg) nothing else knows the cards"
    return Scan(rejected=rejected, reason=why)


def _fault(host: Host, minor: str | None) -> str:
    """Returns why a card with that minor number is unusable; else empty."""
    if minor is None:
        return "its information may not be read"
    if fault := closed(host, f"/dev/nvidia{minor}"):
        return fault
    if host.glob(f"{_PROC}/capabilities/gpu{minor}/mig/gi*"):
        return "it is in MIG mode, and only NVML knows its instances"
    return ""
