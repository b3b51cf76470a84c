from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.cards import devices_of
from helpers.invariants import check_ledger
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorlib._options.priority import MAX_PRIORITY
from actorlib._options.resources import Resources, request, totals
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.overtaking import delays_no_waiter
from actorlib._scheduler.request import (
    ANYWHERE,
    DeviceConstraints,
    LeaseRequest,
    Origin,
    model_of,
)
from actorlib._scheduler.wait_queue import WaitQueue
from actorlib._scheduler.waiting_order import Waiter

if TYPE_CHECKING:
    from actorlib.accelerators.base import Device, Lease


def machine(
    *, cpus: int = 4, gpus: int = 2, devices: tuple[Device, ...] = (), **custom: int
) -> Ledger:
    devices = devices or devices_of(str(gpus))
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


def labels(queue: WaitQueue) -> list[str]:
    return [waiter.request.label for waiter in queue]


def counted(amount: float) -> Resources:
    return request(resources={"x": amount})


def test_try_at_once_when_too_many_amounts_are_in_play_then_refused() -> None:
    ledger = machine(x=100)
    queue = WaitQueue(ledger)
    for number in range(40):
        granted(ledger, counted(2 + number / 100))
    queue.enqueue(LeaseRequest("A", counted(50)))

    assert queue.try_at_once(LeaseRequest("B", counted(0.01))) is None


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


@pytest.mark.parametrize("gpus", [1, 80], ids=["feasible", "infeasible"])
def test_leave_when_it_has_left_then_refused(gpus: int) -> None:
    queue = WaitQueue(machine())
    waiter = queue.enqueue(LeaseRequest("A", request(num_gpus=gpus)))
    queue.enqueue(LeaseRequest("B", request(num_gpus=gpus)))
    queue.remove(waiter)

    with pytest.raises(LookupError):
        queue.remove(waiter)
    assert labels(queue) == ["B"]


# Wishes: an H100, two A100s that are linked, and an L4.

FOUR = devices_of("H100,A100,A100,L4", "1-2")
H100 = DeviceConstraints(models=frozenset({model_of(FOUR[0])}))
A100 = DeviceConstraints(models=frozenset({model_of(FOUR[1])}))
WHOLE, PART = request(num_gpus=1), request(num_gpus=0.5)


def on(*indices: int) -> DeviceConstraints:
    return DeviceConstraints(only=frozenset(FOUR[index] for index in indices))


def near(*indices: int) -> DeviceConstraints:
    return DeviceConstraints(near=frozenset(FOUR[index] for index in indices))


def apart(*indices: int) -> DeviceConstraints:
    return DeviceConstraints(apart=frozenset(FOUR[index] for index in indices))


