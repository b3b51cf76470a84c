from __future__ import annotations

import pytest
from helpers.invariants import check_bundles, check_ledger
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

from actorlib._options.resources import Resources, add, request, totals
from actorlib._scheduler.bundles import Bundles, divide_lease
from actorlib._scheduler.explain import (
    group_refusal,
    group_shortage,
    member_refusal,
    member_shortage,
)
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import (
    ANYWHERE,
    BundleRequest,
    DeviceConstraints,
    LeaseRequest,
)
from actorlib.accelerators.base import Device, Lease

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


def gpus(count: int) -> tuple[Device, ...]:
    return tuple(
        Device(family="nvidia", kind="GPU", index=index, id=str(index))
        for index in range(count)
    )


def machine(cpus: int = 4, count: int = 3) -> Ledger:
    capacity = totals(num_cpus=cpus, num_gpus=count, memory=100, resources=None)
    return Ledger(capacity, {"GPU": gpus(count)})


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


def waiter(
    index: int = -1, constraints: DeviceConstraints = ANYWHERE, **asked: float
) -> LeaseRequest:
    return LeaseRequest(
        "A", request(**asked), constraints, bundle_index=index, holder="a"
    )


def served(bundles: Bundles, *waiters: LeaseRequest) -> list[LeaseRequest]:
    granted = bundles.serve(waiters)
    check_bundles(bundles)
    return [waiters[place] for place, _ in granted]


def devices(lease: Lease) -> list[tuple[str, int]]:
    return [(share.device.id, share.units) for share in lease.shares]


def test_divided_when_bundles_differ_then_each_has_its_own() -> None:
    bundles = group(
        request(num_gpus=2, num_cpus=1), request(memory=10), request(num_gpus=0.5)
    )

    assert [lease.amounts for lease in bundles.leases] == [
        {"CPU": 10_000, "GPU": 20_000},
        {"memory": 10},
        {"GPU": 5_000},
    ]
    assert [devices(lease) for lease in bundles.leases] == [
        [("0", 10_000), ("1", 10_000)],
        [],
        [("2", 5_000)],
    ]


def test_serve_when_a_bundle_is_named_then_its_devices() -> None:
    bundles = group(request(num_gpus=1), request(num_gpus=1))

    ((_, lease),) = bundles.serve([waiter(1, num_gpus=0.5)])

    assert devices(lease) == [("1", 5_000)]


def test_serve_when_a_part_of_a_part_then_exactly_that() -> None:
    bundles = group(request(num_gpus=0.5))

    waiters = [waiter(num_gpus=0.2), waiter(num_gpus=0.3), waiter(num_gpus=0.1)]

    assert served(bundles, *waiters) == waiters[:2]


def test_serve_when_any_bundle_will_do_then_the_one_with_the_least_left() -> None:
    bundles = group(request(num_gpus=1), request(num_gpus=0.5))

    granted = bundles.serve([waiter(num_gpus=0.5), waiter(num_gpus=1)])

    assert [inside.index for inside in bundles.members] == [1, 0]
    assert len(granted) == 2


def test_split_when_a_member_gives_its_cpus_back_then_others_may_have_them() -> None:
    bundles = group(request(num_cpus=1, num_gpus=1))
    ((_, lease),) = bundles.serve([waiter(num_cpus=1, num_gpus=0.5)])

    cpus, rest = bundles.split(lease, "CPU")
    bundles.give_back(cpus)
    check_bundles(bundles)

    assert devices(rest) == [("0", 5_000)]
    assert len(bundles.serve([waiter(num_cpus=1)])) == 1
    bundles.give_back(rest)
    check_bundles(bundles)
    assert bundles.free(0) == {"CPU": 0, "GPU": 10_000}


def test_split_when_it_is_no_member_s_then_nothing_has_changed() -> None:
    bundles = group(request(num_cpus=1))

    with pytest.raises(LookupError):
        bundles.split(Lease(amounts={"CPU": 10_000}), "CPU")
    check_bundles(bundles)


def test_serve_when_it_asks_for_nothing_then_served() -> None:
    bundles = group(request(num_gpus=1))

    assert len(served(bundles, waiter(num_gpus=1), waiter(), waiter(0))) == 3


def test_serve_when_someone_waits_then_later_ones_do_not_take_his_device() -> None:
    bundles = group(request(num_gpus=1, num_cpus=1), request(num_gpus=0.5))
    bundles.serve([waiter(0, num_gpus=0.5)])
    waiting = waiter(num_gpus=1)

    later = [waiter(0, num_gpus=0.5), waiter(1, num_gpus=0.5), waiter(0, num_cpus=1)]

    # The second bundle is too small for him, and he asks for no CPU.
    assert served(bundles, waiting, *later) == later[1:]


