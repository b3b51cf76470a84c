from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.invariants import check_ledger
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

from actorlib._options.kinds import Kind
from actorlib._options.resources import Resources, request, totals
from actorlib._scheduler.explain import shortage
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import DeviceConstraints
from actorlib.accelerators.base import Device, Lease

GIB = 1024**3


def gpus(count: int, model: str | None = "NVIDIA H100") -> tuple[Device, ...]:
    return tuple(
        Device(family="nvidia", kind="GPU", index=index, id=str(index), model=model)
        for index in range(count)
    )


def machine(
    *,
    cpus: int = 2,
    devices: tuple[Device, ...] = gpus(2),
    memory: int = 24 * GIB,
    **custom: int,
) -> Ledger:
    capacity = totals(
        num_cpus=cpus, num_gpus=len(devices), memory=memory, resources=custom
    )
    return Ledger(capacity, {"GPU": devices})


def granted(ledger: Ledger, asked: Resources) -> Lease:
    lease = ledger.try_acquire(asked)
    assert lease is not None
    return lease


def test_acquire_when_all_is_free_then_the_lease_says_what_was_asked() -> None:
    ledger = machine()

    lease = granted(ledger, request(num_cpus=1, num_gpus=0.5, memory=GIB))

    assert lease.amounts == {"CPU": 10_000, "GPU": 5_000, "memory": GIB}
    assert [(s.device.id, s.units) for s in lease.shares] == [("0", 5_000)]


def test_acquire_when_several_devices_then_in_index_order() -> None:
    ledger = machine(devices=gpus(4))

    lease = granted(ledger, request(num_gpus=3))

    assert [device.id for device in lease.devices("GPU")] == ["0", "1", "2"]


def test_acquire_when_one_part_is_lacking_then_nothing_is_taken() -> None:
    ledger = machine(cpus=1)

    assert ledger.try_acquire(request(num_gpus=1, memory=GIB, num_cpus=2)) is None
    assert ledger.available() == ledger.total()


def test_acquire_when_a_device_is_cut_in_equal_parts_then_just_so_many_fit() -> None:
    for parts in range(1, 101):
        ledger = machine(cpus=1, devices=gpus(1), lane=1)
        share = 1 / parts
        part = request(num_cpus=share, num_gpus=share, resources={"lane": share})

        held = [granted(ledger, part) for _ in range(parts)]

        assert ledger.try_acquire(request(num_gpus=share)) is None
        assert ledger.try_acquire(request(num_cpus=share)) is None
        check_ledger(ledger)
        for lease in held:
            ledger.release(lease)
        assert ledger.available() == ledger.total()


def test_acquire_when_a_whole_device_was_cut_in_thirds_then_what_is_left_is_told() -> (
    None
):
    ledger = machine(devices=gpus(1))
    for _ in range(3):
        granted(ledger, request(num_gpus=1 / 3))

    assert ledger.available()["GPU"] == 0.0001
    assert ledger.try_acquire(request(num_gpus=0.0001)) is not None


def test_free_when_it_is_unknown_then_nothing() -> None:
    assert machine().free("unknown") == 0


def test_acquire_when_it_is_unknown_then_refused() -> None:
    assert machine().try_acquire(request(resources={"licence": 1})) is None


def test_acquire_when_nothing_is_asked_then_granted_and_given_back() -> None:
    ledger = machine()

    lease = granted(ledger, request())

    assert lease == Lease(amounts={})
    ledger.release(lease)


def test_acquire_when_tenths_then_ten_fit_exactly() -> None:
    ledger = machine(devices=gpus(1))

    leases = [ledger.try_acquire(request(num_gpus=0.1)) for _ in range(11)]

    assert [lease is not None for lease in leases] == [True] * 10 + [False]


def test_acquire_when_six_halves_on_three_devices_then_two_on_each() -> None:
    ledger = machine(devices=gpus(3))

    leases = [granted(ledger, request(num_gpus=0.5)) for _ in range(6)]

    ids = [device.id for lease in leases for device in lease.devices("GPU")]
    assert ids == ["0", "0", "1", "1", "2", "2"]


def test_acquire_when_ten_thousand_custom_resources_then_each_counts() -> None:
    names = [f"r{number}" for number in range(10_000)]
    ledger = machine(**dict.fromkeys(names, 1))

    granted(ledger, request(resources={"r9999": 1}))

    assert ledger.try_acquire(request(resources={"r9999": 0.5})) is None
    assert ledger.try_acquire(request(resources={"r9998": 0.5})) is not None


