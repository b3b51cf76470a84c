"""What always holds of the owner's tables: each check raises AssertionError."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from actorlib._options.kinds import UNITS
from actorlib._options.resources import add
from actorlib._owner.actors.actor_record import ActorState
from actorlib._scheduler.bundles import _units_by_device

if TYPE_CHECKING:
    from actorlib._owner.actors.actor_table import ActorTable
    from actorlib._owner.calls.call_table import CallTable
    from actorlib._owner.calls.mailbox import Mailbox
    from actorlib._owner.requests.worker_requests import WorkerRequests
    from actorlib._scheduler.bundles import Bundles
    from actorlib._scheduler.device_pool import DevicePool
    from actorlib._scheduler.free_buckets import FreeBuckets
    from actorlib._scheduler.ledger import Ledger
    from actorlib._shm.allocator import BlockAllocator


def check_actors(table: ActorTable) -> None:
    """Each actor holds what its state allows."""
    for record in [supervisor.record for supervisor in table]:
        is_placed = record.state not in (ActorState.PENDING, ActorState.DEAD)
        if record.state not in (ActorState.RESTARTING, ActorState.SUSPENDED):
            assert is_placed == (record.lease is not None), record
        assert (record.exit is not None) == (record.state is ActorState.DEAD), record


def check_requests(requests: WorkerRequests, session: int) -> None:
    """Only one worker is left of those that have asked for something."""
    assert {asker for asker, _ in requests._calls._calls} <= {session}
    assert not requests._calls.streams
    assert set(requests.links._linked) <= {session}


def check_references(table: ActorTable, session: int) -> None:
    """Only the program and one worker hold something, and made shared memory."""
    counts = table.references._counts
    assert {holder for each in counts.values() for holder in each} <= {0, session}
    assert len(table.object_store._makers) == 1


def check_mailbox(mailbox: Mailbox[Any]) -> None:
    """Each call is in one place, and none is kept for nothing."""
    check_calls(mailbox.calls)
    posted = mailbox.calls.posted
    assert mailbox.answerable.keys() | mailbox.waiting.keys() == posted.keys()
    assert mailbox.kept.keys() <= posted.keys(), "calls are kept for nothing"


def check_calls(calls: CallTable[Any, Any]) -> None:
    """Calls are in the order of their numbers, and somebody wants those deferred."""
    numbers = list(calls.posted)
    assert numbers == sorted(numbers), "calls are out of order"
    assert all(number > 0 for number in calls.posted)
    assert all(number < 0 for number in calls.deferred)
    assert all(call.target is not None for call in calls.deferred.values())


def check_ledger(ledger: Ledger) -> None:
    """What is free and what is leased make up all there is."""
    leased: dict[str, int] = {}
    shared: Counter[tuple[str, int]] = Counter()
    for lease in ledger.leases:
        leased = add(leased, lease.amounts)
        for share in lease.shares:
            shared[share.device.kind, share.device.index] += share.units
    for name, total in ledger.capacity.amounts.items():
        assert 0 <= ledger.free(name) == total - leased.get(name, 0), (name, ledger)
    for kind, pool in ledger.pools.items():
        check_pool(pool)
        for device in pool.devices:
            assert pool.free(device) + shared[kind, device.index] == UNITS, device


def check_pool(pool: DevicePool) -> None:
    """Each device is found under what it has free."""
    for index, free in enumerate(pool._free):
        assert 0 <= free <= UNITS
        assert index in members(pool._buckets_of[index])[free]
    for buckets in pool._buckets.values():
        check_buckets(buckets)
    held = [members(buckets).values() for buckets in pool._buckets.values()]
    assert sum(len(each) for sets in held for each in sets) == len(pool.devices)


def check_buckets(buckets: FreeBuckets) -> None:
    """The amounts in use are those with a bucket."""
    assert buckets._amounts == sorted(buckets._buckets)


def members(buckets: FreeBuckets) -> dict[int, set[int]]:
    """The devices, by what they have free."""
    return {free: bucket.members for free, bucket in buckets._buckets.items()}


def check_bundles(bundles: Bundles) -> None:
    """What is free and what is held make up each bundle."""
    for index, whole in enumerate(bundles.leases):
        there, units = dict(bundles._free[index]), dict(bundles._free_units[index])
        assert min([0, *there.values(), *units.values()]) >= 0
        for member in bundles._held.values():
            if member.index == index:
                there = add(there, member.lease.amounts)
                for share in member.lease.shares:
                    units[share.device.kind, share.device.index] += share.units
        assert there == dict(whole.amounts)
        assert units == _units_by_device(whole)


def check_blocks(blocks: BlockAllocator) -> None:
    """Blocks and gaps cover a segment exactly, and no two gaps are neighbours."""
    end, was_gap = 0, False
    for start, nbytes in sorted([*blocks._blocks.items(), *blocks._gaps]):
        is_gap = start not in blocks._blocks
        assert start == end
        assert nbytes
        assert not (is_gap and was_gap)
        end, was_gap = start + nbytes, is_gap
    assert end == blocks.size
    assert blocks.used == sum(blocks._blocks.values())
