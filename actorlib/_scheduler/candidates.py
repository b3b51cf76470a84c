"""Resolves device constraints: which devices a request may get, whatever is free.

Constraints that name devices, or an actor to be near to, resolve to a few devices, the
best first. A type or bytes of memory resolve to models. An actor to be apart from, or
an option that a device cannot have, excludes devices. Bytes also decide how many units
of a device a request needs.

Candidates and reserved devices are kept by model where that is possible: a request for
an H100 may get all of them, and reserves them all. Kept device by device, each look at
the queue would take time for every device.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, cast, final

from actorlib._options.kinds import GPU, UNITS
from actorlib._scheduler.request import (
    ANYWHERE,
    DeviceConstraints,
    DeviceModel,
    memory_by_model,
    model_of,
    units_for,
)
from actorlib._scheduler.topology import aligned, linked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from actorlib._options.kinds import Kind
    from actorlib.accelerators.base import Device


class Candidates(NamedTuple):
    """The devices that a request may get: all devices of some models, or single ones.

    Attributes:
        models: The models.
        indices: The indices of single devices, of other models.
    """

    models: frozenset[DeviceModel]
    indices: frozenset[int]


@final
class Reserved(Collection[int]):
    """A set of device indices reserved for waiters, by model where that is possible.

    Attributes:
        models: The models of which all devices are reserved.
        indices: Single devices, of any model.
    """

    def __init__(
        self,
        by_model: Mapping[DeviceModel, Sequence[int]],
        model_of: Mapping[int, DeviceModel],
    ) -> None:
        self._by_model = by_model
        self._model_of = model_of
        self._left = {model: len(each) for model, each in by_model.items()}
        self.models: set[DeviceModel] = set()
        self.indices: set[int] = set()

    def __contains__(self, index: object) -> bool:
        return (
            index in self.indices
            or self._model_of.get(cast("int", index)) in self.models
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[int]:
        for model in self.models:
            yield from self._by_model[model]
        yield from (i for i in self.indices if self._model_of[i] not in self.models)

    @property
    def is_everything(self) -> bool:
        return len(self.models) == len(self._left)

    def add(self, candidates: Candidates) -> None:
        self.models |= candidates.models
        for index in candidates.indices - self.indices:
            self.indices.add(index)
            model = self._model_of[index]
            self._left[model] -= 1
            if not self._left[model]:
                self.models.add(model)

    def covers(self, candidates: Candidates) -> bool:
        return candidates.models <= self.models and all(
            i in self for i in candidates.indices
        )


NONE_RESERVED: frozenset[int] = frozenset()


@final
class ConstraintResolver:
    """Resolves constraints to devices of one kind, whatever is free of them.

    ``devices`` are in index order, numbered from 0.

    Attributes:
        has_links: Whether any device is linked to others.
        by_model: The indices of the devices of each model, ascending; the models in the
            order of their first devices.
        model_of: The model of each device, by index.
        memory: The smallest memory of the devices of each model, in bytes; models whose
            memory is unknown are left out.
    """

    def __init__(self, kind: Kind, devices: Sequence[Device]) -> None:
        self.kind = kind
        self.devices = tuple(devices)
        self.has_links = any(device.peers for device in devices)
        # Requests name bytes of GPUs only.
        self.memory = memory_by_model(devices) if kind.name == GPU.name else {}
        self._linked_to: dict[tuple[str, str], list[int]] = {}
        self.by_model: dict[DeviceModel, list[int]] = {}
        for device in devices:
            self.by_model.setdefault(model_of(device), []).append(device.index)
            for key in device.peers:
                peer = device.family, key
                self._linked_to.setdefault(peer, []).append(device.index)
        # One object for each model: a look-up is much faster than a new one.
        self.model_of = {
            index: model
            for model, indices in self.by_model.items()
            for index in indices
        }

    def has(self, device: Device) -> bool:
        return device.kind == self.kind.name

    # What constraints leave.

    def nbytes(self, constraints: DeviceConstraints) -> int:
        """Returns the requested bytes of one device of this kind; 0 for none."""
        return constraints.gpu_memory if self.kind.name == GPU.name else 0

    def units_on(self, model: DeviceModel, units: int, nbytes: int) -> int:
        """Returns the units of a device of an allowed model that a request needs."""
        if not nbytes:
            return units
        need = units_for(units, nbytes, self.memory.get(model))
        assert need is not None  # otherwise the model would not be allowed
        return need

    def allowed_models(self, constraints: DeviceConstraints) -> Collection[DeviceModel]:
        """Returns the allowed models; requested ones of another kind exclude none."""
        models: Collection[DeviceModel] = self.by_model
        wanted = constraints.models
        if wanted is not None and any(model.kind == self.kind.name for model in wanted):
            models = [model for model in models if model in wanted]
        nbytes = self.nbytes(constraints)
        return self.large_enough(models, nbytes) if nbytes else models

    def large_enough(
        self, models: Iterable[DeviceModel], nbytes: int
    ) -> list[DeviceModel]:
        """Returns the models whose devices are known to have that many bytes."""
        return [model for model in models if self.memory.get(model, 0) >= nbytes]

    def of_models(
        self, models: Collection[DeviceModel] | None
    ) -> frozenset[int] | None:
        """Returns the devices of the models; None for all if none is of this kind."""
        mine = [model for model in models or () if model.kind == self.kind.name]
        if not mine:
            return None
        return frozenset(i for model in mine for i in self.by_model.get(model, ()))

    def excluded(self, constraints: DeviceConstraints) -> set[int]:
        """Returns the devices that a request has to be apart from, or cannot have."""
        excluded = {device.index for device in constraints.apart if self.has(device)}
        if constraints.unfit is not None:
            reasons = constraints.unfit.reasons
            excluded |= {device.index for device, _ in reasons if self.has(device)}
        return excluded

    def ranked(self, constraints: DeviceConstraints) -> list[int] | None:
        """Returns the devices that constraints name, the best first; None for all."""
        ranks: dict[int, int] | None = None
        near = [device for device in constraints.near or () if self.has(device)]
        if near:
            ranks = {
                index: 1
                for device in near
                for index in self._linked_to.get((device.family, device.key), ())
            }
            ranks.update((device.index, 0) for device in near)
        only = {device.index for device in constraints.only or () if self.has(device)}
        if only:
            near_to = ranks or dict.fromkeys(only, 0)
            ranks = {i: near_to[i] for i in only if i in near_to}
        if ranks is None:
            return None
        excluded, models = self.excluded(constraints), self.allowed_models(constraints)
        indices = [
            index
            for index in sorted(ranks)
            if index not in excluded and self.model_of[index] in models
        ]
        return sorted(indices, key=ranks.__getitem__)

    def allowed(self, constraints: DeviceConstraints) -> frozenset[int] | None:
        """Returns the devices that a request may get at all; None for all."""
        ranked = self.ranked(constraints)
        if ranked is not None:
            return frozenset(ranked)
        excluded, models = self.excluded(constraints), self.allowed_models(constraints)
        if not excluded and len(models) == len(self.by_model):
            return None
        indices = (index for model in models for index in self.by_model[model])
        return frozenset(indices).difference(excluded)

    def may_overlap(self, one: DeviceConstraints, other: DeviceConstraints) -> bool:
        mine, theirs = self.allowed(one), self.allowed(other)
        return mine is None or theirs is None or not mine.isdisjoint(theirs)

    def candidates(self, constraints: DeviceConstraints) -> Candidates:
        """Returns the devices that a request may get, by model where possible."""
        if self.ranked(constraints) is None and not self.excluded(constraints):
            return Candidates(frozenset(self.allowed_models(constraints)), frozenset())
        return Candidates(frozenset(), self.allowed(constraints) or frozenset())

    def none_reserved(self) -> Reserved:
        return Reserved(self.by_model, self.model_of)

    def could_fit(self, units: int, constraints: DeviceConstraints) -> bool:
        """Whether a request would find room on idle devices."""
        if constraints is ANYWHERE and units <= UNITS:  # the usual request
            return bool(self.devices)
        count = -(-units // UNITS)
        ranked = self.ranked(constraints)
        if ranked is not None:
            usable = self.without_parts(count, ranked, constraints)
            return any(len(alike) >= count for alike in self.by_family(usable))
        gone = [model_of(self.devices[i]) for i in self.excluded(constraints)]
        counts: dict[str, int] = {}
        for model in self.allowed_models(constraints):
            if count == 1 or not model.is_part:
                there = len(self.by_model[model]) - gone.count(model)
                counts[model.family] = counts.get(model.family, 0) + there
        return max(counts.values(), default=0) >= count

    def without_parts(
        self, count: int, ranked: Sequence[int], constraints: DeviceConstraints
    ) -> list[int]:
        """Excludes parts of cards, unless one device is requested or they are named."""
        are_named = any(self.has(device) for device in constraints.only or ())
        return [
            index
            for index in ranked
            if count == 1 or are_named or self.devices[index].parent is None
        ]

    # Devices that belong together.

    def by_family(self, indices: Iterable[int]) -> list[list[Device]]:
        """Groups devices by family, each in index order."""
        families: dict[str, list[Device]] = {}
        for index in sorted(indices):
            device = self.devices[index]
            families.setdefault(device.family, []).append(device)
        return list(families.values())

    def sets(self, count: int, free: Sequence[int]) -> Iterator[list[int]]:
        """Yields the best ``count`` devices of each model, then of each family.

        ``free`` contains the indices to choose from, ascending.
        """
        alike: dict[object, list[Device]] = {}
        for index in free:
            alike.setdefault(self.model_of[index], []).append(self.devices[index])
        for group in (*alike.values(), *self.by_family(free)):
            if len(group) >= count:
                best = self.closest(count, group)
                yield sorted(device.index for device in best)

    def closest(self, count: int, devices: Sequence[Device]) -> Sequence[Device]:
        """Returns ``count`` devices that belong together as far as possible.

        There have to be enough ``devices``, in index order.
        """
        if self.kind.aligned:
            return aligned(count, devices)
        if self.has_links and count > 1:
            return linked(count, devices)
        return devices[:count]