def test_release_when_given_back_then_all_is_free_again() -> None:
    ledger = machine()
    lease = granted(ledger, request(num_cpus=1, num_gpus=2, memory=GIB))

    ledger.release(lease)

    assert ledger.available() == ledger.total()


def test_release_when_twice_then_refused_and_nothing_changes() -> None:
    ledger = machine()
    lease = granted(ledger, request(num_gpus=1))
    ledger.release(lease)

    with pytest.raises(LookupError, match="GPU=1 is not held"):
        ledger.release(lease)
    check_ledger(ledger)


def test_release_when_of_another_ledger_then_refused() -> None:
    ledger, other = machine(), machine()
    granted(ledger, request(num_gpus=1))

    with pytest.raises(LookupError):
        ledger.release(granted(other, request(num_gpus=1)))
    check_ledger(ledger)


def test_release_when_two_leases_are_equal_then_each_counts_once() -> None:
    ledger = machine()
    first = granted(ledger, request(num_cpus=1))
    second = granted(ledger, request(num_cpus=1))
    assert first == second

    ledger.release(first)

    with pytest.raises(LookupError):
        ledger.release(first)
    ledger.release(second)


@pytest.mark.parametrize(
    "asked",
    [
        request(),
        request(num_gpus=2),
        request(num_cpus=2, num_gpus=0.5, memory=24 * GIB),
    ],
    ids=str,
)
def test_feasible_when_it_is_taken_by_others_then_true(asked: Resources) -> None:
    ledger = machine()
    granted(ledger, request(num_cpus=2, num_gpus=2, memory=24 * GIB))

    assert ledger.feasible(asked)


@pytest.mark.parametrize(
    "asked",
    [
        request(num_gpus=3),
        request(num_gpus=1, num_cpus=2.5),
        request(memory=24 * GIB + 1),
        request(resources={"licence": 0.1}),
        Resources.of({"GPU": 15_000}),
    ],
    ids=str,
)
def test_feasible_when_there_is_not_so_much_then_false(asked: Resources) -> None:
    assert not machine().feasible(asked)


def test_feasible_when_there_are_no_devices_then_false() -> None:
    assert not machine(devices=()).feasible(request(num_gpus=0.1))


def test_acquire_when_two_kinds_and_one_is_taken_then_the_other_stays_free() -> None:
    chips = tuple(replace(chip, kind="TPU") for chip in gpus(4))
    ledger = Ledger(Resources.of({}), {"GPU": gpus(2), "TPU": chips})
    granted(ledger, request(resources={"TPU": 4}))

    assert ledger.try_acquire(request(num_gpus=1, resources={"TPU": 1})) is None
    assert ledger.free("GPU") == 20_000
    check_ledger(ledger)


def test_acquire_when_constrained_or_reserved_then_the_placement_follows() -> None:
    ledger = machine(devices=gpus(3))
    apart = DeviceConstraints(apart=frozenset(gpus(1)))

    lease = ledger.try_acquire(request(num_gpus=1), apart, {"GPU": {1}})

    assert lease is not None
    assert [device.id for device in lease.devices("GPU")] == ["2"]
    assert ledger.try_acquire(request(num_gpus=2), apart, {"GPU": {1}}) is None
    check_ledger(ledger)


def test_feasible_when_constrained_then_only_of_what_is_left() -> None:
    ledger = machine(devices=gpus(3))
    apart = DeviceConstraints(apart=frozenset(gpus(1)))

    assert ledger.feasible(request(num_gpus=2, num_cpus=2), apart)
    assert not ledger.feasible(request(num_gpus=3), apart)
    assert ledger.infeasible_part(request(num_gpus=3, num_cpus=3), apart) == {
        "CPU": 30_000,
        "GPU": 30_000,
    }


def test_could_free_up_when_an_actor_has_some_then_only_the_rest_counts() -> None:
    ledger = machine()
    granted(ledger, request(num_gpus=1))
    ledger.mark_transient(granted(ledger, request(num_gpus=1)))

    assert ledger.could_free_up(request(num_gpus=1))
    assert not ledger.could_free_up(request(num_gpus=2))


def test_lacking_when_constrained_then_what_is_taken_of_that() -> None:
    ledger = machine()
    only = DeviceConstraints(only=frozenset(gpus(1)))
    granted(ledger, request(num_gpus=0.5))

    assert ledger.lacking(request(num_gpus=1, num_cpus=1)) == {}
    assert ledger.lacking(request(num_gpus=1, num_cpus=1), only) == {"GPU": 10_000}


