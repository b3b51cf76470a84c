"""Waits in line until the ledger can say yes."""

from __future__ import annotations

import asyncio
from itertools import takewhile
from typing import TYPE_CHECKING, final

from actorlib._scheduler.explain import held_by, shortage, survey
from actorlib._scheduler.long_waits import kept_by_shell
from actorlib._scheduler.request import ANYWHERE, DeviceConstraints
from actorlib._scheduler.wait_queue import Priority, Waiter, WaitQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._core.resources import Resources
    from actorlib._scheduler.ledger import Ledger
    from actorlib.accelerators.base import Lease


@final
class Admission:
    """The door to a ledger: those for whom there is no room yet wait in line.

    Every lease of the ledger has to be asked for and given back here, on one event
    loop: a release is what lets the line move.

    Args:
        ledger: What is granted.
        loop: Where leases are waited for; None for the one that runs then.
        titles: Says what the holders of leases are called, by the ids of these objects.
        on_wait: Called when somebody has to wait.

    Attributes:
        ledger: As given.
        titles: As given.
    """

    __slots__ = (
        "_loop",
        "_on_wait",
        "_pending",
        "_queue",
        "_waiters",
        "ledger",
        "titles",
    )

    def __init__(
        self,
        ledger: Ledger,
        loop: asyncio.AbstractEventLoop | None = None,
        titles: Callable[[], Mapping[int, str]] = dict,
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self.ledger = ledger
        self._loop = loop
        self._queue = WaitQueue(ledger)
        self._pending: dict[Waiter, asyncio.Future[Lease]] = {}
        self._waiters: dict[asyncio.Future[Lease], Waiter] = {}
        self.titles = titles
        self._on_wait = on_wait

    def __len__(self) -> int:
        """Counts those who wait."""
        return len(self._waiters)

    def enter(
        self,
        label: str,
        request: Resources,
        where: DeviceConstraints = ANYWHERE,
        priority: Priority = Priority.USUAL,
    ) -> asyncio.Future[Lease]:
        """Asks for a lease: granted at once if nobody has to wait for it, else in line.

        What can never be granted waits for ever and holds nobody up.

        Args:
            label: Who asks, for messages.
            request: What is asked.
            where: What is wished of the devices.
            priority: Who has to let it pass; see the line.

        Returns:
            The lease, now or later. Whoever takes it gives it back to :meth:`release`;
            whoever wants it no more says so to :meth:`leave`.
        """
        loop = self._loop or asyncio.get_running_loop()
        pending: asyncio.Future[Lease] = loop.create_future()
        lease = self._queue.try_at_once(request, where, priority)
        if lease is not None:
            pending.set_result(lease)
        else:
            waiter = self._queue.enqueue(label, request, where, priority)
            self._pending[waiter] = pending
            self._waiters[pending] = waiter
            self._on_wait()
        return pending

    def leave(self, pending: asyncio.Future[Lease]) -> None:
        """Leaves the line, or gives a lease back that was granted and never taken.

        Args:
            pending: What ``enter`` gave.
        """
        waiter = self._waiters.pop(pending, None)
        if waiter is not None and self._pending.pop(waiter, None) is not None:
            self._queue.remove(waiter)
            self._serve()
        elif pending.done() and not pending.cancelled():
            self.release(pending.result())

    def wish_anew(
        self, pending: asyncio.Future[Lease], where: DeviceConstraints
    ) -> None:
        """Wishes for other devices than before; the place in line stays the same.

        Args:
            pending: What ``enter`` gave; nothing happens if its turn has come.
            where: What is wished of the devices now.
        """
        waiter = self._waiters.get(pending)
        if waiter is None or self._pending.pop(waiter, None) is None:
            return
        waiter = self._queue.change_constraints(waiter, where)
        self._pending[waiter] = pending
        self._waiters[pending] = waiter
        self._serve()

    def queue_anew(self, pending: asyncio.Future[Lease]) -> None:
        """Goes to the end of the line; nothing happens if its turn has come.

        Args:
            pending: What ``enter`` gave.
        """
        waiter = self._waiters.get(pending)
        if waiter is None or self._pending.pop(waiter, None) is None:
            return
        self._queue.remove(waiter)
        asked = waiter.request, waiter.where, waiter.priority
        waiter = self._queue.enqueue(waiter.label, *asked)
        self._pending[waiter] = pending
        self._waiters[pending] = waiter
        self._serve()

    def release(self, lease: Lease) -> None:
        """Gives a lease back and lets everyone go who may go now.

        Raises:
            LookupError: The lease is not held; nothing has changed.
        """
        self.ledger.release(lease)
        self._serve()

    def lend(self, lease: Lease, name: str) -> Lease:
        """Takes back what a function does not need while it waits for a result.

        Args:
            lease: What it holds.
            name: What of it others may have meanwhile.

        Returns:
            What it keeps.
        """
        part, rest = self.ledger.split(lease, name)
        self.ledger.release(part)
        # Also where that was nothing: from now on the rest does not come back by
        # itself, and those who wait for it hold up nobody who is nested.
        self._serve()
        return rest

    def waiting(self) -> list[tuple[str, Resources]]:
        """Lists who waits for what, in order of arrival."""
        return [(waiter.label, waiter.request) for waiter in self._queue]

    def demands(self) -> list[tuple[Resources, int, bool]]:
        """Lists what is waited for, by how many, and whether it can ever be."""
        alike: dict[
            tuple[frozenset[tuple[str, int]], DeviceConstraints], list[Resources]
        ] = {}
        for waiter in self._queue:
            shape = frozenset(waiter.request.amounts.items())
            alike.setdefault((shape, waiter.where), []).append(waiter.request)
        return [
            (asked[0], len(asked), not self.ledger.never(asked[0], where))
            for (_, where), asked in alike.items()
        ]

    def explain(
        self,
        label: str,
        request: Resources,
        where: DeviceConstraints = ANYWHERE,
        pending: asyncio.Future[Lease] | None = None,
    ) -> str:
        """Says why a request is not granted now, and who is ahead of it in line.

        Args:
            label: Who asks, as given to :meth:`enter`.
            request: What it asks.
            where: What it wishes of the devices.
            pending: What :meth:`enter` gave it; None for a newcomer.
        """
        reason = shortage(self.ledger, label, request, where)
        held = self.held_by(request, where)
        return f"{reason}{held}{self.ahead_of(request, where, pending)}"

    def survey(
        self, label: str, request: Resources, where: DeviceConstraints = ANYWHERE
    ) -> str:
        """Says where a newcomer's request would go, or what stands in its way.

        Args:
            label: Who would ask.
            request: What it would ask.
            where: What it would wish of the devices.
        """
        lease = self._queue.try_at_once(request, where)
        if lease is not None:
            self.ledger.release(lease)
            return survey(self.ledger, label, request, where, lease)
        head, *lines = survey(self.ledger, label, request, where, None).splitlines()
        held, ahead = self.held_by(request, where), self.ahead_of(request, where, None)
        return "\n".join([f"{head}{held}{ahead}", *lines])

    def held_by(self, request: Resources, where: DeviceConstraints = ANYWHERE) -> str:
        """Says who holds what a request lacks now, to end a sentence."""
        held = held_by(self.ledger, request, where, self.titles())
        return f"{held}{kept_by_shell()}" if held else ""

    def ahead_of(
        self,
        request: Resources,
        where: DeviceConstraints,
        pending: asyncio.Future[Lease] | None,
    ) -> str:
        """Says who is ahead in line and wants the same, to end a sentence."""
        if self.ledger.never(request, where):
            return ""
        place = None if pending is None else self._waiters.get(pending)
        earlier = takewhile(lambda waiter: waiter is not place, self._queue)
        ahead = [w for w in earlier if self._competes(w, request, where)]
        if not ahead:
            return ""
        others = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
        first = f"{ahead[0].label} ({ahead[0].request})"
        return f". Ahead of it in line: {first}{others}"

    def _competes(
        self, waiter: Waiter, request: Resources, where: DeviceConstraints
    ) -> bool:
        both = waiter.request.amounts.keys() & request.amounts.keys()
        overlaps = any(
            name not in self.ledger.pools
            or self.ledger.pools[name].could_meet(waiter.where, where)
            for name in both
        )
        return overlaps and self.ledger.feasible(waiter.request, waiter.where)

    def _serve(self) -> None:
        while granted := self._queue.serve():
            for waiter, lease in granted:
                pending = self._pending.pop(waiter)
                self._waiters.pop(pending, None)
                if pending.cancelled():
                    # It has not woken yet to leave the line. Its lease is free again
                    # for the next round of this loop.
                    self.ledger.release(lease)
                else:
                    pending.set_result(lease)