class CountingLedger:
    """A ledger that counts how often it was asked anything about leases."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.asked = 0

    def __getattr__(self, name: str) -> object:
        self.asked += name in ("held", "free", "try_acquire")
        return getattr(self.ledger, name)


@pytest.mark.parametrize(
    ("asked", "wishes"),
    [
        ([request(num_gpus=1, memory=1)], [ANYWHERE]),
        ([WHOLE, request(num_cpus=1)], [ANYWHERE]),
        ([request(num_gpus=1, num_cpus=1), request(num_cpus=1)], [ANYWHERE]),
        ([WHOLE], [H100, A100, on(3)]),
        ([request(num_gpus=1, num_cpus=0.1)], [H100, ANYWHERE]),
        (
            [request(num_gpus=1, num_cpus=0.1)],
            [apart(0), near(1), on(1, 3), DeviceConstraints(spread=True)],
        ),
    ],
    ids=[
        "alike in two amounts",
        "two kinds",
        "overlapping kinds",
        "disjoint wishes",
        "one wish and all",
        "overlapping wishes",
    ],
)
def test_serve_when_thousands_wait_then_only_the_heads_are_looked_at(
    asked: list[Resources], wishes: list[DeviceConstraints]
) -> None:
    ledger = CountingLedger(machine(devices=FOUR))
    queue = WaitQueue(cast("Any", ledger))
    leases = [granted(ledger.ledger, request(num_gpus=1, num_cpus=1)) for _ in FOUR]
    for number in range(3_000):
        wish = wishes[number % len(wishes)]
        queue.enqueue(LeaseRequest(str(number), asked[number % len(asked)], wish))

    assert queue.try_at_once(LeaseRequest("N", asked[0], on(0, 1, 2, 3))) is None
    assert ledger.asked < 5
    ledger.ledger.release(leases.pop(1))
    assert queue.serve()
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
    """A queue and its ledger, driven by arrivals and ends, as the owner would."""

    def __init__(self) -> None:
        self.ledger = machine(cpus=4, devices=FOUR, x=2)
        self.queue = WaitQueue(self.ledger)
        self.waiting: dict[int, Waiter] = {}
        self.leases: dict[int, Lease] = {}
        self.functions: set[int] = set()

    def arrive(self, number: int, wanted: LeaseRequest) -> list[int]:
        wanted = wanted._replace(label=str(number))
        lease = self.queue.try_at_once(wanted)
        if lease is not None:
            self.hold(number, lease)
            return [number]
        self.waiting[number] = self.queue.enqueue(wanted)
        return self.serve() if self.queue.is_reordered else []

    def end(self, number: int) -> list[int]:
        if number in self.leases:
            self.ledger.release(self.leases.pop(number))
        elif number in self.waiting:
            self.queue.remove(self.waiting.pop(number))
        return self.serve()

    def block(self, number: int) -> list[int]:
        """A function waits for a result, and lends its CPUs."""
        self.leases[number] = lend_cpus(self.ledger, self.leases[number])
        return self.serve()

    def serve(self) -> list[int]:
        served = self.queue.serve()
        for waiter, lease in served:
            del self.waiting[int(waiter.request.label)]
            self.hold(int(waiter.request.label), lease)
        return [int(waiter.request.label) for waiter, _ in served]

    def hold(self, number: int, lease: Lease) -> None:
        self.leases[number] = lease
        if number in self.functions:
            self.ledger.mark_transient(lease)


def lend_cpus(ledger: Ledger, lease: Lease) -> Lease:
    part, rest = ledger.split(lease, "CPU")
    ledger.release(part)
    return rest


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


@st.composite
def lease_requests(draw: st.DrawFn) -> LeaseRequest:
    priority = draw(st.sampled_from([0, 0, 0, 5, 5, -2]))
    origin = draw(st.sampled_from([*[Origin.USUAL] * 3, Origin.NESTED, Origin.RESUMED]))
    if origin is Origin.RESUMED or draw(st.booleans()):
        asked = request(num_cpus=draw(st.sampled_from([1, 2, 3, 4])))
        return LeaseRequest("", asked, ANYWHERE, origin, priority)
    return LeaseRequest("", draw(requests()), draw(wishes), origin, priority)


class QueueMachine(RuleBasedStateMachine):
    """A queue beside one that asks all waiters, in order, after everything."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.ledger = World().ledger
        self.requests: list[LeaseRequest] = []
        self.order: list[tuple[float, int]] = []  # levels, with the numbers of waiters
        self.leases: dict[int, Lease] = {}

    # The order.

    def delays_others(self, number: int) -> bool:
        _, asked, constraints, *_ = self.requests[number]
        return self.ledger.feasible(asked, constraints)

    def with_new(self, number: int) -> list[tuple[float, int]]:
        """The order with a new request."""
        request, order = self.requests[number], list(self.order)
        highest = max(
            (
                level
                for level, each in order
                if self.requests[each].origin is Origin.USUAL
                and self.delays_others(each)
            ),
            default=-inf,
        )
        level: float = request.priority
        if request.origin is Origin.RESUMED:
            level = inf
        elif request.origin is Origin.NESTED:
            level = max(level, highest)
        elif level > highest and self.delays_others(number):
            for each in self.order:
                is_nested = self.requests[each[1]].origin is Origin.NESTED
                if is_nested and each[0] < level and self.delays_others(each[1]):
                    order.remove(each)
                    insert(order, level, each[1])
        insert(order, level, number)
        return order

    # Who may go.

    def settle(self) -> list[int]:
        """Lets all go whom those ahead leave enough; who went."""
        ahead: list[int] = []
        gone: list[int] = []
        for entry in list(self.order):
            if self.may_go(entry[1], ahead):
                gone.append(entry[1])
                self.order.remove(entry)
            else:
                ahead.append(entry[1])
        for number in set(gone) & self.world.functions:
            self.ledger.mark_transient(self.leases[number])
        return gone

    def may_go(self, number: int, ahead: list[int]) -> bool:
        """Grants a request, if those ahead that stay leave enough."""
        _, asked, constraints, *_ = self.requests[number]
        aside: dict[str, list[int]] = {}
        reserved: set[int] = set()
        for other in self.delaying(number, ahead):
            _, theirs, where, *_ = self.requests[other]
            for name, amount in theirs.amounts.items():
                aside.setdefault(name, []).append(amount)
            if "GPU" in theirs.amounts:
                reserved |= allowed(where)
        enough = all(
            name == "GPU" or self.leaves(name, amount, aside.get(name, []))
            for name, amount in asked.amounts.items()
        )
        lease = enough and self.ledger.try_acquire(
            asked, constraints, {"GPU": reserved}
        )
        if lease:
            self.leases[number] = lease
        return bool(lease)

    def delaying(self, number: int, ahead: list[int]) -> list[int]:
        """The ones ahead that delay a request."""
        others = [other for other in ahead if self.delays_others(other)]
        if self.requests[number].origin is Origin.USUAL:
            return others
        resumed = [o for o in others if self.requests[o].origin is Origin.RESUMED]
        if self.requests[number].origin is Origin.RESUMED:
            return resumed
        first: dict[object, int] = {}
        for other in others:
            _, asked, constraints, origin, *_ = self.requests[other]
            if origin is not Origin.RESUMED:
                key = frozenset(asked.amounts), constraints, origin
                first.setdefault(key, other)
        return [
            *resumed,
            *(
                other
                for other in first.values()
                if self.ledger.lacking(*self.requests[other][1:3])
                and self.ledger.could_free_up(*self.requests[other][1:3])
            ),
        ]

    def leaves(self, name: str, amount: int, waiting: list[int]) -> bool:
        """Whether none is kept waiting, whoever else holds something then."""
        held = [lease.amounts.get(name, 0) for lease in self.leases.values()]
        total = self.ledger.capacity.amounts[name]
        for place, wanted in enumerate(waiting):
            sums = {0}
            for other in (*held, *waiting[:place], *waiting[place + 1 :]):
                sums |= {each + other for each in sums}
            if any(total - each >= wanted > total - each - amount for each in sums):
                return False
        return amount <= self.ledger.free(name)

    # What happens.

    @rule(wanted=lease_requests(), is_function=st.booleans())
    def arrive(self, wanted: LeaseRequest, *, is_function: bool) -> None:
        number = len(self.requests)
        self.requests.append(wanted)
        if is_function:
            self.world.functions.add(number)
        served = self.world.arrive(number, wanted)

        order = self.with_new(number)
        numbers = [each for _, each in order]
        if self.may_go(number, numbers[: numbers.index(number)]):
            gone = [number]
            if is_function:
                self.ledger.mark_transient(self.leases[number])
        else:
            self.order = order
            gone = self.settle()
        assert served == gone

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if not self.requests:
            return
        number = data.draw(st.integers(0, len(self.requests) - 1))
        served = self.world.end(number)

        if number in self.leases:
            self.ledger.release(self.leases.pop(number))
        self.order = [entry for entry in self.order if entry[1] != number]
        assert served == self.settle()

    @rule(data=st.data())
    def block(self, data: st.DataObject) -> None:
        running = [
            number
            for number in self.world.functions & self.leases.keys()
            if "CPU" in self.leases[number].amounts
        ]
        if not running:
            return
        number = data.draw(st.sampled_from(sorted(running)))
        served = self.world.block(number)

        self.leases[number] = lend_cpus(self.ledger, self.leases[number])
        assert served == self.settle()

    @invariant()
    def agree(self) -> None:
        check_ledger(self.world.ledger)
        queue = self.world.queue
        in_order = [int(waiter.request.label) for waiter in queue]
        assert in_order == [number for _, number in self.order]
        assert self.world.leases == self.leases
        for priority in (-2, 0, 5):
            count = sum(
                level >= priority and self.delays_others(number)
                for level, number in self.order
            )
            assert queue.has_more_than(count - 1, priority)
            assert not queue.has_more_than(count, priority)

    @invariant()
    def all_that_may_go_are_gone(self) -> None:
        assert self.world.queue.serve() == []
        assert all(self.world.queue._subqueues.values())


