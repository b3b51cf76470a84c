"""Chooses the devices of one kind that a request gets: best fit, lowest index first.

A share of one device comes from the fullest device with room. So devices fill one after
another, and whole ones stay free for requests for whole ones. A request with
``placement="spread"`` gets the emptiest device. Several devices are wholly free ones of
one model if there are enough, otherwise of one vendor; where devices are linked or
share by number, those that belong together (``topology``). A share never spans two
devices.

Bytes of memory are more units of a small card than of a large one. Then the fullest
device is the one that has the least left after the units that the bytes need there, so
that cards of several models fill up equally.

Guarantees: the choice depends only on what is free now, never on its history. Without
constraints a decision takes the same time for ten devices as for 100 000
(``free_buckets``). A constraint takes time for each model or device that it names.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import UNITS
from actorlib._options.resources import format_amount
from actorlib._scheduler.bundle_arrangement import BundleArranger, used_devices
from actorlib._scheduler.candidates import (
    NONE_RESERVED,
    ConstraintResolver,
    Reserved,
)
from actorlib._scheduler.free_buckets import FreeBuckets
from actorlib._scheduler.request import ANYWHERE, DeviceConstraints, DeviceModel
from actorlib._scheduler.topology import MAX_CONSIDERED
from actorlib.accelerators.base import Share

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping, Sequence

    from actorlib._options.kinds import Kind
    from actorlib._scheduler.bundle_arrangement import Placement
    from actorlib._scheduler.request import BundleRequest
    from actorlib.accelerators.base import Device

LISTED = 8
"""How many items a message lists; the rest is counted."""


def listed(texts: Iterable[str], count: int) -> str:
    """Joins the first few of ``count`` texts, and adds the number of the others."""
    first = ", ".join(islice(texts, LISTED))
    return f"{first} and {count - LISTED} more" if count > LISTED else first


@final
class DevicePool:
    """Keeps the free units of every device of one kind, and hands out shares of them.

    Attributes:
        resolver: Resolves constraints to these devices.
        arranger: Arranges the bundles of groups on them.

    Raises:
        ValueError: The devices are not numbered 0, 1, 2, ...
    """

    def __init__(self, kind: Kind, devices: Sequence[Device]) -> None:
        if any(device.index != place for place, device in enumerate(devices)):
            raise ValueError("devices have to come in index order, numbered from 0")
        self.kind = kind
        self.devices = tuple(devices)
        self.resolver = ConstraintResolver(kind, self.devices)
        self.arranger = BundleArranger(self.resolver)
        self._free = [UNITS] * len(devices)
        self._buckets: dict[DeviceModel, FreeBuckets] = {}
        self._buckets_of: list[FreeBuckets] = [FreeBuckets()] * len(devices)
        for model, indices in self.resolver.by_model.items():
            buckets = self._buckets[model] = FreeBuckets()
            buckets.fill(UNITS, indices)
            for index in indices:
                self._buckets_of[index] = buckets
        # The usual machine: one model, and all shares and devices are equal.
        is_usual = len(self._buckets) == 1 and kind.divisible and not kind.counts
        self._only_buckets = next(iter(self._buckets.values())) if is_usual else None

    def choose(
        self,
        units: int,
        constraints: DeviceConstraints = ANYWHERE,
        reserved: Collection[int] = NONE_RESERVED,
    ) -> list[int] | None:
        """Chooses the devices that :meth:`take` would take now; nothing is taken.

        Args:
            units: Positive. Up to one whole device, or a multiple of whole ones. If the
                constraints ask for bytes, at most the units that these need on any
                allowed model.
            constraints: The constraints on the devices.
            reserved: Indices of devices that are reserved for others.

        Returns:
            Indices, ascending; None if there is no room.
        """
        if constraints.bundles is not None:
            bundles = self._arrange(constraints.bundles, reserved)
            return None if bundles is None else sorted(used_devices(bundles))
        if self.kind.fault(units):
            return None
        ranked = None if constraints is ANYWHERE else self.resolver.ranked(constraints)
        if ranked is not None:
            usable = [index for index in ranked if index not in reserved]
            return self._choose_among(usable, units, constraints, self._free)
        if isinstance(reserved, Reserved) and reserved.models:
            models = frozenset(self.resolver.allowed_models(constraints))
            models_left = models.difference(reserved.models)
            if not models_left:
                return None
            constraints, reserved = (
                replace(constraints, models=models_left),
                reserved.indices,
            )
        if not (reserved or constraints.apart or constraints.unfit):
            return self._choose_by_model(units, constraints)
        with self._hiding({*reserved, *self.resolver.excluded(constraints)}):
            return self._choose_by_model(units, constraints)

    def take(
        self,
        units: int,
        constraints: DeviceConstraints = ANYWHERE,
        reserved: Collection[int] = NONE_RESERVED,
    ) -> tuple[Share, ...] | None:
        """Allocates a share of one device, or several whole ones; see :meth:`choose`.

        Returns:
            The shares in index order, those of a group bundle by bundle, or None if
            there is no room: nothing is taken.
        """
        is_plain = constraints is ANYWHERE and not reserved and units <= UNITS
        if is_plain and self._only_buckets is not None:
            return self._take_share(self._only_buckets, units)
        if constraints.bundles is not None:
            return self._take_bundles(constraints.bundles, reserved)
        chosen = self.choose(units, constraints, reserved)
        if chosen is None:
            return None
        return self._take_units(chosen, units, self.resolver.nbytes(constraints))

    def take_whole(self, device: Device) -> Share:
        """Allocates all units of an idle device."""
        (share,) = self._take_units((device.index,), UNITS, 0)
        return share

    def give_back(self, shares: Iterable[Share]) -> None:
        """Releases shares.

        Raises:
            ValueError: More of a device would be free than the whole; the shares before
                that one have been released.
        """
        for share in shares:
            index = share.device.index
            free = self._free[index] + share.units
            if free > UNITS:
                raise ValueError(f"{share} was not taken: {self._free[index]} are free")
            self._set_free(index, free)

    def could_fit(self, units: int, constraints: DeviceConstraints = ANYWHERE) -> bool:
        """Whether :meth:`take` would find room on idle devices."""
        if constraints.bundles is not None:
            return self.arranger.when_idle(constraints.bundles).placement is not None
        return not self.kind.fault(units) and self.resolver.could_fit(
            units, constraints
        )

    def never_fits(self, units: int, constraints: DeviceConstraints = ANYWHERE) -> bool:
        """Whether a request certainly finds no room on idle devices."""
        if constraints.bundles is not None:
            idle = self.arranger.when_idle(constraints.bundles)
            return idle.placement is None and idle.is_certain
        return not self.could_fit(units, constraints)

    def choose_within(
        self,
        units: int,
        free: Mapping[int, int],
        constraints: DeviceConstraints = ANYWHERE,
    ) -> list[int] | None:
        """Chooses devices of a bundle, as :meth:`choose` does.

        ``free`` contains the free units of each device of the bundle, by index.
        """
        if self.kind.fault(units):
            return None
        ranked = self.resolver.ranked(constraints)
        allowed = self.resolver.allowed(constraints)
        usable = [
            index
            for index in (sorted(free) if ranked is None else ranked)
            if index in free and (allowed is None or index in allowed)
        ]
        return self._choose_among(usable, units, constraints, free)

    def units_on(
        self, index: int, units: int, constraints: DeviceConstraints = ANYWHERE
    ) -> int:
        """Returns the units that a request takes of one allowed device."""
        nbytes = self.resolver.nbytes(constraints)
        if not nbytes:
            return min(units, UNITS)
        return self.resolver.units_on(self.resolver.model_of[index], units, nbytes)

    def could_fit_within(
        self,
        units: int,
        free: Mapping[int, int],
        constraints: DeviceConstraints = ANYWHERE,
    ) -> bool:
        """Whether a request finds room in the given free units, by index."""
        if constraints.bundles is not None:
            usable = {index: units for index, units in free.items() if units}
            arrangement = self.arranger.arrange(constraints.bundles, usable)
            return arrangement.placement is not None
        return self.choose_within(units, free, constraints) is not None

    def free(self, device: Device) -> int:
        return self._free[device.index]

    def allowed(self, constraints: DeviceConstraints) -> list[Device]:
        """Lists the devices that a request may get at all."""
        allowed = self.resolver.allowed(constraints)
        return [d for d in self.devices if allowed is None or d.index in allowed]

    @property
    def free_units(self) -> int:
        return sum(buckets.units() for buckets in self._buckets.values())

    def state(self) -> str:
        """Describes the free amount of every device, by id: ``0: 0.5, 1: 1``."""
        each = (
            f"{device.id}: {format_amount(device.kind, self._free[device.index])}"
            for device in self.devices
        )
        return listed(each, len(self.devices))

    # Choosing among all devices, by model.

    def _choose_by_model(
        self, units: int, constraints: DeviceConstraints
    ) -> list[int] | None:
        if units > UNITS:
            return self._choose_several(units, constraints)
        nbytes = self.resolver.nbytes(constraints)
        best: tuple[int, int] | None = None
        for model in self.resolver.allowed_models(constraints):
            buckets = self._buckets[model]
            need = self.resolver.units_on(model, units, nbytes)
            free = buckets.highest if constraints.spread else buckets.tightest(need)
            if free < need:
                continue
            rest = free - need
            rank = (-rest if constraints.spread else rest, buckets.lowest(free))
            if best is None or rank < best:
                best = rank
        if best is None:
            return None
        if units == UNITS and self.kind.aligned:
            free_devices = self._wholly_free(constraints, MAX_CONSIDERED)
            return next(self.resolver.sets(1, free_devices), None)
        return [best[1]]

    def _choose_several(
        self, units: int, constraints: DeviceConstraints
    ) -> list[int] | None:
        count, part = divmod(units, UNITS)
        if part:
            return None
        has_links = self.resolver.has_links
        if self._only_buckets is not None and not has_links:
            (model,) = self.resolver.allowed_models(constraints) or (None,)
            if model is None or model.is_part:
                return None
            chosen = self._only_buckets.first(UNITS, count)
            return chosen if len(chosen) == count else None
        wanted = count
        if has_links or self.kind.aligned:
            wanted = max(count, MAX_CONSIDERED)
        free = self._wholly_free(constraints, wanted, with_parts=False)
        return next(self.resolver.sets(count, free), None)

    def _wholly_free(
        self, constraints: DeviceConstraints, count: int, *, with_parts: bool = True
    ) -> list[int]:
        """Returns the first wholly free devices of every model, ascending."""
        return sorted(
            index
            for model in self.resolver.allowed_models(constraints)
            if with_parts or not model.is_part
            for index in self._buckets[model].first(UNITS, count)
        )

    # Choosing among a few.

    def _choose_among(
        self,
        usable: Sequence[int],
        units: int,
        constraints: DeviceConstraints,
        free: Sequence[int] | Mapping[int, int],
    ) -> list[int] | None:
        if units > UNITS:
            count = units // UNITS
            whole = self.resolver.without_parts(count, usable, constraints)
            sets = self.resolver.sets(count, [i for i in whole if free[i] == UNITS])
            return next(sets, None)
        # Without bytes the models do not matter: a group may have thousands of devices.
        in_bytes = self.resolver.nbytes(constraints) > 0
        rest = {
            index: free[index]
            - (self.units_on(index, units, constraints) if in_bytes else units)
            for index in usable
        }
        roomy = [index for index in usable if rest[index] >= 0]
        if not roomy:
            return None
        if constraints.near is not None:  # the same device is best, then a linked one
            has = self.resolver.has
            near = {device.index for device in constraints.near if has(device)}
            roomy = [index for index in roomy if index in near] or roomy
        sign = -1 if constraints.spread else 1
        return [min(roomy, key=lambda index: (sign * rest[index], index))]

    # Choosing for the bundles of a group.

    def _take_bundles(
        self, request: BundleRequest, reserved: Collection[int]
    ) -> tuple[Share, ...] | None:
        bundles = self._arrange(request, reserved)
        if bundles is None:
            return None
        name = self.kind.name
        each = zip(request.units(name), request.nbytes(name), strict=True)
        return tuple(
            share
            for number, (units, nbytes) in enumerate(each)
            for share in self._take_units(bundles.get(number, ()), units, nbytes)
        )

    def _arrange(
        self, request: BundleRequest, reserved: Collection[int]
    ) -> Placement | None:
        """Returns the devices of each bundle, or None if they do not fit."""
        free = {
            index: units
            for index, units in enumerate(self._free)
            if units and index not in reserved
        }
        if sum(free.values()) == UNITS * len(self.devices):
            return self.arranger.when_idle(request).placement
        return self.arranger.arrange(request, free).placement

    # Taking and giving.

    def _take_units(
        self, chosen: Iterable[int], units: int, nbytes: int
    ) -> tuple[Share, ...]:
        resolver, shares = self.resolver, list[Share]()
        for index in chosen:
            need = min(units, UNITS)
            if nbytes:
                need = resolver.units_on(resolver.model_of[index], units, nbytes)
            self._set_free(index, self._free[index] - need)
            shares.append(Share(self.devices[index], need))
        return tuple(shares)

    def _take_share(self, buckets: FreeBuckets, units: int) -> tuple[Share, ...] | None:
        free = buckets.tightest(units)
        if free < 0:
            return None
        index = buckets.lowest(free)
        buckets.move(index, free, free - units)
        self._free[index] = free - units
        return (Share(self.devices[index], units),)

    def _set_free(self, index: int, free: int) -> None:
        self._buckets_of[index].move(index, self._free[index], free)
        self._free[index] = free

    @contextmanager
    def _hiding(self, indices: Iterable[int]) -> Generator[None]:
        """Removes devices from the buckets inside the block."""
        hidden = list(indices)
        for index in hidden:
            self._buckets_of[index].drop(index, self._free[index])
        try:
            yield
        finally:
            for index in hidden:
                self._buckets_of[index].put(index, self._free[index])
