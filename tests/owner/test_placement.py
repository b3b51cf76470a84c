"""An actor's share of a machine: its place in line, its lease, and giving it back."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from helpers.fake_nvml import Processes
from helpers.host import GIB, RecordedHost
from helpers.nvml import Card, FakeNvml
from helpers.occupants import UUID, half
from helpers.tiers import enforcement_of
from helpers.turns import next_turn

from actorlib._base.ids import ACTOR_KIND, GROUP_KIND, ActorId, new_id
from actorlib._enforcement.gpu_watch import GpuWatch
from actorlib._enforcement.nvml_session import NvmlSession
from actorlib._options.actor_options import ActorOptions
from actorlib._options.group_spec import GroupId, GroupSpec
from actorlib._options.interface import interface_of
from actorlib._options.kinds import UNITS
from actorlib._options.resources import Resources
from actorlib._owner.actors.actor_record import ActorRecord, ActorState
from actorlib._owner.actors.placement import ActorPlacement, ActorPlacer
from actorlib._scheduler.scheduler import Scheduler
from actorlib.accelerators import Inventory
from actorlib.accelerators.base import Device, Share
from actorlib.exceptions import ActorUnschedulableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib.accelerators.base import Lease


class Model:
    pass


class Machine:
    """A machine with one slot, and the actors that ask for it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.scheduler = Scheduler(Resources.of({"slot": UNITS}), Inventory(), (), loop)
        self.placer = ActorPlacer(self.scheduler)
        self._count = 0

    def asks(
        self, slots: float = 1, apart: Sequence[ActorPlacement] = ()
    ) -> ActorPlacement:
        self._count += 1
        options = ActorOptions(
            resources={"slot": slots},
            apart_from=tuple(other.record.id for other in apart) or None,
        )
        record = ActorRecord(
            id=ActorId(new_id(bytes(8), ACTOR_KIND, self._count)),
            interface=interface_of(Model),
            options=options,
        )
        return self.placer.open(record)

    @property
    def free(self) -> float:
        return self.scheduler.ledger.available()["slot"]


@pytest.fixture
async def machine() -> Machine:
    return Machine()


async def taken(placement: ActorPlacement) -> Lease:
    """Has an actor take its lease, as its supervisor does."""
    lease = await placement.granted()
    placement.record.move(ActorState.STARTING)
    placement.take(lease)
    return lease


async def test_begin_when_there_is_room_then_the_lease_is_there_before_it_is_taken(
    machine: Machine,
) -> None:
    first = machine.asks()
    first.begin()

    assert first.lease is not None
    assert await first.granted() is first.lease
    assert (first.record.lease, machine.free) == (None, 0)


async def test_begin_when_there_is_no_room_then_it_is_in_line(machine: Machine) -> None:
    first, second = machine.asks(), machine.asks()
    first.begin()
    second.begin()

    assert second.pending is not None
    assert (second.waits_for_neighbours, second.lease) == (False, None)
    assert machine.scheduler.admission.waiting()


async def test_begin_when_neighbours_have_no_place_then_it_waits_for_them_first(
    machine: Machine,
) -> None:
    first = machine.asks(0.5)
    second = machine.asks(0.5, apart=[first])
    second.begin()
    granted = asyncio.ensure_future(second.granted())
    await next_turn()
    assert (second.waits_for_neighbours, second.pending) == (True, None)

    first.begin()
    await taken(first)

    assert await granted is second.lease
    assert not second.waits_for_neighbours


async def test_begin_when_what_is_asked_can_never_be_then_it_fails(
    machine: Machine,
) -> None:
    first = machine.asks(2)
    first.begin()

    with pytest.raises(ActorUnschedulableError, match="slot=2"):
        await first.granted()
    assert first.lease is None
    assert machine.placer.refusal(first.record) is not None


async def test_granted_when_the_lease_was_kept_then_the_same_without_a_line(
    machine: Machine,
) -> None:
    first = machine.asks()
    first.begin()
    lease = await taken(first)

    assert await first.granted() is lease
    assert machine.free == 0


