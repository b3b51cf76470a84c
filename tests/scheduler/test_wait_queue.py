from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from helpers.invariants import check_ledger
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorlib._options.kinds import UNITS
from actorlib._options.resources import Resources, request, totals
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.overtaking import delays_no_waiter
from actorlib._scheduler.request import ANYWHERE, DeviceConstraints, model_of
from actorlib._scheduler.wait_queue import Waiter, WaitQueue
from actorlib.accelerators.base import Device, Lease

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from actorlib._scheduler.device_pool import DevicePool


def cards(*models: str, links: Iterable[tuple[int, int]] = ()) -> tuple[Device, ...]:
    return tuple(
        Device(
            family="nvidia",
            kind="GPU",
            index=index,
            id=str(index),
            model=model,
            peers=frozenset(str(sum(link) - index) for link in links if index in link),
        )
        for index, model in enumerate(models)
    )


def machine(
    *, cpus: int = 4, gpus: int = 2, devices: tuple[Device, ...] = (), **custom: int
) -> Ledger:
    devices = devices or cards(*["L4"] * gpus)
    capacity = totals(
        num_cpus=cpus, num_gpus=len(devices), memory=100, resources=custom
    )
    return Ledger(capacity, {"GPU": devices})


def granted(
    ledger: Ledger, asked: Resources, constraints: DeviceConstraints = ANYWHERE
) -> Lease:
    lease = ledger.try_acquire(asked, constraints)
    assert lease is not None
    return lease


def served(queue: WaitQueue) -> list[str]:
    return [waiter.label for waiter, _ in queue.serve()]


def labels(queue: WaitQueue) -> list[str]:
    return [waiter.label for waiter in queue]


def test_try_at_once_when_nobody_waits_then_granted() -> None:
    queue = WaitQueue(machine())

    assert queue.try_at_once(request(num_gpus=2, num_cpus=4)) is not None


def test_try_at_once_when_too_little_is_free_then_refused() -> None:
    ledger = machine()
    granted(ledger, request(num_gpus=0.6))

    assert WaitQueue(ledger).try_at_once(request(num_gpus=2)) is None


def test_try_at_once_when_an_earlier_one_wants_devices_then_refused() -> None:
    ledger = machine()
    queue = WaitQueue(ledger)
    granted(ledger, request(num_gpus=0.6))
    queue.enqueue("Big", request(num_gpus=2))

    assert queue.try_at_once(request(num_gpus=0.1)) is None


def test_try_at_once_when_it_wants_nothing_of_the_earlier_one_then_granted() -> None:
    ledger = machine()
    queue = WaitQueue(ledger)
    granted(ledger, request(num_gpus=0.6))
    queue.enqueue("Big", request(num_gpus=2))

    assert queue.try_at_once(request(num_cpus=4)) is not None


def test_try_at_once_when_it_is_enough_for_both_then_granted() -> None:
    ledger = machine(cpus=4)
    queue = WaitQueue(ledger)
    granted(ledger, request(num_gpus=2))
    queue.enqueue("Big", request(num_gpus=1, num_cpus=3))

    assert queue.try_at_once(request(num_cpus=1)) is not None


def test_try_at_once_when_it_would_take_what_an_earlier_needs_then_refused() -> None:
    ledger = machine(cpus=4)
    queue = WaitQueue(ledger)
    granted(ledger, request(num_gpus=2))
    queue.enqueue("Big", request(num_gpus=1, num_cpus=3))

    assert queue.try_at_once(request(num_cpus=1.5)) is None


def test_try_at_once_when_several_wait_then_sets_aside_for_all_of_them() -> None:
    ledger = machine(cpus=4)
    queue = WaitQueue(ledger)
    granted(ledger, request(num_gpus=2))
    queue.enqueue("A", request(num_gpus=1, num_cpus=2))
    queue.enqueue("B", request(num_gpus=1, num_cpus=1.5))

    assert queue.try_at_once(request(num_cpus=1)) is None
    assert queue.try_at_once(request(num_cpus=0.5)) is not None


