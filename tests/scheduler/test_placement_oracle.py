"""Random mixes on small machines, beside an oracle that tries every way there is.

It knows nothing of buckets, subqueues and searches: what is free is the whole less what
was granted, and whether something has room is asked of every device and every set of
them.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from helpers.invariants import check_ledger

from actorlib._options.actor_options import ActorOptions
from actorlib._options.kinds import UNITS
from actorlib._options.resources import Resources, add, request, totals
from actorlib._scheduler.bundles import divide_lease
from actorlib._scheduler.catalogue import Catalogue
from actorlib._scheduler.explain import group_shortage, shortage
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import (
    ANYWHERE,
    BundleRequest,
    DeviceConstraints,
    LeaseRequest,
    model_of,
)
from actorlib._scheduler.wait_queue import WaitQueue
from actorlib.accelerators.base import Device

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actorlib._scheduler.waiting_order import Waiter
    from actorlib.accelerators.base import Lease

GRIDS = ([0.5, 0.25, 1], [0.3, 0.7, 0.4, 0.6, 1], [0.1, 0.9, 1 / 3, 1 / 6, 0.49], [1])
GIB = 2**30
MEMORY = {"A": 80 * GIB - 7, "B": 24 * GIB, "C": None}
"""The memory of each model."""
BYTES = (1, GIB, 7 * GIB, 12 * GIB, 20 * GIB, 24 * GIB, 40 * GIB, 80 * GIB)
"""The last is more than any card has."""


def some_devices(rng: random.Random) -> tuple[Device, ...]:
    """A few, of a make or two, of a vendor or two, some of them linked."""
    count = rng.choice([1, 1, 2, 3, 4])
    models = [rng.choice("AAABBC") for _ in range(count)]
    families = [rng.choice(["nvidia"] * 8 + ["amd"]) for _ in range(count)]
    links = [
        pair
        for pair in combinations(range(count), 2)
        if rng.random() < 0.3 and families[pair[0]] == families[pair[1]]
    ]
    return tuple(
        Device(
            family=families[index],
            kind="GPU",
            index=index,
            id=str(index),
            model=models[index],
            type=models[index],
            memory=MEMORY[models[index]],
            peers=frozenset(str(sum(pair) - index) for pair in links if index in pair),
        )
        for index in range(count)
    )


class Machine:
    """A ledger and its line, and what an oracle says of them."""

    def __init__(self, rng: random.Random) -> None:
        self.devices = some_devices(rng)
        has = {"CPU": rng.choice([1, 2, 4]), "x": rng.choice([1, 3])}
        self.has = {name: count * UNITS for name, count in has.items()}
        capacity = totals(
            num_cpus=has["CPU"],
            num_gpus=len(self.devices),
            memory=None,
            resources={"x": has["x"]},
        )
        self.ledger = Ledger(capacity, {"GPU": self.devices})
        self.catalogue = Catalogue({"GPU": self.devices}, ())
        self.queue = WaitQueue(self.ledger)
        self.asked: list[tuple[Resources, DeviceConstraints]] = []
        self.leases: dict[int, Lease] = {}
        self.waiting: dict[int, Waiter] = {}

    # What happens.

    def arrive(self, asked: Resources, constraints: DeviceConstraints) -> None:
        fits, could_fit = (
            self.could_fit(asked, constraints, is_idle=idle) for idle in (True, False)
        )
        assert self.ledger.feasible(asked, constraints) == fits
        assert bool(self.ledger.infeasible_part(asked, constraints)) != fits
        nobody_waits = self.first() is None
        number = len(self.asked)
        self.asked.append((asked, constraints))
        wanted = LeaseRequest(f"M {number}", asked, constraints)
        lease = self.queue.try_at_once(wanted)
        if nobody_waits:
            assert (lease is not None) == could_fit
        explain = group_shortage if constraints.bundles else shortage
        assert explain(self.ledger, wanted).startswith("M ")
        if lease is None:
            self.waiting[number] = self.queue.enqueue(wanted)
        else:
            assert could_fit
            self.granted(number, lease)

    def end(self, number: int) -> None:
        if number in self.leases:
            self.ledger.release(self.leases.pop(number))
        else:
            self.queue.remove(self.waiting.pop(number))
        for waiter, lease in self.queue.serve():
            del self.waiting[int(waiter.request.label[2:])]
            self.granted(int(waiter.request.label[2:]), lease)

    def granted(self, number: int, lease: Lease) -> None:
        asked, constraints = self.asked[number]
        self.leases[number] = lease
        request = constraints.bundles
        if request is None:
            self.check_part(asked, constraints, lease)
            return
        on: Counter[int] = Counter()
        parts = divide_lease(request, lease)
        total: dict[str, int] = {}
        for bundle, alone, part in zip(
            request.bundles, bundles_of(request), parts, strict=True
        ):
            self.check_part(bundle, alone, part)
            on.update(share.device.index for share in part.shares)
            total = add(total, part.amounts)
        assert lease.amounts == total
        if request.strategy == "STRICT_SPREAD":
            assert max(on.values(), default=0) <= 1

    def check_part(
        self, asked: Resources, constraints: DeviceConstraints, lease: Lease
    ) -> None:
        units = asked.amounts.get("GPU", 0)
        indices = {share.device.index for share in lease.shares}
        assert indices <= self.allowed(constraints)
        assert len(indices) == len(lease.shares) == -(-units // UNITS)
        nbytes = constraints.gpu_memory
        needs = [self.need(index, units, nbytes) for index in indices]
        assert sum(share.units for share in lease.shares) == sum(needs)
        assert all((share.nbytes or 0) >= nbytes for share in lease.shares)
        granted = {"GPU": sum(needs)} if units else {}
        assert lease.amounts == {**asked.amounts, **granted}
        assert len({share.device.family for share in lease.shares}) <= 1

    def check(self) -> None:
        check_ledger(self.ledger)
        free = self.free_devices()
        assert min(free.values()) >= 0
        assert sum(free.values()) == self.ledger.free("GPU")
        assert all(self.free(name) == self.ledger.free(name) for name in self.has)
        first = self.first()
        assert first is None or not self.could_fit(*self.asked[first])
        assert self.queue.serve() == []

    def first(self) -> int | None:
        """Who is at the front of those who may ever get what they ask."""
        may = (n for n in sorted(self.waiting) if self.may_ever(n))
        return next(may, None)

    def may_ever(self, number: int) -> bool:
        return self.could_fit(*self.asked[number], is_idle=True)

    # The oracle.

    def free(self, name: str) -> int:
        held = sum(lease.amounts.get(name, 0) for lease in self.leases.values())
        return self.has[name] - held

    def free_devices(self) -> dict[int, int]:
        free = {device.index: UNITS for device in self.devices}
        for lease in self.leases.values():
            for share in lease.shares:
                free[share.device.index] -= share.units
        return free

    def allowed(self, constraints: DeviceConstraints) -> set[int]:
        keys = {device.key for device in constraints.near or ()}
        return {
            device.index
            for device in self.devices
            if (constraints.models is None or model_of(device) in constraints.models)
            and (constraints.only is None or device in constraints.only)
            and (device.memory or 0) >= constraints.gpu_memory
            and (
                constraints.near is None
                or device in constraints.near
                or device.peers & keys
            )
            and device not in constraints.apart
        }

    def need(self, index: int, units: int, nbytes: int) -> int:
        """The units of one device that a request is there."""
        memory = self.devices[index].memory or 1
        units = min(units, UNITS)
        while memory * units < nbytes * UNITS:
            short = nbytes * UNITS - memory * units
            units += max(1, short // memory)
        return units

    def could_fit(
        self, asked: Resources, constraints: DeviceConstraints, *, is_idle: bool = False
    ) -> bool:
        for name, has in self.has.items():
            if asked.amounts.get(name, 0) > (has if is_idle else self.free(name)):
                return False
        units = asked.amounts.get("GPU", 0)
        free = self.free_devices()
        if is_idle:
            free = dict.fromkeys(free, UNITS)
        if constraints.bundles is None:
            return not units or any(self.ways(units, free, constraints))
        request = constraints.bundles
        sizes = zip(request.units("GPU"), bundles_of(request), strict=True)
        parts = sorted(((u, c) for u, c in sizes if u), key=lambda part: -part[0])
        return self.packs(parts, free, constraints.bundles.strategy)

    def packs(
        self,
        parts: list[tuple[int, DeviceConstraints]],
        free: Mapping[int, int],
        strategy: str,
    ) -> bool:
        if not parts:
            return True
        (units, constraints), *rest = parts
        apart = strategy == "STRICT_SPREAD"
        for chosen in self.ways(units, free, constraints):
            left = {
                index: (
                    0
                    if apart
                    else level - self.need(index, units, constraints.gpu_memory)
                )
                if index in chosen
                else level
                for index, level in free.items()
            }
            if self.packs(rest, left, strategy):
                return True
        return False

    def ways(
        self, units: int, free: Mapping[int, int], constraints: DeviceConstraints
    ) -> Iterator[tuple[int, ...]]:
        roomy = [
            index
            for index in sorted(self.allowed(constraints))
            if free[index] >= self.need(index, units, constraints.gpu_memory)
        ]
        for chosen in combinations(roomy, -(-units // UNITS)):
            if len({self.devices[index].family for index in chosen}) == 1:
                yield chosen


def bundles_of(request: BundleRequest) -> list[DeviceConstraints]:
    """What each bundle says of its devices."""
    each = zip(request.models, request.gpu_memory, strict=True)
    return [DeviceConstraints(models=m, gpu_memory=nbytes) for m, nbytes in each]


def some_request(
    rng: random.Random, machine: Machine
) -> tuple[Resources, DeviceConstraints]:
    shares = rng.choice(GRIDS)
    if rng.random() < 0.3:
        return some_group(rng, machine, shares)
    asked = request(
        num_cpus=rng.choice([0, 0, 0.5, 1, 1.5, 2]),
        num_gpus=rng.choice([0, *shares, 2]),
        resources={"x": rng.choice([0, 0, 0.3, 0.7, 1, 2.7])},
    )
    if asked.amounts.get("GPU", 0) <= UNITS and rng.random() < 0.3:
        return some_bytes(rng, machine, asked)
    if not asked.amounts.get("GPU") or rng.random() < 0.65:
        return asked, ANYWHERE
    some = rng.sample(machine.devices, rng.randint(1, len(machine.devices)))
    any_constraints = [
        DeviceConstraints(models=frozenset({model_of(some[0])})),
        DeviceConstraints(only=frozenset(some)),
        DeviceConstraints(near=frozenset(some[:1])),
        DeviceConstraints(apart=frozenset(some[:1])),
        DeviceConstraints(spread=True),
    ]
    return asked, rng.choice(any_constraints)


def some_bytes(
    rng: random.Random, machine: Machine, asked: Resources
) -> tuple[Resources, DeviceConstraints]:
    one = rng.choice(machine.devices)
    wish: dict[str, object] = rng.choice(
        [{}, {}, {"placement": "spread"}, {"device": one.id}]
    )
    options = ActorOptions(
        num_gpus=asked.amounts.get("GPU", 0) / UNITS,
        gpu_memory=rng.choice(BYTES),
        num_cpus=asked.amounts.get("CPU", 0) / UNITS,
        **wish,
    )
    resources, constraints = machine.catalogue.demand("M", options)
    if rng.random() < 0.3:
        constraints = replace(constraints, apart=frozenset({one}))
    return resources, constraints


def some_group(
    rng: random.Random, machine: Machine, shares: list[float]
) -> tuple[Resources, DeviceConstraints]:
    bundles = [
        request(
            num_gpus=rng.choice([0, *shares, *shares, 2]),
            num_cpus=rng.choice([0.5, 1]) if rng.random() < 0.4 else 0,
        )
        for _ in range(rng.randint(1, 4))
    ]
    models = [
        frozenset({model_of(rng.choice(machine.devices))})
        if bundle.amounts.get("GPU") and rng.random() < 0.3
        else None
        for bundle in bundles
    ]
    strategy = rng.choice(["PACK", "SPREAD", "STRICT_SPREAD"])
    bundles = [
        Resources.of({**bundle.amounts, "gpu_memory": rng.choice(BYTES)})
        if 0 < bundle.amounts.get("GPU", 0) <= UNITS and rng.random() < 0.3
        else bundle
        for bundle in bundles
    ]
    _, constraints = machine.catalogue.demand_of_group(bundles, strategy)
    assert constraints.bundles is not None
    whole = constraints.bundles
    total: dict[str, int] = {}
    for bundle in whole.bundles:
        total = add(total, bundle.amounts)
    whole = BundleRequest(whole.bundles, strategy, models, whole.gpu_memory)
    return Resources.of(total), DeviceConstraints(bundles=whole)


@pytest.mark.parametrize("seed", range(40))
def test_placement_when_a_mix_comes_and_goes_then_as_one_who_tries_every_way(
    seed: int,
) -> None:
    rng = random.Random(seed)
    machine = Machine(rng)
    for _ in range(30):
        there = sorted({*machine.leases, *machine.waiting})
        if there and rng.random() < 0.4:
            machine.end(rng.choice(there))
        else:
            machine.arrive(*some_request(rng, machine))
        machine.check()

    while machine.leases:
        machine.end(rng.choice(sorted(machine.leases)))
        machine.check()
    assert not any(map(machine.may_ever, machine.waiting))
