"""Bytes of a GPU's memory as the unit of a request, on cards of several models."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from helpers.invariants import check_bundles, check_ledger
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
)

from actorlib._options.actor_options import ActorOptions
from actorlib._options.group_spec import ANY_BUNDLE, GroupSpec
from actorlib._options.kinds import UNITS
from actorlib._options.resources import Resources, totals
from actorlib._scheduler.bundles import Bundles, divide_lease
from actorlib._scheduler.catalogue import Catalogue, Demand, type_names
from actorlib._scheduler.explain import (
    describe_share,
    group_refusal,
    member_refusal,
    member_shortage,
    preview,
    refusal,
    shortage,
)
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import (
    LeaseRequest,
    memory_by_model,
    model_of,
    units_for,
)
from actorlib._scheduler.wait_queue import WaitQueue
from actorlib.accelerators.base import Device, Lease, Share

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GIB = 1024**3
NAMES = {80 * GIB: "H100", 40 * GIB: "A100", 24 * GIB: "L4"}


def card(index: int, memory: int | None, **facts: object) -> Device:
    name = NAMES.get(memory or 0)
    known = {"model": name and f"NVIDIA {name}", "type": name, **facts}
    return Device(
        family="nvidia",
        kind="GPU",
        index=index,
        id=str(index),
        memory=memory,
        **known,
    )


def cards(*gib: int | None) -> tuple[Device, ...]:
    return tuple(card(index, n and n * GIB) for index, n in enumerate(gib))


class Machine:
    """A ledger, and the catalogue of its devices."""

    def __init__(self, *gib: int | None, devices: Sequence[Device] = ()) -> None:
        self.devices = tuple(devices) or cards(*gib)
        capacity = totals(
            num_cpus=4, num_gpus=len(self.devices), memory=None, resources=None
        )
        types = dict.fromkeys(type_names({"GPU": self.devices}), UNITS)
        self.ledger = Ledger(
            Resources.of({**capacity.amounts, **types}), {"GPU": self.devices}
        )
        self.catalogue = Catalogue({"GPU": self.devices}, ())

    def demand(self, **options: object) -> Demand:
        near, apart = options.pop("near", None), options.pop("apart", ())
        named = {"near": near and (b"n",), "apart_from": (apart and (b"a",)) or None}
        asked = ActorOptions(**options, **named)
        return self.catalogue.demand("Model", asked, near=near, apart=apart)

    def take(self, **options: object) -> Lease | None:
        lease = self.ledger.try_acquire(*self.demand(**options))
        check_ledger(self.ledger)
        return lease

    def places(self, **options: object) -> list[tuple[int, int]] | None:
        lease = self.take(**options)
        return lease and [(share.device.index, share.units) for share in lease.shares]

    def group(self, strategy: str, *bundles: Mapping[str, object]) -> Demand:
        spec = GroupSpec(bundles=bundles, strategy=strategy)
        return self.catalogue.demand_of_group(spec.amounts, strategy)

    def reserve(
        self, strategy: str, *bundles: Mapping[str, object]
    ) -> list[list[tuple[int, int]]] | None:
        demand = self.group(strategy, *bundles)
        lease = self.ledger.try_acquire(*demand)
        check_ledger(self.ledger)
        if lease is None:
            return None
        parts = divide_lease(demand.constraints.bundles, lease)
        return [[(s.device.index, s.units) for s in part.shares] for part in parts]


# How many units some bytes are.


@pytest.mark.parametrize(
    ("units", "nbytes", "memory", "need"),
    [
        (0, 10 * GIB, 80 * GIB, 1_250),
        (0, 10 * GIB, 24 * GIB, 4_167),
        (5_000, 10 * GIB, 80 * GIB, 5_000),
        (0, 1, 80 * GIB, 1),
        (0, 80 * GIB, 80 * GIB, UNITS),
        (0, 80 * GIB + 1, 80 * GIB, None),
        (0, 1, None, None),
        (0, 1, 0, None),
        (3_000, 0, None, 3_000),
        (20_000, 0, None, 20_000),
    ],
)
def test_units_when_bytes_are_asked_then_as_many_as_they_come_to(
    units: int, nbytes: int, memory: int | None, need: int | None
) -> None:
    assert units_for(units, nbytes, memory) == need


@given(nbytes=st.integers(1, 100 * GIB), memory=st.integers(1, 100 * GIB))
def test_units_when_granted_then_they_stand_for_the_bytes_and_no_unit_too_many(
    nbytes: int, memory: int
) -> None:
    need = units_for(0, nbytes, memory)

    assert (need is None) == (nbytes > memory)
    if need is not None:
        device = card(0, memory)
        assert nbytes <= (Share(device, need).nbytes or 0) <= memory
        assert need == 1 or (Share(device, need - 1).nbytes or 0) < nbytes


def test_share_when_the_memory_is_unknown_then_so_are_its_bytes() -> None:
    assert Share(card(0, None), 5_000).nbytes is None
    assert Share(card(0, 80 * GIB), 2_500).nbytes == 20 * GIB


def test_memory_when_cards_of_a_model_differ_then_the_least_counts() -> None:
    devices = [card(0, 80 * GIB), card(1, 80 * GIB - 4096, model="NVIDIA H100")]
    devices[1] = replace(devices[1], type="H100")

    assert model_of(devices[0]) == model_of(devices[1])
    assert memory_by_model(devices) == {model_of(devices[0]): 80 * GIB - 4096}
    assert memory_by_model(cards(None)) == {}


# What is granted.


def test_lease_when_bytes_are_asked_then_it_says_the_units_of_its_device() -> None:
    machine = Machine(24, 80)

    first, second = (machine.take(gpu_memory="20GiB", num_cpus=1) for _ in range(2))

    assert first is not None
    assert second is not None
    assert first.amounts == {"CPU": UNITS, "GPU": 8_334}
    assert second.amounts == {"CPU": UNITS, "GPU": 2_500}
    assert [s.nbytes for s in (*first.shares, *second.shares)] == [
        24 * GIB * 8_334 // UNITS,
        20 * GIB,
    ]
    machine.ledger.release(first)
    machine.ledger.release(second)
    assert machine.ledger.free("GPU") == 2 * UNITS


def test_choice_when_models_differ_then_the_device_with_the_least_left() -> None:
    machine = Machine(80, 40, 24)

    assert machine.places(gpu_memory="20GiB") == [(2, 8_334)]
    assert machine.places(gpu_memory="20GiB") == [(1, 5_000)]
    assert machine.places(gpu_memory="20GiB") == [(1, 5_000)]
    assert machine.places(gpu_memory="20GiB") == [(0, 2_500)]


def test_choice_when_as_much_is_left_of_two_then_the_first() -> None:
    machine = Machine(40, 80)
    machine.take(num_gpus=0.125, device=1)

    assert machine.places(gpu_memory="10GiB") == [(0, 2_500)]


def test_choice_when_units_are_more_than_the_bytes_then_the_units() -> None:
    machine = Machine(80)

    assert machine.places(num_gpus=0.5, gpu_memory="10GiB") == [(0, 5_000)]
    assert machine.places(num_gpus=0.01, gpu_memory="40GiB") == [(0, 5_000)]
    assert machine.places(gpu_memory=1) is None


def test_choice_when_spread_then_the_device_with_the_most_left() -> None:
    machine = Machine(24, 40, 80)

    spread = [machine.places(gpu_memory="20GiB", placement="spread") for _ in range(5)]

    assert spread == [
        [(2, 2_500)],
        [(1, 5_000)],
        [(2, 2_500)],
        [(2, 2_500)],
        [(0, 8_334)],
    ]


def test_choice_when_other_constraints_are_given_then_both_hold() -> None:
    machine = Machine(24, 40, 80, None)
    one = machine.devices[1]

    assert machine.places(gpu_memory="10GiB", accelerator_type="H100") == [(2, 1_250)]
    assert machine.places(gpu_memory="10GiB", device=1) == [(1, 2_500)]
    assert machine.places(gpu_memory="10GiB", near=[one]) == [(1, 2_500)]
    assert machine.places(gpu_memory="24GiB", apart=[one]) == [(0, UNITS)]
    assert machine.places(gpu_memory="30GiB", near=[one]) is None
    assert machine.places(gpu_memory="24GiB", device=0) is None


def test_choice_when_the_memory_is_unknown_then_never_there() -> None:
    machine = Machine(None, 24)

    assert machine.places(gpu_memory="12GiB") == [(1, 5_000)]
    assert machine.places(num_gpus=1) == [(0, UNITS)]
    assert machine.places(gpu_memory="20GiB") is None


def test_demand_when_models_differ_then_the_least_units_of_those_allowed() -> None:
    machine = Machine(24, 40, 80)

    demands = [
        machine.demand(gpu_memory="20GiB", **wishes)
        for wishes in ({}, {"accelerator_type": "A100"}, {"device": 0})
    ]

    assert [d.resources.amounts["GPU"] for d in demands] == [2_500, 5_000, 8_334]
    assert {d.constraints.gpu_memory for d in demands} == {20 * GIB}


def test_line_when_bytes_are_waited_for_then_only_those_cards_are_reserved() -> None:
    machine = Machine(24, 80)
    queue = WaitQueue(machine.ledger)
    machine.take(num_gpus=1, device=1)
    large, small = machine.demand(gpu_memory="40GiB"), machine.demand(gpu_memory="9GiB")

    assert queue.try_at_once(*large) is None
    queue.enqueue("Large", *large)

    lease = queue.try_at_once(*small)
    assert lease is not None
    assert [share.device.index for share in lease.shares] == [0]
    assert queue.try_at_once(*machine.demand(gpu_memory="24GiB")) is None


def test_line_when_there_is_one_card_then_who_leaves_enough_may_pass() -> None:
    machine = Machine(40)
    queue = WaitQueue(machine.ledger)
    holder = queue.try_at_once(*machine.demand(gpu_memory="30GiB"))
    waiting = machine.demand(gpu_memory="36GiB")
    assert holder is not None
    assert queue.try_at_once(*waiting) is None
    queue.enqueue("Waiting", *waiting)

    assert queue.try_at_once(*machine.demand(gpu_memory="4GiB")) is not None
    assert queue.try_at_once(*machine.demand(gpu_memory="1GiB")) is None
    machine.ledger.release(holder)
    ((_, lease),) = queue.serve()
    assert lease.amounts == {"GPU": 9_000}
    check_ledger(machine.ledger)


# Bundles.


def test_group_when_bundles_are_in_bytes_then_units_of_their_devices() -> None:
    machine = Machine(24, 80)

    placed = machine.reserve(
        "STRICT_SPREAD", {"gpu_memory": "12GiB"}, {"gpu_memory": "40GiB", "CPU": 1}
    )

    assert placed == [[(0, 5_000)], [(1, 5_000)]]


def test_group_when_a_card_is_too_small_then_on_another() -> None:
    machine = Machine(24, 80, None)

    assert machine.reserve("PACK", {"gpu_memory": "30GiB"}, {"gpu_memory": "9GiB"}) == [
        [(1, 3_750)],
        [(1, 1_125)],
    ]
    assert machine.reserve("PACK", {"GPU": 0.5, "gpu_memory": 1}) == [[(1, 5_000)]]


def test_group_when_strictly_packed_then_all_fit_on_one_card() -> None:
    machine = Machine(24, 80)

    both = [{"gpu_memory": "20GiB"}, {"gpu_memory": "20GiB"}]

    assert machine.reserve("STRICT_PACK", *both) == [[(1, 2_500)], [(1, 2_500)]]


def every_way(
    needs: Sequence[Mapping[int, int]], free: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    if not needs:
        yield ()
        return
    for index, units in needs[0].items():
        if units <= free[index]:
            left = (*free[:index], free[index] - units, *free[index + 1 :])
            for rest in every_way(needs[1:], left):
                yield (index, *rest)


bundles_in_bytes = st.fixed_dictionaries(
    {"GPU": st.sampled_from([0, 0.1, 0.25, 0.5, 1])},
    optional={"gpu_memory": st.sampled_from([GIB, 8 * GIB, 12 * GIB, 30 * GIB])},
).filter(lambda bundle: bundle["GPU"] or "gpu_memory" in bundle)


@settings(deadline=None)
@given(
    bundles=st.lists(bundles_in_bytes, min_size=1, max_size=5),
    gib=st.lists(st.sampled_from([24, 40, 80, None]), min_size=1, max_size=4),
    taken=st.lists(st.sampled_from([0, 0, 0.25, 0.5]), min_size=4, max_size=4),
)
def test_group_when_compared_with_every_way_then_it_finds_the_best(
    bundles: list[dict[str, float]], gib: list[int | None], taken: list[float]
) -> None:
    needs = [
        {
            index: need
            for index, n in enumerate(gib)
            if (
                need := units_for(
                    int(bundle["GPU"] * UNITS),
                    bundle.get("gpu_memory", 0),
                    n and n * GIB,
                )
            )
        }
        for bundle in bundles
    ]

    def placed(strategy: str) -> list[int] | None:
        machine = Machine(*gib)
        for index, size in enumerate(taken[: len(gib)]):
            if size:
                machine.take(num_gpus=size, device=index)
        demand = machine.group(strategy, *bundles)
        found = machine.reserve(strategy, *bundles)
        assert bool(machine.ledger.infeasible_part(*demand)) != any_when_idle
        if found is None:
            return None
        for place, ((index, units),) in enumerate(found):
            assert units == needs[place][index]
        return [index for ((index, _),) in found]

    free = tuple(UNITS - int(size * UNITS) for size in taken[: len(gib)])
    ways = list(every_way(needs, free))
    idle = list(every_way(needs, (UNITS,) * len(gib)))
    any_when_idle = bool(idle)
    counts = {len({*way}) for way in ways}

    packed, spread = placed("PACK"), placed("SPREAD")
    assert (packed is None, spread is None) == (not ways, not ways)
    if packed is not None and spread is not None:
        assert len({*packed}) == min(counts)
        assert len({*spread}) == max(counts)
    any_when_idle = any(len({*way}) == len(bundles) for way in idle)
    assert (placed("STRICT_SPREAD") is not None) == (len(bundles) in counts)
    if any(len({*way}) == 1 for way in idle):
        any_when_idle = True
        assert (placed("STRICT_PACK") is not None) == (1 in counts)


def members(
    machine: Machine, *bundles: Mapping[str, object], strategy: str = "STRICT_SPREAD"
) -> Bundles:
    demand = machine.group(strategy, *bundles)
    lease = machine.ledger.try_acquire(*demand)
    assert lease is not None
    parts = divide_lease(demand.constraints.bundles, lease)
    return Bundles(parts, machine.ledger.pools)


def inside(
    machine: Machine, index: int = ANY_BUNDLE, **options: object
) -> LeaseRequest:
    resources, constraints = machine.demand(**options)
    return LeaseRequest("A", resources, constraints, bundle_index=index, holder="a")


def test_member_when_it_asks_what_its_bundle_has_then_all_of_that() -> None:
    machine = Machine(24, 80)
    bundles = members(machine, {"gpu_memory": "12GiB"}, {"gpu_memory": "40GiB"})
    ask = [inside(machine, index, gpu_memory="12GiB") for index in (0, 1)]

    granted = bundles.serve(ask)

    check_bundles(bundles)
    assert [lease.amounts["GPU"] for _, lease in granted] == [5_000, 1_500]
    assert [bundles.free(index)["GPU"] for index in (0, 1)] == [0, 3_500]
    for _, lease in granted:
        bundles.give_back(lease)
    check_bundles(bundles)


def test_member_when_any_bundle_will_do_then_the_one_left_with_the_least() -> None:
    machine = Machine(24, 80)
    bundles = members(machine, {"gpu_memory": "24GiB"}, {"gpu_memory": "24GiB"})

    ((_, lease),) = bundles.serve([inside(machine, gpu_memory="20GiB")])

    # 0.1666 of the first would be left, and 0.05 of the second.
    assert [share.device.index for share in lease.shares] == [1]


def test_member_when_an_earlier_one_waits_then_its_units_there_are_set_aside() -> None:
    machine = Machine(24, 80)
    bundles = members(machine, {"GPU": 0.5}, {"gpu_memory": "24GiB"})
    first, second, third = (
        inside(machine, 0, gpu_memory=nbytes) for nbytes in ("8GiB", "10GiB", "2GiB")
    )
    ((_, held),) = bundles.serve([first])

    assert bundles.serve([second, third]) == []
    bundles.give_back(held)
    assert [place for place, _ in bundles.serve([second, third])] == [0]
    check_bundles(bundles)


def test_member_when_it_asks_for_more_than_a_bundle_has_then_never() -> None:
    machine = Machine(24, 80)
    bundles = members(machine, {"gpu_memory": "12GiB"}, {"gpu_memory": "24GiB"})
    too_much = inside(machine, 0, gpu_memory="16GiB")

    assert not bundles.could_fit(too_much)
    assert bundles.could_fit(inside(machine, gpu_memory="16GiB"))
    assert member_refusal("group 'g'", too_much, bundles.leases) == (
        "A asks GPU=0.2 (gpu_memory=16 GiB) inside group 'g', and bundle 0 has 0.15 "
        "(12 GiB) of GPU 1: ask for less, or make the bundle larger"
    )
    half = inside(machine, 0, num_gpus=0.5)
    assert "A asks GPU=0.5 inside g, and bundle 0 has 0.15" in member_refusal(
        "g", half, bundles.leases
    )


# What is said.


@pytest.mark.parametrize(
    ("machine", "asked", "text"),
    [
        (
            Machine(40, 80),
            {"gpu_memory": "100GiB"},
            "Model asks gpu_memory=100 GiB; the largest GPU here has 80 GiB (1: NVIDIA "
            "H100). Ask for at most that.",
        ),
        (
            Machine(40, 80),
            {"gpu_memory": "50GiB", "accelerator_type": "A100"},
            "Model asks gpu_memory=50 GiB of type A100; the largest GPU of those has "
            "40 GiB (0: NVIDIA A100). Ask for at most that.",
        ),
        (
            Machine(None, None),
            {"gpu_memory": "1GiB"},
            "Model asks gpu_memory=1 GiB, and the memory of 0: nvidia, 1: nvidia is "
            "unknown. Say what it is with init(device_memory={'GPU': '24GiB'}), or ask "
            "by num_gpus.",
        ),
        (
            Machine(24, None),
            {"gpu_memory": "30GiB"},
            "Model asks gpu_memory=30 GiB; the largest GPU here has 24 GiB (0: NVIDIA "
            "L4). Ask for at most that. And the memory of 1: nvidia is unknown. "
            "Say what it is with init(device_memory={'GPU': '24GiB'}), or ask by "
            "num_gpus.",
        ),
    ],
    ids=["large", "type", "unknown", "some unknown"],
)
def test_refusal_when_no_card_has_the_bytes_then_says_what_there_is(
    machine: Machine, asked: dict[str, object], text: str
) -> None:
    demand = machine.demand(**asked)

    assert not machine.ledger.feasible(*demand)
    assert refusal(machine.ledger, "Model", *demand) == text
    assert shortage(machine.ledger, "Model", *demand) == text


def test_refusal_when_there_is_no_gpu_then_says_how_to_try_things_out() -> None:
    catalogue = Catalogue({}, ())
    ledger = Ledger(
        totals(num_cpus=1, num_gpus=0, memory=None, resources=None), {"GPU": ()}
    )
    demand = catalogue.demand("Model", ActorOptions(gpu_memory="1GiB"))

    assert refusal(ledger, "Model", *demand) == (
        "Model asks gpu_memory=1 GiB; this machine has no GPU. Leave gpu_memory out, "
        "or declare GPUs to try things out: init(num_gpus=1, device_memory={'GPU': "
        "'24GiB'})."
    )


def test_refusal_when_others_are_wished_for_then_that_is_the_reason() -> None:
    machine = Machine(40, 80)
    demand = machine.demand(gpu_memory="50GiB", apart=[machine.devices[1]])

    text = refusal(machine.ledger, "Model", *demand)

    assert "gpu_memory=50 GiB apart from GPU 1; the largest GPU of those has 40" in text


def test_refusal_when_a_bundle_is_too_large_then_says_which() -> None:
    machine = Machine(40)
    demand = machine.group("PACK", {"CPU": 1}, {"gpu_memory": "50GiB"})

    assert group_refusal(machine.ledger, "group 'g'", *demand) == (
        "group 'g' can never be reserved: bundle 1 asks gpu_memory=50 GiB; the largest "
        "GPU here has 40 GiB (0: NVIDIA A100). Ask for at most that."
    )


def test_shortage_when_bytes_are_not_free_then_in_units_and_in_bytes() -> None:
    machine = Machine(40, 80)
    machine.take(num_gpus=1, device=0)
    machine.take(num_gpus=0.75, device=1)

    text = shortage(machine.ledger, "Model", *machine.demand(gpu_memory="30GiB"))

    assert text == (
        "Model asks GPU=0.375 (gpu_memory=30 GiB); the largest free slice is GPU=0.25 "
        "(20 GiB) on device 1 (free: 0: 0, 1: 0.25; 30 GiB are 0.75 of A100, 0.375 "
        "of H100)"
    )


def test_shortage_when_a_small_card_has_the_larger_part_then_what_that_comes_to() -> (
    None
):
    machine = Machine(24, 80, 80, 16)
    machine.take(num_gpus=0.0833, device=0)
    for device in (1, 2):
        machine.take(num_gpus=0.75, device=device)

    text = shortage(machine.ledger, "Model", *machine.demand(gpu_memory="23GiB"))

    assert text == (
        "Model asks GPU=0.2875 (gpu_memory=23 GiB); the largest free slice is "
        "GPU=0.9167 (22 GiB) on device 0 (free: 0: 0.9167, 1: 0.25, 2: 0.25, 3: 1; 23 "
        "GiB are 0.9584 of L4, 0.2875 of H100)"
    )


def test_preview_when_bytes_are_asked_then_every_card_in_both() -> None:
    machine = Machine(24, 40, 80, None)
    machine.take(num_gpus=0.75, device=1)
    resources, constraints = machine.demand(gpu_memory="30GiB")
    lease = machine.ledger.try_acquire(resources, constraints)
    assert lease is not None
    machine.ledger.release(lease)

    text = preview(machine.ledger, "Model", resources, constraints, lease)

    assert text.splitlines() == [
        "Model asks GPU=0.375 (gpu_memory=30 GiB); it would go to GPU 2, and hold "
        "0.375 of it",
        "  GPU 0 (NVIDIA L4): 1 (24 GiB) free, too small",
        "  GPU 1 (NVIDIA A100): 0.25 (10 GiB) free, too little",
        "  GPU 2 (NVIDIA H100): 1 (80 GiB) free, chosen",
        "  GPU 3 (nvidia): 1 free, its memory is unknown",
    ]


def test_member_when_it_waits_then_told_in_units_and_in_bytes() -> None:
    machine = Machine(80)
    bundles = members(machine, {"gpu_memory": "40GiB"})
    first, second = (inside(machine, gpu_memory="30GiB") for _ in range(2))
    ((_, lease),) = bundles.serve([first])

    assert member_shortage("G", bundles, second, {id(lease): "A (pid 7)"}) == (
        "A asks GPU=0.375 (gpu_memory=30 GiB) inside G; free there is bundle 0: "
        "GPU=0.125 (gpu_memory=10 GiB). Held: GPU=0.375 by A (pid 7)"
    )


def test_share_when_described_then_in_units_and_in_bytes() -> None:
    assert describe_share(Share(card(0, 80 * GIB), 1_250)) == "0.125 (10 GiB) of GPU 0"
    assert describe_share(Share(card(1, None), 5_000)) == "0.5 of GPU 1"


# Random mixes: exact, never over, and the best fit.

asked_bytes = st.sampled_from(
    [None, 1, 5 * GIB, 12 * GIB, 24 * GIB, 30 * GIB, 80 * GIB]
)
asked_gpus = st.sampled_from([None, 0.1, 0.25, 1 / 3, 0.5, 1])
GIVEN = (24, 24, 40, 80, None)


@st.composite
def actors(draw: st.DrawFn) -> dict[str, object]:
    options: dict[str, object] = {
        "gpu_memory": draw(asked_bytes),
        "num_gpus": draw(asked_gpus),
    }
    if options["gpu_memory"] or options["num_gpus"]:
        wish = draw(st.sampled_from(["", "", "placement", "device", "type", "apart"]))
        if wish == "placement":
            options["placement"] = "spread"
        elif wish == "device":
            options["device"] = draw(st.integers(0, len(GIVEN) - 1))
        elif wish == "type":
            options["accelerator_type"] = draw(st.sampled_from(["H100", "L4"]))
        elif wish == "apart":
            options["apart"] = [cards(*GIVEN)[draw(st.integers(0, len(GIVEN) - 1))]]
    return options


class MixedMachine(RuleBasedStateMachine):
    """Actors, groups and members on mixed cards, beside plain sums of their shares."""

    held = Bundle("held")
    groups = Bundle("groups")
    within = Bundle("within")

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine(*GIVEN)
        self.leases: dict[int, Lease] = {}
        self.lent: dict[int, Bundles] = {}

    def free(self) -> list[int]:
        free = [UNITS] * len(GIVEN)
        for lease in self.leases.values():
            for share in lease.shares:
                free[share.device.index] -= share.units
        return free

    def best(self, options: dict[str, object]) -> tuple[int, int] | None:
        """The device that an actor ought to get, and its units there."""
        units = self.machine.demand(num_gpus=options["num_gpus"]).resources.amounts
        left: dict[int, tuple[int, int]] = {}
        for device, free in zip(self.machine.devices, self.free(), strict=True):
            nbytes = options["gpu_memory"] or 0
            need = units_for(units.get("GPU", 0), nbytes, device.memory)
            is_wished = (
                options.get("device") in (None, device.index)
                and options.get("accelerator_type") in (None, device.type)
                and device not in options.get("apart", ())
            )
            if need is not None and is_wished and free >= need:
                left[device.index] = free - need, need
        if not left:
            return None
        sign = -1 if options.get("placement") == "spread" else 1
        index = min(left, key=lambda index: (sign * left[index][0], index))
        return index, left[index][1]

    @rule(target=held, options=actors())
    def acquire(self, options: dict[str, object]) -> object:
        if not (options["gpu_memory"] or options["num_gpus"]):
            return multiple()
        expected = self.best(options)
        demand = self.machine.demand(**options)

        lease = self.machine.ledger.try_acquire(*demand)

        if lease is None:
            assert expected is None
            assert not self.machine.ledger.feasible(
                *demand
            ) or self.machine.ledger.lacking(*demand)
            return multiple()
        (share,) = lease.shares
        assert (share.device.index, share.units) == expected
        assert lease.amounts["GPU"] == share.units
        assert (share.nbytes or 0) >= (options["gpu_memory"] or 0)
        assert shortage(self.machine.ledger, "M", *demand).startswith("M asks ")
        self.leases[id(lease)] = lease
        return lease

    @rule(lease=consumes(held))
    def release(self, lease: Lease) -> None:
        self.machine.ledger.release(self.leases.pop(id(lease)))

    @rule(
        target=groups,
        bundles=st.lists(bundles_in_bytes, min_size=1, max_size=4),
        strategy=st.sampled_from(["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]),
    )
    def reserve(self, bundles: list[dict[str, float]], strategy: str) -> object:
        demand = self.machine.group(strategy, *bundles)
        before = self.machine.ledger.available()
        lease = self.machine.ledger.try_acquire(*demand)
        if lease is None:
            assert self.machine.ledger.available() == before
            return multiple()
        parts = divide_lease(demand.constraints.bundles, lease)
        for part, bundle in zip(parts, bundles, strict=True):
            (share,) = part.shares
            least, nbytes = int(bundle["GPU"] * UNITS), bundle.get("gpu_memory", 0)
            assert share.units == units_for(least, nbytes, share.device.memory)
            assert part.amounts["GPU"] == share.units
        assert lease.amounts["GPU"] == sum(part.amounts["GPU"] for part in parts)
        self.leases[id(lease)] = lease
        self.lent[id(lease)] = Bundles(parts, self.machine.ledger.pools)
        return lease

    @rule(lease=consumes(groups))
    def remove(self, lease: Lease) -> None:
        self.machine.ledger.release(self.leases.pop(id(lease)))
        del self.lent[id(lease)]

    @rule(target=within, lease=groups, nbytes=asked_bytes, number=asked_gpus)
    def enter(self, lease: Lease, nbytes: int | None, number: float | None) -> object:
        if not (nbytes or number):
            return multiple()
        who = inside(self.machine, gpu_memory=nbytes, num_gpus=number)
        granted = self.lent[id(lease)].serve([who])
        if not granted:
            return multiple()
        ((_, member),) = granted
        (share,) = member.shares
        assert member.amounts["GPU"] == share.units
        assert (share.nbytes or 0) >= (nbytes or 0)
        assert self.lent[id(lease)].could_fit(who)
        return lease, member

    @rule(each=consumes(within))
    def leave(self, each: tuple[Lease, Lease]) -> None:
        lease, member = each
        if id(lease) in self.lent:
            self.lent[id(lease)].give_back(member)

    @invariant()
    def adds_up(self) -> None:
        check_ledger(self.machine.ledger)
        assert min(self.free()) >= 0
        assert self.machine.ledger.free("GPU") == sum(self.free())
        for bundles in self.lent.values():
            check_bundles(bundles)


MixedMachine.TestCase.settings = settings(stateful_step_count=30)
TestMixedCardsAgainstPlainSums = MixedMachine.TestCase