def test_try_at_once_when_the_earlier_one_can_never_be_granted_then_granted() -> None:
    ledger = machine()
    queue = WaitQueue(ledger)
    queue.enqueue("Giant", request(num_gpus=3, num_cpus=80))

    assert queue.try_at_once(request(num_gpus=2, num_cpus=4)) is not None


def test_try_at_once_when_the_earlier_one_has_left_then_granted() -> None:
    ledger = machine()
    queue = WaitQueue(ledger)
    granted(ledger, request(num_gpus=0.6))
    queue.remove(queue.enqueue("Big", request(num_gpus=2)))

    assert queue.try_at_once(request(num_gpus=0.1)) is not None


def test_serve_when_nothing_is_free_then_nobody_goes() -> None:
    ledger = machine()
    queue = WaitQueue(ledger)
    granted(ledger, request(num_gpus=2))
    queue.enqueue("A", request(num_gpus=1))

    assert served(queue) == []
    assert labels(queue) == ["A"]


def test_serve_when_one_is_given_back_then_the_first_goes() -> None:
    ledger = machine(gpus=1)
    queue = WaitQueue(ledger)
    lease = granted(ledger, request(num_gpus=1))
    queue.enqueue("A", request(num_gpus=1))
    queue.enqueue("B", request(num_gpus=1))

    ledger.release(lease)

    assert served(queue) == ["A"]
    assert labels(queue) == ["B"]


def test_serve_when_several_may_go_then_in_order_of_arrival() -> None:
    ledger = machine()
    queue = WaitQueue(ledger)
    lease = granted(ledger, request(num_gpus=2, num_cpus=4))
    queue.enqueue("A", request(num_cpus=1))
    queue.enqueue("B", request(num_gpus=1))
    queue.enqueue("C", request(num_cpus=1))
    queue.enqueue("D", request(num_gpus=1, num_cpus=1))

    ledger.release(lease)

    assert served(queue) == ["A", "B", "C", "D"]


def test_serve_when_the_first_lacks_devices_then_no_later_one_takes_any() -> None:
    ledger = machine()
    queue = WaitQueue(ledger)
    first = granted(ledger, request(num_gpus=1))
    granted(ledger, request(num_gpus=1))
    queue.enqueue("Big", request(num_gpus=2))
    queue.enqueue("Small", request(num_gpus=0.1))

    ledger.release(first)

    assert served(queue) == []


def test_serve_when_one_waits_only_for_its_turn_then_its_needs_are_set_aside() -> None:
    ledger = machine(cpus=4)
    queue = WaitQueue(ledger)
    granted(ledger, request(num_gpus=0.1))
    lease = granted(ledger, request(num_cpus=4))
    queue.enqueue("Big", request(num_gpus=2))
    queue.enqueue("Behind", request(num_gpus=0.1, num_cpus=3))
    queue.enqueue("Wide", request(num_cpus=2))
    queue.enqueue("Narrow", request(num_cpus=1.5))

    ledger.release(lease)

    assert served(queue) == []
    assert labels(queue) == ["Big", "Behind", "Wide", "Narrow"]


def test_serve_when_those_before_can_never_be_together_then_what_is_left_is_free() -> (
    None
):
    """With either of the two there is room for one more, and never for both."""
    ledger = machine(cpus=4)
    queue = WaitQueue(ledger)
    granted(ledger, request(num_gpus=0.1))
    lease = granted(ledger, request(num_cpus=4))
    queue.enqueue("Big", request(num_gpus=2))
    queue.enqueue("Behind", request(num_gpus=0.1, num_cpus=3))
    queue.enqueue("Wide", request(num_cpus=2))
    queue.enqueue("Narrow", request(num_cpus=1))

    ledger.release(lease)

    assert served(queue) == ["Narrow"]
    assert labels(queue) == ["Big", "Behind", "Wide"]


