"""What a placement group asks for: checked once, then frozen.

A group is a list of *bundles*, each an amount of this and that, which are reserved
together or not at all. Actors are then placed inside a bundle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType, cast

from actorlib._kinds import GPU
from actorlib._resources import CPU, MEMORY, Resources, request

PACK, SPREAD = "PACK", "SPREAD"
STRICT_PACK, STRICT_SPREAD = "STRICT_PACK", "STRICT_SPREAD"
STRATEGIES = (PACK, SPREAD, STRICT_PACK, STRICT_SPREAD)

ANY_BUNDLE = -1
"""The index of whichever bundle has room."""

GroupId = NewType("GroupId", bytes)
"""Twelve bytes, as those of an actor."""


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
