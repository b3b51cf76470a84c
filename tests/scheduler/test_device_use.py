"""Devices of several programs, in memory: who gets which, and who waits for whom."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, final

import pytest
from helpers.cards import devices_of
from helpers.invariants import check_ledger

from actorlib._options.resources import Resources, request, totals
from actorlib._scheduler.admission import Admission
from actorlib._scheduler.device_use import DeviceUse
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import (
    ANYWHERE,
    BundleRequest,
    DeviceConstraints,
    LeaseRequest,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Mapping, Sequence

    from actorlib.accelerators.base import Device, Lease


class Machine:
    """The cards of a machine by number, each with the program that has it."""

    def __init__(self) -> None:
        self.owners: dict[int, str] = {}
        self.programs: list[UseInMemory] = []


@final
class UseInMemory(DeviceUse):
    """The use of one program; the others are notified when they are asked to look."""

    def __init__(self, program: str, machine: Machine) -> None:
        self.program = program
        self.machine = machine
        self.refused: dict[int, Device] = {}
        self.on_free: Callable[[Collection[Device]], None]
        machine.programs.append(self)

    def begin(self, devices: Sequence[Device]) -> Mapping[Device, str]:
        owners = self.machine.owners
        assert not {d.index for d in devices if owners.get(d.index) == self.program}
        refused = {d: owners[d.index] for d in devices if d.index in owners}
        self.refused |= {device.index: device for device in refused}
        if not refused:
            owners.update((device.index, self.program) for device in devices)
        return refused

    def end(self, devices: Collection[Device]) -> None:
        for device in devices:
            assert self.machine.owners.pop(device.index) == self.program

    def look(self) -> None:
        """Notices which refused devices are free, as the kernel reports it."""
        free = self.refused.keys() - self.machine.owners.keys()
        if free:
            self.on_free([self.refused.pop(index) for index in free])


def program(name: str, machine: Machine, gpus: int) -> Admission:
    capacity = totals(num_cpus=8, num_gpus=gpus, memory=0, resources=None)
    use = UseInMemory(name, machine)
    admission = Admission(Ledger(capacity, {"GPU": devices_of(str(gpus))}, use=use))
    use.on_free = admission.restore
    return admission


def settle(machine: Machine) -> None:
    """Lets every program notice what is free, until none gets anything new."""
    before = None
    while before != machine.owners:
        before = dict(machine.owners)
        for use in machine.programs:
            use.look()


def gpus(amount: float, constraints: DeviceConstraints = ANYWHERE) -> LeaseRequest:
    return LeaseRequest("A", request(num_gpus=amount), constraints)


async def test_devices_when_another_program_has_some_then_the_others_are_granted() -> (
    None
):
    machine = Machine()
    ours, theirs = program("ours", machine, 3), program("theirs", machine, 3)
    theirs_one = theirs.acquire(gpus(0.5)).result()

    two = ours.acquire(gpus(2)).result()
    assert [share.device.index for share in two.shares] == [1, 2]
    waiting = ours.acquire(gpus(0.5))
    assert not waiting.done()
    text = ours.explain(gpus(0.5), waiting)
    assert "GPU=1 by theirs" in text
    assert ours.ledger.available()["GPU"] == 0
    check_ledger(ours.ledger)

    theirs.release(theirs.acquire(gpus(0.25)).result())
    settle(machine)
    assert not waiting.done()  # another lease on the device is left

    theirs.release(theirs_one)
    settle(machine)
    assert [share.device.index for share in waiting.result().shares] == [0]
    assert "theirs" not in ours.explain(gpus(3), None)


async def test_groups_when_they_overlap_then_each_gets_all_of_its_devices_or_none() -> (
    None
):
    machine = Machine()
    ours, theirs = program("ours", machine, 3), program("theirs", machine, 3)
    middle = DeviceConstraints(only=frozenset({devices_of("3")[1]}))
    one = theirs.acquire(gpus(1, middle)).result()
    bundles = BundleRequest([request(num_gpus=1)] * 3, "STRICT_SPREAD")
    group = gpus(3, DeviceConstraints(bundles=bundles))

    waiting = ours.acquire(group)

    assert not waiting.done()
    assert machine.owners == {1: "theirs"}  # nothing is held while the group waits
    rest = theirs.acquire(gpus(2)).result()
    theirs.release(one)
    settle(machine)
    assert not waiting.done()
    theirs.release(rest)
    settle(machine)
    assert len(waiting.result().shares) == 3
    assert {*machine.owners.values()} == {"ours"}


async def test_preview_when_another_program_has_the_device_then_it_is_named() -> None:
    machine = Machine()
    ours, theirs = program("ours", machine, 1), program("theirs", machine, 1)
    assert "would go to GPU 0" in ours.preview(gpus(1))
    assert machine.owners == {}
    theirs.acquire(gpus(1))

    assert "GPU=1 by theirs" in ours.preview(gpus(1))


@pytest.mark.parametrize("seed", range(40))
async def test_requests_when_in_any_order_then_none_is_granted_twice_or_lost(
    seed: int,
) -> None:
    random = Random(seed)
    machine, count = Machine(), random.choice([1, 2, 4])
    programs = [program(name, machine, count) for name in "abc"]
    pending: list[tuple[Admission, asyncio.Future[Lease]]] = []
    amounts = [0.3, 0.5, 1, *range(2, count + 1)]
    for _ in range(150):
        admission = random.choice(programs)
        if random.random() < 0.5:
            asked = request(num_gpus=random.choice(amounts), num_cpus=1)
            request_ = LeaseRequest("A", asked)
            pending.append((admission, admission.acquire(request_)))
        elif pending:
            owner, future = pending.pop(random.randrange(len(pending)))
            owner.leave(future)
        for use in random.sample(machine.programs, random.randrange(3)):
            use.look()
        check(machine, programs)

    while pending:
        settle(machine)
        granted = [(owner, future) for owner, future in pending if future.done()]
        assert granted, "all wait, and nothing is held"
        for owner, future in granted:
            owner.leave(future)
            pending.remove((owner, future))
        check(machine, programs)
    settle(machine)
    assert machine.owners == {}
    for admission in programs:
        admission.acquire(gpus(count)).result()
        admission.release(next(iter(own_leases(admission))))


def own_leases(admission: Admission) -> list[Lease]:
    others = admission.ledger.other_programs
    return [lease for lease in admission.ledger.leases if id(lease) not in others]


def check(machine: Machine, programs: list[Admission]) -> None:
    held: dict[int, str] = {}
    for use, admission in zip(machine.programs, programs, strict=True):
        check_ledger(admission.ledger)
        for lease in own_leases(admission):
            for share in lease.shares:
                assert held.setdefault(share.device.index, use.program) == use.program
    assert held == machine.owners


def test_ledger_when_no_other_program_counts_then_nothing_is_asked() -> None:
    ledger = Ledger(Resources.of({}), {"GPU": devices_of("1")})
    lease = ledger.try_acquire(request(num_gpus=1))
    assert lease is not None
    ledger.restore([share.device for share in lease.shares])
    assert ledger.available()["GPU"] == 0
    ledger.release(lease)
    assert ledger.other_programs == {}
