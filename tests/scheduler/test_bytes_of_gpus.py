"""Bytes of a GPU's memory as the unit of a request, on cards of several models."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from helpers.cards import devices_of
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
    shortage,
)
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import (
    LeaseRequest,
    memory_by_model,
    model_of,
    units_for,
)
from actorlib.accelerators.base import Device, Lease, Share

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GIB = 1024**3


def card(memory: int | None) -> Device:
    return replace(devices_of("?")[0], memory=memory)


class Machine:
    """A ledger, and the catalogue of its devices."""

    def __init__(self, cards: str) -> None:
        self.devices = devices_of(cards)
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
        device = card(memory)
        assert nbytes <= (Share(device, need).nbytes or 0) <= memory
        assert need == 1 or (Share(device, need - 1).nbytes or 0) < nbytes


def test_memory_when_cards_of_a_model_differ_then_the_least_counts() -> None:
    devices = [*devices_of("80GiB,80GiB")]
    devices[1] = replace(devices[1], memory=80 * GIB - 4096)

    assert model_of(devices[0]) == model_of(devices[1])
    assert memory_by_model(devices) == {model_of(devices[0]): 80 * GIB - 4096}
    assert memory_by_model(devices_of("?")) == {}


# What is granted.


def test_demand_when_models_differ_then_the_least_units_of_those_allowed() -> None:
    machine = Machine("24GiB,40GiB,80GiB")

    demands = [
        machine.demand(gpu_memory="20GiB", **wishes)
        for wishes in ({}, {"accelerator_type": "A100"}, {"device": 0})
    ]

    assert [d.resources.amounts["GPU"] for d in demands] == [2_500, 5_000, 8_334]
    assert {d.constraints.gpu_memory for d in demands} == {20 * GIB}


# Bundles.


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
    {"GPU": st.sampled_from([0, 0.1, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 1])},
    optional={"gpu_memory": st.sampled_from([GIB, 8 * GIB, 12 * GIB, 30 * GIB])},
).filter(lambda bundle: bundle["GPU"] or "gpu_memory" in bundle)
any_bundle = st.one_of(
    bundles_in_bytes,
    st.fixed_dictionaries(
        {"GPU": st.sampled_from([0.25, 0.75, 1, 2]), "CPU": st.sampled_from([0.5, 1])}
    ),
)


@settings(deadline=None)
@given(
    bundles=st.lists(bundles_in_bytes, min_size=1, max_size=5),
    cards=st.lists(
        st.sampled_from(["24GiB", "40GiB", "80GiB", "?"]), min_size=1, max_size=4
    ),
    taken=st.lists(st.sampled_from([0, 0, 0.25, 0.5]), min_size=4, max_size=4),
)
def test_group_when_compared_with_every_way_then_it_finds_the_best(
    bundles: list[dict[str, float]], cards: list[str], taken: list[float]
) -> None:
    needs = [
        {
            index: need
            for index, device in enumerate(devices_of(",".join(cards)))
            if (
                need := units_for(
                    int(bundle["GPU"] * UNITS),
                    bundle.get("gpu_memory", 0),
                    device.memory,
                )
            )
        }
        for bundle in bundles
    ]

    def placed(strategy: str) -> list[int] | None:
        machine = Machine(",".join(cards))
        for index, size in enumerate(taken[: len(cards)]):
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

    free = tuple(UNITS - int(size * UNITS) for size in taken[: len(cards)])
    ways = list(every_way(needs, free))
    idle = list(every_way(needs, (UNITS,) * len(cards)))
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


def test_share_when_described_then_in_units_and_in_bytes() -> None:
    assert describe_share(Share(card(80 * GIB), 1_250)) == "0.125 (10 GiB) of GPU 0"
    assert describe_share(Share(card(None), 5_000)) == "0.5 of GPU 0"


# Random mixes: exact, never over, and the best fit.

asked_bytes = st.sampled_from(
    [None, 1, 5 * GIB, 12 * GIB, 24 * GIB, 30 * GIB, 80 * GIB]
)
asked_gpus = st.sampled_from([None, 0.1, 0.25, 1 / 3, 0.5, 1])
GIVEN = devices_of("24GiB,24GiB,40GiB,80GiB,?")


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
            options["apart"] = [draw(st.sampled_from(GIVEN))]
    return options


class MixedMachine(RuleBasedStateMachine):
    """Actors, groups and members on mixed cards, beside plain sums of their shares."""

    held = Bundle("held")
    groups = Bundle("groups")
    within = Bundle("within")

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine("24GiB,24GiB,40GiB,80GiB,?")
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
        text = shortage(self.machine.ledger, LeaseRequest("M", *demand))
        assert text.startswith("M requests ")
        self.leases[id(lease)] = lease
        return lease

    @rule(lease=consumes(held))
    def release(self, lease: Lease) -> None:
        self.machine.ledger.release(self.leases.pop(id(lease)))

    @rule(
        target=groups,
        bundles=st.lists(any_bundle, min_size=1, max_size=4),
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
            least, nbytes = int(bundle["GPU"] * UNITS), bundle.get("gpu_memory", 0)
            units = [
                units_for(min(least, UNITS), nbytes, share.device.memory)
                for share in part.shares
            ]
            assert [share.units for share in part.shares] == units
            assert len(units) == max(1, least // UNITS)
            assert part.amounts["GPU"] == sum(units)
            assert part.amounts.get("CPU", 0) == int(bundle.get("CPU", 0) * UNITS)
        self.check_strategy(strategy, demand, lease)
        assert lease.amounts["GPU"] == sum(part.amounts["GPU"] for part in parts)
        self.leases[id(lease)] = lease
        self.lent[id(lease)] = Bundles(parts, self.machine.ledger.pools)
        return lease

    @staticmethod
    def check_strategy(strategy: str, demand: Demand, lease: Lease) -> None:
        devices = {share.device.index for share in lease.shares}
        if strategy == "STRICT_SPREAD":
            assert len(devices) == len(lease.shares)
        if strategy == "STRICT_PACK":  # nothing is linked: as few as there can be
            idle = Machine("24GiB,24GiB,40GiB,80GiB,?").ledger.try_acquire(*demand)
            assert idle is not None
            assert len(devices) == len({share.device.index for share in idle.shares})

    @rule(lease=consumes(groups))
    def remove(self, lease: Lease) -> None:
        self.machine.ledger.release(self.leases.pop(id(lease)))
        del self.lent[id(lease)]

    @rule(
        target=within,
        lease=groups,
        nbytes=asked_bytes,
        number=asked_gpus,
        cpus=st.sampled_from([0, 0, 0.5]),
        index=st.sampled_from([ANY_BUNDLE, ANY_BUNDLE, 0]),
    )
    def enter(
        self,
        lease: Lease,
        nbytes: int | None,
        number: float | None,
        cpus: float,
        index: int,
    ) -> object:
        if not (nbytes or number):
            return multiple()
        asked = self.machine.demand(gpu_memory=nbytes, num_gpus=number, num_cpus=cpus)
        who = LeaseRequest("A", *asked, bundle_index=index, holder="a")
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