async def test_give_back_when_it_is_held_then_the_next_in_line_gets_it(
    machine: Machine,
) -> None:
    first, second = machine.asks(), machine.asks()
    first.begin()
    second.begin()
    await taken(first)

    first.give_back()

    assert (first.lease, first.pending) == (None, None)
    assert second.lease is not None


async def test_give_back_when_it_was_granted_and_not_taken_then_it_is_free(
    machine: Machine,
) -> None:
    first = machine.asks()
    first.begin()

    first.give_back()
    first.give_back()

    assert machine.free == 1


async def test_give_back_when_it_waits_then_it_leaves_the_line(
    machine: Machine,
) -> None:
    first, second = machine.asks(), machine.asks()
    first.begin()
    second.begin()

    pending = second.pending
    second.give_back()

    assert not machine.scheduler.admission.waiting()
    assert (second.lease, second.pending) == (None, None)
    assert pending is not None
    assert pending.cancelled()


async def test_queue_anew_when_others_wait_then_it_is_behind_them(
    machine: Machine,
) -> None:
    first, second, third = machine.asks(), machine.asks(), machine.asks()
    for placement in (first, second, third):
        placement.begin()
    await taken(first)

    assert second.requeue()
    assert not first.requeue()
    first.give_back()

    assert (second.lease is None, third.lease is None) == (True, False)


@pytest.mark.parametrize("how", ["take", "give_up"])
async def test_settled_when_it_takes_a_lease_or_never_will_then_done(
    machine: Machine, how: str
) -> None:
    other, first = machine.asks(), machine.asks()
    other.begin()
    first.begin()
    settled = first.settled()
    assert not settled.done()

    other.give_back()
    if how == "take":
        await taken(first)
    else:
        first.give_up()

    assert settled.done()


async def test_forget_when_a_wish_was_about_the_dead_then_it_is_wished_anew(
    machine: Machine,
) -> None:
    first = machine.asks()
    first.begin()
    await taken(first)
    second = machine.asks(apart=[first])
    second.begin()
    assert second.lease is None

    first.give_back()
    machine.placer.forget(first.record)

    assert await second.granted() is second.lease


# What makes a share hold, where devices differ.


CARD = Device(family="nvidia", kind="GPU", index=1, id="1", memory=80 * GIB)
FOREIGN = Device(family="foo", kind="GPU", index=0, id="0", memory=80 * GIB)
HALF = UNITS // 2


