from __future__ import annotations

import random
from itertools import combinations, pairwise, permutations
from typing import TYPE_CHECKING

import pytest
from helpers.cards import devices_of
from helpers.invariants import check_ledger
from hypothesis import given
from hypothesis import strategies as st

from actorlib._options.kinds import UNITS, Kind
from actorlib._options.resources import Resources, request
from actorlib._scheduler.bundle_packing import BundleShare, Packing, SearchBudget
from actorlib._scheduler.bundle_spreading import match_devices
from actorlib._scheduler.explain import group_refusal, group_shortage
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import BundleRequest, DeviceConstraints, LeaseRequest
from actorlib._scheduler.wait_queue import WaitQueue

if TYPE_CHECKING:
    from collections.abc import Sequence


def machine(count: int) -> Ledger:
    return Ledger(Resources.of({}), {"GPU": devices_of(str(count))})


def asked(units: Sequence[int], strategy: str) -> tuple[Resources, DeviceConstraints]:
    bundles = [Resources.of({"GPU": each}) for each in units]
    return Resources.of({"GPU": sum(units)}), DeviceConstraints(
        bundles=BundleRequest(bundles, strategy)
    )


def test_bundles_when_it_has_more_bundles_than_python_has_frames_then_placed() -> None:
    lease = machine(8).try_acquire(*asked([50] * 1_500, "PACK"))

    assert lease is not None
    assert {share.device.index for share in lease.shares} == set(range(8))


def test_bundles_when_devices_are_reserved_then_not_on_those() -> None:
    ledger, demand = machine(3), asked([UNITS, UNITS], "PACK")

    lease = ledger.try_acquire(*demand, {"GPU": {0}})

    assert lease is not None
    assert [share.device.index for share in lease.shares] == [1, 2]
    assert ledger.try_acquire(*demand, {"GPU": {0}}) is None