# Small ones between large ones: they pass if they delay nobody.


def counted(amount: float) -> Resources:
    return request(resources={"x": amount})


def test_try_at_once_when_every_release_serves_the_earlier_then_granted() -> None:
    ledger = machine(x=3)
    queue = WaitQueue(ledger)
    large = granted(ledger, counted(2.7))
    queue.enqueue("A", counted(0.7))

    assert queue.try_at_once(counted(0.3)) is not None
    ledger.release(large)
    assert served(queue) == ["A"]


def test_serve_when_a_smaller_one_stands_behind_then_it_need_not_wait() -> None:
    ledger = machine(x=3)
    queue = WaitQueue(ledger)
    granted(ledger, counted(2.5))
    small = granted(ledger, counted(0.5))
    queue.enqueue("A", counted(0.7))
    queue.enqueue("B", counted(0.3))

    ledger.release(small)

    assert served(queue) == ["B"]


def test_try_at_once_when_a_release_would_then_be_too_little_then_refused() -> None:
    ledger = machine(x=3)
    queue = WaitQueue(ledger)
    for amount in (2.2, 0.5):
        granted(ledger, counted(amount))
    queue.enqueue("A", counted(0.7))

    assert (
        queue.try_at_once(counted(0.3)) is None
    )  # after the half is back it would be 0.5


def test_try_at_once_when_shares_of_an_only_device_then_they_are_counted_alike() -> (
    None
):
    ledger = machine(gpus=1)
    queue = WaitQueue(ledger)
    granted(ledger, request(num_gpus=0.5))
    queue.enqueue("A", request(num_gpus=0.6))

    assert queue.try_at_once(request(num_gpus=0.49)) is None
    assert queue.try_at_once(request(num_gpus=0.4)) is not None


def test_try_at_once_when_the_device_is_one_of_several_then_refused() -> None:
    """Which of them is free first is not known, nor what is best then."""
    ledger = machine(gpus=2)
    queue = WaitQueue(ledger)
    for _ in range(2):
        granted(ledger, request(num_gpus=0.5), DeviceConstraints(spread=True))
    queue.enqueue("A", request(num_gpus=0.6))

    assert queue.try_at_once(request(num_gpus=0.4)) is None


def test_try_at_once_when_too_many_amounts_are_in_play_then_refused() -> None:
    ledger = machine(x=100)
    queue = WaitQueue(ledger)
    for number in range(40):
        granted(ledger, counted(2 + number / 100))
    queue.enqueue("A", counted(50))

    assert queue.try_at_once(counted(0.01)) is None


@given(
    held=st.lists(st.integers(1, 12), max_size=5),
    waiting=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    amount=st.integers(1, 12),
    unit=st.sampled_from([1, 7, 100]),
)
def test_delays_nobody_when_compared_with_every_future_then_it_is_right(
    held: list[int], waiting: list[int], amount: int, unit: int
) -> None:
    """A future is who holds while one of them waits: any of the others."""
    total = 12

    def is_late(place: int) -> bool:
        others = [*held, *waiting[:place], *waiting[place + 1 :]]
        leaves = (
            total - sum(some)
            for count in range(len(others) + 1)
            for some in combinations(others, count)
        )
        return any(left >= waiting[place] > left - amount for left in leaves)

    said = delays_no_waiter(
        total * unit + unit // 2,
        Counter(each * unit for each in held),
        Counter(each * unit for each in waiting),
        amount * unit,
    )

    assert said == (not any(map(is_late, range(len(waiting)))))


