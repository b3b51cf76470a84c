from __future__ import annotations

import random
from itertools import combinations, pairwise, permutations
from typing import TYPE_CHECKING

import pytest
from helpers.invariants import check_ledger
from hypothesis import given
from hypothesis import strategies as st

from actorlib._options.kinds import KINDS, UNITS
from actorlib._options.resources import Resources, add, request, totals
from actorlib._scheduler.bundle_packing import BundleShare, Packing, SearchBudget
from actorlib._scheduler.bundle_spreading import match_devices
from actorlib._scheduler.catalogue import Catalogue
from actorlib._scheduler.explain import group_refusal, group_shortage
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import BundleRequest, DeviceConstraints
from actorlib._scheduler.wait_queue import WaitQueue
from actorlib.accelerators.base import Device

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actorlib.accelerators.base import Lease

Links = tuple[tuple[int, int], ...]
PAIRS: Links = ((0, 2), (1, 3))


def cards(
    count: int, links: Iterable[tuple[int, int]] = (), kind: str = "GPU"
) -> tuple[Device, ...]:
    every = list(links)
    return tuple(
        Device(
            family="nvidia",
            kind=kind,
            index=index,
            id=str(index),
            model="H100",
            peers=frozenset(str(sum(link) - index) for link in every if index in link),
        )
        for index in range(count)
    )


def machine(count: int, links: Links = (), kind: str = "GPU") -> Ledger:
    capacity = totals(num_cpus=4, num_gpus=None, memory=None, resources=None)
    return Ledger(capacity, {kind: cards(count, links, kind)})


def asked(
    sizes: Sequence[float], strategy: str, kind: str = "GPU"
) -> tuple[Resources, DeviceConstraints]:
    bundles = [Resources.of({kind: round(size * UNITS)}) for size in sizes]
    total: dict[str, int] = {}
    for bundle in bundles:
        total = add(total, bundle.amounts)
    return Resources.of(total), DeviceConstraints(
        bundles=BundleRequest(bundles, strategy)
    )


def placed(lease: Lease | None) -> list[int] | None:
    return None if lease is None else [share.device.index for share in lease.shares]


def arranged(
    ledger: Ledger, sizes: Sequence[float], strategy: str, kind: str = "GPU"
) -> list[int] | None:
    lease = ledger.try_acquire(*asked(sizes, strategy, kind))
    check_ledger(ledger)
    return placed(lease)


@pytest.mark.parametrize(
    ("sizes", "indices"),
    [
        ([0.5, 0.5], [0, 0]),
        ([0.5, 0.75, 0.5], [1, 0, 1]),
        ([1, 1], [0, 1]),
        ([0.5, 2], [2, 0, 1]),
        # First fit needs three devices for these, and there are two.
        ([0.4, 0.4, 0.3, 0.3, 0.3, 0.3], [0, 1, 0, 0, 1, 1]),
    ],
    ids=str,
)
def test_pack_when_there_is_room_then_as_few_devices_as_possible(
    sizes: list[float], indices: list[int]
) -> None:
    ledger = machine(2 if len(sizes) > 3 else 4)

    assert arranged(ledger, sizes, "PACK") == indices


def test_pack_when_a_device_is_partly_taken_then_it_is_filled_first() -> None:
    ledger = machine(3)
    ledger.try_acquire(request(num_gpus=0.5))

    assert arranged(ledger, [0.25, 0.25], "PACK") == [0, 0]


def test_pack_when_devices_are_linked_then_linked_ones() -> None:
    assert arranged(machine(4, PAIRS), [1, 1], "PACK") == [0, 2]


def test_pack_when_the_kind_goes_by_number_then_neighbours() -> None:
    ledger = machine(8, kind="neuron_cores")
    only = frozenset({cards(8, kind="neuron_cores")[1]})
    ledger.try_acquire(
        Resources.of({"neuron_cores": UNITS}), DeviceConstraints(only=only)
    )

    found = arranged(ledger, [1, 1, 1], "PACK", "neuron_cores")

    assert found == [0, 2, 3]


@pytest.mark.parametrize(
    ("sizes", "indices"),
    [([0.5, 0.5], [0, 1]), ([0.5, 0.5, 0.5], [0, 1, 0]), ([0.25, 1], [1, 0])],
    ids=str,
)
def test_spread_when_there_is_room_then_on_different_devices(
    sizes: list[float], indices: list[int]
) -> None:
    assert arranged(machine(2), sizes, "SPREAD") == indices