def test_bundles_when_their_kind_is_never_shared_then_never() -> None:
    kind = Kind("X", divisible=False)
    ledger = Ledger(Resources.of({}), {"X": devices_of("4", kind="X")}, {"X": kind})
    halves = [Resources.of({"X": UNITS // 2})] * 2
    constraints = DeviceConstraints(bundles=BundleRequest(halves, "PACK"))

    assert not ledger.feasible(Resources.of({"X": UNITS}), constraints)


# Packing that leaves nothing over, and what is not known.


def cut(seed: int, devices: int, pieces: int, step: int = 100) -> list[int]:
    """Devices cut at random into so many pieces each: they fit, with nothing over."""
    rng = random.Random(seed)
    sizes: list[int] = []
    for _ in range(devices):
        cuts = sorted(rng.sample(range(step, UNITS, step), pieces - 1))
        edges = [0, *cuts, UNITS]
        sizes += [end - start for start, end in pairwise(edges)]
    rng.shuffle(sizes)
    return sizes


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK"])
@pytest.mark.parametrize(("devices", "pieces"), [(8, 3), (16, 3)], ids=str)
def test_bundles_when_its_bundles_fill_all_devices_then_they_are_found(
    devices: int, pieces: int, strategy: str
) -> None:
    for seed in range(6):
        ledger = machine(devices)
        demand = asked(cut(seed, devices, pieces), strategy)

        assert ledger.feasible(*demand)
        assert ledger.try_acquire(*demand) is not None
        check_ledger(ledger)
        assert ledger.free("GPU") == 0


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD"])
def test_bundles_when_it_has_hundreds_of_sizes_then_it_is_placed(strategy: str) -> None:
    ledger = machine(130)
    ledger.try_acquire(request(num_gpus=0.5))
    sizes = [units * 40 for units in range(1, 250)]

    lease = ledger.try_acquire(*asked(sizes, strategy))

    assert lease is not None
    assert [share.units for share in lease.shares] == sizes
    check_ledger(ledger)


def test_bundles_when_one_unit_too_many_is_asked_then_never() -> None:
    sizes = cut(0, 16, 3)
    sizes[0] += 1

    assert machine(16).infeasible_part(*asked(sizes, "PACK")) == {"GPU": sum(sizes)}


def hard() -> list[int]:
    """64 bundles that fill 16 devices to the last unit, in a single way."""
    return cut(1, 16, 4, step=1)


def test_group_when_no_way_is_found_then_that_is_said_and_it_delays_nobody() -> None:
    ledger, demand = machine(16), asked(hard(), "PACK")
    queue, group = WaitQueue(ledger), LeaseRequest("group", *demand)

    assert not ledger.feasible(*demand)
    assert group_refusal(ledger, group) is None
    reason = group_shortage(ledger, group)
    assert "is not known" in reason
    assert "delays no other request" in reason
    assert queue.try_at_once(group) is None
    queue.enqueue(group)
    lease = queue.try_at_once(LeaseRequest("actor", request(num_gpus=16)))
    assert lease is not None
    queue.enqueue(LeaseRequest("actor", request(num_gpus=1)))
    ledger.release(lease)
    assert [waiter.request.label for waiter, _ in queue.serve()] == ["actor"]
    assert [waiter.request.label for waiter in queue] == ["group"]


def every_packing(
    parts: Sequence[tuple[int, frozenset[int] | None]], free: tuple[int, ...]
) -> bool:
    if not parts:
        return True
    (units, scope), rest = parts[0], parts[1:]
    return any(
        every_packing(rest, (*free[:i], level - units, *free[i + 1 :]))
        for i, level in enumerate(free)
        if level >= units and (scope is None or i in scope)
    )


scopes = st.none() | st.frozensets(st.integers(0, 3), min_size=1)


@given(
    parts=st.lists(st.tuples(st.integers(1, 10), scopes), min_size=1, max_size=7),
    free=st.tuples(*[st.integers(0, 10)] * 4),
    opens=st.integers(1, 4),
)
def test_packing_when_compared_with_every_way_then_it_is_as_certain_as_that(
    parts: list[tuple[int, frozenset[int] | None]],
    free: tuple[int, ...],
    opens: int,
) -> None:
    each = [
        BundleShare(place, units, scope) for place, (units, scope) in enumerate(parts)
    ]
    there = {index: level for index, level in enumerate(free) if level}
    packing = Packing(each, there, lambda *_: 0, SearchBudget())

    found, few = packing.run(), packing.run(opens)

    assert packing.is_certain
    assert (found is not None) == every_packing(parts, free)
    fewer = [
        tuple(level if index in chosen else 0 for index, level in enumerate(free))
        for chosen in combinations(range(4), opens)
    ]
    assert (few is not None) == any(every_packing(parts, some) for some in fewer)
    for way in filter(None, (found, few)):
        left = list(free)
        for part in each:
            (index,) = way[part.number]
            assert part.allowed is None or index in part.allowed
            left[index] -= part.units
        assert min(left) >= 0
    assert packing.fewest <= opens or few is None


@given(
    parts=st.lists(st.tuples(st.integers(1, 5), scopes), min_size=1, max_size=4),
    free=st.tuples(*[st.integers(0, 5)] * 4),
)
def test_apart_when_compared_with_every_way_then_it_is_found_if_there_is_one(
    parts: list[tuple[int, frozenset[int] | None]], free: tuple[int, ...]
) -> None:
    each = [
        BundleShare(place, units, scope) for place, (units, scope) in enumerate(parts)
    ]

    found = match_devices(each, dict(enumerate(free)))

    ways = any(
        all(
            free[index] >= units and (scope is None or index in scope)
            for index, (units, scope) in zip(chosen, parts, strict=True)
        )
        for chosen in permutations(range(4), len(parts))
    )
    assert (found is not None) == ways
    if found is not None:
        assert len({index for (index,) in found.values()}) == len(parts)
        for part in each:
            (index,) = found[part.number]
            assert free[index] >= part.units
            assert part.allowed is None or index in part.allowed