def test_serve_when_counted_amounts_are_waited_for_then_they_are_set_aside() -> None:
    bundles = group(request(num_cpus=3))
    bundles.serve([waiter(num_cpus=1)])

    assert served(bundles, waiter(num_cpus=3), waiter(num_cpus=1)) == []


def test_serve_when_the_first_waits_for_devices_too_then_its_slots_stay() -> None:
    whole = Resources.of({"GPU": 20_000, "slot": 30_000})
    ledger = Ledger(Resources.of({"GPU": 20_000, "slot": 30_000}), {"GPU": gpus(2)})
    found = reserved(ledger, [whole])
    assert found is not None
    bundles = found[1]
    assert served(bundles, waiter(num_gpus=1)) != []
    one_slot = LeaseRequest("B", Resources.of({"slot": 10_000}))

    assert served(bundles, LeaseRequest("A", whole), one_slot) == []


@pytest.mark.parametrize("name", ["num_cpus", "num_gpus"])
def test_serve_when_a_later_one_delays_nobody_then_it_is_served(name: str) -> None:
    bundles = group(request(num_cpus=1, num_gpus=1), request(num_cpus=1, num_gpus=1))
    for asked in (0.5, 0.2):
        assert served(bundles, waiter(index=0, **{name: asked})) != []
    first, late, fine = (waiter(index=0, **{name: asked}) for asked in (0.6, 0.3, 0.1))

    assert served(bundles, first, late) == []
    assert served(bundles, first, fine) == [fine]


def test_serve_when_the_first_may_get_in_elsewhere_then_later_ones_wait() -> None:
    bundles = group(request(num_cpus=1), request(num_cpus=1))
    for index in (0, 1):
        assert served(bundles, waiter(index=index, num_cpus=0.7)) != []

    assert served(bundles, waiter(num_cpus=0.6), waiter(num_cpus=0.1)) == []


def test_serve_when_the_first_may_get_in_elsewhere_then_what_it_leaves_is_given() -> (
    None
):
    part = Resources.of({"GPU": 10_000, "slot": 30_000})
    ledger = Ledger(Resources.of({"GPU": 20_000, "slot": 60_000}), {"GPU": gpus(2)})
    found = reserved(ledger, [part, part])
    assert found is not None
    bundles = found[1]
    assert len(served(bundles, *[waiter(index, num_gpus=1) for index in (0, 1)])) == 2
    first = LeaseRequest("A", Resources.of({"GPU": 10_000, "slot": 10_000}))
    large, fine = (
        LeaseRequest("B", Resources.of({"slot": slots}), bundle_index=0)
        for slots in (30_000, 20_000)
    )

    assert served(bundles, first, large) == []
    assert served(bundles, first, fine) == [fine]


def test_give_when_a_member_ends_then_its_part_is_free_inside_alone() -> None:
    ledger = machine(count=1)
    found = reserved(ledger, [request(num_gpus=1)])
    assert found is not None
    bundles = found[1]
    ((_, lease),) = bundles.serve([waiter(num_gpus=1)])

    bundles.give_back(lease)

    assert bundles.free(0) == {"GPU": 10_000}
    assert bundles.members == []
    assert ledger.free("GPU") == 0
    with pytest.raises(LookupError):
        bundles.give_back(lease)


def test_could_fit_when_it_may_get_other_devices_then_false() -> None:
    bundles = group(request(num_gpus=1))
    elsewhere = waiter(
        constraints=DeviceConstraints(only=frozenset(gpus(3)[2:])), num_gpus=1
    )

    assert not bundles.could_fit(elsewhere)
    assert bundles.could_fit(waiter(num_gpus=1))
    told = member_refusal("group 'g'", elsewhere, bundles.leases)
    assert "Ask for others" in told


def test_refusal_when_a_bundle_is_named_then_it_says_what_that_one_has() -> None:
    bundles = group(request(num_gpus=1), request(num_gpus=0.5))

    text = member_refusal("group 'g'", waiter(1, num_gpus=1), bundles.leases)

    assert "bundle 1 has 0.5 of GPU 1:" in text


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


@pytest.mark.parametrize(
    ("bundles", "strategy", "says"),
    [
        ([{"num_gpus": 4}], "PACK", "together GPU=4; this machine has GPU=3"),
        ([{"num_gpus": 0.6}] * 4, "STRICT_PACK", "on which they do not fit"),
        ([{"num_gpus": 0.5}] * 4, "STRICT_SPREAD", "which is too few"),
        ([{"num_gpus": 0.9}] * 4, "PACK", "together GPU=3.6"),
        ([{"num_gpus": 0.6}] * 4, "PACK", "on which they do not fit"),
    ],
)
def test_refusal_when_a_group_can_never_be_then_it_says_why(
    bundles: list[dict[str, float]], strategy: str, says: str
) -> None:
    asked = [request(**bundle) for bundle in bundles]
    constraints = DeviceConstraints(bundles=BundleRequest(asked, strategy))

    told = group_refusal(machine(), "group 'g'", total_of(asked), constraints)

    assert told is not None
    assert told.startswith("group 'g' asks [GPU=")
    assert says in told


