"""One actor's share of the machine, from its place in line until it is given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, final

from actorlib._local.moments import Moment

if TYPE_CHECKING:
    import asyncio

    from actorlib._local.registry import ActorRecord
    from actorlib._local.surroundings import Surroundings
    from actorlib.accelerators.base import Lease

L = TypeVar("L")


@final
class Place:
    """Where an actor stands in line, and what it got.

    Args:
        record: What is known of the actor.
        surroundings: The engine.

    Attributes:
        promise: Its place in line, once it has one.
        waits_for_neighbours: Whether it is not in line yet, as an actor that it has
            to be near to, or apart from, has no place.
    """

    def __init__(self, record: ActorRecord, surroundings: Surroundings[L]) -> None:
        self.promise: asyncio.Future[Lease] | None = None
        self.waits_for_neighbours = False
        self._record = record
        self._surroundings = surroundings
        self._taken = Moment(surroundings.loop)

    @property
    def lease(self) -> Lease | None:
        """The share, from the moment that it is granted until it is given back."""
        promise = self.promise
        if self._record.lease is not None or promise is None or not promise.done():
            return self._record.lease
        has_failed = promise.cancelled() or promise.exception() is not None
        return None if has_failed else promise.result()

    def enter(self) -> None:
        """Gets in line now, unless it has to wait for neighbours first."""
        self.waits_for_neighbours = self._surroundings.awaits_neighbours(self._record)
        if not self.waits_for_neighbours:
            self.promise = self._surroundings.enter(self._record)

    async def granted(self) -> Lease:
        """The share, when its turn has come; the one that it has, if it kept one.

        Cancelled: what was granted or is waited for is left to ``give_back``.
        """
        if self._record.lease is not None:
            return self._record.lease
        if self.promise is None:
            self.waits_for_neighbours = True
            await self._surroundings.neighbours(self._record)
            self.waits_for_neighbours = False
            self.promise = self._surroundings.enter(self._record)
        return await self.promise

    def queue_anew(self) -> bool:
        """Goes to the end of the line; False if it does not stand in one."""
        if self.promise is None or self.promise.done():
            return False
        self._surroundings.queue_anew(self.promise)
        return True

    def take(self, lease: Lease) -> None:
        """Holds a share from now on."""
        self._record.lease = lease
        self._taken.happens()

    def give_back(self) -> None:
        """Gives the share back, or the place in line up."""
        lease, promise = self._record.lease, self.promise
        self._record.lease = self.promise = None
        if lease is not None:
            self._surroundings.release_lease(lease)
        elif promise is not None:
            self._surroundings.leave(promise)

    def taken(self) -> asyncio.Future[None]:
        """Done when the actor takes a share next, or never will."""
        return self._taken.wait()

    def given_up(self) -> None:
        """It will never take one any more."""
        self.waits_for_neighbours = False
        self._taken.happens()
