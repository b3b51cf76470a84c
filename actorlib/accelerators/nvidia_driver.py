"""NVIDIA's cards as the kernel's driver lists them, where NVML is not installed.

``/proc/driver/nvidia/gpus`` has a folder for each card by its PCI address. In a
container it can show cards whose device files were not passed in, or be closed to all
but root (ray#28064). It knows no memory, no MIG instance, and shows question marks for
the UUID of a card that was never used; that there are instances is seen below
``capabilities`` (NVIDIA's MIG guide). The GPU of a Jetson is part of its processor and
not on PCI, so it has device files of its own (not tried on one). WSL2 has none: the
driver is Windows', behind ``/dev/dxg``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from actorlib._kinds import GPU
from actorlib.accelerators.base import Device, Rejected
from actorlib.accelerators.types import of_nvidia

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib.accelerators.host import Host

BARE = Device(family="nvidia", kind=GPU.name, index=0, id="")

_PROC = "/proc/driver/nvidia"
_JETSON = ("/dev/nvhost-gpu", "/dev/nvgpu/igpu*/ctrl")


class Place(NamedTuple):
    """What a mask may call a device; None for one that is there and of no use."""

    names: tuple[str, ...]
    device: Device | None


class Sight(NamedTuple):
    """Everything that was seen, in the order of PCI addresses, and what went wrong.

    If ``is_blind``, there can be MIG instances that were not seen.
    """

    places: Sequence[Place] = ()
    rejected: Sequence[Rejected] = ()
    reason: str = ""
    is_blind: bool = False


def listed(host: Host, why: str) -> Sight:
    """What there is without NVML, which is missing for the reason given."""
    found: list[Device] = []
    rejected: list[Rejected] = []
    for path in host.glob(f"{_PROC}/gpus/*/information"):
        lines = (host.read_text(path) or "").splitlines()
        said = {
            key: value.strip() for key, _, value in (x.partition(":") for x in lines)
        }
        address, model = path.split("/")[-2], said.get("Model")
        fault = _fault(host, said.get("Device Minor"))
        if fault:
            name = f"GPU at {address}"
            rejected.append(Rejected(name=name, why=fault, model=model))
            continue
        uuid = said.get("GPU UUID", "?")
        known = replace(BARE, pci=address, model=model, type=model and of_nvidia(model))
        found.append(replace(known, uuid=None if "?" in uuid else uuid, source=_PROC))
    for node in [node for pattern in _JETSON for node in host.glob(pattern)][:1]:
        if host.can_open(node):
            board = (host.read_text("/proc/device-tree/model") or "").strip("\0\n")
            found.append(
                replace(BARE, model=board or None, integrated=True, source=node)
            )
        else:
            rejected.append(Rejected(name=node, why="this process may not open it"))
    if not found and not rejected:
        return unlisted(host, why, is_traced=False)
    places = [
        Place((str(number), card.uuid or ""), replace(card, id=str(number)))
        for number, card in enumerate(found)
    ]
    lacking = f"{why}; without it memory and MIG instances are unknown"
    return Sight(places, rejected, lacking, is_blind=True)


def unlisted(host: Host, why: str, *, is_traced: bool = True) -> Sight:
    """Nothing, and why; what there is of device files leads nowhere.

    Args:
        host: The machine.
        why: What is wrong with NVML.
        is_traced: Whether that says in itself that there should be something.
    """
    rejected = [Rejected(name=n, why=why) for n in host.glob("/dev/nvidia[0-9]*")]
    if host.is_device("/dev/dxg"):
        why += "; under WSL2 (/dev/dxg) nothing else knows the cards"
    elif not rejected and not is_traced:
        why = ""
    return Sight(rejected=rejected, reason=why)


def _fault(host: Host, minor: str | None) -> str:
    """Why a card of that minor number is of no use, or the empty string."""
    node = f"/dev/nvidia{minor}"
    if minor is None:
        return "its information may not be read"
    if not host.is_device(node):
        return f"there is no {node}"
    if not host.can_open(node):
        return f"this process may not open {node}"
    if host.glob(f"{_PROC}/capabilities/gpu{minor}/mig/gi*"):
        return "it is in MIG mode, and only NVML knows its instances"
    return ""
