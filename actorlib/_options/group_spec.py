"""The bundles and the strategy of a placement group.

A group is a list of *bundles*, each a set of amounts by resource name. They are
reserved together or not at all. Actors are then placed in a bundle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NewType, cast

from actorlib._base.value import dataclass
from actorlib._options.kinds import GPU
from actorlib._options.priority import check_priority
from actorlib._options.resources import CPU, GPU_MEMORY, MEMORY, Resources, request

PACK, SPREAD = "PACK", "SPREAD"
STRICT_PACK, STRICT_SPREAD = "STRICT_PACK", "STRICT_SPREAD"
STRATEGIES = (PACK, SPREAD, STRICT_PACK, STRICT_SPREAD)

ANY_BUNDLE = -1
"""The index that stands for any bundle with room."""

GroupId = NewType("GroupId", bytes)
"""The id of a placement group."""
GroupId.__module__ = "actorlib.types"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """The checked request of a placement group.

    Attributes:
        id: Its id; empty until the engine has set it.
        bundles: The amounts of each bundle as the user wrote them.
        strategy: How the bundles are arranged on devices, one of ``STRATEGIES``.
        name: The name by which ``get_placement_group`` finds it, or the empty string.
        lifetime: ``"detached"``, or None if it ends with the actor that made it.
        priority: Its priority among the requests that wait.
        amounts: The amounts of each bundle, exact.
    """

    id: GroupId = GroupId(b"")
    bundles: tuple[Mapping[str, float | str], ...]
    strategy: str = PACK
    name: str = ""
    lifetime: str | None = None
    priority: int = 0
    amounts: tuple[Resources, ...] = field(init=False)

    def __post_init__(self) -> None:
        bundles, amounts = _checked(self.bundles)
        object.__setattr__(self, "bundles", bundles)
        object.__setattr__(self, "amounts", amounts)
        strategy = str(self.strategy).upper()
        if strategy not in STRATEGIES:
            raise ValueError(
                f"strategy takes one of {', '.join(map(repr, STRATEGIES))}, not "
                f"{self.strategy!r}"
            )
        object.__setattr__(self, "strategy", strategy)
        if not isinstance(cast("object", self.name), str):
            raise ValueError(  # noqa: TRY004  # what Ray raises
                f"name takes a string, for example 'trainers', not {self.name!r} "
                f"({type(self.name).__name__})"
            )
        if self.lifetime not in (None, "detached"):
            raise ValueError(
                f"lifetime takes None or 'detached', not {self.lifetime!r}"
            )
        try:
            check_priority("priority", self.priority)
        except TypeError as error:
            raise ValueError(str(error)) from None  # as for the others

    @property
    def is_detached(self) -> bool:
        """Whether it outlives the actor that made it."""
        return self.lifetime == "detached"

    @property
    def label(self) -> str:
        return f"group {self.name!r}" if self.name else f"group {self.id.hex()}"


class GroupReference:
    """Names a group in options; equal to other references of the same group.

    ``PlacementGroup`` derives from it and adds the operations of users.
    """

    __slots__ = ("_spec",)

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec

    @property
    def id(self) -> GroupId:
        """Its id; tables show ``id.hex()``."""
        return self._spec.id

    @property
    def bundle_specs(self) -> list[dict[str, float | str]]:
        """The amounts of each bundle as they were written."""
        return [dict(bundle) for bundle in self._spec.bundles]

    @property
    def bundle_count(self) -> int:
        """The number of bundles."""
        return len(self._spec.bundles)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupReference) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        name = f", {self._spec.name!r}" if self._spec.name else ""
        return f"PlacementGroup({self.id.hex()}{name})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._spec,)


def spec_of(group: GroupReference) -> GroupSpec:
    return group._spec  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file


def check_fit(label: str, amounts: Resources, spec: GroupSpec, index: int) -> None:
    """Makes sure that an actor fits into a bundle, or into one of them, if empty."""
    last = len(spec.amounts) - 1
    if not ANY_BUNDLE <= index <= last:
        raise ValueError(
            f"placement group bundle index {index} is invalid: the group has bundles "
            f"0 to {last}, and -1 is any of them"
        )
    bundles = spec.amounts if index == ANY_BUNDLE else spec.amounts[index : index + 1]
    if not any(fits(amounts, bundle) for bundle in bundles):
        sizes = "; ".join(map(str, bundles))
        have = f"bundle {index} has" if index != ANY_BUNDLE else "its bundles have"
        raise ValueError(
            f"{label} requests {amounts}, and in its placement group {have} {sizes}: "
            "ask for less, or make the bundle larger"
        )


def fits(amounts: Resources, bundle: Resources) -> bool:
    """Whether an empty bundle may have room for an actor.

    The units that some bytes of a GPU's memory are depend on the machine.
    """
    room = bundle.amounts
    return all(
        room.get(name, 0) >= amount or _may_have(name, room)
        for name, amount in amounts.amounts.items()
    )


def _may_have(name: str, room: Mapping[str, int]) -> bool:
    """Whether a bundle may have more of a GPU than its amounts show."""
    other = {GPU.name: GPU_MEMORY, GPU_MEMORY: GPU.name}.get(name)
    return other is not None and other in room


def _checked(
    value: object,
) -> tuple[tuple[Mapping[str, float | str], ...], tuple[Resources, ...]]:
    if not isinstance(value, list | tuple):
        raise ValueError(  # noqa: TRY004  # as Ray's users know it
            f"bundles takes a list of dicts, for example [{{'GPU': 1}}], not {value!r} "
            f"({type(value).__name__})"
        )
    listed = cast("Sequence[object]", value)
    if not listed:
        raise ValueError(
            "bundles takes at least one bundle, for example [{'GPU': 1}], not an empty "
            "list"
        )
    bundles: list[Mapping[str, float | str]] = []
    amounts: list[Resources] = []
    for place, bundle in enumerate(listed):
        if not isinstance(bundle, Mapping):
            raise ValueError(  # noqa: TRY004  # as above
                f"bundles[{place}] takes a dict of amounts by name, for example "
                f"{{'GPU': 1}}, not {bundle!r} ({type(bundle).__name__})"
            )
        written = dict(cast("Mapping[str, float | str]", bundle))
        exact = _exact(place, written)
        if not exact.amounts:
            raise ValueError(
                f"bundles[{place}]={written!r} asks for nothing: leave it out, or give "
                "an amount above 0, for example {'GPU': 1}"
            )
        bundles.append(written)
        amounts.append(exact)
    return tuple(bundles), tuple(amounts)


def _exact(place: int, bundle: Mapping[str, float | str]) -> Resources:
    rest = dict(bundle)
    own = {name: rest.pop(name, None) for name in (CPU, GPU.name, MEMORY, GPU_MEMORY)}
    try:
        return request(
            num_cpus=own[CPU],
            num_gpus=own[GPU.name],
            memory=own[MEMORY],
            resources=rest,
            gpu_memory=own[GPU_MEMORY],
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"bundles[{place}]={bundle!r}: {error}") from None


DEFAULT = "default"
"""Stands for the group of the code that makes the actor, if that code captures."""