def test_serve_when_a_subqueue_stays_then_those_of_others_still_go() -> None:
    ledger = machine(cpus=4)
    queue = WaitQueue(ledger)
    granted(ledger, request(num_gpus=2))
    lease = granted(ledger, request(num_cpus=4))
    for label in "AB":
        queue.enqueue(label, request(num_gpus=1, num_cpus=1))
    queue.enqueue("C", request(num_cpus=2))

    ledger.release(lease)

    assert served(queue) == ["C"]
    assert labels(queue) == ["A", "B"]


def test_serve_when_a_lane_is_closed_then_all_of_it_is_set_aside() -> None:
    ledger = machine(cpus=4)
    queue = WaitQueue(ledger)
    granted(ledger, request(num_gpus=2))
    lease = granted(ledger, request(num_cpus=4))
    for label in "AB":
        queue.enqueue(label, request(num_gpus=1, num_cpus=1))
    queue.enqueue("C", request(num_cpus=3))

    ledger.release(lease)

    assert served(queue) == []


def test_leave_when_the_first_goes_away_then_those_behind_may_go() -> None:
    ledger = machine()
    queue = WaitQueue(ledger)
    granted(ledger, request(num_gpus=0.6))
    big = queue.enqueue("Big", request(num_gpus=2))
    queue.enqueue("Small", request(num_gpus=0.1))

    queue.remove(big)

    assert served(queue) == ["Small"]


@pytest.mark.parametrize("leaving", ["A", "B", "C", "AB", "BA", "BC", "CBA"])
def test_leave_when_its_likes_wait_then_the_others_keep_their_turns(
    leaving: str,
) -> None:
    ledger = machine(cpus=3)
    queue = WaitQueue(ledger)
    lease = granted(ledger, request(num_cpus=3))
    waiters = {label: queue.enqueue(label, request(num_cpus=1)) for label in "ABCD"}

    for label in leaving:
        queue.remove(waiters[label])
    ledger.release(lease)

    left = [label for label in "ABCD" if label not in leaving]
    assert labels(queue) == left
    assert served(queue) == left[:3]


def test_leave_when_it_could_never_be_granted_then_it_is_gone() -> None:
    queue = WaitQueue(machine())
    giant = queue.enqueue("Giant", request(num_gpus=80))

    queue.remove(giant)

    assert labels(queue) == []


@pytest.mark.parametrize("gpus", [1, 80], ids=["feasible", "infeasible"])
def test_leave_when_it_has_left_then_refused(gpus: int) -> None:
    queue = WaitQueue(machine())
    waiter = queue.enqueue("A", request(num_gpus=gpus))
    queue.enqueue("B", request(num_gpus=gpus))
    queue.remove(waiter)

    with pytest.raises(LookupError):
        queue.remove(waiter)
    assert labels(queue) == ["B"]


def test_iteration_when_many_wait_then_in_order_of_arrival() -> None:
    queue = WaitQueue(machine())
    queue.enqueue("A", request(num_gpus=1))
    queue.enqueue("B", request(num_gpus=80))
    queue.enqueue("C", request(num_cpus=1))
    queue.enqueue("D", request(num_gpus=0.5))

    assert labels(queue) == ["A", "B", "C", "D"]


# Wishes: an H100, two A100s that are linked, and an L4.

FOUR = cards("H100", "A100", "A100", "L4", links=[(1, 2)])
H100 = DeviceConstraints(models=frozenset({model_of(FOUR[0])}))
A100 = DeviceConstraints(models=frozenset({model_of(FOUR[1])}))
WHOLE, PART = request(num_gpus=1), request(num_gpus=0.5)


def on(*indices: int) -> DeviceConstraints:
    return DeviceConstraints(only=frozenset(FOUR[index] for index in indices))


def near(*indices: int) -> DeviceConstraints:
    return DeviceConstraints(near=frozenset(FOUR[index] for index in indices))


def apart(*indices: int) -> DeviceConstraints:
    return DeviceConstraints(apart=frozenset(FOUR[index] for index in indices))


def got(lease: Lease | None) -> list[int] | None:
    return None if lease is None else [d.index for d in lease.devices("GPU")]


