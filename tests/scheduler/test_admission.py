from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from helpers.invariants import check_ledger
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actorlib._options.resources import Resources, request, totals
from actorlib._scheduler.admission import Admission
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import ANYWHERE, DeviceConstraints
from actorlib.accelerators.base import Device, Lease

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


def machine(*, cpus: int = 4, gpus: int = 1) -> Ledger:
    devices = tuple(
        Device(family="nvidia", kind="GPU", index=index, id=str(index))
        for index in range(gpus)
    )
    capacity = totals(num_cpus=cpus, num_gpus=gpus, memory=0, resources=None)
    return Ledger(capacity, {"GPU": devices})


GPU = request(num_gpus=1)
CPU = request(num_cpus=1)


async def acquire(
    admission: Admission,
    label: str,
    asked: Resources,
    constraints: DeviceConstraints = ANYWHERE,
) -> Lease:
    """Waits for a lease; cancelled, it leaves the line or gives the lease back."""
    pending = admission.acquire(label, asked, constraints)
    try:
        return await pending
    except BaseException:  # GeneratorExit too: a closed coroutine waits no more
        admission.leave(pending)
        raise


class Crowd:
    """Tasks that ask one admission for leases; each runs until it has to wait."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.admission = Admission(ledger)
        self.tasks: dict[str, asyncio.Task[Lease]] = {}
        self.pendings: list[asyncio.Future[Lease]] = []

    async def ask(self, label: str, asked: Resources) -> asyncio.Task[Lease]:
        task = asyncio.create_task(acquire(self.admission, label, asked))
        self.tasks[label] = task
        await turn()
        return task

    def enter(self, label: str, asked: Resources) -> asyncio.Future[Lease]:
        self.pendings.append(self.admission.acquire(label, asked))
        return self.pendings[-1]

    def waiting(self) -> list[str]:
        return [label for label, _ in self.admission.waiting()]


async def turn() -> None:
    """Lets everything run that is due now, and what that makes due."""
    loop = asyncio.get_running_loop()
    for _ in range(3):
        passed = loop.create_future()
        loop.call_soon(passed.set_result, None)
        await passed


@pytest.fixture
async def crowd() -> AsyncIterator[Crowd]:
    """A crowd before one GPU and four CPUs; all it took has to add up in the end."""
    crowd = Crowd(machine())
    yield crowd
    for task in crowd.tasks.values():
        task.cancel()
    await asyncio.gather(*crowd.tasks.values(), return_exceptions=True)
    for pending in crowd.pendings:
        if not pending.done():
            crowd.admission.leave(pending)
    check_ledger(crowd.ledger)
    assert crowd.waiting() == []


async def test_acquire_when_there_is_room_then_it_does_not_yield() -> None:
    asking = acquire(Admission(machine()), "A", GPU)

    with pytest.raises(StopIteration) as granted:
        asking.send(None)
    assert granted.value.value.amounts == GPU.amounts


async def test_acquire_when_taken_then_waits_for_the_release(crowd: Crowd) -> None:
    lease = await acquire(crowd.admission, "A", GPU)
    task = await crowd.ask("B", GPU)
    assert not task.done()

    crowd.admission.release(lease)

    assert (await task).amounts == GPU.amounts


async def test_acquire_when_many_wait_then_served_in_order(crowd: Crowd) -> None:
    lease = await acquire(crowd.admission, "first", GPU)
    tasks = [await crowd.ask(label, GPU) for label in "ABC"]

    for task in tasks:
        crowd.admission.release(lease)
        await turn()
        assert task.done()
        lease = task.result()

    assert crowd.waiting() == []


async def test_acquire_when_cancelled_then_leaves_the_queue(crowd: Crowd) -> None:
    await acquire(crowd.admission, "A", GPU)
    task = await crowd.ask("B", GPU)

    task.cancel()
    await turn()

    assert task.cancelled()
    assert crowd.waiting() == []


async def test_acquire_when_the_first_is_cancelled_then_those_behind_may_go(
    crowd: Crowd,
) -> None:
    await acquire(crowd.admission, "A", request(num_gpus=0.5))
    whole = await crowd.ask("whole", GPU)
    half = await crowd.ask("half", request(num_gpus=0.5))
    assert not half.done()

    whole.cancel()
    await turn()

    assert half.done()


async def test_acquire_when_cancelled_after_the_grant_then_the_next_has_it(
    crowd: Crowd,
) -> None:
    lease = await acquire(crowd.admission, "A", GPU)
    first, second = await crowd.ask("B", GPU), await crowd.ask("C", GPU)

    crowd.admission.release(lease)
    first.cancel()
    await turn()

    assert first.cancelled()
    assert second.done()


async def test_acquire_when_cancelled_before_the_grant_then_the_next_has_it(
    crowd: Crowd,
) -> None:
    lease = await acquire(crowd.admission, "A", GPU)
    first, second = await crowd.ask("B", GPU), await crowd.ask("C", GPU)

    first.cancel()
    crowd.admission.release(lease)
    await turn()

    assert first.cancelled()
    assert second.done()


async def test_acquire_when_the_coroutine_is_closed_then_leaves_the_queue(
    crowd: Crowd,
) -> None:
    lease = await acquire(crowd.admission, "A", GPU)
    asking = acquire(crowd.admission, "B", GPU)
    asking.send(None)

    asking.close()
    crowd.admission.release(lease)

    assert crowd.waiting() == []
    assert crowd.ledger.available() == crowd.ledger.total()


async def test_acquire_when_timed_out_then_leaves_the_queue(crowd: Crowd) -> None:
    await acquire(crowd.admission, "A", GPU)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await acquire(crowd.admission, "B", GPU)

    assert crowd.waiting() == []


async def test_acquire_when_infeasible_then_waits_and_holds_nobody_up(
    crowd: Crowd,
) -> None:
    giant = await crowd.ask("Giant", request(num_gpus=2))

    task = await crowd.ask("A", GPU)

    assert task.done()
    assert not giant.done()
    assert crowd.waiting() == ["Giant"]


async def test_acquire_when_it_needs_nothing_of_the_first_then_passes(
    crowd: Crowd,
) -> None:
    await acquire(crowd.admission, "A", GPU)
    await crowd.ask("B", GPU)

    passing = await crowd.ask("C", CPU)

    assert passing.done()


async def test_release_when_not_held_then_refused(crowd: Crowd) -> None:
    lease = await acquire(crowd.admission, "A", GPU)
    crowd.admission.release(lease)

    with pytest.raises(LookupError):
        crowd.admission.release(lease)


async def test_waiting_when_many_wait_then_in_order_of_arrival(crowd: Crowd) -> None:
    await acquire(crowd.admission, "A", request(num_gpus=1, num_cpus=4))
    giant = request(num_gpus=2)
    for label, asked in (("B", GPU), ("C", giant), ("D", CPU)):
        await crowd.ask(label, asked)

    each = [("B", str(GPU)), ("C", "GPU=2"), ("D", str(CPU))]
    assert crowd.admission.waiting() == each


async def test_explain_when_first_in_the_queue_then_what_is_lacking(
    crowd: Crowd,
) -> None:
    crowd.enter("A", GPU)
    pending = crowd.enter("B", GPU)
    crowd.enter("C", GPU)

    assert crowd.admission.explain("B", GPU, pending=pending) == (
        "B asks GPU=1; all of GPU=1 is taken"
    )


async def test_explain_when_others_came_first_then_names_them(crowd: Crowd) -> None:
    half = request(num_gpus=0.5)
    crowd.enter("A", half)
    for label, asked in (("Big", GPU), ("Huge", request(num_gpus=2)), ("B", CPU)):
        crowd.enter(label, asked)
    small = crowd.enter("Small", half)
    later = crowd.enter("Later", half)

    assert crowd.admission.explain("Small", half, pending=small) == (
        "Small asks GPU=0.5; that is free. Ahead of it in line: Big (GPU=1)"
    )
    assert crowd.admission.explain("Later", half, pending=later) == (
        "Later asks GPU=0.5; that is free. Ahead of it in line: Big (GPU=1) and 1 more"
    )


async def test_explain_when_it_is_a_newcomer_then_all_are_ahead(crowd: Crowd) -> None:
    for label in "ABC":
        crowd.enter(label, GPU)

    assert crowd.admission.explain("D", GPU).endswith(
        "Ahead of it in line: B (GPU=1) and 1 more"
    )


async def test_explain_when_its_likes_wait_then_only_those_ahead_count(
    crowd: Crowd,
) -> None:
    pendings = [crowd.enter("B", GPU) for _ in range(4)]

    text = crowd.admission.explain("B", GPU, pending=pendings[2])

    assert text.endswith("Ahead of it in line: B (GPU=1)")


async def test_leave_when_it_was_not_taken_then_it_is_free(crowd: Crowd) -> None:
    pending = crowd.enter("A", GPU)
    assert pending.done()

    crowd.admission.leave(pending)

    assert crowd.ledger.available() == crowd.ledger.total()


async def test_leave_when_it_waits_then_those_behind_may_go(crowd: Crowd) -> None:
    half = request(num_gpus=0.5)
    crowd.enter("A", half)
    whole, behind = crowd.enter("B", GPU), crowd.enter("C", half)

    crowd.admission.leave(whole)

    assert not whole.done()
    assert behind.done()
    assert crowd.waiting() == []


async def test_leave_when_it_was_granted_meanwhile_then_the_next_has_it(
    crowd: Crowd,
) -> None:
    held, first, second = (crowd.enter(label, GPU) for label in "ABC")
    crowd.admission.leave(held)
    assert first.done()

    crowd.admission.leave(first)

    assert second.done()


async def test_acquire_when_constrained_then_only_those_who_compete_wait() -> None:
    admission = Admission(machine(gpus=2))
    ledger = admission.ledger
    first, second = ledger.pools["GPU"].devices
    on_first, on_second = (
        DeviceConstraints(only=frozenset({one})) for one in (first, second)
    )
    lease = admission.acquire("A", GPU, on_first).result()

    waits = admission.acquire("B", GPU, on_first)
    passes = admission.acquire("C", request(num_gpus=0.5))

    assert not waits.done()
    assert passes.result().shares[0].device is second
    admission.release(lease)
    assert waits.result().shares[0].device is first
    assert admission.explain("D", request(num_gpus=0.5), on_second) == (
        "D asks GPU=0.5 on GPU 1; that is free"
    )


async def test_explain_when_those_ahead_may_get_others_then_they_are_not_named() -> (
    None
):
    admission = Admission(machine(gpus=2))
    first, second = admission.ledger.pools["GPU"].devices
    on_first, on_second = (
        DeviceConstraints(only=frozenset({one})) for one in (first, second)
    )
    for constraints in (on_first, on_second, on_first):
        admission.acquire("A", GPU, constraints)

    text = admission.explain("B", GPU, on_second)

    assert "Ahead of it" not in text


async def test_preview_when_it_would_go_then_nothing_is_taken() -> None:
    admission = Admission(machine(gpus=2))

    text = admission.preview("A", request(num_gpus=0.5), DeviceConstraints(spread=True))

    assert text.startswith("A asks GPU=0.5; it would go to GPU 0\n  GPU 0 (nvidia): 1")
    assert admission.ledger.available() == admission.ledger.total()


async def test_preview_when_others_came_first_then_names_them_in_the_first_line() -> (
    None
):
    admission = Admission(machine(gpus=2))
    admission.acquire("A", request(num_gpus=0.5))
    admission.acquire("Big", request(num_gpus=2))

    head, *devices = admission.preview("B", request(num_gpus=0.5)).splitlines()

    assert head == ("B asks GPU=0.5; that is free. Ahead of it in line: Big (GPU=2)")
    assert devices == [
        "  GPU 0 (nvidia): 0.5 free, has room",
        "  GPU 1 (nvidia): 1 free, has room",
    ]


async def test_preview_when_it_is_held_then_says_who_holds_it() -> None:
    admission = Admission(machine(), holder_names=lambda: names)
    lease = await admission.acquire("A", GPU)
    names = {id(lease): "Holder"}

    head, *_ = admission.preview("B", GPU).splitlines()

    assert "Holder" in head
    assert "Holder" not in admission.preview("B", CPU)


async def test_explain_when_infeasible_then_the_refusal(crowd: Crowd) -> None:
    await acquire(crowd.admission, "A", GPU)
    await crowd.ask("B", GPU)

    assert "Lower num_gpus" in crowd.admission.explain("C", request(num_gpus=2))


REQUESTS = [
    request(num_gpus=gpus, num_cpus=cpus)
    for gpus in (0, 0.3, 0.5, 1, 2, 3)
    for cpus in (0, 1, 3, 5)
]


async def test_requeue_when_others_wait_then_it_is_behind_them(crowd: Crowd) -> None:
    holder = crowd.enter("holder", GPU)
    first, second = crowd.enter("first", GPU), crowd.enter("second", GPU)

    crowd.admission.requeue(first)
    crowd.admission.requeue(holder)  # its turn has come: nothing happens

    assert crowd.waiting() == ["second", "first"]
    crowd.admission.release(holder.result())
    assert second.done()
    crowd.admission.release(second.result())
    assert first.done()


async def test_requeue_when_it_was_in_the_way_then_others_go(crowd: Crowd) -> None:
    holder = crowd.enter("holder", request(num_gpus=1, num_cpus=1))
    large = crowd.enter("large", request(num_gpus=1, num_cpus=4))
    small = crowd.enter("small", request(num_cpus=2))
    assert not small.done()

    crowd.admission.requeue(large)

    assert small.done()
    assert holder.done()


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


async def test_change_constraints_when_its_devices_are_free_then_granted_at_once() -> (
    None
):
    admission = Admission(machine(gpus=2))
    zero, one = admission.ledger.pools["GPU"].devices
    admission.acquire("holder", GPU)
    pending = admission.acquire("A", GPU, DeviceConstraints(apart=frozenset({one})))
    assert not pending.done()

    admission.change_constraints(pending, ANYWHERE)

    assert pending.result().shares[0].device == one
    assert zero.index == 0


async def test_change_constraints_when_its_turn_has_come_then_nothing_changes() -> None:
    admission = Admission(machine(gpus=2))
    pending = admission.acquire("A", GPU)

    admission.change_constraints(pending, DeviceConstraints(spread=True))

    assert pending.result().shares[0].device.index == 0
    assert admission.waiting() == []