def test_shortage_when_a_group_or_a_member_waits_then_it_says_what_is_free() -> None:
    ledger = machine()
    asked = [request(num_gpus=1)] * 3
    constraints = DeviceConstraints(bundles=BundleRequest(asked, "PACK"))
    assert group_shortage(ledger, "G", total_of(asked), constraints).endswith(
        "that is free"
    )
    ledger.try_acquire(request(num_gpus=0.5))

    told = group_shortage(ledger, "G", total_of(asked), constraints)

    assert told == (
        "G asks [GPU=1; GPU=1; GPU=1] with strategy PACK; free is GPU=2.5 of 3 "
        "(0: 0.5, 1: 1, 2: 1)"
    )
    bundles = group(request(num_gpus=1, num_cpus=1))
    (_, inside), (_, other) = bundles.serve([waiter(num_gpus=0.5), waiter(num_cpus=1)])
    holder_names = {id(inside): "A (pid 7)", id(other): "B (pid 8)"}
    assert member_shortage("G", bundles, waiter(num_gpus=1), holder_names) == (
        "A asks GPU=1 inside G; free there is bundle 0: GPU=0.5. "
        "Held: GPU=0.5 by A (pid 7)"
    )


@st.composite
def bundle(draw: st.DrawFn) -> Resources:
    return request(
        num_cpus=draw(st.sampled_from([0, 0.5, 1])),
        num_gpus=draw(st.sampled_from([0, 0.25, 0.5, 0.75, 1, 2])),
        memory=draw(st.integers(1, 30)),
    )


class GroupMachine(RuleBasedStateMachine):
    """A ledger whose leases, bundles and what is free always make up all there is."""

    actors = Bundle("actors")
    groups = Bundle("groups")
    members = Bundle("members")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = machine()
        self.living: list[tuple[Lease, Bundles]] = []
        self.leases: list[Lease] = []

    @rule(target=actors, asked=bundle())
    def acquire(self, asked: Resources) -> object:
        lease = self.ledger.try_acquire(asked)
        if lease is None:
            return multiple()
        self.leases.append(lease)
        return lease

    @rule(lease=consumes(actors))
    def release(self, lease: Lease) -> None:
        self.ledger.release(lease)
        self.leases = [kept for kept in self.leases if kept is not lease]

    @rule(
        target=groups,
        asked=st.lists(bundle(), min_size=1, max_size=4),
        strategy=st.sampled_from(STRATEGIES),
    )
    def reserve(self, asked: list[Resources], strategy: str) -> object:
        before = self.ledger.available()
        made = reserved(self.ledger, asked, strategy)
        if made is None:
            assert self.ledger.available() == before
            return multiple()
        constraints = DeviceConstraints(bundles=BundleRequest(asked, strategy))
        assert self.ledger.feasible(total_of(asked), constraints)
        assert [lease.amounts for lease in made[1].leases] == [a.amounts for a in asked]
        of = [{s.device.index for s in lease.shares} for lease in made[1].leases]
        if strategy == "STRICT_SPREAD":
            assert sum(map(len, of)) == len(set[int]().union(*of))
        if strategy == "STRICT_PACK":  # nothing is linked here: as few as there can be
            idle = machine().try_acquire(total_of(asked), constraints)
            assert idle is not None
            least = {share.device.index for share in idle.shares}
            assert len(set[int]().union(*of)) == len(least)
        self.living.append(made)
        return made

    @rule(made=consumes(groups))
    def remove(self, made: tuple[Lease, Bundles]) -> None:
        self.ledger.release(made[0])
        self.living = [kept for kept in self.living if kept is not made]

    @rule(target=members, made=groups, asked=bundle(), index=st.integers(-1, 0))
    def enter(
        self, made: tuple[Lease, Bundles], asked: Resources, index: int
    ) -> object:
        who = LeaseRequest("A", asked, bundle_index=index, holder="a")
        granted = made[1].serve([who])
        if not granted:
            return multiple()
        assert made[1].could_fit(who)
        return made, granted[0][1]

    @rule(member=consumes(members))
    def part(self, member: tuple[tuple[Lease, Bundles], Lease]) -> None:
        member[0][1].give_back(member[1])

    @invariant()
    def adds_up(self) -> None:
        check_ledger(self.ledger)
        for name, total in self.ledger.capacity.amounts.items():
            held = sum(lease.amounts.get(name, 0) for lease in self.leases)
            bundles = sum(
                lease.amounts.get(name, 0)
                for _, made in self.living
                for lease in made.leases
            )
            assert self.ledger.free(name) + held + bundles == total
        for _, made in self.living:
            check_bundles(made)


GroupMachine.TestCase.settings = settings(stateful_step_count=30)
TestGroupsAgainstPlainSums = GroupMachine.TestCase
