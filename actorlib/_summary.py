"""What is known of the accelerators of a machine, in plain values for machines.

This is the document that ``actorlib devices --json`` prints: its names are promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import actorlib
from actorlib.accelerators import inventory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators import Accelerator, Detection, Device, Rejected

_ALSO = (
    "ACTORLIB_HIDE_DEVICES",
    "ASCEND_DEVICE_ID",
    "CUDA_DEVICE_ORDER",
    "GPU_DEVICE_ORDINAL",
    "HIP_VISIBLE_DEVICES",
    "HLS_MODULE_ID",
    "MACA_DEVICE_ORDER",
    "MACA_VISIBLE_DEVICES",
    "NEURON_LOGICAL_NC_CONFIG",
    "NEURON_RT_NUM_CORES",
    "ONEAPI_DEVICE_SELECTOR",
    "RBLN_VISIBLE_DEVICES",
    "TPU_VISIBLE_DEVICES",
    "TT_METAL_VISIBLE_DEVICES",
    "ZE_ENABLE_PCI_ID_DEVICE_ORDER",
    "ZE_FLAT_DEVICE_HIERARCHY",
)
"""Variables besides each family's own one that change which devices are meant."""


class DeviceFound(TypedDict):
    """A device that may be granted; see ``actorlib.accelerators.Device``."""

    id: str
    index: int
    uuid: str | None
    pci: str | None
    model: str | None
    type: str | None
    memory: int | None
    parent: str | None
    peers: list[str]
    integrated: bool
    source: str
    written: str


class NotOffered(TypedDict):
    """What was looked at and is not offered, and why."""

    name: str
    model: str | None
    why: str


class FamilyFound(TypedDict):
    """What one family has; its variable's value is the owner's, null if unset.

    ``said`` is all of the owner's masks that count for it, as they are set.
    """

    family: str
    kind: str | None
    variable: str | None
    value: str | None
    said: str
    outer: list[str] | None
    reason: str
    devices: list[DeviceFound]
    rejected: list[NotOffered]


class KindFound(TypedDict):
    """One resource; ``declarable`` is the most that may be declared, null for any."""

    count: int
    divisible: bool
    counts: list[int] | None
    types: list[str]
    declarable: int | None


class Summary(TypedDict):
    """The machine; families and kinds by name, times in seconds, sizes in bytes."""

    version: str
    families: list[FamilyFound]
    kinds: dict[str, KindFound]
    environment: dict[str, str]
    took: float


def summarize(
    detections: Sequence[Detection],
    asked: Sequence[Accelerator],
    environ: Mapping[str, str],
    took: float,
) -> Summary:
    """Says in plain values what was found, in an order that does not depend on chance.

    Args:
        detections: What ``discover`` returned for these families.
        asked: The families.
        environ: The owner's environment.
        took: How many seconds it took to find out.
    """
    found = inventory(detections, {}, asked)
    offered = {detection.family: detection for detection in found.detections}
    names = {name for f in asked for name in (f.visible_env, *f.nosets)} | {*_ALSO}
    return {
        "version": actorlib.__version__,
        "families": [
            _family(
                family,
                offered[family.family],
                found.by_family.get(family.family, ()),
                environ,
            )
            for family in sorted(asked, key=lambda family: family.family)
        ],
        "kinds": {
            name: {
                "count": len(devices),
                "divisible": found.kinds[name].divisible,
                "counts": None
                if (counts := found.kinds[name].counts) is None
                else [*counts],
                "types": sorted({d.type for d in devices if d.type}),
                "declarable": _declarable(name, len(devices), detections, asked),
            }
            for name, devices in sorted(found.devices.items())
        },
        "environment": {name: environ[name] for name in sorted(names & {*environ})},
        "took": round(took, 6),
    }


def _family(
    family: Accelerator,
    detection: Detection,
    devices: Sequence[Device],
    environ: Mapping[str, str],
) -> FamilyFound:
    return {
        "family": family.family,
        "kind": family.kind.name or None,
        "variable": family.visible_env or None,
        "value": environ.get(family.visible_env),
        "said": detection.said,
        "outer": None if detection.outer is None else [*detection.outer],
        "reason": detection.reason,
        "devices": [_device(device) for device in devices],
        "rejected": [_rejected(rejected) for rejected in detection.rejected],
    }


def _device(device: Device) -> DeviceFound:
    return {
        "id": device.id,
        "index": device.index,
        "uuid": device.uuid,
        "pci": device.pci,
        "model": device.model,
        "type": device.type,
        "memory": device.memory,
        "parent": device.parent,
        "peers": sorted(device.peers),
        "integrated": device.integrated,
        "source": device.source,
        "written": device.written,
    }


def _rejected(rejected: Rejected) -> NotOffered:
    return {"name": rejected.name, "model": rejected.model, "why": rejected.why}


def _declarable(
    kind: str,
    count: int,
    detections: Sequence[Detection],
    asked: Sequence[Accelerator],
) -> int | None:
    """How many devices of a kind may be declared, the found ones among them."""

    def is_allowed(number: int) -> bool:
        # Which masks count is the inventory's affair: it is tried, not worked out.
        try:
            inventory(detections, {kind: number}, asked)
        except ValueError:
            return False
        return True

    most = count + sum(len(detection.outer or ()) for detection in detections)
    if is_allowed(most + 1):
        return None
    return next(
        (number for number in range(most, count, -1) if is_allowed(number)), count
    )
