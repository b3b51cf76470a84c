from __future__ import annotations

from typing import Any

import pytest
from helpers.cards import devices_of
from helpers.invariants import check_bundles

from actorlib._options.resources import Resources, add, request, totals
from actorlib._scheduler.bundles import Bundles, divide_lease
from actorlib._scheduler.device_pool import DevicePool
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import (
    BundleRequest,
    DeviceConstraints,
    LeaseRequest,
)
from actorlib.accelerators.base import Lease


def machine(cpus: int = 4, count: int = 3) -> Ledger:
    capacity = totals(num_cpus=cpus, num_gpus=count, memory=100, resources=None)
    return Ledger(capacity, {"GPU": devices_of(str(count))})


def total_of(bundles: list[Resources]) -> Resources:
    total: dict[str, int] = {}
    for bundle in bundles:
        total = add(total, bundle.amounts)
    return Resources.of(total)


def reserved(
    ledger: Ledger, bundles: list[Resources], strategy: str = "PACK"
) -> tuple[Lease, Bundles] | None:
    whole = BundleRequest(bundles, strategy)
    lease = ledger.try_acquire(total_of(bundles), DeviceConstraints(bundles=whole))
    return lease and (lease, Bundles(divide_lease(whole, lease), ledger.pools))


def group(*bundles: Resources) -> Bundles:
    found = reserved(machine(), list(bundles))
    assert found is not None
    return found[1]


def member(**asked: float) -> LeaseRequest:
    return LeaseRequest("A", request(**asked), holder="a")


def devices(lease: Lease) -> list[tuple[str, int]]:
    return [(share.device.id, share.units) for share in lease.shares]


def test_split_when_a_member_gives_its_cpus_back_then_others_may_have_them() -> None:
    bundles = group(request(num_cpus=1, num_gpus=1))
    ((_, lease),) = bundles.serve([member(num_cpus=1, num_gpus=0.5)])

    cpus, rest = bundles.split(lease, "CPU")
    bundles.give_back(cpus)
    check_bundles(bundles)

    assert devices(rest) == [("0", 5_000)]
    assert len(bundles.serve([member(num_cpus=1)])) == 1
    bundles.give_back(rest)
    check_bundles(bundles)
    assert bundles.free(0) == {"CPU": 0, "GPU": 10_000}


def test_split_when_it_is_no_member_s_then_nothing_has_changed() -> None:
    bundles = group(request(num_cpus=1))

    with pytest.raises(LookupError):
        bundles.split(Lease(amounts={"CPU": 10_000}), "CPU")
    check_bundles(bundles)


def test_give_when_a_member_ends_then_its_part_is_free_inside_alone() -> None:
    ledger = machine(count=1)
    found = reserved(ledger, [request(num_gpus=1)])
    assert found is not None
    bundles = found[1]
    ((_, lease),) = bundles.serve([member(num_gpus=1)])

    bundles.give_back(lease)

    assert bundles.free(0) == {"GPU": 10_000}
    assert bundles.members == []
    assert ledger.free("GPU") == 0
    with pytest.raises(LookupError):
        bundles.give_back(lease)


def test_could_free_up_when_it_is_a_group_then_all_bundles_count() -> None:
    ledger = machine()
    lease = ledger.try_acquire(request(num_gpus=1))
    assert lease is not None

    def could(count: int) -> bool:
        asked = [request(num_gpus=1)] * count
        constraints = DeviceConstraints(bundles=BundleRequest(asked, "PACK"))
        return ledger.could_free_up(total_of(asked), constraints)

    assert (could(2), could(3)) == (True, False)
    ledger.mark_transient(lease)
    assert could(3)


class CountingPools(dict[str, DevicePool]):
    """Counts how often a pool is asked for."""

    asked = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.asked += 1
        return super().get(name, default)


def test_serve_when_many_equal_requests_wait_then_the_first_alone_is_looked_at() -> (
    None
):
    whole = group(request(num_cpus=1, num_gpus=1)).leases
    pools = CountingPools(machine().pools)
    bundles = Bundles(whole, pools)
    assert len(bundles.serve([member(num_gpus=1)])) == 1
    pools.asked = 0

    assert bundles.serve([member(num_gpus=1)] * 1_000) == []
    assert pools.asked < 10
