from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorlib._local.ledger import Ledger
from actorlib._local.line import Line, Waiter
from actorlib._resources import UNITS, Resources, request, totals
from actorlib.accelerators.base import Device, Lease


def machine(*, cpus: int = 4, gpus: int = 2, **custom: int) -> Ledger:
    devices = tuple(
        Device(family="nvidia", kind="GPU", index=index, id=str(index))
        for index in range(gpus)
    )
    capacity = totals(num_cpus=cpus, num_gpus=gpus, memory=100, resources=custom)
    return Ledger(capacity, {"GPU": devices})


def granted(ledger: Ledger, asked: Resources) -> Lease:
    lease = ledger.try_acquire(asked)
    assert lease is not None
    return lease


def served(line: Line) -> list[str]:
    return [waiter.label for waiter, _ in line.serve()]


def labels(line: Line) -> list[str]:
    return [waiter.label for waiter in line]


def test_pass_by_when_nobody_waits_then_granted() -> None:
    line = Line(machine())

    assert line.pass_by(request(num_gpus=2, num_cpus=4)) is not None


def test_pass_by_when_too_little_is_free_then_refused() -> None:
    ledger = machine()
    granted(ledger, request(num_gpus=0.6))

    assert Line(ledger).pass_by(request(num_gpus=2)) is None


def test_pass_by_when_an_earlier_one_wants_devices_then_refused() -> None:
    ledger = machine()
    line = Line(ledger)
    granted(ledger, request(num_gpus=0.6))
    line.join("Big", request(num_gpus=2))

    assert line.pass_by(request(num_gpus=0.1)) is None


def test_pass_by_when_it_wants_nothing_of_the_earlier_one_then_granted() -> None:
    ledger = machine()
    line = Line(ledger)
    granted(ledger, request(num_gpus=0.6))
    line.join("Big", request(num_gpus=2))

    assert line.pass_by(request(num_cpus=4)) is not None


def test_pass_by_when_it_is_enough_for_both_then_granted() -> None:
    ledger = machine(cpus=4)
    line = Line(ledger)
    granted(ledger, request(num_gpus=2))
    line.join("Big", request(num_gpus=1, num_cpus=3))

    assert line.pass_by(request(num_cpus=1)) is not None


def test_pass_by_when_it_would_take_what_the_earlier_one_needs_then_refused() -> None:
    ledger = machine(cpus=4)
    line = Line(ledger)
    granted(ledger, request(num_gpus=2))
    line.join("Big", request(num_gpus=1, num_cpus=3))

    assert line.pass_by(request(num_cpus=1.5)) is None


def test_pass_by_when_several_wait_then_sets_aside_for_all_of_them() -> None:
    ledger = machine(cpus=4)
    line = Line(ledger)
    granted(ledger, request(num_gpus=2))
    line.join("A", request(num_gpus=1, num_cpus=2))
    line.join("B", request(num_gpus=1, num_cpus=1.5))

    assert line.pass_by(request(num_cpus=1)) is None
    assert line.pass_by(request(num_cpus=0.5)) is not None


def test_pass_by_when_the_earlier_one_can_never_be_granted_then_granted() -> None:
    ledger = machine()
    line = Line(ledger)
    line.join("Giant", request(num_gpus=3, num_cpus=80))

    assert line.pass_by(request(num_gpus=2, num_cpus=4)) is not None


def test_pass_by_when_the_earlier_one_has_left_then_granted() -> None:
    ledger = machine()
    line = Line(ledger)
    granted(ledger, request(num_gpus=0.6))
    line.leave(line.join("Big", request(num_gpus=2)))

    assert line.pass_by(request(num_gpus=0.1)) is not None


def test_serve_when_nothing_is_free_then_nobody_goes() -> None:
    ledger = machine()
    line = Line(ledger)
    granted(ledger, request(num_gpus=2))
    line.join("A", request(num_gpus=1))

    assert served(line) == []
    assert labels(line) == ["A"]


def test_serve_when_one_is_given_back_then_the_first_goes() -> None:
    ledger = machine(gpus=1)
    line = Line(ledger)
    lease = granted(ledger, request(num_gpus=1))
    line.join("A", request(num_gpus=1))
    line.join("B", request(num_gpus=1))

    ledger.release(lease)

    assert served(line) == ["A"]
    assert labels(line) == ["B"]


def test_serve_when_several_may_go_then_in_order_of_arrival() -> None:
    ledger = machine()
    line = Line(ledger)
    lease = granted(ledger, request(num_gpus=2, num_cpus=4))
    line.join("A", request(num_cpus=1))
    line.join("B", request(num_gpus=1))
    line.join("C", request(num_cpus=1))
    line.join("D", request(num_gpus=1, num_cpus=1))

    ledger.release(lease)

    assert served(line) == ["A", "B", "C", "D"]