class MixedMachine:
    """A machine with a device that nothing holds to a share, and one that has tiers."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        devices = {"GPU": (FOREIGN, CARD)}
        capacity = Resources.of({"GPU": 2 * UNITS})
        self.scheduler = Scheduler(capacity, Inventory(devices=devices), (), loop)
        enforcement = enforcement_of("auto", devices, mps="no daemon")
        self.placer = ActorPlacer(self.scheduler, enforcement)
        self._count = 0

    def asks(self, **options: Any) -> ActorPlacement:
        self._count += 1
        record = ActorRecord(
            id=ActorId(new_id(bytes(8), ACTOR_KIND, self._count)),
            interface=interface_of(Model),
            options=ActorOptions(**options),
        )
        return self.placer.open(record)

    def survey(self, **options: Any) -> str:
        return self.placer.survey("Model", ActorOptions(**options))


async def test_forget_when_the_group_of_a_wisher_waits_too_then_it_is_wished_anew() -> (
    None
):
    machine = MixedMachine()
    first = machine.asks(num_gpus=1, device="1")
    first.begin()
    await taken(first)
    spec = GroupSpec(
        id=GroupId(new_id(bytes(8), GROUP_KIND, 1)), bundles=({"GPU": 1}, {"GPU": 1})
    )
    group = machine.scheduler.groups.reserve(spec, 0)
    second = machine.asks(
        num_gpus=1, device="1", apart_from=(first.record.id,), placement_group=spec
    )
    second.begin()
    assert group.lease is None

    first.give_back()
    machine.placer.forget(first.record)

    assert await second.granted() is second.lease


@pytest.mark.parametrize("asked", [{"num_gpus": 0.5}, {"gpu_memory": "40GiB"}])
async def test_tier_when_one_device_cannot_have_it_then_placed_on_the_other(
    asked: dict[str, Any],
) -> None:
    machine = MixedMachine()
    named = [machine.asks(enforcement="frameworks", **asked) for _ in range(3)]
    usual = machine.asks(**asked)
    for placement in (*named, usual):
        placement.begin()

    held = [placement.lease and placement.lease.shares for placement in named]
    assert held == [(Share(CARD, HALF),), (Share(CARD, HALF),), None]
    assert "nothing of that is free" in machine.placer.explain(named[2])
    assert usual.lease is not None
    assert usual.lease.shares == (Share(FOREIGN, HALF),)


async def test_tier_when_surveyed_then_each_device_says_why_not() -> None:
    said = MixedMachine().survey(num_gpus=0.5, enforcement="frameworks")

    first, foreign, card = said.splitlines()
    assert first == (
        "Model requests GPU=0.5 with enforcement='frameworks'; it would go to GPU 1"
    )
    assert foreign.endswith(
        "without enforcement='frameworks', as no framework is known that takes a limit "
        "for foo devices"
    )
    assert card.endswith("chosen")


async def test_tier_when_the_named_device_cannot_have_it_then_it_says_why() -> None:
    said = MixedMachine().survey(num_gpus=0.5, enforcement="frameworks", device="0")

    assert (
        "that leaves no device. enforcement='frameworks' is not available on GPU 0, "
        in (said)
    )
    assert "foo devices. Ask for less" in said


async def test_tier_when_no_device_can_have_it_then_it_says_why_of_each() -> None:
    machine = MixedMachine()
    placement = machine.asks(num_gpus=0.5, enforcement="mps")

    said = machine.placer.refusal(placement.record)

    assert said == machine.survey(num_gpus=0.5, enforcement="mps")
    assert said is not None
    assert "cannot be had: GPU 0 is not an NVIDIA device; no daemon. " in said


async def test_tier_when_a_whole_device_is_asked_then_any_will_do() -> None:
    said = MixedMachine().survey(num_gpus=1, enforcement="frameworks")

    assert "it would go to GPU 0" in said


# Whose worker has just ended.


class Ending:
    """A worker whose end is known, and whose callbacks were not called yet."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()


@pytest.mark.memory
async def test_share_when_nobody_was_told_of_the_end_yet_then_it_drains() -> None:
    loop = asyncio.get_running_loop()
    processes = Processes()
    nvml = FakeNvml(Card(uuid=UUID), processes=processes)
    host = RecordedHost(sdks={"pynvml": nvml})
    machine = MixedMachine()
    device = half().device
    machine.scheduler = Scheduler(
        Resources.of({"GPU": UNITS}), Inventory(devices={"GPU": (device,)}), (), loop
    )
    machine.placer = ActorPlacer(machine.scheduler)
    gpus = machine.placer.gpus = GpuWatch(
        loop, partial(NvmlSession, host, loop), [].append
    )
    placement = machine.asks(num_gpus=0.5)
    placement.begin()
    worker: Any = Ending(812)
    placement.record.process = worker
    lease = await placement.granted()
    placement.take(lease)
    gpus.add_worker(worker, "Model", lease, is_watched=False)
    processes.put(UUID, worker.pid, GIB)

    worker.exited.set_result(None)
    placement.give_back()
    assert machine.scheduler.ledger.available()["GPU"] == 0.5

    gpus.drain_worker(worker)  # told at last: that changes nothing
    [drain] = gpus.drains
    processes.drop(worker.pid)
    await drain.ended()
    assert machine.scheduler.ledger.available()["GPU"] == 1
    await gpus.aclose()
