"""Arranges the bundles of a placement group on devices, all of them or none.

The meaning of each strategy on one machine, separately for each kind of device:

* ``PACK``: as few devices as possible.
* ``SPREAD``: as few bundles as possible on a device that another bundle is on.
* ``STRICT_PACK``: all on one device. If they need more than one even on the idle
  machine, on that number of devices that belong together (``topology``): linked ones,
  or neighbours by number if the kind shares hardware by number. If the machine has no
  such set of that size, on any set of that size.
* ``STRICT_SPREAD``: no bundle on a device that another bundle is on.

Bundles of several devices get theirs first, the others share the rest.

Packing is a search with a bound. There may be a solution that it does not find: then
``Arrangement.is_certain`` is false, and no message may say that the group never fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._options.group_spec import PACK, STRICT_PACK, STRICT_SPREAD
from actorlib._options.kinds import UNITS
from actorlib._scheduler.backtracking import solutions
from actorlib._scheduler.bundle_packing import (
    BundleShare,
    Packing,
    SearchBudget,
    UnitsByDevice,
)
from actorlib._scheduler.bundle_spreading import Spreading, match_devices
from actorlib._scheduler.request import BundleRequest, model_of
from actorlib._scheduler.topology import components, neighbours

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Hashable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from actorlib._scheduler.candidates import ConstraintResolver
    from actorlib._scheduler.request import DeviceModel
    from actorlib.accelerators.base import Device

TRIES = 2_000
"""How many sets of devices are tried at most."""

_REMEMBERED = 64
"""The number of requests for which the arrangement on idle devices is remembered."""


Mixture = Counter["DeviceModel"]
"""Models, each with a number of devices."""

Placement = dict[int, list[int]]
"""The devices of each bundle that requests the kind, by its number; ascending."""


class Arrangement(NamedTuple):
    """The outcome of a search for the devices of all bundles.

    Attributes:
        placement: The devices; None if the search found no arrangement.
        is_certain: If ``placement`` is None: whether there is certainly no arrangement.
    """

    placement: Placement | None
    is_certain: bool = True


_NOWHERE = Arrangement(None)
_GIVEN_UP = Arrangement(None, is_certain=False)


@final
class BundleArranger:
    """Arranges the bundles of groups on the devices of one kind."""

    def __init__(self, resolver: ConstraintResolver) -> None:
        self._resolver = resolver
        self._idle: dict[BundleRequest, Arrangement] = {}

    def when_idle(self, request: BundleRequest) -> Arrangement:
        """Arranges bundles on idle devices; the outcome is remembered."""
        arrangement = self._idle.get(request)
        if arrangement is None:
            if len(self._idle) >= _REMEMBERED:
                self._idle.clear()
            every = dict.fromkeys(range(len(self._resolver.devices)), UNITS)
            arrangement = self._idle[request] = self.arrange(request, every)
        return arrangement

    def arrange(self, request: BundleRequest, free: Mapping[int, int]) -> Arrangement:
        """Chooses the devices of each bundle.

        ``free`` contains the free units of the usable devices, by index.
        """
        resolver = self._resolver
        amounts = request.units(resolver.kind.name)
        if any(resolver.kind.fault(units) for units in amounts):
            return _NOWHERE
        parts = _parts(resolver, request)
        if sum(amounts) > sum(free.values()):
            return _NOWHERE
        if request.strategy == STRICT_PACK:
            packed = BundleRequest(
                request.bundles, PACK, request.models, request.gpu_memory
            )
            idle = self.when_idle(packed)
            return _pack_strictly(resolver, idle, parts, free)
        share = _SHARES.get(request.strategy, _spread)
        return _place(resolver, parts, free, share, SearchBudget())


def _parts(resolver: ConstraintResolver, request: BundleRequest) -> list[BundleShare]:
    """Returns the shares of the bundles that request the kind."""
    name = resolver.kind.name
    each = zip(request.units(name), request.models, request.nbytes(name), strict=True)
    alike: dict[object, BundleShare] = {}
    parts: list[BundleShare] = []
    for number, (units, models, nbytes) in enumerate(each):
        if not units:
            continue
        key = units, models, nbytes
        part = alike.get(key)
        if part is None:
            part = alike[key] = _part(resolver, units, models, nbytes)
        parts.append(part._replace(number=number))
    return parts


def _part(
    resolver: ConstraintResolver,
    units: int,
    models: frozenset[DeviceModel] | None,
    nbytes: int,
) -> BundleShare:
    if not nbytes:
        return BundleShare(0, units, resolver.of_models(models))
    wanted = [model for model in models or () if model.kind == resolver.kind.name]
    here = [model for model in resolver.by_model if not wanted or model in wanted]
    large = resolver.large_enough(here, nbytes)
    needs = {model: resolver.units_on(model, units, nbytes) for model in large}
    on_device = {i: needs[model] for model in large for i in resolver.by_model[model]}
    return BundleShare(
        0,
        min(needs.values(), default=units),
        None if len(large) == len(resolver.by_model) else frozenset(on_device),
        UnitsByDevice(on_device) if len({*needs.values()}) > 1 else None,
    )


def _place(
    resolver: ConstraintResolver,
    parts: Sequence[BundleShare],
    free: Mapping[int, int],
    share: _Share,
    budget: SearchBudget,
) -> Arrangement:
    """Places bundles of several devices first; the others share the rest."""
    large = [part for part in parts if part.units > UNITS]
    small = [part for part in parts if part.units <= UNITS]
    is_certain = True
    for tried, chosen in enumerate(_choose_whole(resolver, large, free)):
        if tried >= TRIES:
            return _GIVEN_UP
        whole = {index for devices in chosen.values() for index in devices}
        rest = {index: free[index] for index in free if index not in whole}
        outcome = (
            share(_SharedBundles(resolver, small, rest, whole, budget))
            if small
            else Arrangement({})
        )
        if outcome.placement is not None:
            return Arrangement({**chosen, **outcome.placement})
        is_certain &= outcome.is_certain
    return Arrangement(None, is_certain)


# Bundles of several devices.


def _choose_whole(
    resolver: ConstraintResolver,
    large: Sequence[BundleShare],
    free: Mapping[int, int],
) -> Iterator[Placement]:
    """Yields the devices of bundles, once for each mixture of remaining models."""
    if not large:
        yield {}
        return
    choosing = _WholeDevices(resolver, large, free)
    for chosen in solutions(choosing, set()):
        yield {
            part.number: devices
            for part, devices in zip(choosing.order, chosen, strict=True)
        }


class _WholeDevices:
    """Chooses the devices of one bundle after another, the largest first."""

    def __init__(
        self,
        resolver: ConstraintResolver,
        large: Sequence[BundleShare],
        free: Mapping[int, int],
    ) -> None:
        self.order = sorted(large, key=lambda part: (-part.units, part.number))
        self._resolver = resolver
        devices = resolver.devices
        self._left = {i for i in free if free[i] == UNITS and devices[i].parent is None}
        self._chosen = 0

    @property
    def is_solved(self) -> bool:
        return self._chosen == len(self.order)

    @property
    def is_given_up(self) -> bool:
        return False  # the caller counts the solutions

    def state(self) -> Hashable:
        models = _models_of(self._resolver, self._left)
        return self._chosen, frozenset(models.items())

    def choices(self) -> Iterator[list[int]]:
        return _sets(self._resolver, self.order[self._chosen], self._left)

    def make(self, choice: list[int]) -> None:
        self._left.difference_update(choice)
        self._chosen += 1

    def undo(self, choice: list[int]) -> None:
        self._left.update(choice)
        self._chosen -= 1


def _sets(
    resolver: ConstraintResolver, part: BundleShare, free: Collection[int]
) -> Iterator[list[int]]:
    """Yields the devices that a bundle may get: the best, then the other mixtures."""
    usable = sorted(i for i in free if part.allowed is None or i in part.allowed)
    count, mixtures = part.units // UNITS, list[Mixture]()
    for devices in resolver.sets(count, usable):
        mixtures.append(_models_of(resolver, devices))
        yield devices
    families: dict[str, dict[DeviceModel, list[Device]]] = {}
    for index in usable:
        device = resolver.devices[index]
        alike = families.setdefault(device.family, {})
        alike.setdefault(model_of(device), []).append(device)
    for alike in families.values():
        if len(alike) == 1:
            continue
        for counts in product(*(range(min(count, len(m)) + 1) for m in alike.values())):
            mixture = Counter(dict(zip(alike, counts, strict=True)))
            if sum(counts) == count and mixture not in mixtures:
                each = zip(counts, alike.values(), strict=True)
                yield sorted(
                    d.index for n, m in each if n for d in resolver.closest(n, m)
                )


def _models_of(resolver: ConstraintResolver, indices: Iterable[int]) -> Mixture:
    return Counter(resolver.model_of[index] for index in indices)


# Bundles that may share a device.


class _SharedBundles(NamedTuple):
    """Bundles that may share devices, and the devices of the bundles of several."""

    resolver: ConstraintResolver
    parts: Sequence[BundleShare]
    free: Mapping[int, int]
    whole: set[int]
    budget: SearchBudget

    def packing(self) -> Packing:
        """Returns a search for as few devices as possible that belong together."""
        near = _neighbours(self.resolver, [*self.free, *self.whole])

        def rank(index: int, used: set[int]) -> int:
            return -len(near[index] & (used | self.whole)) if near else 0

        return Packing(self.parts, self.free, rank, self.budget)


_Share = Callable[[_SharedBundles], Arrangement]


def _fit(shared: _SharedBundles) -> Arrangement:
    packing = shared.packing()
    return Arrangement(packing.run(), packing.is_certain)


def _pack(shared: _SharedBundles) -> Arrangement:
    packing = shared.packing()
    first = packing.run()
    if first is None:
        return Arrangement(None, packing.is_certain)
    for opens in range(packing.fewest, len(used_devices(first))):
        fewer = packing.run(opens)
        if fewer is not None:
            return Arrangement(fewer)
        if not packing.is_certain:
            break
    return Arrangement(first)


def _spread(shared: _SharedBundles) -> Arrangement:
    """Places as few bundles as possible on a device that another one is on."""
    parts, free = shared.parts, shared.free
    separate = match_devices(parts, free)
    if separate is not None:
        return Arrangement(separate)
    fit = _fit(shared)
    if fit.placement is None:
        return fit
    spreading = Spreading(parts, free)
    best = spreading.run() or fit.placement
    for joins in range(
        max(1, len(parts) - len(free)), len(parts) - len(used_devices(best))
    ):
        better = spreading.run(joins)
        if better is not None:
            return Arrangement(better)
    return Arrangement(best)


def _spread_strictly(shared: _SharedBundles) -> Arrangement:
    return Arrangement(match_devices(shared.parts, shared.free))


_SHARES: Mapping[str, _Share] = {PACK: _pack, STRICT_SPREAD: _spread_strictly}


# All on one device, or on some that belong together.


def _pack_strictly(
    resolver: ConstraintResolver,
    idle: Arrangement,
    parts: Sequence[BundleShare],
    free: Mapping[int, int],
) -> Arrangement:
    """Packs bundles on as few devices as they would need on the idle machine.

    ``idle`` is the packing on the idle machine.
    """
    if idle.placement is None:
        return idle
    count = len(used_devices(idle.placement))
    if count == 1:
        return _on_one(parts, free)
    budget = SearchBudget()
    if all(len(each) < count for each in _components(resolver, resolver.devices)):
        outcome = _place(resolver, parts, free, _pack, budget)
        return (
            outcome if len(used_devices(outcome.placement or {})) == count else _NOWHERE
        )
    total, is_certain = sum(part.units for part in parts), True
    least = min(min(part.units, UNITS) for part in parts)
    roomy = [resolver.devices[index] for index in sorted(free) if free[index] >= least]
    for tried, chosen in enumerate(_related(resolver, count, roomy)):
        if tried >= TRIES:
            return _GIVEN_UP
        usable = {device.index: free[device.index] for device in chosen}
        if sum(usable.values()) < total or len(_components(resolver, chosen)) > 1:
            continue
        outcome = _place(resolver, parts, usable, _fit, budget)
        if outcome.placement is not None:
            return outcome
        is_certain &= outcome.is_certain
    return Arrangement(None, is_certain)


def _on_one(parts: Sequence[BundleShare], free: Mapping[int, int]) -> Arrangement:
    rest = {
        index: free[index] - sum(part.units_on(index) for part in parts)
        for index in free
        if all(part.may_be_on(index) for part in parts)
    }
    roomy = [index for index in rest if rest[index] >= 0]
    if not roomy:
        return _NOWHERE
    best = min(roomy, key=lambda index: (rest[index], index))
    return Arrangement({part.number: [best] for part in parts})


def _related(
    resolver: ConstraintResolver, count: int, devices: Sequence[Device]
) -> Iterator[Sequence[Device]]:
    """Yields sets of ``count`` devices that may belong together, the closest first."""
    for component in _components(resolver, devices):
        if len(component) >= count:
            yield resolver.closest(count, component)
            yield from combinations(component, count)


def _components(
    resolver: ConstraintResolver, devices: Sequence[Device]
) -> Sequence[Sequence[Device]]:
    return components(devices, by_number=resolver.kind.aligned)


def _neighbours(
    resolver: ConstraintResolver, indices: Iterable[int]
) -> Mapping[int, set[int]]:
    """Returns the neighbours of each device, by index; empty if there are none."""
    devices = [resolver.devices[index] for index in sorted(indices)]
    if not (resolver.kind.aligned or any(device.peers for device in devices)):
        return {}
    near = neighbours(devices, by_number=resolver.kind.aligned)
    return {
        devices[place].index: {devices[other].index for other in others}
        for place, others in near.items()
    }


def used_devices(placement: Placement) -> set[int]:
    return {index for devices in placement.values() for index in devices}