def test_serve_when_the_first_lacks_devices_then_no_later_one_takes_any() -> None:
    ledger = machine()
    line = Line(ledger)
    first = granted(ledger, request(num_gpus=1))
    granted(ledger, request(num_gpus=1))
    line.join("Big", request(num_gpus=2))
    line.join("Small", request(num_gpus=0.1))

    ledger.release(first)

    assert served(line) == []


def test_serve_when_one_waits_only_for_its_turn_then_its_needs_are_set_aside() -> None:
    ledger = machine(cpus=4)
    line = Line(ledger)
    granted(ledger, request(num_gpus=0.1))
    lease = granted(ledger, request(num_cpus=4))
    line.join("Big", request(num_gpus=2))
    line.join("Behind", request(num_gpus=0.1, num_cpus=3))
    line.join("Wide", request(num_cpus=2))
    line.join("Narrow", request(num_cpus=1))

    ledger.release(lease)

    assert served(line) == []
    assert labels(line) == ["Big", "Behind", "Wide", "Narrow"]


def test_serve_when_a_lane_is_closed_then_those_of_other_lanes_still_go() -> None:
    ledger = machine(cpus=4)
    line = Line(ledger)
    granted(ledger, request(num_gpus=2))
    lease = granted(ledger, request(num_cpus=4))
    for label in "AB":
        line.join(label, request(num_gpus=1, num_cpus=1))
    line.join("C", request(num_cpus=2))

    ledger.release(lease)

    assert served(line) == ["C"]
    assert labels(line) == ["A", "B"]


def test_serve_when_a_lane_is_closed_then_all_of_it_is_set_aside() -> None:
    ledger = machine(cpus=4)
    line = Line(ledger)
    granted(ledger, request(num_gpus=2))
    lease = granted(ledger, request(num_cpus=4))
    for label in "AB":
        line.join(label, request(num_gpus=1, num_cpus=1))
    line.join("C", request(num_cpus=3))

    ledger.release(lease)

    assert served(line) == []


def test_leave_when_the_first_goes_away_then_those_behind_may_go() -> None:
    ledger = machine()
    line = Line(ledger)
    granted(ledger, request(num_gpus=0.6))
    big = line.join("Big", request(num_gpus=2))
    line.join("Small", request(num_gpus=0.1))

    line.leave(big)

    assert served(line) == ["Small"]


def test_leave_when_it_could_never_be_granted_then_it_is_gone() -> None:
    line = Line(machine())
    giant = line.join("Giant", request(num_gpus=80))

    line.leave(giant)

    assert labels(line) == []


@pytest.mark.parametrize("gpus", [1, 80], ids=["feasible", "infeasible"])
def test_leave_when_it_has_left_then_refused(gpus: int) -> None:
    line = Line(machine())
    waiter = line.join("A", request(num_gpus=gpus))
    line.join("B", request(num_gpus=gpus))
    line.leave(waiter)

    with pytest.raises(LookupError):
        line.leave(waiter)
    assert labels(line) == ["B"]


def test_iteration_when_many_wait_then_in_order_of_arrival() -> None:
    line = Line(machine())
    line.join("A", request(num_gpus=1))
    line.join("B", request(num_gpus=80))
    line.join("C", request(num_cpus=1))
    line.join("D", request(num_gpus=0.5))

    assert labels(line) == ["A", "B", "C", "D"]


