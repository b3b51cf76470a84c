"""A request for a lease: how much, of which devices, for whom, and with which priority.

A request names devices and models of this machine: the catalogue has resolved what the
user wrote, types and names and other actors, before it is made.

Bytes of a GPU's memory are units of each model of their own (``units_for``), so they
are a device constraint; the amount of GPUs beside them is the least that they come to
on any model. Whoever grants them takes the units of the device that is chosen, and a
lease says those.

A placement group requests all its bundles as one, their sum; its constraints carry the
bundles, which say how that is divided and how the parts lie. So a group is granted
whole or not at all, waits in the same queue as actors, and is given back as one.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._base.value import dataclass
from actorlib._options.group_spec import ANY_BUNDLE
from actorlib._options.kinds import GPU, UNITS
from actorlib._options.resources import GPU_MEMORY, format_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actorlib._options.group_spec import GroupSpec
    from actorlib._options.resources import Resources
    from actorlib.accelerators.base import Device, Share


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


def memory_by_model(devices: Iterable[Device]) -> dict[DeviceModel, int]:
    """Returns the bytes that each of the devices of a model has at the least.

    Equal cards may differ by a few bytes, as some have retired pages. Models whose
    memory is unknown are left out.
    """
    least: dict[DeviceModel, int] = {}
    for device in devices:
        if device.memory:
            model = model_of(device)
            least[model] = min(device.memory, least.get(model, device.memory))
    return least


def units_for(units: int, nbytes: int, memory: int | None) -> int | None:
    """Returns the units of a device that a request for units and bytes comes to.

    Args:
        units: The units that are asked for at the least; one device at the most.
        nbytes: The bytes that are asked for; 0 for none.
        memory: The bytes of the device, or None if unknown.

    Returns:
        None if its memory is unknown, or less than that.
    """
    if not nbytes:
        return units
    if not memory or nbytes > memory:
        return None
    return max(units, -(-nbytes * UNITS // memory))


def amounts_with(amounts: Mapping[str, int], shares: Iterable[Share]) -> dict[str, int]:
    """Returns the amounts of a request with the GPUs that were granted for it.

    Args:
        amounts: What is requested.
        shares: What is granted.
    """
    name = GPU.name
    granted = sum(share.units for share in shares if share.device.kind == name)
    return {**amounts, name: granted} if granted else dict(amounts)


@final
class BundleRequest:
    """Bundles that are reserved together; equal if they request the same.

    Args:
        bundles: What each requests.
        strategy: How they lie on devices.
        models: By bundle, the models of the type that it requests, or None for all.
        gpu_memory: By bundle, the bytes of one GPU's memory that it requests; None for
            none of all.

    Attributes:
        bundles: As given.
        strategy: As given.
        models: As given.
        gpu_memory: As given, with 0 for none.
    """

    __slots__ = ("_key", "bundles", "gpu_memory", "models", "strategy")

    def __init__(
        self,
        bundles: Sequence[Resources],
        strategy: str,
        models: Sequence[frozenset[DeviceModel] | None] | None = None,
        gpu_memory: Sequence[int] | None = None,
    ) -> None:
        self.bundles = tuple(bundles)
        self.strategy = strategy
        self.models = tuple(models or [None] * len(bundles))
        self.gpu_memory = tuple(gpu_memory or [0] * len(bundles))
        each = tuple(tuple(bundle.amounts.items()) for bundle in self.bundles)
        self._key = (strategy, each, self.models, self.gpu_memory)

    def units(self, name: str) -> list[int]:
        """Lists what each bundle requests of one resource; 0 where that is nothing."""
        return [bundle.amounts.get(name, 0) for bundle in self.bundles]

    def nbytes(self, name: str) -> Sequence[int]:
        """Lists the bytes of one device of a kind that each bundle requests."""
        return self.gpu_memory if name == GPU.name else [0] * len(self.bundles)

    def described(self) -> list[str]:
        """Describes what each bundle requests, for messages."""
        each = zip(self.bundles, self.gpu_memory, strict=True)
        return [_described(bundle, nbytes) for bundle, nbytes in each]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BundleRequest) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<BundleRequest {self.strategy} of {'; '.join(self.described())}>"


class Unfit(NamedTuple):
    """Devices on which something that is asked for cannot be had.

    Attributes:
        asked: What that is, as the user wrote it: ``enforcement='frameworks'``.
        reasons: Those devices, each with the reason.
    """

    asked: str
    reasons: tuple[tuple[Device, str], ...]


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
        unfit: The devices on which something that it asks for cannot be had, or None if
            there are none.
        bundles: The bundles that a group's request is made of, or None for an actor's.
        gpu_memory: The bytes of one GPU's memory that it gets at the least; 0 for what
            its units are. Then those are the least that they come to on any model.
    """

    spread: bool = False
    models: frozenset[DeviceModel] | None = None
    only: frozenset[Device] | None = None
    near: frozenset[Device] | None = None
    apart: frozenset[Device] = frozenset()
    unfit: Unfit | None = None
    bundles: BundleRequest | None = None
    gpu_memory: int = 0

    @property
    def excludes_devices(self) -> bool:
        """Whether single devices are left out."""
        return bool(self.apart or self.unfit)

    @property
    def are_in_bytes(self) -> bool:
        """Whether the units that are granted depend on the device."""
        return bool(
            self.gpu_memory
            or (self.bundles is not None and any(self.bundles.gpu_memory))
        )


ANYWHERE = DeviceConstraints()


def described(resources: Resources, constraints: DeviceConstraints = ANYWHERE) -> str:
    """Describes how much is requested: ``GPU=0.1257 (gpu_memory=10 GiB)``."""
    return _described(resources, constraints.gpu_memory)


def _described(resources: Resources, nbytes: int) -> str:
    if not nbytes or GPU.name not in resources.amounts:
        return str(resources)
    asked = {n: format_named(n, amount) for n, amount in resources.amounts.items()}
    asked[GPU.name] += f" ({format_named(GPU_MEMORY, nbytes)})"
    return ", ".join(asked.values())


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

    @property
    def described(self) -> str:
        """What it requests, for messages."""
        return described(self.resources, self.constraints)
