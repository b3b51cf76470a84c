"""Resolves the user's options to the resources and constraints of a request.

The user names types, devices and other actors; a request names models and devices of
this machine. Names are resolved here, once, before the request is queued. Bytes of GPU
memory become units: the smallest number that they need on any allowed model.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._base.validation import closest_names
from actorlib._options.kinds import GPU, UNITS
from actorlib._options.resources import GPU_MEMORY, Resources, add
from actorlib._scheduler.explain import describe_devices
from actorlib._scheduler.request import (
    ANYWHERE,
    TYPE_PREFIX,
    BundleRequest,
    DeviceConstraints,
    DeviceModel,
    memory_by_model,
    model_of,
    units_for,
)
from actorlib.accelerators.type_names import canonical, matcher
from actorlib.exceptions import ActorUnschedulableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from actorlib._options.actor_options import ActorOptions
    from actorlib._scheduler.request import LeaseRequest
    from actorlib.accelerators.base import Device

_TYPE_UNITS = 10
"""The amount that an actor with ``accelerator_type`` holds of it: 0.001, as in Ray."""


class Demand(NamedTuple):
    """The resources and constraints of a request."""

    resources: Resources
    constraints: DeviceConstraints


def type_names(devices: Mapping[str, Sequence[Device]]) -> list[str]:
    """Names the resources for the types of a machine's devices."""
    every = (device.type for listed in devices.values() for device in listed)
    return [f"{TYPE_PREFIX}{name}" for name in dict.fromkeys(every) if name]


