"""What the options of an actor may say about its placement group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actorlib._bundles import ANY_BUNDLE, GroupSpec
from actorlib._checks import truth

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT = "default"
"""The group of the actor that makes it, if that one captures; else none."""

STRATEGY_OPTION = "scheduling_strategy"


class Grouping(Protocol):
    """The options that are about a group; see ActorOptions."""

    @property
    def placement_group(self) -> object:
        """A group, None for none, or ``"default"``."""
        ...

    @property
    def placement_group_bundle_index(self) -> int:
        """Which bundle, or -1 for any."""
        ...

    @property
    def placement_group_capture_child_tasks(self) -> bool | None:
        """Whether the actors that it makes are in the group too."""
        ...

    @property
    def scheduling_strategy(self) -> object:
        """Says the same in Ray's other words."""
        ...


def check_grouping(options: Grouping) -> None:
    """Whether they are of the right type and in range.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is out of range.
    """
    group, index = options.placement_group, options.placement_group_bundle_index
    if group is not None and group != DEFAULT and not isinstance(group, GroupSpec):
        raise TypeError(
            "placement_group takes what placement_group() gave, None for no group, or "
            f"'default', not {group!r} ({type(group).__name__})"
        )
    if isinstance(index, bool) or not isinstance(index, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # the user wrote it
        raise TypeError(
            "placement_group_bundle_index takes a whole number, or -1 for any bundle, "
            f"not {index!r} ({type(index).__name__})"
        )
    if index < ANY_BUNDLE:
        raise ValueError(
            f"placement group bundle index {index} is invalid: bundles are counted "
            "from 0, and -1 is any of them"
        )
    if group is None and index != ANY_BUNDLE:
        raise ValueError(
            f"placement_group_bundle_index={index} is about a group, and "
            "placement_group=None says that there is none"
        )
    if options.placement_group_capture_child_tasks is not None:
        truth(
            "placement_group_capture_child_tasks",
            options.placement_group_capture_child_tasks,
        )
    if options.scheduling_strategy not in (None, "DEFAULT"):
        raise ValueError(
            "scheduling_strategy takes a PlacementGroupSchedulingStrategy or "
            f"'DEFAULT', not {options.scheduling_strategy!r}; placement='spread' "
            "spreads over devices"
        )


def check_once(given: Mapping[str, object]) -> None:
    """Whether a group is named in one way only.

    Raises:
        ValueError: It is named by ``placement_group`` and ``scheduling_strategy``.
    """
    strategy = given.get(STRATEGY_OPTION)
    if strategy is not None and given.get("placement_group", DEFAULT) != DEFAULT:
        raise ValueError(
            "placement_group and scheduling_strategy both say where the actor goes: "
            "give one of the two"
        )
