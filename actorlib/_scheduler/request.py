"""What a request wishes of its devices, beyond their number.

A wish is resolved before it is asked: names of types and devices, and the actors that
it is to be near to or apart from, have become makes and devices of this machine.

A placement group asks for all its bundles as one request, of the sum; how that is
divided, and how the parts lie, is a wish too: its *gang*. So it is granted whole or not
at all, stands in the same line as actors, and is given back as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._core.resources import Resources
    from actorlib.accelerators.base import Device


class DeviceModel(NamedTuple):
    """What devices are alike in.

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
    """The make of a device."""
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
    """Bundles that are reserved together; equal if they ask for the same.

    Args:
        bundles: What each asks for.
        strategy: How they lie on devices.
        makes: By bundle, the makes of the type that it asks for, or None for all.

    Attributes:
        bundles: As given.
        strategy: As given.
        makes: As given.
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
        """What each bundle asks of one resource; 0 where it asks nothing."""
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
    """Which of the devices with room a request wishes for.

    Attributes:
        spread: Whether the device with the most free is best, and not the fullest.
        makes: The makes of the type that was asked for, or None for all.
        only: The devices that were named, or None for all.
        near: The devices of the actor that it is to be near to, or None: it gets one
            of these, or one that is linked to one of them.
        apart: The devices of the actor that it is to be apart from.
        gang: The bundles that a group's request is made of, or None for an actor's.
    """

    spread: bool = False
    models: frozenset[DeviceModel] | None = None
    only: frozenset[Device] | None = None
    near: frozenset[Device] | None = None
    apart: frozenset[Device] = frozenset()
    gang: Gang | None = None


ANYWHERE = DeviceConstraints()