@pytest.mark.parametrize(
    ("waits", "comes", "asked", "chosen"),
    [
        (H100, A100, WHOLE, [1]),
        (H100, ANYWHERE, PART, [1]),
        (H100, ANYWHERE, request(num_gpus=3), [1, 2, 3]),
        (H100, ANYWHERE, request(num_gpus=4), None),
        (H100, H100, PART, None),
        (H100, on(0), PART, None),
        (H100, on(0, 3), PART, [3]),
        (on(0, 1), A100, WHOLE, [2]),
        (apart(1, 2), A100, WHOLE, [1]),
        (apart(1, 2), ANYWHERE, PART, [1]),
        (apart(1, 2), apart(1), PART, [2]),
        (near(1), A100, PART, None),
        (near(1), ANYWHERE, PART, [0]),
        (near(0), near(1), PART, [1]),
        (DeviceConstraints(spread=True), H100, PART, None),
        (ANYWHERE, H100, PART, None),
    ],
)
def test_try_at_once_when_an_earlier_one_is_constrained_then_only_others(
    waits: DeviceConstraints,
    comes: DeviceConstraints,
    asked: Resources,
    chosen: list[int] | None,
) -> None:
    ledger = machine(devices=FOUR)
    queue = WaitQueue(ledger)
    queue.enqueue("A", request(num_gpus=1, num_cpus=4), waits)

    assert got(queue.try_at_once(asked, comes)) == chosen


def test_serve_when_one_waits_for_a_type_then_those_behind_have_the_others() -> None:
    ledger = machine(devices=FOUR)
    queue = WaitQueue(ledger)
    h100 = granted(ledger, PART, H100)
    rest = granted(ledger, request(num_gpus=3))
    queue.enqueue("H", WHOLE, H100)
    queue.enqueue("any", PART)
    queue.enqueue("A", WHOLE, A100)
    queue.enqueue("L", WHOLE, on(3))

    ledger.release(rest)

    # "any" went to an A100 and not to the half of the H100 that is free.
    assert served(queue) == ["any", "A", "L"]
    ledger.release(h100)
    assert served(queue) == ["H"]


def test_serve_when_others_would_do_with_its_type_then_it_does_not_starve() -> None:
    ledger = machine(devices=FOUR[:2])
    queue = WaitQueue(ledger)
    halves = [granted(ledger, PART, H100), granted(ledger, PART, H100)]
    granted(ledger, WHOLE)
    queue.enqueue("H", WHOLE, H100)

    ledger.release(halves[0])
    assert served(queue) == []
    assert queue.try_at_once(PART) is None
    queue.enqueue("behind", PART)
    ledger.release(halves[1])

    assert served(queue) == ["H"]


def test_serve_when_all_devices_are_reserved_piece_by_piece_then_nobody_passes() -> (
    None
):
    ledger = machine(devices=FOUR)
    queue = WaitQueue(ledger)
    queue.enqueue("cpus", request(num_cpus=5))
    granted(ledger, request(num_cpus=1))
    for name, constraints in (("H", H100), ("A", A100), ("L", on(3))):
        queue.enqueue(name, request(num_gpus=1, num_cpus=4), constraints)

    assert queue.try_at_once(request(num_gpus=0.1)) is None
    assert queue.try_at_once(request(num_gpus=0.1), on(3)) is None
    assert served(queue) == []


def test_serve_when_the_wish_can_never_be_granted_then_it_holds_nobody_up() -> None:
    queue = WaitQueue(machine(devices=FOUR))
    queue.enqueue("two", request(num_gpus=2), H100)
    queue.enqueue(
        "none", PART, DeviceConstraints(models=H100.models, apart=apart(0).apart)
    )

    assert got(queue.try_at_once(PART, H100)) == [0]
    assert labels(queue) == ["two", "none"]