@final
class Catalogue:
    """Resolves the names of a machine's types and devices.

    ``declared`` contains the resources that the user has declared.
    """

    def __init__(
        self, devices: Mapping[str, Sequence[Device]], declared: Iterable[str]
    ) -> None:
        self._devices = devices
        self._models: dict[DeviceModel, Device] = {}
        for listed in devices.values():
            for device in listed:
                self._models.setdefault(model_of(device), device)
        self._memory = memory_by_model(devices.get(GPU.name, ()))
        self._declared = [
            name.removeprefix(TYPE_PREFIX)
            for name in declared
            if name.startswith(TYPE_PREFIX)
        ]
        self._types: dict[str, tuple[str, frozenset[DeviceModel]]] = {}

    def demand(
        self,
        label: str,
        options: ActorOptions,
        *,
        near: Iterable[Device] | None = None,
        apart: Iterable[Device] = (),
    ) -> Demand:
        """Returns the request of an actor with these options to the machine.

        An unknown type is requested anyway: no machine without it grants that, and
        :meth:`refusal` explains why.

        Args:
            label: The name of the actor, for messages.
            options: The options.
            near: The devices of the actor that it has to be near to, if there is one.
            apart: The devices of the actors that it has to be apart from.

        Raises:
            ActorUnschedulableError: The options name an unknown device, or an actor
                that holds no device of the kind. The message lists the devices.
        """
        if not options.has_device_constraints:
            return Demand(options.request, ANYWHERE)
        resources, models = options.request, frozenset[DeviceModel]()
        nbytes = resources.amounts.get(GPU_MEMORY, 0)
        kinds = [kind for kind in resources.amounts if kind in self._devices]
        if nbytes and GPU.name in self._devices and GPU.name not in kinds:
            kinds.append(GPU.name)
        if options.accelerator_type is not None:
            name, models = self._type_of(options.accelerator_type)
            amounts = {**resources.amounts, f"{TYPE_PREFIX}{name}": _TYPE_UNITS}
            resources = Resources.of(amounts)
            _check_kinds(label, name, options, {model.kind for model in models}, kinds)
        only = [self._device(label, name, kinds) for name in options.devices]
        if len({device.parent is None for device in only}) > 1:
            # CUDA's mask contains one of the two, and ends where the other begins.
            raise ActorUnschedulableError(
                f"{label} requests device={list(options.devices)!r}, whole cards and "
                "parts of cards: one process can see only one of the two"
            )
        if near is not None:
            near = frozenset(device for device in near if device.kind in kinds)
            if not near:
                raise ActorUnschedulableError(
                    f"{label} is to be near an actor that holds no "
                    f"{' or '.join(kinds) or 'device'}: leave near out"
                )
        constraints = DeviceConstraints(
            spread=options.placement == "spread",
            models=models or None,  # a type that is only declared has no device
            only=frozenset(only) or None,
            near=near,
            apart=frozenset(apart),
            gpu_memory=nbytes,
        )
        if nbytes:
            named = {model_of(device) for device in only}
            resources = self._in_units(resources, (models & named) or models or named)
        return Demand(resources, constraints)

    def _in_units(
        self, resources: Resources, models: Collection[DeviceModel] | None
    ) -> Resources:
        """Replaces bytes of a GPU by the least units that they need.

        Bytes that no model here has are requested as a whole device: the ledger does
        not grant them, and ``explain`` describes why.

        ``models`` are the allowed ones; empty or None for all.
        """
        amounts = dict(resources.amounts)
        nbytes, units = amounts.pop(GPU_MEMORY), amounts.get(GPU.name, 0)
        of_kind = [model for model in models or () if model.kind == GPU.name]
        needs = (
            units_for(units, nbytes, self._memory.get(model))
            for model in of_kind or self._memory
        )
        amounts[GPU.name] = min((need for need in needs if need), default=UNITS)
        return Resources.of(amounts)

    def demand_of_group(self, bundles: Sequence[Resources], strategy: str) -> Demand:
        """Returns the request of a placement group: its bundles, all or none.

        A bundle may contain the resource of a type, and bytes of GPU memory.
        """
        named: list[Resources] = []
        models: list[frozenset[DeviceModel] | None] = []
        gpu_memory = [bundle.amounts.get(GPU_MEMORY, 0) for bundle in bundles]
        for bundle in bundles:
            models_of_type, amounts = frozenset[DeviceModel](), dict[str, int]()
            for name, amount in bundle.amounts.items():
                resource = name
                if name.startswith(TYPE_PREFIX):
                    type_, of_type = self._type_of(name.removeprefix(TYPE_PREFIX))
                    resource = f"{TYPE_PREFIX}{type_}"
                    models_of_type |= of_type
                amounts[resource] = amount
            resources = Resources.of(amounts)
            if GPU_MEMORY in amounts:
                resources = self._in_units(resources, models_of_type)
            named.append(resources)
            models.append(models_of_type or None)
        total: dict[str, int] = {}
        for bundle in named:
            total = add(total, bundle.amounts)
        request = BundleRequest(named, strategy, models, gpu_memory)
        return Demand(Resources.of(total), DeviceConstraints(bundles=request))

    def refusal(self, request: LeaseRequest) -> str | None:
        """Explains why a request for an unknown type can never be granted.

        Returns:
            None if the request contains no unknown type.
        """
        here = {*self._declared, *(model.type for model in self._models)}
        unknown = [
            name.removeprefix(TYPE_PREFIX)
            for name in request.resources.amounts
            if name.startswith(TYPE_PREFIX)
            and name.removeprefix(TYPE_PREFIX) not in here
        ]
        if not unknown:
            return None
        asks = f"{request.label} requests accelerator_type={unknown[0]!r}"
        counts = Counter(
            device.type
            for listed in self._devices.values()
            for device in listed
            if device.type
        ) + Counter(self._declared)
        if not counts:
            return f"{asks}; no device of this machine is of a known type"
        upper = {name.upper(): name for name in counts}
        close = closest_names(unknown[0].upper(), upper)
        hint = f" Did you mean {upper[close[0]]!r}?" if close else ""
        types = ", ".join(f"{count} of {name}" for name, count in counts.items())
        return f"{asks}; this machine has {types}.{hint}"

    def _type_of(self, spelling: str) -> tuple[str, frozenset[DeviceModel]]:
        """Returns the type that a user means, and its models.

        A type that is only declared has no model; an unknown one keeps its spelling.
        """
        if spelling not in self._types:
            matches = matcher(spelling)
            models = [model for model, one in self._models.items() if matches(one)]
            names = [model.type for model in models if model.type]
            name = names[0] if names else canonical(spelling, self._declared)
            self._types[spelling] = name or spelling, frozenset(models)
        return self._types[spelling]

    def _device(self, label: str, name: str, kinds: Sequence[str]) -> Device:
        """Returns the device with an id, a UUID or its beginning, or a PCI address."""
        every = [device for kind in kinds for device in self._devices[kind]]
        # nvidia-smi writes an address in capitals and with a longer domain.
        pci = name.lower()[-len("0000:00:00.0") :] if ":" in name else None
        exact = [
            device
            for device in every
            if name in (device.id, device.uuid, f"{device.kind} {device.id}")
            or (pci is not None and pci == device.pci)
        ]
        matches = exact or [
            device
            for device in every
            if not name.isdecimal() and (device.uuid or "").startswith(name)
        ]
        if len(matches) == 1:
            return matches[0]
        fault = (
            "means several devices" if matches else "is not a device of this machine"
        )
        devices = (
            describe_devices(matches or every) or f"no {' or '.join(kinds) or 'device'}"
        )
        hint = ": name it by its UUID or PCI address" if exact[1:] else ""
        raise ActorUnschedulableError(
            f"{label} requests device={name!r}, which {fault}{hint}; there is {devices}"
        )


def _check_kinds(
    label: str,
    name: str,
    options: ActorOptions,
    kinds: Collection[str],
    requested: Collection[str],
) -> None:
    if kinds and requested and set(kinds).isdisjoint(requested):
        raise ActorUnschedulableError(
            f"{label} requests accelerator_type={name!r}, a type of "
            f"{' and '.join(sorted(kinds))}, and {options.request}: ask for a number "
            "of the same kind"
        )
