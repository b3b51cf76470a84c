from __future__ import annotations

import random
from dataclasses import replace

import pytest
from helpers.cards import devices_of
from helpers.invariants import check_pool
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from actorlib._options.kinds import GPU, TPU, UNITS, Kind
from actorlib._scheduler.device_pool import DevicePool
from actorlib._scheduler.request import ANYWHERE, DeviceConstraints, model_of
from actorlib.accelerators.base import Device, Share

HALF = UNITS // 2


def gpu(index: int, **facts: object) -> Device:
    known = {"family": "nvidia", "kind": "GPU", "id": str(index), **facts}
    return Device(index=index, **known)


def some(pool: DevicePool, *indices: int) -> frozenset[Device]:
    return frozenset(pool.devices[index] for index in indices)


def occupy(pool: DevicePool, free: dict[int, int]) -> None:
    """Leaves that much free of some devices, and all of the others."""
    for index, units in free.items():
        if units < UNITS:
            pool.take(UNITS - units, DeviceConstraints(only=some(pool, index)))


def places(shares: tuple[Share, ...] | None) -> list[int] | None:
    return None if shares is None else [share.device.index for share in shares]


def test_take_when_refused_then_nothing_is_taken() -> None:
    pool = DevicePool(GPU, devices_of("2"))
    pool.take(HALF)

    assert pool.take(2 * UNITS) is None
    assert pool.free_units == UNITS + HALF


@pytest.mark.parametrize("units", [1, UNITS, 2 * UNITS])
def test_take_when_there_are_no_devices_then_refused(units: int) -> None:
    pool = DevicePool(GPU, ())

    assert pool.take(units) is None
    assert not pool.could_fit(units)


def test_give_when_it_was_not_taken_then_refused() -> None:
    pool = DevicePool(GPU, devices_of("1"))

    with pytest.raises(ValueError, match="was not taken"):
        pool.give_back([Share(pool.devices[0], 1)])
    check_pool(pool)


def test_pool_when_devices_are_not_numbered_from_zero_then_refused() -> None:
    with pytest.raises(ValueError, match="in index order"):
        DevicePool(GPU, devices_of("3")[1:])


@pytest.mark.parametrize("constraints", [ANYWHERE, DeviceConstraints(spread=True)])
@pytest.mark.parametrize("units", [HALF, 3 * UNITS, UNITS + HALF])
def test_choose_when_its_kind_never_gives_that_then_refused(
    units: int, constraints: DeviceConstraints
) -> None:
    kind = Kind("X", divisible=False, counts=(1, 2, 4))
    pool = DevicePool(kind, devices_of("4", kind="X"))

    assert not pool.could_fit(units, constraints)
    assert pool.choose(units, constraints) is None


def test_choose_when_the_type_is_of_another_kind_then_any() -> None:
    pool = DevicePool(GPU, devices_of("2"))
    chips = frozenset({model_of(gpu(0, kind="TPU"))})

    assert pool.choose(UNITS, DeviceConstraints(models=chips)) == [0]
    assert pool.resolver.allowed(DeviceConstraints(models=chips)) in (None, {0, 1})


def test_choose_when_what_is_named_is_of_another_kind_then_any() -> None:
    pool = DevicePool(GPU, devices_of("2"))
    chip = gpu(1, kind="TPU")
    constraints = DeviceConstraints(only=frozenset({chip}), near=frozenset({chip}))

    assert pool.choose(2 * UNITS, constraints) == [0, 1]
    assert pool.choose(
        HALF, DeviceConstraints(apart=frozenset({gpu(0, kind="TPU")}))
    ) == [0]


def test_scope_when_near_a_device_without_uuid_then_not_another_vendors() -> None:
    pool = DevicePool(
        GPU,
        [
            gpu(0),
            gpu(1, family="amd", id="1", peers=frozenset("0")),
            gpu(2, family="amd", id="0", peers=frozenset("1")),
        ],
    )

    assert pool.resolver.allowed(DeviceConstraints(near=some(pool, 0))) == {0}


def test_choose_when_numbers_share_and_some_are_reserved_then_a_run_of_the_rest() -> (
    None
):
    pool = DevicePool(TPU, devices_of("8", kind="TPU"))

    assert pool.choose(4 * UNITS, reserved={1}) == [4, 5, 6, 7]
    assert pool.choose(2 * UNITS, DeviceConstraints(apart=some(pool, 1))) == [2, 3]
    assert pool.choose(2 * UNITS, DeviceConstraints(only=some(pool, 1, 2, 3))) == [2, 3]


MODELS = "H100,A100,A100,H100,MI300X,MI300X,A100,part,part"
"""H100s and A100s, some linked, parts of a card, and two cards of AMD's."""
ALIKE = ",".join(["H100"] * 9)
COUNT = 9


def fresh(models: str = MODELS) -> DevicePool:
    return DevicePool(GPU, devices_of(models, "1-2,4-5,0-3,0-6"))


MIXED = fresh()


def some_constraints(rng: random.Random) -> DeviceConstraints:
    models = sorted(set(map(model_of, MIXED.devices)), key=str)

    def some_devices(most: int, last: int = COUNT) -> frozenset[Device]:
        devices = rng.sample(MIXED.devices[:last], rng.randint(1, most))
        return frozenset(devices)

    return DeviceConstraints(
        spread=rng.random() < 0.5,
        models=rng.choice(
            [None, frozenset(rng.sample(models, rng.randint(1, len(models))))]
        ),
        only=rng.choice([None, some_devices(5)]),
        # A part is near nobody: that is a scenario's.
        near=rng.choice([None, None, some_devices(3, last=7)]),
        apart=rng.choice([frozenset(), some_devices(5)]),
    )


