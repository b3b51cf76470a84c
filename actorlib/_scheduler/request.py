"""A request for a lease: how much, of which devices, for whom, and how urgent.

A request names devices and models of this machine: the catalogue has resolved the
user's options (types, names and other actors) before the request is created.

Bytes of GPU memory are a different number of units on each model (``units_for``), so
they are a device constraint. The amount of GPUs beside them is the smallest number of
units that they need on any model. The lease contains the units of the chosen device.

A placement group requests the sum of its bundles. Its constraints contain a *bundle
request*: the bundles and their strategy. So a group is granted whole or not at
all, waits in the same queue as actors, and is given back as one.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._base.value import dataclass
from actorlib._options.group_spec import ANY_BUNDLE
from actorlib._options.kinds import GPU, UNITS
from actorlib._options.resources import GPU_MEMORY, Resources, format_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actorlib._options.group_spec import GroupSpec
    from actorlib.accelerators.base import Device, Share


TYPE_PREFIX = "accelerator_type:"
"""The prefix of a machine's resource for each type of accelerator, as in Ray."""


class DeviceModel(NamedTuple):
    """The properties that interchangeable devices share.

    Attributes:
        kind: The resource they count as.
        family: Their vendor's family.
        type: Their name in ``accelerator_type``, or None.
        model: The product name, or None.
        is_part: Whether each is a part of a card. An actor gets one of them at most,
            unless it names more: CUDA opens a single MIG instance per process.
        size: Their memory in whole GiB, or None if unknown.
    """

    kind: str
    family: str
    type: str | None
    model: str | None
    is_part: bool
    size: int | None = None


def model_of(device: Device) -> DeviceModel:
    return DeviceModel(
        device.kind,
        device.family,
        device.type,
        device.model,
        device.parent is not None,
        device.memory and round(device.memory / 2**30),
    )


def memory_by_model(devices: Iterable[Device]) -> dict[DeviceModel, int]:
    """Returns the smallest memory of the devices of each model, in bytes.

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
    """Returns the units of a device that a request for units and bytes needs.

    Args:
        units: The requested minimum in units; at most one device.
        nbytes: The requested bytes; 0 for none.
        memory: The bytes of the device, or None if unknown.

    Returns:
        None if the memory of the device is unknown or too small.
    """
    if not nbytes:
        return units
    if not memory or nbytes > memory:
        return None
    return max(units, -(-nbytes * UNITS // memory))


def amounts_with(amounts: Mapping[str, int], shares: Iterable[Share]) -> dict[str, int]:
    """Replaces the requested amount of GPUs by the granted one."""
    name = GPU.name
    granted = sum(share.units for share in shares if share.device.kind == name)
    return {**amounts, name: granted} if granted else dict(amounts)


@final
class BundleRequest:
    """Bundles that are reserved together; equal if they request the same.

    Attributes:
        bundles: The resources that each requests.
        strategy: The placement strategy.
        models: By bundle, the models of the type that it requests, or None for all.
        gpu_memory: By bundle, the bytes of one GPU's memory that it requests, or 0.
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
        """Lists the amount of one resource that each bundle requests, or 0."""
        return [bundle.amounts.get(name, 0) for bundle in self.bundles]

    def nbytes(self, name: str) -> Sequence[int]:
        """Lists the bytes of one device of a kind that each bundle requests."""
        return self.gpu_memory if name == GPU.name else [0] * len(self.bundles)

    def described(self) -> list[str]:
        each = zip(self.bundles, self.gpu_memory, strict=True)
        return [_describe_amounts(bundle, nbytes) for bundle, nbytes in each]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BundleRequest) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<BundleRequest {self.strategy} of {'; '.join(self.described())}>"


