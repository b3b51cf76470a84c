"""The options of an actor or a call that depend on where it is made."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from actorlib._base.log import tell
from actorlib._base.public import public
from actorlib._base.validation import given_options
from actorlib._base.value import dataclass
from actorlib._core.engine import current_engine
from actorlib._options.group_spec import (
    ANY_BUNDLE,
    DEFAULT,
    GroupReference,
    check_fit,
    spec_of,
)
from actorlib._options.runtime_env import resolved_env

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.function_options import FunctionOptions

Options = TypeVar("Options", "ActorOptions", "FunctionOptions")


@public("actorlib.types")
@dataclass(frozen=True, slots=True)
class PlacementGroupSchedulingStrategy:
    """The placement group of an actor, as in Ray: for ``scheduling_strategy=``.

    Attributes:
        placement_group: The PlacementGroup.
        placement_group_bundle_index: The index of the bundle; -1 is any with room.
        placement_group_capture_child_tasks: Whether the actors that it makes are placed
            in the group too.

    Example:
        >>> @actorlib.remote(num_gpus=1)
        ... class Model:
        ...     def ping(self):
        ...         return "pong"
        >>> group = actorlib.placement_group([{"GPU": 1}])
        >>> where = actorlib.types.PlacementGroupSchedulingStrategy(group)
        >>> await Model.options(scheduling_strategy=where).remote().ping.remote()
        'pong'
    """

    placement_group: GroupReference
    placement_group_bundle_index: int = ANY_BUNDLE
    placement_group_capture_child_tasks: bool | None = None


def with_group_spec(settings: Mapping[str, object]) -> dict[str, object]:
    """Replaces the group in a user's options by its spec."""
    options = dict(settings)
    strategy = options.get("scheduling_strategy")
    if strategy is not None and options.get("placement_group", DEFAULT) != DEFAULT:
        raise ValueError(
            "placement_group and scheduling_strategy both name the actor's group: "
            "give one of the two"
        )
    if isinstance(strategy, PlacementGroupSchedulingStrategy):
        options |= {"scheduling_strategy": None, **given_options(strategy)}
    elif strategy == "SPREAD":
        _log_spread()
    group = options.get("placement_group")
    if isinstance(group, GroupReference):
        options["placement_group"] = spec_of(group)
    return options


@cache  # one line per process
def _log_spread() -> None:
    tell(
        logging.INFO,
        "scheduling_strategy='SPREAD' spreads over machines, and has an effect on the "
        "Ray engine only; placement='spread' spreads over devices",
    )


def with_context(label: str, options: Options) -> Options:
    """Returns the options with an absolute working directory, and a group.

    Options that name no group have that of the calling code, if that code captures. The
    bundle has to fit; ``label`` is the name for messages.
    """
    env = resolved_env(options.runtime_env)
    if env != options.runtime_env:
        options = options.updated({"runtime_env": env})
    index = options.placement_group_bundle_index
    captures = options.placement_group_capture_child_tasks
    if options.placement_group == DEFAULT:
        context = current_engine().context
        if captures is None:
            captures = context.captures
        group = context.group if captures else None
        if group is not None:
            changes = {
                "placement_group": group,
                "placement_group_capture_child_tasks": captures,
            }
            options = options.updated(changes)
    options.check_rank(label)
    if options.group is not None:
        check_fit(label, options.request, options.group, index)
    elif index != ANY_BUNDLE:
        raise ValueError(
            f"placement_group_bundle_index={index} needs a placement group, and "
            f"{label} has none: give placement_group= too"
        )
    return options
