"""The features of an owner: the one list of what is attached there, in order."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from actorlib._enforcement.tiers import AbsentTier

if TYPE_CHECKING:
    from actorlib._enforcement.tiers import Site, Tier

TIERS = {
    "frameworks": ("actorlib._features.frameworks.tier", "Frameworks"),
    "watchdog": ("actorlib._features.watchdog.tier", "Watchdog"),
    "mps": ("actorlib._features.mps.tier", "Mps"),
    "cgroup": ("actorlib._features.cgroups.tier", "Cgroups"),
}
"""The tiers by the words of ``enforcement=``, the weakest first: module and class."""


def make_tiers(site: Site) -> list[Tier]:
    """Makes every tier that is listed; one that is not installed refuses whoever asks.

    Args:
        site: Where workers run.
    """
    return [_make_tier(word, *place, site) for word, place in TIERS.items()]


def _make_tier(word: str, module: str, name: str, site: Site) -> Tier:
    try:
        tier: Tier = getattr(import_module(module), name)(site)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("actorlib._features."):
            raise
        return AbsentTier(word, f"{module} is not installed", site)
    return tier