def test_spread_when_others_have_taken_some_then_it_shares_what_is_left() -> None:
    ledger = machine(2)
    ledger.try_acquire(request(num_gpus=1))

    assert arranged(ledger, [0.5, 0.5], "SPREAD") == [1, 1]


def test_strict_pack_when_one_device_is_enough_then_on_one() -> None:
    ledger = machine(2)
    ledger.try_acquire(request(num_gpus=0.5))

    assert arranged(ledger, [0.5, 0.25], "STRICT_PACK") == [1, 1]


def test_strict_pack_when_no_device_has_all_that_now_then_it_waits() -> None:
    ledger = machine(2)
    for _ in range(2):
        ledger.try_acquire(request(num_gpus=0.5), DeviceConstraints(spread=True))

    assert arranged(ledger, [0.5, 0.25], "STRICT_PACK") is None
    assert ledger.feasible(*asked([0.5, 0.25], "STRICT_PACK"))


def test_strict_pack_when_it_needs_several_then_linked_ones() -> None:
    ledger = machine(4, PAIRS)
    ledger.try_acquire(request(num_gpus=0.5))

    assert arranged(ledger, [1, 1], "STRICT_PACK") == [1, 3]


def test_strict_pack_when_linked_by_way_of_another_then_it_counts() -> None:
    ledger = machine(4, ((0, 2), (1, 3), (1, 2)))

    assert arranged(ledger, [2, 1], "STRICT_PACK") == [0, 2, 1]


@pytest.mark.parametrize("links", [(), ((0, 1),)], ids=["none", "too few"])
def test_strict_pack_when_never_so_many_are_linked_then_on_any_so_many(
    links: Links,
) -> None:
    ledger = machine(4, links)
    ledger.try_acquire(request(num_gpus=1))

    assert arranged(ledger, [1, 1, 0.5], "STRICT_PACK") == [1, 2, 3]


def test_strict_pack_when_so_many_are_linked_but_taken_then_it_waits() -> None:
    ledger = machine(4, ((0, 1), (1, 2)))
    ledger.try_acquire(request(num_gpus=0.5))

    assert arranged(ledger, [1, 1, 1], "STRICT_PACK") is None
    assert ledger.feasible(*asked([1, 1, 1], "STRICT_PACK"))


def test_strict_pack_when_the_kind_goes_by_number_then_neighbours() -> None:
    ledger = machine(8, kind="TPU")
    ledger.try_acquire(Resources.of({"TPU": UNITS}))

    assert arranged(ledger, [2, 2], "STRICT_PACK", "TPU") == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("sizes", "indices"),
    [([0.5, 0.5], [0, 1]), ([0.25, 2], [2, 0, 1]), ([0.5] * 4, None)],
    ids=str,
)
def test_strict_spread_when_asked_then_no_two_share_a_device(
    sizes: list[float], indices: list[int] | None
) -> None:
    ledger = machine(3)

    assert arranged(ledger, sizes, "STRICT_SPREAD") == indices
    assert ledger.feasible(*asked(sizes, "STRICT_SPREAD")) == (indices is not None)


def test_bundles_when_a_part_does_not_fit_then_nothing_is_taken() -> None:
    ledger = machine(2)
    total, constraints = asked([1, 1], "PACK")

    assert ledger.try_acquire(Resources.of({**total.amounts, "CPU": 90_000})) is None
    ledger.try_acquire(request(num_gpus=0.1))
    assert ledger.try_acquire(total, constraints) is None
    assert ledger.free("GPU") == 19_000


def test_bundles_when_it_has_more_bundles_than_python_has_frames_then_placed() -> None:
    found = arranged(machine(8), [0.005] * 1_500, "PACK")

    assert found is not None
    assert sorted(set(found)) == list(range(8))


def test_bundles_when_devices_are_reserved_then_not_on_those() -> None:
    ledger = machine(3)
    total, constraints = asked([1, 1], "PACK")

    assert placed(ledger.try_acquire(total, constraints, {"GPU": {0}})) == [1, 2]
    assert ledger.try_acquire(total, constraints, {"GPU": {0}}) is None


def test_bundles_when_it_asks_for_the_same_then_it_is_equal() -> None:
    one, other = asked([1, 0.5], "PACK")[1], asked([1, 0.5], "PACK")[1]

    assert one == other
    assert hash(one) == hash(other)
    assert one != asked([1, 0.5], "SPREAD")[1]


