from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from helpers.cards import devices_of
from helpers.invariants import check_ledger
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorlib._options.resources import Resources, request, totals
from actorlib._scheduler.admission import Admission
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import ANYWHERE, DeviceConstraints, LeaseRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib.accelerators.base import Lease


def machine(*, cpus: int = 4, gpus: int = 1) -> Ledger:
    capacity = totals(num_cpus=cpus, num_gpus=gpus, memory=0, resources=None)
    return Ledger(capacity, {"GPU": devices_of(str(gpus))})


GPU = request(num_gpus=1)
CPU = request(num_cpus=1)


async def acquire(
    admission: Admission,
    label: str,
    asked: Resources,
    constraints: DeviceConstraints = ANYWHERE,
) -> Lease:
    """Waits for a lease; cancelled, it leaves the line or gives the lease back."""
    pending = admission.acquire(LeaseRequest(label, asked, constraints))
    try:
        return await pending
    except BaseException:  # GeneratorExit too: a closed coroutine waits no more
        admission.leave(pending)
        raise


async def turn() -> None:
    """Lets everything run that is due now, and what that makes due."""
    loop = asyncio.get_running_loop()
    for _ in range(3):
        passed = loop.create_future()
        loop.call_soon(passed.set_result, None)
        await passed


@pytest.mark.parametrize("is_granted", [False, True])
async def test_acquire_when_cancelled_before_or_after_the_grant_then_the_next_has_it(
    *, is_granted: bool
) -> None:
    admission = Admission(machine())
    lease = await acquire(admission, "A", GPU)
    first, second = (
        asyncio.create_task(acquire(admission, name, GPU)) for name in "BC"
    )
    await turn()
    steps = [first.cancel, lambda: admission.release(lease)]

    for step in reversed(steps) if is_granted else steps:
        step()
    await turn()

    assert first.cancelled()
    admission.release(second.result())
    assert admission.ledger.available() == admission.ledger.total()


async def test_waiting_when_many_wait_then_in_order_of_arrival() -> None:
    admission = Admission(machine())
    admission.acquire(LeaseRequest("A", request(num_gpus=1, num_cpus=4)))
    for label, asked in (("B", GPU), ("C", request(num_gpus=2)), ("D", CPU)):
        admission.acquire(LeaseRequest(label, asked))

    waiting = [("B", "GPU=1"), ("C", "GPU=2"), ("D", "CPU=1")]
    assert admission.waiting() == waiting


REQUESTS = [
    request(num_gpus=gpus, num_cpus=cpus)
    for gpus in (0, 0.3, 0.5, 1, 2, 3)
    for cpus in (0, 1, 3, 5)
]


class AdmissionMachine(RuleBasedStateMachine):
    """Asks, cancellations and releases in any order, within a turn and across."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.ledger = machine(cpus=4, gpus=2)
        self.admission = Admission(self.ledger)
        self.asking: list[asyncio.Task[Lease]] = []
        self.held: list[Lease] = []

    @rule(asked=st.sampled_from(REQUESTS), places=st.sampled_from(["", "0", "1", "01"]))
    def ask(self, asked: Resources, places: str) -> None:
        devices = self.ledger.pools["GPU"].devices
        only = frozenset(device for device in devices if device.id in places)
        constraints = DeviceConstraints(only=only) if only else ANYWHERE
        asking = acquire(self.admission, "A", asked, constraints)
        self.asking.append(self.loop.create_task(asking))

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.asking:
            data.draw(st.sampled_from(self.asking)).cancel()

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.held:
            place = data.draw(st.integers(0, len(self.held) - 1))
            # Within the loop, as the owner does: the queue only moves there.
            self.call(self.admission.release, self.held.pop(place))

    @rule()
    def turn(self) -> None:
        self.call(lambda: None)
        done = [task for task in self.asking if task.done()]
        self.asking = [task for task in self.asking if not task.done()]
        self.held += [task.result() for task in done if not task.cancelled()]
        assert self.admission._queue.serve() == [], "somebody waits for nothing"

    def call(self, function: Callable[..., None], *args: object) -> None:
        self.loop.call_soon(function, *args)
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()

    @invariant()
    def nothing_leaks(self) -> None:
        check_ledger(self.ledger)
        assert len({id(lease) for lease in self.held}) == len(self.held)

    def teardown(self) -> None:
        for task in self.asking:
            task.cancel()
        while self.asking:
            self.turn()
        while self.held:
            self.admission.release(self.held.pop())
        assert self.admission.waiting() == []
        assert self.ledger.available() == self.ledger.total()
        self.loop.close()


AdmissionMachine.TestCase.settings = settings(stateful_step_count=40)
TestAdmissionInAnyOrder = AdmissionMachine.TestCase
