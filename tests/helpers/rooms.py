"""An actor that counts how many calls of another run at once; imported by workers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import actorlib

if TYPE_CHECKING:
    from helpers.callees import Steps


@actorlib.remote
class Room:
    """Counts its connections, and lets none out before the first ``size`` are in.

    Args:
        size: How many of them.
    """

    def __init__(self, size: int) -> None:
        self._size, self._now, self._most = size, 0, 0
        self._is_full = asyncio.Event()

    async def enter(self) -> None:
        """Returns when so many are in."""
        self._now += 1
        self._most = max(self._most, self._now)
        if self._now == self._size:
            self._is_full.set()
        await self._is_full.wait()

    async def leave(self) -> None:
        """Makes room for another."""
        self._now -= 1

    async def most(self) -> int:
        """How many were in at once."""
        return self._most


def visit(room: Any) -> Steps:
    """Enters a room and leaves it; see ``helpers.callees``."""
    yield room.enter.remote()
    yield room.leave.remote()