def test_try_at_once_when_its_kind_never_gives_that_then_refused() -> None:
    queue = WaitQueue(machine())

    assert queue.try_at_once(Resources.of({"GPU": UNITS + 1})) is None


def test_leave_when_of_many_constraints_then_subqueues_go_with_the_last() -> None:
    queue = WaitQueue(machine(devices=FOUR))
    waiters = [
        queue.enqueue(str(number), request(num_gpus=1), on(number % 2))
        for number in range(6)
    ]

    for waiter in waiters:
        queue.remove(waiter)

    assert labels(queue) == []
    assert not queue._subqueues


@dataclass
class CountingLedger:
    """A ledger that counts how often it was asked anything about leases."""

    ledger: Ledger
    asked: int = field(default=0)

    def feasible(
        self, asked: Resources, constraints: DeviceConstraints = ANYWHERE
    ) -> bool:
        return self.ledger.feasible(asked, constraints)

    def infeasible_part(
        self, asked: Resources, constraints: DeviceConstraints = ANYWHERE
    ) -> dict[str, int]:
        return self.ledger.infeasible_part(asked, constraints)

    @property
    def pools(self) -> Mapping[str, DevicePool]:
        return self.ledger.pools

    @property
    def capacity(self) -> Resources:
        return self.ledger.capacity

    def held(self, name: str) -> Counter[int]:
        self.asked += 1
        return self.ledger.held(name)

    def free(self, name: str) -> int:
        self.asked += 1
        return self.ledger.free(name)

    def try_acquire(
        self,
        asked: Resources,
        constraints: DeviceConstraints,
        reserved: Mapping[str, Collection[int]],
    ) -> Lease | None:
        self.asked += 1
        return self.ledger.try_acquire(asked, constraints, reserved)


@pytest.mark.parametrize(
    "asked",
    [
        [request(num_gpus=1)],
        [request(num_gpus=1, memory=1)],
        [request(num_gpus=1), request(num_cpus=1)],
        [request(num_gpus=1, num_cpus=1), request(num_cpus=1)],
    ],
    ids=["alike", "alike in two", "two kinds", "overlapping"],
)
def test_serve_when_thousands_wait_then_only_the_heads_are_looked_at(
    asked: list[Resources],
) -> None:
    ledger = CountingLedger(machine(gpus=1, cpus=1))
    queue = WaitQueue(ledger)
    lease = granted(ledger.ledger, request(num_gpus=1, num_cpus=1))
    for number in range(2_000):
        queue.enqueue(str(number), asked[number % len(asked)])

    ledger.ledger.release(lease)

    assert queue.serve()
    assert ledger.asked < 30


@pytest.mark.parametrize(
    "wishes",
    [
        [H100, A100, on(3)],
        [H100, ANYWHERE],
        [apart(0), near(1), on(1, 3), DeviceConstraints(spread=True)],
    ],
    ids=["disjoint", "one and all", "overlapping"],
)
@pytest.mark.parametrize("asked", [WHOLE, request(num_gpus=1, num_cpus=0.1)], ids=str)
def test_serve_when_ten_thousand_wish_then_only_the_heads_are_looked_at(
    asked: Resources, wishes: list[DeviceConstraints]
) -> None:
    ledger = CountingLedger(machine(devices=FOUR))
    queue = WaitQueue(ledger)
    leases = [granted(ledger.ledger, WHOLE) for _ in FOUR]
    for number in range(10_000):
        queue.enqueue(str(number), asked, wishes[number % len(wishes)])

    assert queue.try_at_once(asked, on(0, 1, 2, 3)) is None
    assert ledger.asked < 5
    ledger.ledger.release(leases.pop(1))
    assert len(queue.serve()) == 1
    assert ledger.asked < 100