def insert(order: list[tuple[float, int]], level: float, number: int) -> None:
    """Inserts a waiter behind those of its level."""
    place = sum(each >= level for each, _ in order)
    order.insert(place, (level, number))


QueueMachine.TestCase.settings = settings(stateful_step_count=40)
TestQueueAgainstANaiveOne = QueueMachine.TestCase


@given(
    steps=st.lists(lease_requests() | st.integers(0, 15), min_size=5, max_size=30),
    priority=st.sampled_from([-MAX_PRIORITY, -1, 7, MAX_PRIORITY]),
)
def test_queue_when_all_priorities_are_equal_then_as_without(
    steps: list[LeaseRequest | int], priority: int
) -> None:
    plain, same = World(), World()
    for number, step in enumerate(steps):
        if isinstance(step, int):
            assert plain.end(step) == same.end(step)
        else:
            equal = step._replace(priority=priority)
            served = plain.arrive(number, step._replace(priority=0))
            assert served == same.arrive(number, equal)
        assert labels(plain.queue) == labels(same.queue)
    assert plain.leases == same.leases


def test_change_constraints_when_it_is_not_in_line_then_refused() -> None:
    queue = WaitQueue(machine())
    stranger = Waiter(7, LeaseRequest("x", request(num_gpus=1)))

    with pytest.raises(LookupError):
        queue.change_constraints(stranger, ANYWHERE)