def test_ledger_when_a_kind_is_a_third_partys_then_its_rules_count() -> None:
    kind = Kind("X", divisible=False, counts=(1, 2))
    devices = tuple(replace(one, kind="X") for one in gpus(4))
    ledger = Ledger(Resources.of({}), {"X": devices}, {"X": kind})

    for units, allowed in ((5_000, False), (20_000, True), (30_000, False)):
        asked = Resources.of({"X": units})
        assert ledger.feasible(asked) == allowed
        assert (ledger.try_acquire(asked) is not None) == allowed


def test_available_when_shares_are_held_then_in_the_users_terms() -> None:
    ledger = machine()
    granted(ledger, request(num_cpus=2, num_gpus=0.5, memory=GIB))

    assert ledger.available() == {"CPU": 0.0, "GPU": 1.5, "memory": 23 * GIB}
    assert isinstance(ledger.available()["memory"], int)
    assert ledger.total() == {"CPU": 2.0, "GPU": 2.0, "memory": 24 * GIB}


def test_repr_when_shares_are_held_then_the_whole_state_in_one_line() -> None:
    ledger = machine()
    granted(ledger, request(num_gpus=0.5))

    assert repr(ledger) == (
        "<Ledger CPU=2/2 GPU=1.5/2 [0: 0.5, 1: 1] memory=24 GiB/24 GiB, 1 lease>"
    )


def test_ledger_when_the_capacity_leaves_devices_out_then_counts_them() -> None:
    ledger = Ledger(request(num_cpus=1), {"GPU": gpus(2)})

    assert ledger.capacity == request(num_cpus=1, num_gpus=2)


@pytest.mark.parametrize("devices", [{}, {"GPU": gpus(3)}], ids=["none", "others"])
def test_ledger_when_capacity_and_devices_disagree_then_refused(
    devices: dict[str, tuple[Device, ...]],
) -> None:
    with pytest.raises(ValueError, match="GPU=2"):
        Ledger(request(num_gpus=2), devices)


@st.composite
def requests(draw: st.DrawFn) -> Resources:
    cpus = st.sampled_from([0, 0.5, 1, 1.5, 3, 5])
    devices = st.sampled_from([0, 0.1, 0.25, 0.3, 0.5, 0.9, 1, 2, 3, 4])
    return request(
        num_cpus=draw(cpus),
        num_gpus=draw(devices),
        memory=draw(st.integers(0, 120)),
        resources={"x": draw(cpus)},
    )


class LedgerMachine(RuleBasedStateMachine):
    """A ledger beside plain sums of what its leases say."""

    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = machine(cpus=4, devices=gpus(3), memory=100, x=2)
        self.leases: list[Lease] = []

    def free(self, name: str) -> int:
        total = self.ledger.capacity.amounts.get(name, 0)
        return total - sum(lease.amounts.get(name, 0) for lease in self.leases)

    def free_on_devices(self) -> list[int]:
        free = [10_000] * 3
        for lease in self.leases:
            for share in lease.shares:
                free[share.device.index] -= share.units
        return free

    def could_fit(self, asked: Resources) -> bool:
        amounts = dict(asked.amounts)
        units = amounts.pop("GPU", 0)
        free = self.free_on_devices()
        devices = max(free) >= units or free.count(10_000) * 10_000 >= units > 10_000
        return devices and all(self.free(name) >= n for name, n in amounts.items())

    @rule(target=held, asked=requests())
    def acquire(self, asked: Resources) -> object:
        expected = self.could_fit(asked)

        lease = self.ledger.try_acquire(asked)

        assert (lease is not None) == expected
        if lease is None:
            return multiple()
        assert self.ledger.feasible(asked)
        assert lease.amounts == asked.amounts
        assert sum(s.units for s in lease.shares) == asked.amounts.get("GPU", 0)
        indices = [share.device.index for share in lease.shares]
        assert indices == sorted(set(indices))
        self.leases.append(lease)
        return lease

    @rule(lease=consumes(held))
    def release(self, lease: Lease) -> None:
        self.ledger.release(lease)
        self.leases = [kept for kept in self.leases if kept is not lease]
        with pytest.raises(LookupError):
            self.ledger.release(lease)

    @rule(asked=requests())
    def explain(self, asked: Resources) -> None:
        assert shortage(self.ledger, "M", asked).startswith("M asks ")

    @invariant()
    def adds_up(self) -> None:
        check_ledger(self.ledger)
        for name in self.ledger.capacity.amounts:
            assert self.ledger.free(name) == self.free(name) >= 0
        assert min(self.free_on_devices()) >= 0


LedgerMachine.TestCase.settings = settings(stateful_step_count=40)
TestLedgerAgainstPlainSums = LedgerMachine.TestCase
