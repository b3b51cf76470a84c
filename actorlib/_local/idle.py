"""Workers of functions that have nothing to do, and how long they stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from actorlib._local.machine import Machine
    from actorlib._local.tasks import Hand

LONGEST = 30.0
"""Seconds after which a worker without anything to do is ended."""
_SWEEP = 1.0


class Idle:
    """Workers that wait for calls, the one that does for longest first.

    There are never more than the machine has CPUs and, besides, than have waited for
    results at once of late; and none where memory is short.

    Args:
        loop: The owner's loop.
        machine: Where they are.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, machine: Machine) -> None:
        self._leaving: dict[Hand, str] = {}
        self._loop = loop
        self._machine = machine
        self._hands: dict[Hand, None] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._waiting = 0
        self._most_waiting = 0

    def is_waiting(self, number: int) -> None:
        """So many more workers wait for results; their CPUs want workers meanwhile."""
        self._waiting += number
        self._most_waiting = max(self._most_waiting, self._waiting)

    def add(self, hand: Hand) -> None:
        """A worker has nothing to do."""
        hand.idle_since = self._loop.time()
        self._hands[hand] = None
        self._keep(self._machine.parallel + self._most_waiting)
        self._begin()

    def _keep(self, number: int) -> None:
        """Ends those too many that have had nothing to do for longest."""
        while len(self._hands) > number:
            self._dismiss(next(iter(self._hands)))

    def remove(self, hand: Hand) -> None:
        """It has something to do again, or is gone."""
        self._hands.pop(hand, None)
        if hand.life.ended.done():
            self._leaving.pop(hand, None)

    def make_room(self) -> None:
        """Somebody stands in line: what idle workers hold may be what they want."""
        for hand in [hand for hand in self._hands if hand.crew.is_on_device]:
            self._dismiss(hand)

    def end(self, hand: Hand, why: str) -> None:
        """Ends a worker when all it has to pass on is passed on; see Staff."""
        if hand.life.dispatch.debts:
            self._leaving[hand] = why
            self._begin()
        else:
            hand.life.end(why)

    def _begin(self) -> None:
        if self._sweeping is None and (self._hands or self._leaving):
            self._sweeping = self._loop.call_later(_SWEEP, self._sweep)

    def close(self) -> None:
        """Looks after nobody any more."""
        self._hands.clear()
        self._leaving.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()

    def _dismiss(self, hand: Hand) -> None:
        self._hands.pop(hand, None)
        hand.crew.dismiss(hand, "it had nothing to do")

    def _sweep(self) -> None:
        self._sweeping = None
        now = self._loop.time()
        is_short = self._machine.has_little_memory()
        for hand in list(self._hands):
            if is_short or now - hand.idle_since >= LONGEST:
                self._dismiss(hand)
        self._keep(self._machine.parallel + self._most_waiting)
        self._most_waiting = self._waiting
        leaving, self._leaving = self._leaving, {}
        for hand, why in leaving.items():
            self.end(hand, why)
        self._begin()