class Unfit(NamedTuple):
    """Devices that cannot have an option that the request asks for.

    Attributes:
        option: The option as the user wrote it: ``enforcement='frameworks'``.
        reasons: These devices, each with the reason.
    """

    option: str
    reasons: tuple[tuple[Device, str], ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConstraints:
    """The constraints of a request on its devices, beyond their number.

    Attributes:
        spread: Whether the emptiest device is best, and not the fullest.
        models: The models of the requested type, or None for all.
        only: The named devices, or None for all.
        near: The devices of the actor that the request has to be near to, or None. It
            gets one of these, or one that is linked to one of them.
        apart: The devices of the actors that it has to be apart from.
        unfit: The devices that cannot have an option that it asks for, or None if there
            are none.
        bundles: The bundles of a group's request, or None for an actor's.
        gpu_memory: The bytes of one GPU's memory that it gets at least; 0 if it
            requests no bytes. With bytes, its units are the smallest number that they
            need on any model.
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
    def type_names(self) -> str:
        """The names of the types of ``models``; empty for all models."""
        names = {m.type or m.model or m.family for m in self.models or ()}
        return " or ".join(sorted(names))

    @property
    def are_in_bytes(self) -> bool:
        """Whether the units that are granted depend on the device."""
        return bool(
            self.gpu_memory
            or (self.bundles is not None and any(self.bundles.gpu_memory))
        )


ANYWHERE = DeviceConstraints()

QueueKey = tuple[frozenset[tuple[str, int]], DeviceConstraints, "Origin", int]
"""What equal requests have in common: amounts by name, constraints, origin, bundle."""


class Origin(enum.Enum):
    """The origin of a request: running work comes before other requests.

    The rules are in ``waiting_order`` and ``wait_queue``.
    """

    RESUMED = "resumed"
    """A function that has the result it waited for, and requests its CPUs again."""
    NESTED = "nested"
    """A request by the code of a worker."""
    USUAL = "usual"
    """All other requests."""


class LeaseRequest(NamedTuple):
    """A request of one actor or function to the machine, or to a placement group.

    Attributes:
        label: The name of the actor or function, for messages.
        resources: The amounts.
        constraints: The constraints on the devices.
        origin: Whether running work waits for it.
        priority: The user's priority; a higher one is served first.
        group: The placement group that it has to be inside, or None.
        bundle_index: The bundle of the group, or ANY_BUNDLE.
        holder: The actor's id in hex; empty for a worker of functions.
    """

    label: str
    resources: Resources
    constraints: DeviceConstraints = ANYWHERE
    origin: Origin = Origin.USUAL
    priority: int = 0
    group: GroupSpec | None = None
    bundle_index: int = ANY_BUNDLE
    holder: str = ""

    @property
    def queue_key(self) -> QueueKey:
        """The same for equal requests: if one has to wait, so have those behind it."""
        amounts = frozenset(self.resources.amounts.items())
        return amounts, self.constraints, self.origin, self.bundle_index

    @property
    def is_of_type(self) -> bool:
        """Whether it requests devices, and names the type of them."""
        models = self.constraints.models or ()
        return any(model.kind in self.resources.amounts for model in models)

    @property
    def amounts_text(self) -> str:
        """How much is requested: ``GPU=0.1257 (gpu_memory=10 GiB)``."""
        # The resource of a type repeats the type.
        resources = untyped(self.resources) if self.is_of_type else self.resources
        return _describe_amounts(resources, self.constraints.gpu_memory)

    @property
    def described(self) -> str:
        """How much is requested, and of which type: ``GPU=1 of type A100``."""
        if not self.is_of_type:
            return self.amounts_text
        return f"{self.amounts_text} of type {self.constraints.type_names}"

    @property
    def summary(self) -> str:
        """How much is requested, and with which priority: ``GPU=1, priority 5``."""
        priority = f", priority {self.priority}" if self.priority else ""
        return f"{self.described}{priority}"


def untyped(resources: Resources) -> Resources:
    """Removes the resources of types, which a bundle does not have.

    The devices of the bundle already have a type.
    """
    if not any(name.startswith(TYPE_PREFIX) for name in resources.amounts):
        return resources
    rest = resources.amounts.items()
    return Resources.of({n: a for n, a in rest if not n.startswith(TYPE_PREFIX)})


def _describe_amounts(resources: Resources, nbytes: int) -> str:
    if not nbytes or GPU.name not in resources.amounts:
        return str(resources)
    texts = {n: format_named(n, amount) for n, amount in resources.amounts.items()}
    texts[GPU.name] += f" ({format_named(GPU_MEMORY, nbytes)})"
    return ", ".join(texts.values())
