from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
)

from actorlib._local.placement import DevicePool, _Indices
from actorlib._resources import UNITS
from actorlib.accelerators.base import Device, Share

HALF = UNITS // 2


def gpus(count: int) -> tuple[Device, ...]:
    return tuple(
        Device(family="nvidia", kind="GPU", index=index, id=str(index))
        for index in range(count)
    )


def places(shares: tuple[Share, ...] | None) -> list[int] | None:
    return None if shares is None else [share.device.index for share in shares]


def test_take_when_all_are_free_then_the_lowest_index() -> None:
    pool = DevicePool(gpus(3))

    assert pool.take(HALF) == (Share(pool.devices[0], HALF),)


def test_take_when_one_is_begun_then_it_is_filled_first() -> None:
    pool = DevicePool(gpus(3))

    assert [places(pool.take(HALF)) for _ in range(6)] == [
        [0], [0], [1], [1], [2], [2],
    ]  # fmt: skip


def test_take_when_several_have_room_then_the_smallest_left_over() -> None:
    pool = DevicePool(gpus(3))
    for units in (6_000, 8_000, 7_000):
        pool.take(units)

    assert places(pool.take(2_500)) == [2]


def test_take_when_it_fits_only_across_two_then_refused() -> None:
    pool = DevicePool(gpus(2))
    pool.take(6_000)
    pool.take(6_000)

    assert pool.take(HALF) is None


def test_take_when_refused_then_nothing_is_taken() -> None:
    pool = DevicePool(gpus(2))
    pool.take(HALF)

    assert pool.take(2 * UNITS) is None
    assert pool.free_units == UNITS + HALF


def test_take_when_one_whole_then_not_a_begun_one() -> None:
    pool = DevicePool(gpus(2))
    pool.take(1)

    assert places(pool.take(UNITS)) == [1]


def test_take_when_several_whole_then_the_first_wholly_free() -> None:
    pool = DevicePool(gpus(5))
    first = pool.take(UNITS)
    pool.take(HALF)
    pool.give(first or ())

    assert places(pool.take(3 * UNITS)) == [0, 2, 3]


def test_take_when_above_one_and_not_whole_then_refused() -> None:
    pool = DevicePool(gpus(4))

    assert pool.take(UNITS + HALF) is None
    assert not pool.could_fit(UNITS + HALF)


@pytest.mark.parametrize("units", [1, UNITS, 2 * UNITS])
def test_take_when_there_are_no_devices_then_refused(units: int) -> None:
    pool = DevicePool(())

    assert pool.take(units) is None
    assert not pool.could_fit(units)


def test_could_fit_when_everything_is_taken_then_still_true() -> None:
    pool = DevicePool(gpus(2))
    pool.take(2 * UNITS)

    assert not pool.fits(1)
    assert pool.could_fit(2 * UNITS)
    assert not pool.could_fit(3 * UNITS)


def test_give_when_it_was_not_taken_then_refused() -> None:
    pool = DevicePool(gpus(1))

    with pytest.raises(ValueError, match="was not taken"):
        pool.give([Share(pool.devices[0], 1)])
    pool.check()


def test_largest_when_devices_are_begun_then_the_first_of_the_roomiest() -> None:
    pool = DevicePool(gpus(3))
    for units in (8_000, 6_000, 6_000):
        pool.take(units)

    assert pool.largest() == Share(pool.devices[1], 4_000)


def test_largest_when_everything_is_taken_then_zero() -> None:
    pool = DevicePool(gpus(2))
    pool.take(2 * UNITS)

    assert pool.largest().units == 0


def test_largest_when_there_are_no_devices_then_refused() -> None:
    with pytest.raises(LookupError):
        DevicePool(()).largest()


def test_pool_when_devices_are_not_numbered_from_zero_then_refused() -> None:
    with pytest.raises(ValueError, match="in index order"):
        DevicePool(gpus(3)[1:])


def test_levels_when_a_device_comes_and_goes_then_stay_small() -> None:
    pool = DevicePool(gpus(100))

    for _ in range(1_000):
        shares = pool.take(HALF)
        pool.give(shares or ())

    heaps = [len(level._heap) for level in pool._levels.values()]
    assert sum(heaps) <= 2 * len(pool.devices) + 16 * len(heaps)
    pool.check()


def test_indices_when_many_have_left_then_the_lowest_is_known() -> None:
    members = random.Random(0).sample(range(100_000), 100)
    indices = _Indices(())
    for index in members:
        indices.add(index)

    while len(members) > 1:
        indices.remove(members.pop())
        assert indices.lowest() == min(members)


def test_check_when_a_device_was_lost_then_raises() -> None:
    pool = DevicePool(gpus(2))
    pool._free[1] = HALF

    with pytest.raises(AssertionError, match="device 1"):
        pool.check()


class PoolMachine(RuleBasedStateMachine):
    """A pool beside one that looks at every device for every decision."""

    taken = Bundle("taken")

    def __init__(self) -> None:
        super().__init__()
        self.pool = DevicePool(gpus(6))
        self.free = [UNITS] * 6

    def best(self, units: int) -> list[int] | None:
        if units <= UNITS:
            fits = [(f - units, i) for i, f in enumerate(self.free) if f >= units]
            return [min(fits)[1]] if fits else None
        wholly_free = [i for i, f in enumerate(self.free) if f == UNITS]
        number = units // UNITS
        return wholly_free[:number] if number <= len(wholly_free) else None

    @rule(
        target=taken,
        units=st.one_of(
            st.sampled_from([1, 2_500, HALF, 7_500, 9_999, UNITS]),
            st.integers(1, UNITS),
            st.integers(2, 7).map(lambda number: number * UNITS),
        ),
    )
    def take(self, units: int) -> object:
        expected = self.best(units)
        fits = self.pool.fits(units)

        shares = self.pool.take(units)

        assert fits == (shares is not None)
        assert places(shares) == expected
        if shares is None:
            return multiple()
        assert sum(share.units for share in shares) == units
        for share in shares:
            self.free[share.device.index] -= share.units
        return shares

    @rule(shares=consumes(taken))
    def give(self, shares: tuple[Share, ...]) -> None:
        self.pool.give(shares)
        for share in shares:
            self.free[share.device.index] += share.units

    @invariant()
    def agree(self) -> None:
        self.pool.check()
        assert [self.pool.free(device) for device in self.pool.devices] == self.free
        assert self.pool.free_units == sum(self.free)
        assert self.pool.wholly_free == self.free.count(UNITS)
        assert self.pool.largest().units == max(self.free)
        assert self.pool.largest().device.index == self.free.index(max(self.free))


PoolMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestPoolAgainstANaiveOne = PoolMachine.TestCase
