"""What a request wishes of its devices, beyond their number.

A wish is resolved before it is asked: names of types and devices, and the actors that
it is to be near to or apart from, have become makes and devices of this machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

if TYPE_CHECKING:
    from actorlib.accelerators.base import Device


class Make(NamedTuple):
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


def make_of(device: Device) -> Make:
    """The make of a device."""
    return Make(
        device.kind,
        device.family,
        device.type,
        device.model,
        device.parent is not None,
        device.memory and round(device.memory / 2**30),
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which of the devices with room a request wishes for.

    Attributes:
        spread: Whether the device with the most free is best, and not the fullest.
        makes: The makes of the type that was asked for, or None for all.
        only: The devices that were named, or None for all.
        near: The devices of the actor that it is to be near to, or None: it gets one
            of these, or one that is linked to one of them.
        apart: The devices of the actor that it is to be apart from.
    """

    spread: bool = False
    makes: frozenset[Make] | None = None
    only: frozenset[Device] | None = None
    near: frozenset[Device] | None = None
    apart: frozenset[Device] = frozenset()


ANYWHERE = Where()
