"""What a placement group asks for: checked once, then frozen.

A group is a list of *bundles*, each an amount of this and that, which are reserved
together or not at all. Actors are then placed inside a bundle.

What the options of an actor may say about its placement group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType, Protocol, cast

from actorlib._core.kinds import GPU
from actorlib._core.resources import CPU, MEMORY, Resources, request
from actorlib._core.validation import truth

PACK, SPREAD = "PACK", "SPREAD"
STRICT_PACK, STRICT_SPREAD = "STRICT_PACK", "STRICT_SPREAD"
STRATEGIES = (PACK, SPREAD, STRICT_PACK, STRICT_SPREAD)

ANY_BUNDLE = -1
"""The index of whichever bundle has room."""

GroupId = NewType("GroupId", bytes)
"""The id of a placement group."""
GroupId.__module__ = "actorlib"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A placement group as it was asked for.

    Attributes:
        id: Its id; empty until the engine has given it one.
        bundles: What each bundle reserves, as the user wrote it.
        strategy: How the bundles lie on devices, one of ``STRATEGIES``.
        name: What it is found by, or the empty string.
        lifetime: ``"detached"``, or None if it dies with whoever made it.
        amounts: What each bundle reserves, exact.
    """

    id: GroupId = GroupId(b"")
    bundles: tuple[Mapping[str, float], ...]
    strategy: str = PACK
    name: str = ""
    lifetime: str | None = None
    amounts: tuple[Resources, ...] = field(init=False)

    def __post_init__(self) -> None:
        bundles, amounts = _checked(self.bundles)
        object.__setattr__(self, "bundles", bundles)
        object.__setattr__(self, "amounts", amounts)
        if self.strategy not in STRATEGIES:
            raise ValueError(
                f"strategy takes one of {', '.join(STRATEGIES)}, not {self.strategy!r}"
            )
        if not isinstance(cast("object", self.name), str):
            raise ValueError(f"name takes a text, not {self.name!r}")  # noqa: TRY004  # as all that is wrong with a group
        if self.lifetime not in (None, "detached"):
            raise ValueError(
                f"lifetime takes None or 'detached', not {self.lifetime!r}"
            )

    @property
    def is_detached(self) -> bool:
        """Whether it outlives whoever made it."""
        return self.lifetime == "detached"

    @property
    def label(self) -> str:
        """How messages call it."""
        return f"group {self.name!r}" if self.name else f"group {self.id.hex()}"


def check_fit(label: str, asked: Resources, spec: GroupSpec, index: int) -> None:
    """Whether an actor can ever be inside a bundle.

    Args:
        label: The name of its class.
        asked: What it asks for.
        spec: The group.
        index: Which bundle of it, or -1 for any.

    Raises:
        ValueError: There is no such bundle, or it is too small even when it is empty.
    """
    last = len(spec.amounts) - 1
    if not ANY_BUNDLE <= index <= last:
        raise ValueError(
            f"placement group bundle index {index} is invalid: the group has bundles "
            f"0 to {last}, and -1 is any of them"
        )
    open_to = spec.amounts if index == ANY_BUNDLE else spec.amounts[index : index + 1]
    if not any(fits(asked, bundle) for bundle in open_to):
        there = "; ".join(map(str, open_to))
        which = f"bundle {index} has" if index != ANY_BUNDLE else "its bundles have"
        raise ValueError(
            f"{label} asks {asked}, and in its placement group {which} {there}: ask "
            "for less, or make the bundle larger"
        )


def fits(asked: Resources, bundle: Resources) -> bool:
    """Whether a bundle has room for an actor when nobody else is inside."""
    there = bundle.amounts
    return all(there.get(name, 0) >= amount for name, amount in asked.amounts.items())


def _checked(
    value: object,
) -> tuple[tuple[Mapping[str, float], ...], tuple[Resources, ...]]:
    if not isinstance(value, list | tuple):
        raise ValueError(  # noqa: TRY004  # as Ray's users know it
            f"bundles takes a list of dicts, for example [{{'GPU': 1}}], not {value!r}"
        )
    listed = cast("Sequence[object]", value)
    if not listed:
        raise ValueError("bundles takes at least one bundle, not an empty list")
    bundles: list[Mapping[str, float]] = []
    amounts: list[Resources] = []
    for place, bundle in enumerate(listed):
        if not isinstance(bundle, Mapping):
            raise ValueError(  # noqa: TRY004  # as above
                f"bundles[{place}] takes a dict of amounts by name, not {bundle!r}"
            )
        written = dict(cast("Mapping[str, float]", bundle))
        exact = _exact(place, written)
        if not exact.amounts:
            raise ValueError(f"bundles[{place}]={written!r} asks for nothing")
        bundles.append(written)
        amounts.append(exact)
    return tuple(bundles), tuple(amounts)


def _exact(place: int, bundle: Mapping[str, float]) -> Resources:
    rest = dict(bundle)
    own = {name: rest.pop(name, None) for name in (CPU, GPU.name, MEMORY)}
    try:
        return request(
            num_cpus=own[CPU],
            num_gpus=own[GPU.name],
            memory=own[MEMORY],
            resources=rest,
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"bundles[{place}]={bundle!r}: {error}") from None


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
