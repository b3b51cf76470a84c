"""An actor's options become a demand: what is asked, and which devices are wished for.

The user names types, devices and other actors; the machine knows makes and devices.
What a name means is settled here, once, before anybody stands in line.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._core.resources import Resources, add
from actorlib._core.validation import closest
from actorlib._scheduler.explain import models
from actorlib._scheduler.request import (
    ANYWHERE,
    DeviceConstraints,
    DeviceModel,
    Gang,
    model_of,
)
from actorlib.accelerators.types import canonical, matcher
from actorlib.exceptions import ActorUnschedulableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from actorlib._core.actor_options import ActorOptions
    from actorlib.accelerators.base import Device

TYPE_PREFIX = "accelerator_type:"
"""The resource that a machine has one of for each type of accelerator, as in Ray."""

_TYPE_UNITS = 10
"""What an actor that wants a type holds of it: 0.001, as in Ray."""


class Demand(NamedTuple):
    """What an actor asks of this machine.

    Attributes:
        request: How much.
        where: Of which devices.
    """

    request: Resources
    where: DeviceConstraints


def type_names(devices: Mapping[str, Sequence[Device]]) -> list[str]:
    """The resources that stand for the types of these devices.

    Args:
        devices: What a machine has, by kind.
    """
    every = (device.type for listed in devices.values() for device in listed)
    return [f"{TYPE_PREFIX}{name}" for name in dict.fromkeys(every) if name]


@final
class Catalogue:
    """What the types and devices of a machine are called.

    Args:
        devices: What the machine has, by kind.
        declared: The resources that the user says it has.
    """

    def __init__(
        self, devices: Mapping[str, Sequence[Device]], declared: Iterable[str]
    ) -> None:
        self._devices = devices
        self._makes: dict[DeviceModel, Device] = {}
        for listed in devices.values():
            for device in listed:
                self._makes.setdefault(model_of(device), device)
        self._declared = [
            name.removeprefix(TYPE_PREFIX)
            for name in declared
            if name.startswith(TYPE_PREFIX)
        ]
        self._meanings: dict[str, tuple[str, frozenset[DeviceModel]]] = {}

    def demand(
        self,
        label: str,
        options: ActorOptions,
        *,
        near: Iterable[Device] | None = None,
        apart: Iterable[Device] = (),
    ) -> Demand:
        """What an actor with these options asks of the machine.

        A type that is not here is asked for all the same: no machine without it grants
        that, and :meth:`refusal` says why.

        Args:
            label: Who asks, for messages.
            options: The options.
            near: The devices of the actor that it has to be near to, if there is one.
            apart: The devices of the actors that it has to be apart from.

        Raises:
            ActorUnschedulableError: It names a device that is not here, or an actor
                that holds none of the kind. The message says what there is.
        """
        if not options.has_wishes:
            return Demand(options.request, ANYWHERE)
        request, makes = options.request, frozenset[DeviceModel]()
        kinds = [kind for kind in request.amounts if kind in self._devices]
        if options.accelerator_type is not None:
            name, makes = self._meaning(options.accelerator_type)
            amounts = {**request.amounts, f"{TYPE_PREFIX}{name}": _TYPE_UNITS}
            request = Resources.of(amounts)
            _check_kinds(label, name, options, {make.kind for make in makes}, kinds)
        only = [self._device(label, name, kinds) for name in options.devices]
        if len({device.parent is None for device in only}) > 1:
            # CUDA's mask is of one kind, and ends where the other begins.
            raise ActorUnschedulableError(
                f"{label} asks device={list(options.devices)!r}, whole cards and parts "
                "of cards: one process is shown the one or the other"
            )
        if near is not None:
            near = frozenset(device for device in near if device.kind in kinds)
            if not near:
                raise ActorUnschedulableError(
                    f"{label} is to be near an actor that holds no "
                    f"{' or '.join(kinds) or 'device'}: leave near out"
                )
        where = DeviceConstraints(
            spread=options.placement == "spread",
            models=makes or None,  # a type that is merely declared is of no device
            only=frozenset(only) or None,
            near=near,
            apart=frozenset(apart),
        )
        return Demand(request, where)

    def demand_of_group(self, bundles: Sequence[Resources], strategy: str) -> Demand:
        """What a placement group asks of the machine: its bundles, all or none.

        A bundle may name a type of its devices, as a machine's resource is called.

        Args:
            bundles: What each asks for.
            strategy: How they are to lie.
        """
        named: list[Resources] = []
        makes: list[frozenset[DeviceModel] | None] = []
        for bundle in bundles:
            wished, amounts = frozenset[DeviceModel](), dict[str, int]()
            for name, amount in bundle.amounts.items():
                known = name
                if name.startswith(TYPE_PREFIX):
                    type_, meant = self._meaning(name.removeprefix(TYPE_PREFIX))
                    known, wished = f"{TYPE_PREFIX}{type_}", wished | meant
                amounts[known] = amount
            named.append(Resources.of(amounts))
            makes.append(wished or None)
        total: dict[str, int] = {}
        for bundle in named:
            total = add(total, bundle.amounts)
        return Demand(
            Resources.of(total), DeviceConstraints(gang=Gang(named, strategy, makes))
        )

    def refusal(self, label: str, request: Resources) -> str | None:
        """Why no machine like this grants a request for a type that is not here.

        Args:
            label: Who asks, for messages.
            request: What is asked.

        Returns:
            None if no such type is asked for.
        """
        here = {*self._declared, *(make.type for make in self._makes)}
        asked = [
            name.removeprefix(TYPE_PREFIX)
            for name in request.amounts
            if name.startswith(TYPE_PREFIX)
            and name.removeprefix(TYPE_PREFIX) not in here
        ]
        if not asked:
            return None
        said = f"{label} asks accelerator_type={asked[0]!r}"
        counts = Counter(
            device.type
            for listed in self._devices.values()
            for device in listed
            if device.type
        ) + Counter(self._declared)
        if not counts:
            return f"{said}; no device of this machine is of a known type"
        upper = {name.upper(): name for name in counts}
        close = closest(asked[0].upper(), upper)
        hint = f" Did you mean {upper[close[0]]!r}?" if close else ""
        there = ", ".join(f"{count} of {name}" for name, count in counts.items())
        return f"{said}; this machine has {there}.{hint}"

    @staticmethod
    def untyped(request: Resources) -> Resources:
        """A request without what stands for the types of its devices.

        Args:
            request: What is asked inside a bundle, whose devices have their types.
        """
        if not any(name.startswith(TYPE_PREFIX) for name in request.amounts):
            return request
        rest = request.amounts.items()
        return Resources.of({n: a for n, a in rest if not n.startswith(TYPE_PREFIX)})

    def _meaning(self, asked: str) -> tuple[str, frozenset[DeviceModel]]:
        """The type that a user means, and the makes that are of it.

        What is merely declared is of no make; what is not here keeps its name.
        """
        if asked not in self._meanings:
            is_meant = matcher(asked)
            makes = [make for make, one in self._makes.items() if is_meant(one)]
            names = [make.type for make in makes if make.type]
            name = names[0] if names else canonical(asked, self._declared) or asked
            self._meanings[asked] = name, frozenset(makes)
        return self._meanings[asked]

    def _device(self, label: str, name: str, kinds: Sequence[str]) -> Device:
        """The device that is meant by an id, a UUID or its beginning, or an address."""
        every = [device for kind in kinds for device in self._devices[kind]]
        # nvidia-smi writes an address in capitals and with a longer domain.
        pci = name.lower()[-len("0000:00:00.0") :] if ":" in name else None
        exact = [
            device
            for device in every
            if name in (device.id, device.uuid, f"{device.kind} {device.id}")
            or (pci is not None and pci == device.pci)
        ]
        found = exact or [
            device
            for device in every
            if not name.isdecimal() and (device.uuid or "").startswith(name)
        ]
        if len(found) == 1:
            return found[0]
        what = "means several devices" if found else "is no device of this machine"
        those = models(found or every) or f"no {' or '.join(kinds) or 'device'}"
        hint = ": name it by its UUID or PCI address" if exact[1:] else ""
        raise ActorUnschedulableError(
            f"{label} asks device={name!r}, which {what}{hint}; there is {those}"
        )


def _check_kinds(
    label: str,
    name: str,
    options: ActorOptions,
    kinds: Collection[str],
    asked: Collection[str],
) -> None:
    if kinds and asked and set(kinds).isdisjoint(asked):
        raise ActorUnschedulableError(
            f"{label} asks accelerator_type={name!r}, a type of "
            f"{' and '.join(sorted(kinds))}, and {options.request}: ask for a number "
            "of the same kind"
        )
