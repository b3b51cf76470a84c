"""The entry to placement; what it grants is in the scenarios of ``data/``."""

from __future__ import annotations

import asyncio

import pytest

from actorlib._base.ids import GROUP_KIND, new_id
from actorlib._options.group_spec import GroupId, GroupSpec
from actorlib._options.kinds import UNITS
from actorlib._options.resources import Resources
from actorlib._scheduler.request import ANYWHERE, LeaseRequest, Origin
from actorlib._scheduler.scheduler import Scheduler
from actorlib.accelerators import Inventory

NESTED = Origin.NESTED


def _slots(count: int) -> Resources:
    return Resources.of({"slot": count * UNITS})


def _group(scheduler: Scheduler, slots: int) -> GroupSpec:
    made = GroupId(new_id(bytes(8), GROUP_KIND, 1))
    spec = GroupSpec(id=made, bundles=({"slot": slots},))
    scheduler.groups.reserve(spec, 0)
    return spec


@pytest.fixture
async def scheduler() -> Scheduler:
    return Scheduler(_slots(3), Inventory(), (), asyncio.get_running_loop())


def free(scheduler: Scheduler) -> float:
    return scheduler.ledger.available()["slot"]


async def test_acquire_when_the_group_was_removed_then_never_granted(
    scheduler: Scheduler,
) -> None:
    spec = _group(scheduler, 2)
    group = scheduler.groups.find(spec.id)
    assert group is not None
    scheduler.groups.remove(group, "a test")

    pending = scheduler.acquire(LeaseRequest("A", _slots(1), group=spec))
    scheduler.leave(pending)

    assert not pending.done()
    assert free(scheduler) == 3


async def test_demands_when_some_can_never_be_then_it_says_which() -> None:
    loop = asyncio.get_running_loop()
    patient = Scheduler(_slots(3), Inventory(), (), loop, may_wait=True)
    await patient.acquire(LeaseRequest("A", _slots(3)))
    for count in (4, 3):
        patient.acquire(LeaseRequest("B", _slots(count)))

    demands = {each.resources["slot"]: each.is_infeasible for each in patient.demands()}

    assert demands == {3: False, 4: True}


async def test_refusal_when_what_can_never_be_may_wait_then_none() -> None:
    loop = asyncio.get_running_loop()
    patient = Scheduler(_slots(3), Inventory(), (), loop, may_wait=True)

    assert patient.refusal(LeaseRequest("A", _slots(4))) is None
    assert not patient.acquire(LeaseRequest("A", _slots(4))).done()


async def test_grants_at_once_when_in_a_group_then_nothing_changes() -> None:
    waits: list[bool] = []
    loop = asyncio.get_running_loop()
    scheduler = Scheduler(
        _slots(3), Inventory(), (), loop, on_wait=lambda: waits.append(True)
    )
    spec = _group(scheduler, 3)
    group = scheduler.groups.find(spec.id)
    assert group is not None

    def request(
        slots: int, origin: Origin = Origin.USUAL, priority: int = 0
    ) -> LeaseRequest:
        return LeaseRequest("A", _slots(slots), ANYWHERE, origin, priority, spec)

    assert scheduler.grants_at_once(request(3))
    first = await scheduler.acquire(request(2))
    usual = scheduler.acquire(request(3))
    assert scheduler.grants_at_once(request(1, priority=9))
    assert not scheduler.grants_at_once(request(1, priority=-1))
    assert not scheduler.grants_at_once(request(2, priority=9))
    assert not scheduler.grants_at_once(request(4))
    nested = scheduler.acquire(request(3, NESTED))
    waits.clear()
    assert scheduler.grants_at_once(request(1, NESTED))
    assert not scheduler.grants_at_once(request(1, priority=9))  # the nested one waits

    assert not waits
    assert len(group.bundles.members) == 1
    scheduler.release(first)
    assert (usual.done(), nested.done()) == (True, False)