# Hypothesis takes longer to make a value of many parts than to choose one of many.
any_constraints = st.sampled_from(
    [some_constraints(random.Random(seed)) for seed in range(400)]
)
any_devices = st.integers(0, 2**COUNT - 1).map(
    lambda bits: frozenset(i for i in range(COUNT) if bits >> i & 1)
)


class PoolMachine(RuleBasedStateMachine):
    """A pool beside one that looks at every device for every decision.

    Devices of one make, as most machines have them, go a shorter way.
    """

    taken = Bundle("taken")

    @initialize(models=st.sampled_from([MODELS, ALIKE]))
    def begin(self, models: str) -> None:
        self.models = models
        self.pool = fresh(models)
        self.free = [UNITS] * COUNT

    def here(self, constraints: DeviceConstraints) -> DeviceConstraints:
        """Constraints to some of the mixed devices, for those in their places here."""
        if constraints is ANYWHERE or self.models is MODELS:
            return constraints
        only, near, apart = (
            None if devices is None else some(self.pool, *(d.index for d in devices))
            for devices in (constraints.only, constraints.near, constraints.apart)
        )
        return replace(constraints, models=None, only=only, near=near, apart=apart)

    def allowed(self, constraints: DeviceConstraints) -> list[Device]:
        near = constraints.near or frozenset()
        keys = {device.key for device in near}
        return [
            device
            for device in self.pool.devices
            if (constraints.models is None or model_of(device) in constraints.models)
            and (constraints.only is None or device in constraints.only)
            and (constraints.near is None or device in near or device.peers & keys)
            and device not in constraints.apart
        ]

    def best(
        self, units: int, constraints: DeviceConstraints, reserved: frozenset[int]
    ) -> list[int] | None:
        """The one best device for a share, or for one whole."""
        sign = -1 if constraints.spread else 1
        near = constraints.near or frozenset()
        found = [
            (device not in near, sign * self.free[device.index], device.index)
            for device in self.allowed(constraints)
            if self.free[device.index] >= units and device.index not in reserved
        ]
        return [min(found)[2]] if found else None

    def eligible(
        self, constraints: DeviceConstraints, reserved: frozenset[int]
    ) -> list[Device]:
        """Those of which several whole ones may be chosen."""
        return [
            device
            for device in self.allowed(constraints)
            if self.free[device.index] == UNITS
            and device.index not in reserved
            and (constraints.only is not None or device.parent is None)
        ]

    def check_several(
        self,
        count: int,
        constraints: DeviceConstraints,
        reserved: frozenset[int],
        chosen: list[int] | None,
    ) -> None:
        there = self.eligible(constraints, reserved)
        families = [device.family for device in there]
        models = [model_of(device) for device in there]
        assert (chosen is not None) == any(families.count(f) >= count for f in families)
        if chosen is None:
            return
        devices = [self.pool.devices[index] for index in chosen]
        assert len(set(chosen)) == count
        assert chosen == sorted(chosen)
        assert set(devices) <= set(there)
        assert len({device.family for device in devices}) == 1
        if any(models.count(model) >= count for model in models):
            assert len({model_of(device) for device in devices}) == 1

    @rule(
        target=taken,
        units=st.one_of(
            st.sampled_from([1, 2_500, HALF, 7_500, 9_999, UNITS]),
            st.integers(1, UNITS),
            st.integers(2, 5).map(lambda number: number * UNITS),
        ),
        constraints=st.just(ANYWHERE) | any_constraints,
        reserved=st.just(frozenset[int]()) | any_devices,
    )
    def take(
        self, units: int, constraints: DeviceConstraints, reserved: frozenset[int]
    ) -> object:
        constraints = self.here(constraints)
        chosen = self.pool.choose(units, constraints, reserved)

        shares = self.pool.take(units, constraints, reserved)

        assert places(shares) == chosen
        if units > UNITS:
            self.check_several(units // UNITS, constraints, reserved, chosen)
        else:
            assert chosen == self.best(units, constraints, reserved)
        if shares is None:
            return multiple()
        assert sum(share.units for share in shares) == units
        for share in shares:
            self.free[share.device.index] -= share.units
        return shares

    @rule(shares=consumes(taken))
    def give_back(self, shares: tuple[Share, ...]) -> None:
        self.pool.give_back(shares)
        for share in shares:
            self.free[share.device.index] += share.units

    @rule(units=st.integers(1, 3).map(lambda n: n * UNITS), constraints=any_constraints)
    def foresee(self, units: int, constraints: DeviceConstraints) -> None:
        constraints = self.here(constraints)
        scope = self.pool.resolver.allowed(constraints)

        assert self.pool.could_fit(units, constraints) == (
            fresh(self.models).choose(units, constraints) is not None
        )
        everywhere = range(COUNT)
        assert sorted(everywhere if scope is None else scope) == [
            device.index for device in self.allowed(constraints)
        ]

    @rule(
        units=st.sampled_from([1, HALF, UNITS, 2 * UNITS]),
        constraints=any_constraints,
    )
    def repeat(self, units: int, constraints: DeviceConstraints) -> None:
        """How it came about that this is free makes no difference."""
        constraints = self.here(constraints)
        other = fresh(self.models)
        occupy(other, dict(reversed(list(enumerate(self.free)))))

        assert other.choose(units, constraints) == self.pool.choose(units, constraints)

    @invariant()
    def agree(self) -> None:
        check_pool(self.pool)
        assert [self.pool.free(device) for device in self.pool.devices] == self.free
        assert self.pool.free_units == sum(self.free)


PoolMachine.TestCase.settings = settings(stateful_step_count=25)
TestPoolAgainstANaiveOne = PoolMachine.TestCase
