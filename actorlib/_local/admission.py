"""Waits in line until the ledger can say yes."""

from __future__ import annotations

import asyncio
from itertools import takewhile
from typing import TYPE_CHECKING, final

from actorlib._local.line import Line, Waiter

if TYPE_CHECKING:
    from actorlib._local.ledger import Ledger
    from actorlib._resources import Resources
    from actorlib.accelerators.base import Lease


@final
class Admission:
    """The door to a ledger: those for whom there is no room yet wait in line.

    Every lease of the ledger has to be asked for and given back here, on one event
    loop: a release is what lets the line move.

    Args:
        ledger: What is granted.
        loop: Where promises are kept; None for the one that runs when they are made.
    """

    __slots__ = ("_ledger", "_line", "_loop", "_places", "_promised")

    def __init__(
        self, ledger: Ledger, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._ledger = ledger
        self._loop = loop
        self._line = Line(ledger)
        self._promised: dict[Waiter, asyncio.Future[Lease]] = {}
        self._places: dict[asyncio.Future[Lease], Waiter] = {}

    def enter(self, label: str, request: Resources) -> asyncio.Future[Lease]:
        """Asks for a lease: granted at once if nobody has to wait for it, else in line.

        What can never be granted waits for ever and holds nobody up.

        Args:
            label: Who asks, for messages.
            request: What is asked.

        Returns:
            The lease, now or later. Whoever takes it gives it back to :meth:`release`;
            whoever wants it no more says so to :meth:`leave`.
        """
        loop = self._loop or asyncio.get_running_loop()
        promise: asyncio.Future[Lease] = loop.create_future()
        lease = self._line.pass_by(request)
        if lease is not None:
            promise.set_result(lease)
        else:
            waiter = self._line.join(label, request)
            self._promised[waiter] = promise
            self._places[promise] = waiter
        return promise

    def leave(self, promise: asyncio.Future[Lease]) -> None:
        """Leaves the line, or gives a lease back that was granted and never taken.

        Args:
            promise: What ``enter`` gave.
        """
        waiter = self._places.pop(promise, None)
        if waiter is not None and self._promised.pop(waiter, None) is not None:
            self._line.leave(waiter)
            self._serve()
        elif promise.done() and not promise.cancelled():
            self.release(promise.result())

    async def acquire(self, label: str, request: Resources) -> Lease:
        """Waits for a lease; at once, without yielding, if nobody has to wait for it.

        Cancelled: leaves the line; a lease granted in the same turn is given back.

        Args:
            label: Who asks, for messages.
            request: What is asked.

        Returns:
            The lease; the caller gives it back to :meth:`release`.
        """
        promise = self.enter(label, request)
        try:
            return await promise
        except BaseException:  # GeneratorExit too: a closed coroutine waits no more
            self.leave(promise)
            raise
        finally:
            self._places.pop(promise, None)

    def release(self, lease: Lease) -> None:
        """Gives a lease back and lets everyone go who may go now.

        Raises:
            LookupError: The lease is not held; nothing has changed.
        """
        self._ledger.release(lease)
        self._serve()

    def waiting(self) -> list[tuple[str, Resources]]:
        """Who waits for what, in order of arrival."""
        return [(waiter.label, waiter.request) for waiter in self._line]

    def explain(self, label: str, request: Resources) -> str:
        """Why a request is not granted now, and who is ahead of it in line.

        Args:
            label: Who asks, as given to :meth:`acquire`.
            request: What it asks; if it does not wait, it is explained as a newcomer.
        """
        reason = self._ledger.explain(label, request)
        if not self._ledger.feasible(request):
            return reason
        sought = (label, request)
        earlier = takewhile(lambda w: (w.label, w.request) != sought, self._line)
        ahead = [waiter for waiter in earlier if self._competes(waiter, request)]
        if not ahead:
            return reason
        others = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
        first = f"{ahead[0].label} ({ahead[0].request})"
        return f"{reason}. Ahead of it in line: {first}{others}"

    def _competes(self, waiter: Waiter, request: Resources) -> bool:
        overlaps = not waiter.request.amounts.keys().isdisjoint(request.amounts)
        return overlaps and self._ledger.feasible(waiter.request)

    def _serve(self) -> None:
        while granted := self._line.serve():
            for waiter, lease in granted:
                promise = self._promised.pop(waiter)
                self._places.pop(promise, None)
                if promise.cancelled():
                    # It has not woken yet to leave the line. Its lease is free again
                    # for the next round of this loop.
                    self._ledger.release(lease)
                else:
                    promise.set_result(lease)
