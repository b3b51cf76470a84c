from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from helpers.cards import devices_of
from helpers.invariants import check_ledger

from actorlib._options.kinds import Kind
from actorlib._options.resources import Resources, request, totals
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import DeviceConstraints

if TYPE_CHECKING:
    from actorlib.accelerators.base import Device, Lease

GIB = 1024**3


def machine(
    *,
    cpus: int = 2,
    devices: tuple[Device, ...] = devices_of("2"),
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


def test_acquire_when_a_device_is_cut_in_equal_parts_then_just_so_many_fit() -> None:
    for parts in range(1, 101):
        ledger = machine(cpus=1, devices=devices_of("1"), lane=1)
        share = 1 / parts
        part = request(num_cpus=share, num_gpus=share, resources={"lane": share})

        held = [granted(ledger, part) for _ in range(parts)]

        assert ledger.try_acquire(request(num_gpus=share)) is None
        assert ledger.try_acquire(request(num_cpus=share)) is None
        check_ledger(ledger)
        for lease in held:
            ledger.release(lease)
        assert ledger.available() == ledger.total()


def test_free_when_it_is_unknown_then_nothing() -> None:
    assert machine().free("unknown") == 0


def test_release_when_it_is_not_held_then_refused_and_nothing_changes() -> None:
    ledger, other = machine(), machine()
    first, second = (granted(ledger, request(num_cpus=1)) for _ in range(2))
    assert first == second
    ledger.release(first)

    for lease in (first, granted(other, request(num_cpus=1))):
        with pytest.raises(LookupError, match="CPU=1 is not held"):
            ledger.release(lease)
    check_ledger(ledger)
    ledger.release(second)


def test_acquire_when_constrained_or_reserved_then_the_placement_follows() -> None:
    ledger = machine(devices=devices_of("3"))
    apart = DeviceConstraints(apart=frozenset(devices_of("1")))

    lease = ledger.try_acquire(request(num_gpus=1), apart, {"GPU": {1}})

    assert lease is not None
    assert [device.id for device in lease.devices("GPU")] == ["2"]
    assert ledger.try_acquire(request(num_gpus=2), apart, {"GPU": {1}}) is None
    check_ledger(ledger)


def test_could_free_up_when_an_actor_has_some_then_only_the_rest_counts() -> None:
    ledger = machine()
    granted(ledger, request(num_gpus=1))
    ledger.mark_transient(granted(ledger, request(num_gpus=1)))

    assert ledger.could_free_up(request(num_gpus=1))
    assert not ledger.could_free_up(request(num_gpus=2))


def test_ledger_when_a_kind_is_a_third_partys_then_its_rules_count() -> None:
    kind = Kind("X", divisible=False, counts=(1, 2))
    devices = tuple(replace(one, kind="X") for one in devices_of("4"))
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
    ledger = Ledger(request(num_cpus=1), {"GPU": devices_of("2")})

    assert ledger.capacity == request(num_cpus=1, num_gpus=2)


@pytest.mark.parametrize(
    "devices", [{}, {"GPU": devices_of("3")}], ids=["none", "others"]
)
def test_ledger_when_capacity_and_devices_disagree_then_refused(
    devices: dict[str, tuple[Device, ...]],
) -> None:
    with pytest.raises(ValueError, match="GPU=2"):
        Ledger(request(num_gpus=2), devices)
