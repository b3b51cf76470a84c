"""Tiers of a machine that can do everything, but for what a test says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._enforcement.enforcement import Enforcement
from actorlib._enforcement.tiers import Enforced, Site, Tier, choose
from actorlib._features.runtime import make_tiers
from actorlib._options.runtime_options import RuntimeOptions
from helpers.host import RecordedHost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators import Device, Share


def all_tiers(
    *,
    unlisted: str = "",
    mps: str = "",
    cgroup: str = "",
) -> list[Tier]:
    """Makes all tiers.

    Args:
        unlisted: Why NVML does not list processes.
        mps: Why there is no daemon.
        cgroup: Why the driver does not limit cgroups.
    """
    tiers = make_tiers(Site(RecordedHost(), unlisted=unlisted))
    faults = {"mps": mps, "cgroup": cgroup}
    for tier in tiers:
        if tier.word in faults:
            tier._fault = faults[tier.word]  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # theirs
    return tiers


def why_not(device: Device, tiers: Sequence[Tier]) -> dict[Tier, str]:
    """Says of each tier why it cannot be had of a device."""
    return {tier: tier.fault(device) for tier in tiers}


def chosen(asked: str, share: Share, tiers: Sequence[Tier]) -> Enforced:
    """Chooses what makes a share hold."""
    return choose(asked, share, why_not(share.device, tiers), Tier(tiers[0].site))


def enforcement_of(
    default: str, devices: Mapping[str, Sequence[Device]], **faults: str
) -> Enforcement:
    """Makes the enforcement of a runtime with such devices.

    Args:
        default: What actors have that ask for nothing else.
        devices: By kind.
        **faults: See ``all_tiers``.
    """
    options = RuntimeOptions(enforcement=default)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a word
    every = tuple(device for listed in devices.values() for device in listed)
    site = Site(RecordedHost(), every, options=options)
    return Enforcement(lambda _: all_tiers(**faults), site, devices)
