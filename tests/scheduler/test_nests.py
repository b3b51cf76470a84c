"""Functions that wait for the functions they have called, on small machines."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from helpers.invariants import check_ledger
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlib._options.kinds import UNITS
from actorlib._options.resources import CPU, Resources, request, totals
from actorlib._scheduler.admission import Admission
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import LeaseRequest, Origin
from actorlib.accelerators.base import Device, Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OWN = ({"num_gpus": 1}, {"resources": {"x": 1}}, {"resources": {"y": 1}})
"""What calls of each depth may keep while they wait; else they could wait for a device
that one above them keeps, which nobody can help."""


@dataclass(eq=False)
class Call:
    """A call: what it asks for, and what it calls and waits for while it runs.

    It waits for all of them at once, or for one after the other.
    """

    request: Resources
    calls: list[Call]
    is_one_by_one: bool
    is_nested: bool = False
    lease: Lease | None = None
    left: list[Call] = field(default_factory=list)
    waits_for: list[Call] = field(default_factory=list)
    is_done: bool = False


@dataclass(eq=False)
class World:
    """A machine, and the calls on it."""

    ledger: Ledger
    admission: Admission
    places: dict[asyncio.Future[Lease], Callable[[Lease], None]] = field(
        default_factory=dict
    )
    running: list[Call] = field(default_factory=list)
    blocked: list[Call] = field(default_factory=list)

    def enter(
        self,
        asked: Resources,
        origin: Origin,
        then: Callable[[Lease], None],
    ) -> None:
        wanted = LeaseRequest("a call", asked, origin=origin)
        self.places[self.admission.acquire(wanted)] = then
        self.look()

    def look(self) -> None:
        """Whose turn has come takes what it got, as callbacks would."""
        while done := [place for place in self.places if place.done()]:
            for place in done:
                self.places.pop(place)(place.result())

    def post(self, call: Call) -> None:
        origin = Origin.NESTED if call.is_nested else Origin.USUAL
        call.left = list(call.calls)

        def begin(lease: Lease) -> None:
            self.go_on(call, lease)

        self.enter(call.request, origin, begin)

    def go_on(self, call: Call, lease: Lease) -> None:
        call.lease = lease
        self.ledger.mark_transient(lease)
        self.running.append(call)

    def step(self, call: Call) -> None:
        """A call that runs waits for what it calls, or ends."""
        self.running.remove(call)
        assert call.lease is not None
        if not call.left:
            call.is_done = True
            self.admission.release(call.lease)
            self.look()
            for caller in [c for c in self.blocked if call in c.waits_for]:
                caller.waits_for.remove(call)
                if not caller.waits_for:
                    self.resume(caller)
            return
        count = 1 if call.is_one_by_one else len(call.left)
        call.waits_for, call.left = call.left[:count], call.left[count:]
        self.blocked.append(call)
        for nested in call.waits_for.copy():
            nested.is_nested = True
            self.post(nested)
        call.lease = self.admission.release_part(call.lease, CPU)
        self.look()

    def resume(self, call: Call) -> None:
        self.blocked.remove(call)
        kept = call.lease
        assert kept is not None
        cpus = Resources.of({CPU: call.request.amounts.get(CPU, 0)})
        if not cpus.amounts:
            self.go_on(call, kept)
            return

        def back(lease: Lease) -> None:
            self.go_on(call, self.ledger.merge(kept, lease))

        self.enter(cpus, Origin.RESUMED, back)


def asks(depth: int) -> st.SearchStrategy[Resources]:
    """What a call of some depth asks for."""

    def made(cpus: float, share: float, *, own: bool) -> Resources:
        keywords: dict[str, Any] = {"num_cpus": cpus}
        if own and "num_gpus" in OWN[depth]:
            keywords["num_gpus"] = share
        elif own:
            (name,) = OWN[depth]["resources"]  # type: ignore[attr-defined]
            keywords["resources"] = {name: share}
        return request(**keywords)

    return st.builds(
        made,
        st.sampled_from([0, 0.5, 1, 2]),
        st.sampled_from([0.5, 1]),
        own=st.booleans(),
    )


def calls(depth: int = 0) -> st.SearchStrategy[Call]:
    inner: st.SearchStrategy[list[Call]] = st.just([])
    if depth + 1 < len(OWN):
        inner = st.lists(st.deferred(lambda: calls(depth + 1)), max_size=3)
    return st.builds(Call, asks(depth), inner, st.booleans())


def every(these: list[Call]) -> Iterator[Call]:
    for call in these:
        yield call
        yield from every(call.calls)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def world(loop: asyncio.AbstractEventLoop, cpus: int = 2, gpus: int = 1) -> World:
    devices = [
        Device(family="nvidia", kind="GPU", index=index, id=str(index))
        for index in range(gpus)
    ]
    has = totals(num_cpus=cpus, num_gpus=gpus, memory=None, resources={"x": 1, "y": 1})
    ledger = Ledger(has, {"GPU": devices})
    return World(ledger, Admission(ledger, loop))


@settings(deadline=None)
@given(
    wanted=st.lists(calls(), min_size=1, max_size=6),
    cpus=st.sampled_from([2, 3]),
    held=st.sampled_from([0, 0.5, 1]),
    order=st.randoms(use_true_random=False),
)
def test_calls_when_each_waits_for_those_it_makes_then_all_of_them_end(
    loop: asyncio.AbstractEventLoop,
    wanted: list[Call],
    cpus: int,
    held: float,
    order: Any,
) -> None:
    there = world(loop, cpus=cpus, gpus=2)
    ledger = there.ledger
    if held:  # by an actor, for good
        there.admission.acquire(LeaseRequest("an actor", request(num_gpus=held)))
    for call in wanted:
        there.post(call)

    while there.running:
        there.step(order.choice(there.running))
        check_ledger(ledger)
        used = sum(call.request.amounts.get(CPU, 0) for call in there.running)
        assert used <= cpus * UNITS

    assert all(call.is_done for call in every(wanted))
    assert ledger.free(CPU) == cpus * UNITS
    assert len(there.admission) == 0


@settings(deadline=None, max_examples=50)
@given(steps=st.integers(1, 40), cpus=st.integers(1, 3))
def test_giant_when_a_call_feeds_others_without_end_then_it_has_its_turn(
    loop: asyncio.AbstractEventLoop, steps: int, cpus: int
) -> None:
    there = world(loop, cpus=cpus)
    feeder = Call(request(num_cpus=1), [], is_one_by_one=True)
    feeder.calls = [
        Call(request(num_cpus=1), [], is_one_by_one=False) for _ in range(steps)
    ]
    giant = Call(request(num_cpus=cpus), [], is_one_by_one=False)
    there.post(feeder)
    there.post(giant)

    passed = 0
    while not giant.is_done:
        there.step(there.running[0])
        passed += 1

    assert passed <= 4  # and not as many as there are others
