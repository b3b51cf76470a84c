"""Placement groups with blocking waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import actorlib
from actorlib._api import placement_group as awaited
from actorlib._base.validation import check_seconds
from actorlib._options.group_spec import PACK, spec_of
from actorlib._script_runtime import SCRIPT
from actorlib.exceptions import GetTimeoutError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "PlacementGroup",
    "get_current_placement_group",
    "get_placement_group",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
]


@final
class PlacementGroup(actorlib.PlacementGroup):
    """Bundles that are reserved together; see ``actorlib.PlacementGroup``."""

    __slots__ = ()

    def wait(self, timeout_seconds: float = 30) -> bool:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # it blocks
        """Blocks until its bundles are reserved, or until the timeout.

        Args:
            timeout_seconds: Seconds to wait.

        Returns:
            Whether they are reserved.

        Raises:
            TypeError: ``timeout_seconds`` is not a number.
            ValueError: It is negative or not finite.
            PlacementGroupUnschedulableError: They cannot be reserved.
            PlacementGroupRemovedError: The group was removed.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        ref = self.ready()
        try:
            ref.get(timeout_seconds)
        except GetTimeoutError:
            ref.cancel()
            return False
        return True


def placement_group(
    bundles: Sequence[Mapping[str, float | str]],
    strategy: str = PACK,
    name: str = "",
    lifetime: str | None = None,
    *,
    priority: int = 0,
) -> PlacementGroup:
    """Reserves several bundles, all or none; see ``actorlib.placement_group``."""
    SCRIPT.engine()
    group = awaited.placement_group(
        bundles, strategy, name, lifetime, priority=priority
    )
    return PlacementGroup(spec_of(group))


def remove_placement_group(group: actorlib.PlacementGroup) -> None:
    """Removes a group and its actors; see ``actorlib.remove_placement_group``."""
    SCRIPT.engine()
    awaited.remove_placement_group(group)


def get_placement_group(name: str) -> PlacementGroup:
    """Returns the group of a name; see ``actorlib.get_placement_group``."""
    SCRIPT.engine()
    return PlacementGroup(spec_of(awaited.get_placement_group(name)))


def placement_group_table(
    group: actorlib.PlacementGroup | None = None,
) -> dict[str, Any]:
    """Returns the rows of groups; see ``actorlib.placement_group_table``."""
    SCRIPT.engine()
    return awaited.placement_group_table(group)


def get_current_placement_group() -> PlacementGroup | None:
    """Returns the placement group of the calling actor, or None."""
    group = awaited.get_current_placement_group()
    return None if group is None else PlacementGroup(spec_of(group))