def test_bundle_when_it_names_a_type_then_on_devices_of_it() -> None:
    old = Device(family="nvidia", kind="GPU", index=0, id="0", type="V100")
    new = Device(family="nvidia", kind="GPU", index=1, id="1", type="H100")
    catalogue = Catalogue({"GPU": (old, new)}, ())
    capacity = Resources.of({"accelerator_type:H100": UNITS})
    ledger = Ledger(capacity, {"GPU": (old, new)})
    typed = request(num_gpus=0.5, resources={"accelerator_type:H100": 0.001})

    demand = catalogue.demand_of_group([typed, request(num_gpus=0.5)], "SPREAD")

    assert placed(ledger.try_acquire(*demand)) == [1, 0]


# In line.


def test_line_when_a_group_waits_then_nobody_takes_its_devices_before_it() -> None:
    ledger, total = machine(2), asked([1, 1], "PACK")
    queue = WaitQueue(ledger)
    first = ledger.try_acquire(request(num_gpus=0.5))
    assert first is not None
    queue.enqueue("group", *total)

    assert queue.try_at_once(request(num_gpus=0.5)) is None
    queue.enqueue("actor", request(num_gpus=0.5))
    ledger.release(first)

    assert [waiter.label for waiter, _ in queue.serve()] == ["group"]


def test_line_when_a_group_can_never_be_then_it_holds_nobody_up() -> None:
    ledger = machine(2)
    queue = WaitQueue(ledger)
    queue.enqueue("group", *asked([0.5] * 3, "STRICT_SPREAD"))

    assert queue.try_at_once(request(num_gpus=1)) is not None


def test_line_when_a_group_waits_for_cpus_then_devices_are_free_for_others() -> None:
    ledger = machine(2)
    queue = WaitQueue(ledger)
    ledger.try_acquire(request(num_cpus=4))
    queue.enqueue(
        "group",
        request(num_cpus=2),
        DeviceConstraints(bundles=BundleRequest([request(num_cpus=2)], "PACK")),
    )

    assert queue.try_at_once(request(num_gpus=1)) is not None


# Against every way there is.

sizes_of_bundles = st.lists(
    st.sampled_from([0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 1]), min_size=1, max_size=6
)


def every_way(
    sizes: Sequence[float], free: tuple[int, ...]
) -> Iterable[tuple[int, ...]]:
    if not sizes:
        yield ()
        return
    units = round(sizes[0] * UNITS)
    for index, level in enumerate(free):
        if level >= units:
            left = (*free[:index], level - units, *free[index + 1 :])
            for rest in every_way(sizes[1:], left):
                yield (index, *rest)


@given(
    sizes=sizes_of_bundles,
    taken=st.lists(st.sampled_from([0, 0.25, 0.5]), min_size=3, max_size=3),
)
def test_bundles_when_compared_with_every_way_then_it_finds_the_best(
    sizes: list[float], taken: list[float]
) -> None:
    def here() -> Ledger:
        ledger = machine(3)
        for index, size in enumerate(taken):
            if size:
                only = frozenset({cards(3)[index]})
                ledger.try_acquire(request(num_gpus=size), DeviceConstraints(only=only))
        return ledger

    free = tuple(UNITS - round(size * UNITS) for size in taken)
    ways = list(every_way(sizes, free))
    counts = {len(set(way)) for way in ways}

    packed, spread = (arranged(here(), sizes, s) for s in ("PACK", "SPREAD"))
    strict = arranged(here(), sizes, "STRICT_SPREAD")

    assert (packed is None, spread is None) == (not ways, not ways)
    if packed is not None and spread is not None:
        assert len(set(packed)) == min(counts)
        assert len(set(spread)) == max(counts)
    assert (strict is not None) == (len(sizes) in counts)


@pytest.mark.parametrize("kind", ["TPU", "neuron_cores"])
def test_bundles_when_its_kind_allows_no_such_amount_then_never(kind: str) -> None:
    assert KINDS[kind].fault(5_000)
    assert not machine(4, kind=kind).feasible(*asked([0.5, 0.5], "PACK", kind))


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