@st.composite
def requests(draw: st.DrawFn) -> Resources:
    return request(
        num_cpus=draw(st.sampled_from([0, 1, 1.5, 2, 3])),
        num_gpus=draw(st.sampled_from([0, 0, 0.3, 0.5, 1, 2, 3, 4])),
        resources={"x": draw(st.sampled_from([0, 0, 0, 0.3, 0.5, 0.7, 1, 1.3, 3]))},
    )


WISHES = [
    H100,
    A100,
    on(3),
    on(0, 3),
    on(1, 2),
    apart(0),
    apart(1, 3),
    near(1),
    near(0, 3),
    DeviceConstraints(spread=True),
    DeviceConstraints(models=A100.models, apart=apart(1).apart),
]
wishes = st.just(ANYWHERE) | st.sampled_from(WISHES)
"""Everybody's wish, of devices that are not there save by index."""


class World:
    """A line and its ledger, driven by arrivals and ends, as a shell would."""

    def __init__(self) -> None:
        self.ledger = machine(cpus=4, devices=FOUR, x=2)
        self.queue = WaitQueue(self.ledger)
        self.waiting: dict[int, Waiter] = {}
        self.leases: dict[int, Lease] = {}

    def arrive(
        self, number: int, asked: Resources, constraints: DeviceConstraints
    ) -> None:
        lease = self.queue.try_at_once(asked, constraints)
        if lease is None:
            self.waiting[number] = self.queue.enqueue(str(number), asked, constraints)
        else:
            self.leases[number] = lease

    def end(self, number: int) -> list[int]:
        if number in self.leases:
            self.ledger.release(self.leases.pop(number))
        elif number in self.waiting:
            self.queue.remove(self.waiting.pop(number))
        served = self.queue.serve()
        for waiter, lease in served:
            del self.waiting[int(waiter.label)]
            self.leases[int(waiter.label)] = lease
        return [int(waiter.label) for waiter, _ in served]


def allowed(constraints: DeviceConstraints) -> set[int]:
    """What a wish leaves of the four."""
    near = constraints.near or frozenset()
    keys = {device.key for device in near}
    return {
        device.index
        for device in FOUR
        if (constraints.models is None or model_of(device) in constraints.models)
        and (constraints.only is None or device in constraints.only)
        and (constraints.near is None or device in near or device.peers & keys)
        and device not in constraints.apart
    }