class CountingLedger:
    """A ledger that counts how often it was asked anything about leases."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.feasible = ledger.feasible
        self.asked = 0

    @property
    def kinds(self) -> frozenset[str]:
        self.asked += 1
        return self.ledger.kinds

    def free(self, name: str) -> int:
        self.asked += 1
        return self.ledger.free(name)

    def try_acquire(self, asked: Resources) -> Lease | None:
        self.asked += 1
        return self.ledger.try_acquire(asked)


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
    line = Line(ledger)
    lease = granted(ledger.ledger, request(num_gpus=1, num_cpus=1))
    for number in range(2_000):
        line.join(str(number), asked[number % len(asked)])

    ledger.ledger.release(lease)

    assert line.serve()
    assert ledger.asked < 30


@st.composite
def requests(draw: st.DrawFn) -> Resources:
    return request(
        num_cpus=draw(st.sampled_from([0, 1, 1.5, 2, 3])),
        num_gpus=draw(st.sampled_from([0, 0, 0.3, 0.5, 1, 2, 3, 4])),
        resources={"x": draw(st.sampled_from([0, 0, 0, 0.5, 1, 3]))},
    )


class World:
    """A line and its ledger, driven by arrivals and ends, as a shell would."""

    def __init__(self) -> None:
        self.ledger = machine(cpus=4, gpus=3, x=2)
        self.line = Line(self.ledger)
        self.waiting: dict[int, Waiter] = {}
        self.leases: dict[int, Lease] = {}

    def arrive(self, number: int, asked: Resources) -> None:
        lease = self.line.pass_by(asked)
        if lease is None:
            self.waiting[number] = self.line.join(str(number), asked)
        else:
            self.leases[number] = lease

    def end(self, number: int) -> list[int]:
        if number in self.leases:
            self.ledger.release(self.leases.pop(number))
        elif number in self.waiting:
            self.line.leave(self.waiting.pop(number))
        served = self.line.serve()
        for waiter, lease in served:
            del self.waiting[int(waiter.label)]
            self.leases[int(waiter.label)] = lease
        return [int(waiter.label) for waiter, _ in served]


class LineMachine(RuleBasedStateMachine):
    """A line beside one that asks everyone, in order, after everything."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.arrivals: list[Resources] = []
        self.free = dict(self.world.ledger.capacity.amounts)
        self.devices = [UNITS] * 3
        self.waiting: list[int] = []
        self.shares: dict[int, dict[int, int]] = {}

    def choose(self, units: int) -> dict[int, int] | None:
        if not units:
            return {}
        if units <= UNITS:
            fits = [(f - units, i) for i, f in enumerate(self.devices) if f >= units]
            return {min(fits)[1]: units} if fits else None
        wholly_free = [i for i, f in enumerate(self.devices) if f == UNITS]
        chosen = wholly_free[: units // UNITS]
        return dict.fromkeys(chosen, UNITS) if len(chosen) == units // UNITS else None

    def delays_somebody(self, number: int) -> bool:
        asked = self.arrivals[number].amounts
        ahead = [self.arrivals[n] for n in self.waiting if n < number]
        ahead = [a for a in ahead if self.world.ledger.feasible(a)]
        for name, amount in asked.items():
            theirs = sum(a.amounts.get(name, 0) for a in ahead)
            if name == "GPU":
                if theirs:
                    return True
            elif amount > self.free[name] - theirs:
                return True
        return False

    def settle(self) -> list[int]:
        gone: list[int] = []
        for number in list(self.waiting):
            chosen = self.choose(self.arrivals[number].amounts.get("GPU", 0))
            if chosen is None or self.delays_somebody(number):
                continue
            self.waiting.remove(number)
            self.move(number, chosen, sign=-1)
            self.shares[number] = chosen
            gone.append(number)
        return gone

    def move(self, number: int, chosen: dict[int, int], *, sign: int) -> None:
        for name, amount in self.arrivals[number].amounts.items():
            self.free[name] = self.free.get(name, 0) + sign * amount
        for index, units in chosen.items():
            self.devices[index] += sign * units

    @rule(asked=requests())
    def arrive(self, asked: Resources) -> None:
        number = len(self.arrivals)
        self.arrivals.append(asked)
        self.world.arrive(number, asked)

        self.waiting.append(number)
        self.settle()

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if not self.arrivals:
            return
        number = data.draw(st.integers(0, len(self.arrivals) - 1))
        served = self.world.end(number)

        if number in self.shares:
            self.move(number, self.shares.pop(number), sign=1)
        elif number in self.waiting:
            self.waiting.remove(number)
        assert served == self.settle()

    @invariant()
    def agree(self) -> None:
        self.world.ledger.check()
        assert [int(waiter.label) for waiter in self.world.line] == self.waiting
        assert self.shares == {
            number: {share.device.index: share.units for share in lease.shares}
            for number, lease in self.world.leases.items()
        }

    @invariant()
    def nobody_is_left_behind(self) -> None:
        assert self.world.line.serve() == []
        assert all(self.world.line._lanes.values())


LineMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestLineAgainstANaiveOne = LineMachine.TestCase


def play(
    script: list[Resources | int], *, coming: int, watched: int
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
                world.arrive(arrived, event)
            arrived += 1
        states = {**dict.fromkeys(world.waiting), **world.leases}
        seen.append({n: state for n, state in states.items() if n < watched})
    return seen


@settings(max_examples=150, deadline=None)
@given(
    script=st.lists(st.one_of(requests(), st.integers(0, 12)), max_size=40),
    first=st.integers(1, 8),
)
def test_line_when_others_come_later_then_nobody_before_them_notices(
    script: list[Resources | int], first: int
) -> None:
    alone = play(script, coming=first, watched=first)

    assert play(script, coming=len(script), watched=first) == alone
