"""Accelerators: which devices there are, and how a process is shown only its own.

The rooms, in reading order:

* ``base``: the words. A device, a share of it, a lease; and ``Accelerator``, what a
  family of devices has to answer.
* ``host``: the only window on the machine, so that a recorded machine is a test.
* ``masks``: what a visibility variable says, and what it loses.
* ``nvidia``: the families, one file each.

This room asks all families the same questions: ``discover`` what is there, draw up the
``inventory`` that a runtime may grant, and turn a lease into an ``environment`` and
into the ``accelerator_ids`` that the user is told. A new family is a file beside
``nvidia`` and an entry in ``FAMILIES``.
"""

from __future__ import annotations

from concurrent.futures import Future, wait
from threading import Thread
from typing import TYPE_CHECKING

from actorlib.accelerators.base import (
    Accelerator,
    Detection,
    Device,
    Inventory,
    Lease,
    Share,
)
from actorlib.accelerators.host import Host
from actorlib.accelerators.nvidia import Nvidia

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "FAMILIES",
    "Accelerator",
    "Detection",
    "Device",
    "Host",
    "Inventory",
    "Lease",
    "Share",
    "accelerator_ids",
    "discover",
    "environment",
    "inventory",
]

FAMILIES: tuple[Accelerator, ...] = (Nvidia(),)
"""Every family, the first to be preferred where several count as the same kind."""


def discover(
    host: Host, families: Sequence[Accelerator] = FAMILIES, limit: float = 5.0
) -> tuple[Detection, ...]:
    """Asks every family what it has on this machine, side by side.

    A probe that raises or does not answer costs its own family and no other, and the
    reason is kept. It blocks, so it belongs in a thread beside an event loop.

    Args:
        host: The machine.
        families: Whom to ask.
        limit: How many seconds all of them have together. A probe that takes longer is
            left behind in its daemon thread.

    Returns:
        One detection per family, in the order of the families.
    """
    probes = [_start(family, host) for family in families]
    wait(probes, timeout=limit)
    return tuple(
        probe.result()
        if probe.done()
        else _nothing(family, host, f"no answer within {limit:g} s")
        for family, probe in zip(families, probes, strict=True)
    )


def inventory(
    detections: Sequence[Detection],
    declared: Mapping[str, int | None],
    families: Sequence[Accelerator] = FAMILIES,
) -> Inventory:
    """Draws up what one runtime may grant, from what was found and what was declared.

    Of several families that count as one kind, the first that found something answers
    for it: a grant of two devices must not span two vendors.

    Args:
        detections: What ``discover`` returned for the same families.
        declared: How many devices of a kind the user says there are; None, or a
            missing kind, for what was found.
        families: The families that were asked.

    Raises:
        ValueError: More is declared than the owner's visibility variable names.
    """
    of = {detection.family: detection for detection in detections}
    devices: dict[str, tuple[Device, ...]] = {}
    for kind in dict.fromkeys(family.kind for family in families):
        rivals = [family for family in families if family.kind == kind]
        here = (family for family in rivals if of[family.family].devices)
        family = next(here, rivals[0])
        found = of[family.family]
        count = declared.get(kind)
        devices[kind] = found.devices if count is None else family.declare(count, found)
    return Inventory(devices=devices, detections=tuple(detections))


def environment(
    lease: Lease,
    inventory: Inventory,
    *,
    hide: bool,
    environ: Mapping[str, str],
    families: Sequence[Accelerator] = FAMILIES,
) -> dict[str, str | None]:
    """The variables that show a process the devices of its lease.

    Families that are not on this machine are left alone, since an empty mask breaks
    programs that read a number from it; so are those whose ``noset_env`` is true.

    Args:
        lease: What the process holds.
        inventory: What its runtime may grant.
        hide: Whether to close the families it holds nothing of. If not, it sees of
            them what the owner sees.
        environ: What the process would have otherwise.
        families: The families to consider.

    Returns:
        Values by name; None where a variable has to be removed.
    """
    granted = [device for devices in inventory.devices.values() for device in devices]
    here = {device.family for device in granted}
    here.update(found.family for found in inventory.detections if found.devices)
    changes: dict[str, str | None] = {}
    for family in families:
        held = [d for d in lease.devices(family.kind) if d.family == family.family]
        wanted = held or (hide and family.family in here)
        if wanted and not _is_true(environ.get(family.noset_env, "")):
            changes |= family.environment(held, environ)
    return changes


def accelerator_ids(lease: Lease, inventory: Inventory) -> dict[str, list[int | str]]:
    """The ids of a lease's devices by kind, as the user is told them.

    They are the machine's ids, not the numbers a process counts behind its mask: ints
    where the owner had no mask, and its mask's own words where it had one.

    Returns:
        Every kind that the inventory knows, with an empty list if nothing is held.
    """
    masked = {found.family for found in inventory.detections if found.outer is not None}
    return {
        kind: [
            device.id if device.family in masked else int(device.id)
            for device in lease.devices(kind)
        ]
        for kind in inventory.devices
    }


def _start(family: Accelerator, host: Host) -> Future[Detection]:
    probe: Future[Detection] = Future()
    Thread(
        target=lambda: probe.set_result(_detect(family, host)),
        name=f"actorlib-detect-{family.family}",
        daemon=True,
    ).start()
    return probe


def _detect(family: Accelerator, host: Host) -> Detection:
    try:
        return family.detect(host)
    except Exception as error:  # noqa: BLE001  # a vendor's fault is its own
        return _nothing(family, host, f"{type(error).__name__}: {error}")


def _nothing(family: Accelerator, host: Host, reason: str) -> Detection:
    """A failed probe. The owner's mask holds all the same for what is declared."""
    mask = family.mask(host.environ)
    outer = None if mask is None else mask.entries
    return Detection(family=family.family, outer=outer, reason=reason)


def _is_true(switch: str) -> bool:
    return switch.lower() in ("1", "true")
