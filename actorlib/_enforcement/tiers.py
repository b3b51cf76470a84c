"""Chooses what makes a share of a device hold, and says why nothing stronger does.

Each tier has what the weaker ones have, and more:

* frameworks are told to take no more memory than the share (``frameworks``);
* the memory of the actor's processes is watched, and more is told of (``watchdog``);
* the driver's MPS daemon refuses more (``mps``);
* the driver itself does, by the actor's cgroup (``cgroup``).

Nothing is promised that is not there: what cannot be had is named, with the reason.
"""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from actorlib._core.kinds import UNITS
from actorlib.exceptions import EnforcementRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib.accelerators.base import Device, Share

CONTEXT_MARGIN = 512 * 2**20
"""Bytes of a share that are left to the context of a process and to libraries.

What a process takes of a card before it has a tensor on it is outside of every
framework's count. This is a guess, in the middle of what is told of recent cards (300
to 700 MiB): it has not been measured by us.
"""

AUTO = "auto"
OFF = "off"
CGROUP = "cgroup"
NEVER_REFUSED = (AUTO, OFF)
"""What anybody can have: the others are tiers, asked for by their names."""


class Tier(enum.IntEnum):
    """What makes a share hold, the weakest first."""

    OFF = 0
    FRAMEWORKS = 1
    WATCHDOG = 2
    MPS = 3
    CGROUP = 4

    @property
    def word(self) -> str:
        """What users call it."""
        return self.name.lower()


BY_WORD = {tier.word: tier for tier in Tier}
_BY_NAME = "to be had by name alone, as it changes how programs run"
"""Why nobody gets MPS or cgroups who did not ask for them."""

_WHAT_MPS_LEAVES = (
    "it limits each process of the actor by itself, and nobody on the GPU who has not "
    "asked for it; "
)
_ALL_COMPUTE = "no compute, unless mps_thread_percentage says how much"

CAPPED = {
    "nvidia": ("PyTorch", "JAX", "TensorFlow", "CuPy"),
    "amd": ("PyTorch", "JAX", "TensorFlow", "CuPy"),
    "intel": ("PyTorch",),
}
"""The frameworks that can be told to take a part of a device, by its family."""


class Facts(NamedTuple):
    """What this machine and this runtime can do: empty, or why that cannot be had.

    Attributes:
        workers: Actors have processes of their own.
        processes: NVML lists our processes with the memory that they take.
        mps: A private MPS daemon can be run.
        mps_on: GPUs that let no private daemon in, by UUID, each with why.
        device_cgroup: The driver limits device memory by cgroup.
    """

    workers: str = ""
    processes: str = ""
    mps: str = ""
    mps_on: Mapping[str, str] = MappingProxyType({})
    device_cgroup: str = ""


class Enforced(NamedTuple):
    """What makes a share hold, and why nothing stronger does."""

    tier: Tier
    not_stronger_because: str


def choose(
    asked: str, share: Share, facts: Facts, percentage: int | None = None
) -> Enforced:
    """Chooses what makes a share hold.

    Args:
        asked: ``"auto"``, which takes frameworks or the watchdog, ``"off"``, or the
            word of a tier.
        share: What is held of one device. A whole one needs nothing.
        facts: What can be done here.
        percentage: Of the multiprocessors that each process may use under MPS; None
            for all of them. Default: None.

    Raises:
        EnforcementRefused: A tier was named that cannot be had; with the reason.
    """
    if asked == OFF:
        return Enforced(Tier.OFF, "enforcement='off' was asked for")
    if share.units >= UNITS:
        return Enforced(Tier.OFF, "the whole device is held, and nobody else is on it")
    why_not = faults(share.device, facts)
    if asked != AUTO:
        tier = BY_WORD[asked]
        if why_not[tier]:
            raise EnforcementRefused(why_not[tier])
        said = "" if tier is Tier.CGROUP else f"enforcement={asked!r} was asked for"
        if tier is Tier.MPS:
            compute = (
                _ALL_COMPUTE
                if percentage is None
                else f"compute to {percentage} % of the multiprocessors, which others "
                "may use, too"
            )
            said = f"{said}; {_WHAT_MPS_LEAVES}{compute}"
        return Enforced(tier, said)
    best = Tier.OFF
    if not why_not[Tier.FRAMEWORKS]:
        best = Tier.FRAMEWORKS if why_not[Tier.WATCHDOG] else Tier.WATCHDOG
    left = {tier: why for tier, why in why_not.items() if tier > best}
    return Enforced(best, _listed(left))


def faults(device: Device, facts: Facts) -> dict[Tier, str]:
    """Says for each tier above off why shares of a device cannot have it, or nothing.

    Args:
        device: The device.
        facts: What can be done here.
    """
    name = f"{device.kind} {device.id}"
    if facts.workers:
        return dict.fromkeys(list(Tier)[1:], facts.workers)
    frameworks = (
        ""
        if device.family in CAPPED
        else f"no framework is known that takes a limit for {device.family} devices"
    )
    if device.family != "nvidia":
        nvidia = f"{name} is no NVIDIA device"
    elif device.logical:
        nvidia = f"{name} was declared, not found"
    elif device.memory is None:
        nvidia = f"the memory of {name} is unknown"
    else:
        nvidia = ""
    part = f"{name} is a part of a card" if device.parent is not None else ""
    nameless = "" if device.uuid else f"the UUID of {name} is unknown"
    return {
        Tier.FRAMEWORKS: frameworks,
        Tier.WATCHDOG: nvidia or facts.processes,
        Tier.MPS: nvidia
        or part
        or facts.mps
        or nameless
        or facts.mps_on.get(device.uuid or "", ""),
        Tier.CGROUP: nvidia or part or facts.device_cgroup or nameless,
    }


def _listed(why_not: dict[Tier, str]) -> str:
    """Names the tiers that were not chosen, those with one reason together."""
    words: dict[str, list[str]] = {}
    for tier, why in why_not.items():
        words.setdefault(why or _BY_NAME, []).append(tier.word)
    if len(words) == 1 and not words.get(_BY_NAME):
        return next(iter(words))  # whatever was asked
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in words.items())
