"""A request for a lease: how much, of which devices, for whom, and with which priority.

A request names devices and models of this machine: the catalogue has resolved what the
user wrote, types and names and other actors, before it is made.

A placement group requests all its bundles as one, their sum; its constraints carry the
*gang*, which says how that is divided and how the parts lie. So a group is granted
whole or not at all, waits in the same queue as actors, and is given back as one.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._core.group_spec import ANY_BUNDLE
from actorlib._core.value import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._core.group_spec import GroupSpec
    from actorlib._core.resources import Resources
    from actorlib.accelerators.base import Device


class DeviceModel(NamedTuple):
    """What interchangeable devices have in common.

    Attributes:
        kind: The resource they count as.
        family: Their vendor's family.
        type: What ``accelerator_type`` calls them, or None.
        model: The product name, or None.
        is_part: Whether each is a part of a card. An actor gets one of them at most,
            unless it names more: CUDA opens a single MIG instance per process.
        size: Its memory in whole GiB, or None if unknown.
    """

    kind: str
    family: str
    type: str | None
    model: str | None
    is_part: bool
    size: int | None = None


def model_of(device: Device) -> DeviceModel:
    """Returns the model of a device."""
    return DeviceModel(
        device.kind,
        device.family,
        device.type,
        device.model,
        device.parent is not None,
        device.memory and round(device.memory / 2**30),
    )


@final
class Gang:
    """Bundles that are reserved together; equal if they request the same.

    Args:
        bundles: What each requests.
        strategy: How they lie on devices.
        models: By bundle, the models of the type that it requests, or None for all.

    Attributes:
        bundles: As given.
        strategy: As given.
        models: As given.
    """

    __slots__ = ("_key", "bundles", "models", "strategy")

    def __init__(
        self,
        bundles: Sequence[Resources],
        strategy: str,
        models: Sequence[frozenset[DeviceModel] | None] | None = None,
    ) -> None:
        self.bundles = tuple(bundles)
        self.strategy = strategy
        self.models = tuple(models or [None] * len(bundles))
        each = tuple(tuple(bundle.amounts.items()) for bundle in self.bundles)
        self._key = (strategy, each, self.models)

    def units(self, name: str) -> list[int]:
        """Lists what each bundle requests of one resource; 0 where that is nothing."""
        return [bundle.amounts.get(name, 0) for bundle in self.bundles]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gang) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<Gang {self.strategy} of {'; '.join(map(str, self.bundles))}>"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConstraints:
    """What a request says of its devices beyond their number.

    Attributes:
        spread: Whether the device with the most free is best, and not the fullest.
        models: The models of the requested type, or None for all.
        only: The devices that were named, or None for all.
        near: The devices of the actor that it is to be near to, or None: it gets one
            of these, or one that is linked to one of them.
        apart: The devices of the actors that it is to be apart from.
        gang: The bundles that a group's request is made of, or None for an actor's.
    """

    spread: bool = False
    models: frozenset[DeviceModel] | None = None
    only: frozenset[Device] | None = None
    near: frozenset[Device] | None = None
    apart: frozenset[Device] = frozenset()
    gang: Gang | None = None


ANYWHERE = DeviceConstraints()


class Priority(enum.Enum):
    """Which waiters a request may pass; the rules are those of ``wait_queue``."""

    RESUMED = "resumed"
    """A function that has what it waited for, and requests its CPUs again."""
    NESTED = "nested"
    """What code of a worker requests."""
    USUAL = "usual"
    """Everybody else."""


class LeaseRequest(NamedTuple):
    """What one actor or function requests of the machine, or of a placement group.

    Attributes:
        label: Who requests it, for messages.
        resources: How much.
        constraints: Of which devices.
        priority: Which waiters it may pass.
        group: The placement group that it is to be inside, or None.
        bundle_index: In which bundle of that, or ANY_BUNDLE.
        holder: The actor's id in hex; empty for a worker of functions.
    """

    label: str
    resources: Resources
    constraints: DeviceConstraints = ANYWHERE
    priority: Priority = Priority.USUAL
    group: GroupSpec | None = None
    bundle_index: int = ANY_BUNDLE
    holder: str = ""