class LineMachine(RuleBasedStateMachine):
    """A line beside one that asks everyone, in order, after everything."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.ledger = World().ledger
        self.arrivals: list[tuple[Resources, DeviceConstraints]] = []
        self.waiting: list[int] = []
        self.leases: dict[int, Lease] = {}

    def settle(self) -> list[int]:
        """Lets everyone go whom those ahead leave enough; who went."""
        reserved: set[int] = set()
        aside: dict[str, list[int]] = {}
        gone: list[int] = []
        for number in self.waiting:
            asked, constraints = self.arrivals[number]
            if not self.ledger.feasible(asked, constraints):
                continue
            enough = all(
                name == "GPU" or self.leaves(name, amount, aside.get(name, []))
                for name, amount in asked.amounts.items()
            )
            lease = enough and self.ledger.try_acquire(
                asked, constraints, {"GPU": reserved}
            )
            if lease:
                self.leases[number] = lease
                gone.append(number)
                continue
            for name, amount in asked.amounts.items():
                aside.setdefault(name, []).append(amount)
            if "GPU" in asked.amounts:
                reserved |= allowed(constraints)
        self.waiting = [number for number in self.waiting if number not in gone]
        return gone

    def leaves(self, name: str, amount: int, waiting: list[int]) -> bool:
        """Whether nobody is kept waiting, whoever else holds something then."""
        held = [lease.amounts.get(name, 0) for lease in self.leases.values()]
        total = self.ledger.capacity.amounts[name]
        for place, wanted in enumerate(waiting):
            sums = {0}
            for other in (*held, *waiting[:place], *waiting[place + 1 :]):
                sums |= {each + other for each in sums}
            if any(total - each >= wanted > total - each - amount for each in sums):
                return False
        return amount <= self.ledger.free(name)

    @rule(asked=requests(), constraints=wishes)
    def arrive(self, asked: Resources, constraints: DeviceConstraints) -> None:
        number = len(self.arrivals)
        self.arrivals.append((asked, constraints))
        self.world.arrive(number, asked, constraints)

        self.waiting.append(number)
        self.settle()

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if not self.arrivals:
            return
        number = data.draw(st.integers(0, len(self.arrivals) - 1))
        served = self.world.end(number)

        if number in self.leases:
            self.ledger.release(self.leases.pop(number))
        elif number in self.waiting:
            self.waiting.remove(number)
        assert served == self.settle()

    @invariant()
    def agree(self) -> None:
        check_ledger(self.world.ledger)
        assert [int(waiter.label) for waiter in self.world.queue] == self.waiting
        assert self.world.leases == self.leases

    @invariant()
    def nobody_is_left_behind(self) -> None:
        assert self.world.queue.serve() == []
        assert all(self.world.queue._subqueues.values())


LineMachine.TestCase.settings = settings(stateful_step_count=40)
TestLineAgainstANaiveOne = LineMachine.TestCase


def play(
    script: list[tuple[Resources, DeviceConstraints] | int],
    *,
    coming: int,
    watched: int,
) -> list[dict[int, Lease | None]]:
    """Plays arrivals and ends as if only the first ``coming`` of them had come.

    Returns:
        After each event, what each of the first ``watched`` holds; None if it waits.
    """
    world = World()
    seen: list[dict[int, Lease | None]] = []
    arrived = 0
    for event in script:
        if isinstance(event, int):
            if event < coming:
                world.end(event)
        else:
            if arrived < coming:
                world.arrive(arrived, *event)
            arrived += 1
        states = {**dict.fromkeys(world.waiting), **world.leases}
        seen.append({n: state for n, state in states.items() if n < watched})
    return seen


@settings(max_examples=150, deadline=None)
@given(
    script=st.lists(
        st.one_of(st.tuples(requests(), wishes), st.integers(0, 12)), max_size=40
    ),
    first=st.integers(1, 8),
)
def test_line_when_others_come_later_then_nobody_before_them_notices(
    script: list[tuple[Resources, DeviceConstraints] | int], first: int
) -> None:
    alone = play(script, coming=first, watched=first)

    assert play(script, coming=len(script), watched=first) == alone


def test_change_constraints_when_others_wait_then_the_place_in_line_is_kept() -> None:
    ledger = machine(gpus=2)
    granted(ledger, request(num_gpus=2))
    queue = WaitQueue(ledger)
    zero, one = (
        DeviceConstraints(only=frozenset({d})) for d in ledger.pools["GPU"].devices
    )
    first = queue.enqueue("first", request(num_gpus=1), zero)
    queue.enqueue("second", request(num_gpus=1), one)
    queue.enqueue("third", request(num_gpus=1), one)

    queue.change_constraints(first, one)

    assert labels(queue) == ["first", "second", "third"]


def test_change_constraints_when_it_can_be_now_then_it_is_served() -> None:
    ledger = machine(gpus=2)
    granted(ledger, request(num_gpus=1))
    queue = WaitQueue(ledger)
    zero, one = ledger.pools["GPU"].devices
    waiter = queue.enqueue(
        "a", request(num_gpus=1), DeviceConstraints(apart=frozenset({one}))
    )

    queue.change_constraints(waiter, ANYWHERE)

    ((_, lease),) = queue.serve()
    assert lease.shares[0].device == one
    assert zero != one


def test_change_constraints_when_it_is_not_in_line_then_refused() -> None:
    queue = WaitQueue(machine())
    stranger = Waiter(number=7, label="x", resources=request(num_gpus=1))

    with pytest.raises(LookupError):
        queue.change_constraints(stranger, ANYWHERE)