def units_asked(
    units: Sequence[int], strategy: str
) -> tuple[Resources, DeviceConstraints]:
    bundles = [Resources.of({"GPU": each}) for each in units]
    return Resources.of({"GPU": sum(units)}), DeviceConstraints(
        bundles=BundleRequest(bundles, strategy)
    )


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK"])
@pytest.mark.parametrize(("devices", "pieces"), [(8, 3), (16, 3), (16, 2)], ids=str)
def test_bundles_when_its_bundles_fill_all_devices_then_they_are_found(
    devices: int, pieces: int, strategy: str
) -> None:
    for seed in range(10):
        ledger = machine(devices)
        demand = units_asked(cut(seed, devices, pieces), strategy)

        assert ledger.feasible(*demand)
        assert ledger.try_acquire(*demand) is not None
        check_ledger(ledger)
        assert ledger.free("GPU") == 0


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD"])
def test_bundles_when_it_has_hundreds_of_sizes_then_it_is_placed(strategy: str) -> None:
    ledger = machine(130)
    ledger.try_acquire(request(num_gpus=0.5))
    sizes = [units * 40 for units in range(1, 250)]

    lease = ledger.try_acquire(*units_asked(sizes, strategy))

    assert lease is not None
    assert [share.units for share in lease.shares] == sizes
    check_ledger(ledger)


def test_bundles_when_one_unit_too_many_is_asked_then_never() -> None:
    sizes = cut(0, 16, 3)
    sizes[0] += 1

    assert machine(16).infeasible_part(*units_asked(sizes, "PACK")) == {
        "GPU": sum(sizes)
    }


def test_bundles_when_one_bundle_too_many_is_over_a_half_then_never() -> None:
    assert machine(16).infeasible_part(*asked([0.51] * 17, "SPREAD"))


def hard() -> list[int]:
    """64 bundles that fill 16 devices to the last unit, in a single way."""
    return cut(1, 16, 4, step=1)


def test_bundles_when_no_way_was_found_then_it_is_neither_feasible_nor_never() -> None:
    ledger, demand = machine(16), units_asked(hard(), "PACK")

    assert not ledger.feasible(*demand)
    assert not ledger.infeasible_part(*demand)
    assert ledger.try_acquire(*demand) is None


def test_line_when_it_is_not_known_whether_a_group_fits_then_it_delays_nobody() -> None:
    ledger = machine(16)
    queue = WaitQueue(ledger)
    queue.enqueue("group", *units_asked(hard(), "PACK"))
    queue.enqueue("group", *units_asked(hard(), "PACK"))

    lease = queue.try_at_once(request(num_gpus=16))
    assert lease is not None
    queue.enqueue("actor", request(num_gpus=1))
    ledger.release(lease)

    assert [waiter.label for waiter, _ in queue.serve()] == ["actor"]
    assert [waiter.label for waiter in queue] == ["group", "group"]


def test_group_when_it_is_not_known_whether_it_fits_then_that_is_said() -> None:
    ledger, demand = machine(16), units_asked(hard(), "PACK")

    assert group_refusal(ledger, "group", *demand) is None
    reason = group_shortage(ledger, "group", *demand)
    assert "is not known" in reason
    assert "delays no other request" in reason


def test_bundle_of_several_when_another_names_a_model_then_it_takes_other_ones() -> (
    None
):
    """The best set for three would be two of the type that the other bundle names."""
    devices = tuple(
        Device(family="nvidia", kind="GPU", index=i, id=str(i), type=t, model=t)
        for i, t in enumerate(["H100", "H100", "V100", "V100"])
    )
    catalogue = Catalogue({"GPU": devices}, ())
    ledger = Ledger(Resources.of({"accelerator_type:H100": UNITS}), {"GPU": devices})
    typed = request(num_gpus=1, resources={"accelerator_type:H100": 0.001})

    demand = catalogue.demand_of_group([typed, request(num_gpus=3)], "PACK")

    assert not ledger.infeasible_part(*demand)
    lease = ledger.try_acquire(*demand)
    assert lease is not None
    assert placed(lease) == [1, 0, 2, 3] or placed(lease) == [0, 1, 2, 3]


def test_strict_spread_when_types_cross_then_whoever_can_moves_away() -> None:
    """The larger bundle may be anywhere, and the smaller one only on one device."""
    old = Device(family="nvidia", kind="GPU", index=1, id="1", type="V100", model="V")
    new = Device(family="nvidia", kind="GPU", index=0, id="0", type="H100", model="H")
    catalogue = Catalogue({"GPU": (new, old)}, ())
    ledger = Ledger(Resources.of({"accelerator_type:H100": UNITS}), {"GPU": (new, old)})
    typed = request(num_gpus=0.5, resources={"accelerator_type:H100": 0.001})

    demand = catalogue.demand_of_group([request(num_gpus=0.75), typed], "STRICT_SPREAD")

    assert placed(ledger.try_acquire(*demand)) == [1, 0]


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
