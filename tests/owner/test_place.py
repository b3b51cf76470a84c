from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.turns import next_turn

from actorlib._core.actor_options import ActorOptions
from actorlib._core.ids import ActorId
from actorlib._core.interface import interface_of
from actorlib._owner.actor_record import ActorRecord
from actorlib._owner.supervisor import Place
from actorlib.accelerators.base import Lease

if TYPE_CHECKING:
    from actorlib._owner.supervisor import Surroundings


class Model:
    pass


class Around:
    """A line of which the test is the head; see Surroundings."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.neighbours_placed = asyncio.Event()
        self.neighbours_placed.set()
        self.promises: list[asyncio.Future[Lease]] = []
        self.left: list[asyncio.Future[Lease]] = []
        self.released: list[Lease] = []

    def awaits_neighbours(self, _: ActorRecord) -> bool:
        return not self.neighbours_placed.is_set()

    async def neighbours(self, _: ActorRecord) -> None:
        await self.neighbours_placed.wait()

    def enter(self, _: ActorRecord) -> asyncio.Future[Lease]:
        self.promises.append(self.loop.create_future())
        return self.promises[-1]

    def leave(self, promise: asyncio.Future[Lease]) -> None:
        self.left.append(promise)

    def release_lease(self, lease: Lease) -> None:
        self.released.append(lease)


LEASE = Lease(amounts={})


@pytest.fixture
async def around() -> Around:
    return Around()


@pytest.fixture
async def place(around: Around) -> Place:
    record = ActorRecord(
        id=ActorId(b"a"), interface=interface_of(Model), options=ActorOptions()
    )
    return Place(record, cast("Surroundings[Any]", around))


async def test_enter_when_nobody_is_waited_for_then_it_is_in_line(
    place: Place, around: Around
) -> None:
    place.enter()

    assert place.promise is around.promises[0]
    assert (place.waits_for_neighbours, place.lease) == (False, None)


async def test_enter_when_neighbours_have_no_place_then_it_waits_for_them_first(
    place: Place, around: Around
) -> None:
    around.neighbours_placed.clear()
    place.enter()
    granted = asyncio.ensure_future(place.granted())
    await next_turn()
    assert (place.waits_for_neighbours, place.promise) == (True, None)

    around.neighbours_placed.set()
    await next_turn()
    await next_turn()

    assert not place.waits_for_neighbours
    around.promises[0].set_result(LEASE)
    assert await granted is LEASE


async def test_lease_when_it_is_granted_then_it_is_there_before_it_is_taken(
    place: Place, around: Around
) -> None:
    place.enter()
    around.promises[0].set_result(LEASE)

    assert place.lease is LEASE


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_lease_when_it_never_comes_then_none(
    place: Place, around: Around, how: str
) -> None:
    place.enter()
    if how == "failed":
        around.promises[0].set_exception(LookupError())
    else:
        around.promises[0].cancel()

    assert place.lease is None


async def test_granted_when_the_share_was_kept_then_the_same_without_a_line(
    place: Place, around: Around
) -> None:
    place.take(LEASE)

    assert await place.granted() is LEASE
    assert around.promises == []


async def test_give_back_when_it_is_held_then_released_and_the_next_is_asked_anew(
    place: Place, around: Around
) -> None:
    place.enter()
    around.promises[0].set_result(LEASE)
    place.take(await place.granted())

    place.give_back()

    assert (around.released, around.left) == ([LEASE], [])
    assert (place.lease, place.promise) == (None, None)
    place.enter()
    assert len(around.promises) == 2


async def test_give_back_when_it_waits_then_it_leaves_the_line(
    place: Place, around: Around
) -> None:
    place.enter()

    place.give_back()
    place.give_back()

    assert (around.released, around.left) == ([], around.promises)


@pytest.mark.parametrize("how", ["take", "given_up"])
async def test_taken_when_it_takes_one_or_never_will_then_done(
    place: Place, how: str
) -> None:
    taken = place.taken()
    assert not taken.done()

    if how == "take":
        place.take(LEASE)
    else:
        place.given_up()

    assert taken.done()
