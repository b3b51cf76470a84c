"""the one entry to placement: leases of the machine and of groups, and giving back."""

from __future__ import annotations

import asyncio

import pytest

from actorlib._base.ids import GROUP_KIND, new_id
from actorlib._options.group_spec import GroupId, GroupSpec
from actorlib._options.kinds import UNITS
from actorlib._options.resources import Resources
from actorlib._scheduler.request import LeaseRequest
from actorlib._scheduler.scheduler import Scheduler
from actorlib.accelerators import Inventory
from actorlib.exceptions import ActorUnschedulableError


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


async def test_acquire_when_there_is_room_then_granted_at_once(
    scheduler: Scheduler,
) -> None:
    lease = await scheduler.acquire(LeaseRequest("A", _slots(2)))
    assert free(scheduler) == 1

    scheduler.release(lease)

    assert free(scheduler) == 3


async def test_acquire_when_inside_a_group_then_of_what_that_has(
    scheduler: Scheduler,
) -> None:
    spec = _group(scheduler, 2)
    inside = scheduler.acquire(LeaseRequest("A", _slots(2), group=spec))
    behind = scheduler.acquire(LeaseRequest("B", _slots(1), group=spec))
    outside = scheduler.acquire(LeaseRequest("C", _slots(1)))

    assert (inside.done(), behind.done(), outside.done()) == (True, False, True)
    assert free(scheduler) == 0
    scheduler.release(inside.result())
    assert behind.done()


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


@pytest.mark.parametrize("is_inside", [False, True])
async def test_requeue_when_others_wait_then_it_is_behind_them(
    scheduler: Scheduler,
    is_inside: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    group = _group(scheduler, 3) if is_inside else None
    asked = LeaseRequest("A", _slots(3), group=group)
    first, second, third = (scheduler.acquire(asked) for _ in range(3))

    scheduler.requeue(second)
    scheduler.release(first.result())

    assert (second.done(), third.done()) == (False, True)


@pytest.mark.parametrize("is_inside", [False, True])
async def test_leave_when_it_waits_or_was_granted_then_those_behind_go(
    scheduler: Scheduler,
    is_inside: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    group = _group(scheduler, 3) if is_inside else None
    asked = LeaseRequest("A", _slots(3), group=group)
    first, second, third = (scheduler.acquire(asked) for _ in range(3))

    scheduler.leave(second)
    scheduler.leave(first)

    assert third.done()


async def test_acquire_when_its_group_is_reserved_later_then_served_or_refused(
    scheduler: Scheduler,
) -> None:
    before = await scheduler.acquire(LeaseRequest("A", _slots(3)))
    spec = _group(scheduler, 2)
    small, large = (
        scheduler.acquire(LeaseRequest("B", _slots(count), group=spec))
        for count in (2, 3)
    )
    assert not small.done()
    assert not large.done()

    scheduler.release(before)

    assert (await small).amounts == {"slot": 2 * UNITS}
    with pytest.raises(ActorUnschedulableError, match="slot=3"):
        await large


async def test_leave_when_it_waits_inside_a_group_then_a_smaller_one_behind_goes(
    scheduler: Scheduler,
) -> None:
    spec = _group(scheduler, 3)
    _, ahead, behind = (
        scheduler.acquire(LeaseRequest(name, _slots(count), group=spec))
        for name, count in (("A", 2), ("B", 3), ("C", 1))
    )
    assert not behind.done()

    scheduler.leave(ahead)

    assert behind.done()


async def test_explain_when_inside_a_group_then_names_others_that_wait_there(
    scheduler: Scheduler,
) -> None:
    spec = _group(scheduler, 2)
    first, second = (
        LeaseRequest(name, _slots(2), group=spec, holder=name) for name in "BC"
    )
    scheduler.acquire(LeaseRequest("A", _slots(1), group=spec))
    group = scheduler.groups.alive(spec)
    assert group is not None
    scheduler.acquire(first)
    assert "Waiting there too" not in group.explain_member(first)

    scheduler.acquire(second)

    assert group.explain_member(second).endswith("Waiting there too: B")
    assert group.preview(second) == group.explain_member(second)
    large = LeaseRequest("D", _slots(3), group=spec)
    assert group.preview(large) == group.refusal_of(large) != ""


async def test_demands_when_some_can_never_be_then_it_says_which() -> None:
    loop = asyncio.get_running_loop()
    patient = Scheduler(_slots(3), Inventory(), (), loop, may_wait=True)
    await patient.acquire(LeaseRequest("A", _slots(3)))
    for count in (4, 3):
        patient.acquire(LeaseRequest("B", _slots(count)))

    demands = {each.resources["slot"]: each.is_infeasible for each in patient.demands()}

    assert demands == {3: False, 4: True}


async def test_refusal_when_it_can_never_be_then_it_says_why(
    scheduler: Scheduler,
) -> None:
    refused = scheduler.refusal(LeaseRequest("A", _slots(4)))

    assert refused is not None
    assert "slot=4" in refused
    assert scheduler.refusal(LeaseRequest("A", _slots(3))) is None


async def test_refusal_when_what_can_never_be_may_wait_then_none() -> None:
    loop = asyncio.get_running_loop()
    patient = Scheduler(_slots(3), Inventory(), (), loop, may_wait=True)

    assert patient.refusal(LeaseRequest("A", _slots(4))) is None
    assert not patient.acquire(LeaseRequest("A", _slots(4))).done()
