"""Slots of functions inside of a placement group."""

from __future__ import annotations

import asyncio

import pytest

from actorlib._base.ids import GROUP_KIND, new_id
from actorlib._options.group_spec import GroupId, GroupSpec
from actorlib._options.kinds import UNITS
from actorlib._options.resources import CPU, Resources, request
from actorlib._owner.functions.task_slots import GroupSlots
from actorlib._scheduler.catalogue import Demand
from actorlib._scheduler.request import ANYWHERE, LeaseRequest
from actorlib._scheduler.scheduler import Scheduler
from actorlib.accelerators import Inventory


@pytest.mark.parametrize("index", [0, -1])
@pytest.mark.parametrize("holder", ["an actor", ""])
async def test_reacquire_when_the_cpus_are_taken_then_functions_alone_are_waited_for(
    holder: str, index: int
) -> None:
    loop = asyncio.get_running_loop()
    scheduler = Scheduler(Resources.of({CPU: 4 * UNITS}), Inventory(), (), loop)
    group = GroupId(new_id(bytes(8), GROUP_KIND, 1))
    spec = GroupSpec(id=group, bundles=({"CPU": 2},))
    scheduler.groups.reserve(spec, 0)
    demand = Demand(request(num_cpus=1), ANYWHERE)
    slots = GroupSlots(scheduler.groups, spec, "f", demand, index, 0)
    slots.release(await slots.acquire("f", is_nested=False))

    other = LeaseRequest("g", request(num_cpus=2), group=spec, holder=holder)
    lease = await scheduler.acquire(other)
    pending = slots.reacquire("f", UNITS, None)

    assert (pending is None) == bool(holder)
    if pending is not None:
        scheduler.release(lease)
        slots.release(await pending)
