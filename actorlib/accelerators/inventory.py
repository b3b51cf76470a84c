"""The devices that a runtime may grant, and the environment of a process with a lease.

Devices of several families may count as one kind, and two families may read the same
variable: this module resolves such conflicts.
"""

from __future__ import annotations

from dataclasses import field, replace
from math import inf
from typing import TYPE_CHECKING

from actorlib._base.public import public
from actorlib._base.value import dataclass
from actorlib._options.kinds import KINDS, Kind
from actorlib.accelerators.base import reject
from actorlib.accelerators.claims import describe_claimants, describe_claims
from actorlib.accelerators.discovery import families
from actorlib.accelerators.masks import read_mask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators.base import (
        Accelerator,
        Detection,
        Device,
        Lease,
        Rejected,
    )
    from actorlib.accelerators.claims import Claimant

_STAND_IN = "nvidia"
"""The family of logical GPUs on a machine that has none."""


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Every device that one runtime may grant, of every family, and why not more.

    Attributes:
        devices: By kind, in index order; every kind is there.
        kinds: The properties of each kind, by name.
        detections: One per family, in the order of the families.
        families: The families that have devices here, granted or not: their masks are
            written.
        by_family: All devices that may be granted, by the name of their family.
        masked: The names of the families whose mask the owner has set.
        rejected: The candidates that are not offered, by kind; without kinds of which
            all are offered.
    """

    devices: Mapping[str, tuple[Device, ...]] = field(
        default_factory=dict[str, "tuple[Device, ...]"]
    )
    kinds: Mapping[str, Kind] = field(default_factory=lambda: dict(KINDS))
    detections: tuple[Detection, ...] = ()
    families: tuple[Accelerator, ...] = ()
    by_family: Mapping[str, tuple[Device, ...]] = field(
        default_factory=dict[str, "tuple[Device, ...]"]
    )
    masked: frozenset[str] = frozenset()
    rejected: Mapping[str, tuple[Rejected, ...]] = field(
        default_factory=dict[str, "tuple[Rejected, ...]"]
    )


@public("actorlib.accelerators")
def inventory(
    detections: Sequence[Detection],
    declared: Mapping[str, int | None],
    asked: Sequence[Accelerator] | None = None,
    mask_form: str | None = None,
    claimed: Mapping[Device, Sequence[Claimant]] | None = None,
    device_memory: Mapping[str, int] | None = None,
) -> Inventory:
    """Determines what one runtime may grant, from found and declared devices.

    Devices of several families that count as one kind are numbered one family after
    another. Devices that are part of a CPU count only if their kind has no others.

    Args:
        detections: The result of ``discover`` for the same families.
        declared: The user's number of devices of a kind; None, or a missing kind, for
            the found ones.
        asked: The families that were asked; None for all families. Default: None.
        mask_form: How masks are written, ``"index"`` or ``"uuid"``; None for the best
            form of each family. Default: None.
        claimed: Devices that are left to their claimants. Default: None, for none.
        device_memory: Bytes of each device of a kind whose own memory is unknown,
            logical ones included. Known memory is not changed. Default: None: unknown
            memory stays unknown.

    Raises:
        ValueError: The declared devices are more than the owner's visibility variable
            names, or more than the unclaimed ones; or a mask cannot be written in that
            form; or memory is declared for an unknown kind.
    """
    every = families() if asked is None else asked
    here = {detection.family for detection in detections if detection.devices}
    detections = _without_integrated(detections)
    if claimed:
        detections = _without(
            detections,
            {
                device: f"held by {describe_claimants(claimants)}"
                for device, claimants in claimed.items()
            },
        )
        _check_free(detections, claimed, declared)
    by_name = {detection.family: detection for detection in detections}
    kinds: dict[str, Kind] = {}
    for family in every:
        if family.kind.name:  # one that cannot be loaded has no kind
            kinds.setdefault(family.kind.name, family.kind)
    _check_kinds(device_memory or {}, {**kinds, **KINDS})
    devices = {
        name: _with_memory(
            _granted(
                [family for family in every if family.kind.name == name],
                by_name,
                declared.get(name),
                mask_form,
            ),
            (device_memory or {}).get(name),
        )
        for name in kinds
    }
    by_family: dict[str, list[Device]] = {}
    for granted in devices.values():
        for device in granted:
            by_family.setdefault(device.family, []).append(device)
    present = [family for family in every if family.family in {*here, *by_family}]
    if mask_form == "uuid":
        _check_uuids(present)
    return Inventory(
        devices=devices,
        kinds={**kinds, **KINDS},
        detections=detections,
        families=tuple(present),
        by_family={name: tuple(listed) for name, listed in by_family.items()},
        masked=frozenset(d.family for d in detections if d.outer is not None),
        rejected=_rejected(every, by_name),
    )


@public("actorlib.accelerators")
def environment(
    lease: Lease, inventory: Inventory, *, hide: bool, environ: Mapping[str, str]
) -> dict[str, str | None]:
    """Returns the variables that show a process the devices of its lease.

    Families without devices on this machine are not masked, since an empty mask breaks
    programs that read a number from it. Families whose mask the user has forbidden by
    one of their ``nosets`` are not masked either.

    Args:
        lease: The lease of the process.
        inventory: The devices that its runtime may grant.
        hide: Whether to hide the families of which it holds no device. If not, it sees
            the same devices of them as the owner.
        environ: The environment of the process without them.

    Returns:
        Values by name; None for a variable that has to be removed.
    """
    opened: dict[str, str | None] = {}
    hidden: dict[str, str | None] = {}
    settled: set[str] = set()
    forbidden: set[str] = set()
    for family in inventory.families:
        devices = [s.device for s in lease.shares if s.device.family == family.family]
        if any(_is_true(environ, name) for name in family.nosets):
            forbidden.add(family.visible_env)
            continue
        if not (devices or hide):
            continue
        every = inventory.by_family.get(family.family, ())
        variables = family.environment(devices, environ, every)
        if devices:
            opened |= variables
            settled.add(family.visible_env)
        else:
            hidden |= variables
    # Two families can read one variable (CUDA_VISIBLE_DEVICES is NVIDIA's, MetaX's and,
    # sometimes, AMD's). A family with devices keeps its own variable even if another
    # family hides by it. A family that hides by its own variable keeps it even if
    # another family only adjusts it.
    changes = opened | {name: v for name, v in hidden.items() if name not in settled}
    return {name: v for name, v in changes.items() if name not in forbidden}


@public("actorlib.accelerators")
def accelerator_ids(
    lease: Lease, inventory: Inventory, own: Mapping[str, str] | None = None
) -> dict[str, list[int | str]]:
    """Returns the ids of a lease's devices by kind, as the user sees them.

    They are the machine's ids, not the numbers that a process counts behind its mask:
    ints if the owner had no mask, and else its mask's own entries. If the user has
    written a mask for the process, its entries are returned: the process sees those.

    Args:
        lease: The lease.
        inventory: All devices.
        own: Variables that the user has set for the process. Default: None.

    Returns:
        Every kind of the inventory, with an empty list if no device of it is held.
    """
    ids: dict[str, list[int | str]] = {kind: [] for kind in inventory.devices}
    for share in lease.shares:
        device = share.device
        is_number = device.id.isdecimal() and device.family not in inventory.masked
        ids[device.kind].append(int(device.id) if is_number else device.id)
    for family in inventory.families:
        value = (own or {}).get(family.visible_env)
        mask = read_mask(family.visible_env, value, family.syntax)
        if mask is not None and family.kind.name in ids:
            entries = mask.entries
            ids[family.kind.name] = [int(e) if e.isdecimal() else e for e in entries]
    return ids


def _granted(
    same_kind: Sequence[Accelerator],
    found: Mapping[str, Detection],
    count: int | None,
    form: str | None,
) -> tuple[Device, ...]:
    """Returns the devices of one kind, of all families that count as it."""
    offered = {family.family: found[family.family].devices for family in same_kind}
    missing = (count or 0) - sum(map(len, offered.values()))
    if missing > 0:
        offered |= _declared(missing, _families_to_declare(same_kind, found), found)
    every = [
        device
        for family in same_kind
        for device in family.formed(
            offered[family.family],
            None if form == "uuid" and not family.takes_uuids else form,
        )
    ]
    return tuple(
        device if device.index == index else replace(device, index=index)
        for index, device in enumerate(every[:count])
    )


def _with_memory(devices: tuple[Device, ...], nbytes: int | None) -> tuple[Device, ...]:
    """Sets the memory of devices where it is unknown."""
    if nbytes is None:
        return devices
    return tuple(
        device if device.memory else replace(device, memory=nbytes)
        for device in devices
    )


def _check_kinds(device_memory: Mapping[str, int], kinds: Mapping[str, Kind]) -> None:
    for name in device_memory:
        if name not in kinds:
            raise ValueError(
                f"device_memory[{name!r}]: the kinds of devices are {', '.join(kinds)}"
            )


def _check_uuids(present: Sequence[Accelerator]) -> None:
    if present and not any(family.takes_uuids for family in present):
        masks = ", ".join(filter(None, (family.visible_env for family in present)))
        raise ValueError(
            f"mask_form='uuid': {masks or 'no mask here'} takes no UUIDs. Leave "
            "mask_form out"
        )


def _families_to_declare(
    same_kind: Sequence[Accelerator], found: Mapping[str, Detection]
) -> list[Accelerator]:
    """Returns the families of declared devices that were not found.

    They are the families that are present, even if a mask hides all their devices. If
    none is present, it is the family whose mask names a device. If masks of missing
    families leave nothing, it is those families: there is to be nothing. Without any
    mask it is NVIDIA or the only family of the kind.
    """
    usual = sorted(same_kind, key=lambda family: family.family != _STAND_IN)
    closed = [family for family in usual if found[family.family].outer == ()]
    return (
        [family for family in same_kind if found[family.family].devices]
        or [family for family in closed if found[family.family].rejected]
        or [family for family in usual if found[family.family].outer][:1]
        or closed
        or usual[:1]
    )


def _declared(
    missing: int, declarable: Sequence[Accelerator], found: Mapping[str, Detection]
) -> dict[str, tuple[Device, ...]]:
    """Returns the devices of these families, filled up with logical ones.

    Raises:
        ValueError: Their masks name fewer.
    """
    rooms = {family: _room_for_logical(found[family.family]) for family in declarable}
    if len(declarable) > 1 and missing > sum(rooms.values()):
        # Two families may read the same variable. The message names it once.
        names = dict.fromkeys(
            f"{found[family.family].said or family.visible_env} names "
            f"{','.join(found[family.family].outer or ()) or 'none'}"
            for family in declarable
        )
        have = sum(len(found[family.family].devices) for family in declarable)
        most = have + int(sum(rooms.values()))
        raise ValueError(
            f"{have + missing} {declarable[0].kind.name} declared, but the visibility "
            f"variables let this process use {most}: {'; '.join(names)}. "
            f"Declare at most {most}, or set the variables to more"
        )
    offered: dict[str, tuple[Device, ...]] = {}
    for family, room in rooms.items():
        detection = found[family.family]
        # A single family raises the error itself, with the content of its mask.
        more = missing if len(rooms) == 1 else int(min(missing, room))
        offered[family.family] = family.declare(
            len(detection.devices) + more, detection
        )
        missing -= more
    return offered


def _room_for_logical(detection: Detection) -> float:
    """Returns the number of logical devices for which the owner's mask has entries."""
    if detection.outer is None:
        return inf
    return len(detection.outer) - len(detection.devices)


