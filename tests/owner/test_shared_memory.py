"""When memory that is not used is given back to the system."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from actorlib._base.ids import BLOCK_KIND, prefix_of_kind
from actorlib._owner.actors.worker_session import Cleanup
from actorlib._owner.objects.shared_memory import SWEEP_INTERVAL, ObjectStore
from actorlib._shm.memory import SharedPayload, SharingOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.memory

MIB = 1 << 20
OWNER, WORKER = b"abcd\0\0\0\0", b"abcd\0\0\0\1"


class Household:
    """The memory of an owner, and the tables that a worker is sent."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.store = ObjectStore(64 * MIB, SharingOptions(), loop)
        self.tables: list[Any] = []
        nothing = SimpleNamespace(retain=bool, release=bool)
        self.store.memory.bind_to(
            prefix_of_kind(OWNER, BLOCK_KIND), nothing, is_counted=True
        )
        sharing = SimpleNamespace(known_segments=set(), send_setup=lambda *_: None)
        channel = SimpleNamespace(send=self.tables.append)
        worker: Any = SimpleNamespace(
            prefix=WORKER, sharing=sharing, channel=channel, cleanup=Cleanup()
        )
        self.store.enter(worker, worker)

    def use(self, nbytes: int) -> None:
        """Shares a value of so many bytes, and drops it."""
        payload = self.store.memory.share([bytes(nbytes)])
        assert isinstance(payload, SharedPayload)
        self.store.held(payload.block)
        self.store.unheld(payload.block)

    @property
    def warm(self) -> int:
        return self.store.info().warm

    async def rest(self, sweeps: int) -> None:
        """Lets so many sweeps be due."""
        await asyncio.sleep(sweeps * SWEEP_INTERVAL + 1)
        sweeper = self.store.memory._store._sweeper  # type: ignore[union-attr]
        if sweeper is not None:
            sweeper.join()


@pytest.fixture
async def household() -> AsyncIterator[Household]:
    household = Household()
    yield household
    household.store.close()


async def test_memory_when_nothing_is_used_for_two_minutes_then_all_is_given_back(
    household: Household,
) -> None:
    household.use(6 * MIB)
    kept = household.warm
    await household.rest(1)
    kept_for_a_minute = household.warm
    await household.rest(1)

    assert kept == kept_for_a_minute >= 6 * MIB
    assert household.warm == 0


async def test_memory_when_less_is_used_than_before_then_the_rest_is_given_back(
    household: Household,
) -> None:
    household.use(6 * MIB)
    for _ in range(3):
        await household.rest(1)
        household.use(MIB)
    await household.rest(0)

    assert MIB <= household.warm < 6 * MIB


async def test_worker_when_it_has_touched_memory_then_it_is_asked_until_all_rests(
    household: Household,
) -> None:
    await household.rest(3)
    assert household.tables == []
    household.store.memory.budget._write(1, MIB)  # type: ignore[union-attr]  # as it does
    household.use(MIB)
    await household.rest(4)

    assert household.tables == [({"sweep": True},)] * 2
