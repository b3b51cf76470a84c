"""Calls that were sent ahead behind one that takes long: they are taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._local.ahead import STUCK
from actorlib._wire.frames import RECALL

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

    from actorlib._local.tasks import Hand


class Watch:
    """Looks after workers that have more than one call, while there are any.

    Args:
        loop: The owner's loop.
        hands: The workers, live.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, hands: Collection[Hand]
    ) -> None:
        self._loop = loop
        self._hands = hands
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """A worker has more than one call."""
        if self._timer is None:
            self._timer = self._loop.call_later(STUCK, self._look)

    def close(self) -> None:
        """Looks after nobody any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        is_ahead = False
        for hand in self._hands:
            if len(hand.tasks) < 2:
                continue
            is_ahead = True
            if hand.answers == hand.looked_at and not hand.is_stuck:
                hand.is_stuck = True
                hand.life.dispatch.tell((RECALL,))
                hand.look()
            hand.looked_at = hand.answers
        if is_ahead:
            self.begin()