def _without_integrated(detections: Sequence[Detection]) -> tuple[Detection, ...]:
    """Rejects devices that are part of a CPU if their kind has others."""
    discrete = {
        device.kind
        for detection in detections
        for device in detection.devices
        if not device.integrated
    }
    why = "part of the CPU; this machine has other devices"
    return _without(
        detections,
        {
            device: why
            for detection in detections
            for device in detection.devices
            if device.integrated and device.kind in discrete
        },
    )


def _rejected(
    families: Sequence[Accelerator], found: Mapping[str, Detection]
) -> dict[str, tuple[Rejected, ...]]:
    """Returns the rejected candidates by kind."""
    rejected: dict[str, tuple[Rejected, ...]] = {}
    for family in families:
        kind, detection = family.kind.name, found.get(family.family)
        if detection is not None and detection.rejected:
            rejected[kind] = (*rejected.get(kind, ()), *detection.rejected)
    return rejected


def _check_free(
    detections: Sequence[Detection],
    claimed: Mapping[Device, Sequence[Claimant]],
    declared: Mapping[str, int | None],
) -> None:
    """Checks that no declared device replaces one that others have claimed."""
    for kind in dict.fromkeys(device.kind for device in claimed):
        free = sum(d.kind == kind for each in detections for d in each.devices)
        if (declared.get(kind) or 0) > free:
            claims = {d: c for d, c in claimed.items() if d.kind == kind}
            raise ValueError(
                f"{declared[kind]} {kind} declared with devices='free', and "
                f"{free} {'is' if free == 1 else 'are'} free. Held: "
                f"{describe_claims(claims)}. Declare at most what is free, or share "
                "with devices='all'"
            )


def _without(
    detections: Sequence[Detection], reasons: Mapping[Device, str]
) -> tuple[Detection, ...]:
    """Moves devices to the rejected candidates, each with its reason."""
    return tuple(
        replace(
            detection,
            devices=tuple(d for d in detection.devices if d not in reasons),
            rejected=(
                *detection.rejected,
                *(
                    reject(device, reasons[device])
                    for device in detection.devices
                    if device in reasons
                ),
            ),
        )
        for detection in detections
    )


def _is_true(environ: Mapping[str, str], switch: str) -> bool:
    return environ.get(switch, "").lower() in ("1", "true")
