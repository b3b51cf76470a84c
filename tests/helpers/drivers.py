"""A driver that saves and restores processes as a test says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, final

from actorlib._enforcement.checkpoints import CheckpointError

if TYPE_CHECKING:
    import pytest

    from helpers.gpus import OneCard


@final
class FakeDriver:
    """Takes processes off one card and puts them back; see ``Checkpoints``.

    Args:
        card: The card.
        patch: Makes runtimes believe that it is the driver of their machine.

    Attributes:
        asked: What it was asked, of which process, in order.
        going_on: Set while it answers; cleared, it takes as long as the test likes.
        fault: What it raises instead of doing something, the next time alone.
    """

    def __init__(self, card: OneCard, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, int]] = []
        self.going_on = asyncio.Event()
        self.going_on.set()
        self.fault: CheckpointError | None = None
        self._card = card

        def made(_: object) -> FakeDriver:
            return self

        patch.setattr("actorlib._enforcement.checkpoints.Checkpoints", made)

    def refuse(self, reason: str, *, is_broken: bool = False) -> None:
        """Has what it is asked next fail."""
        self.fault = CheckpointError(reason, is_broken=is_broken)

    async def save(self, pid: int, patience: float | None) -> None:
        """Takes a process off the card."""
        del patience
        await self._answer("save", pid)
        self._card.let_go(pid)

    async def restore(self, pid: int) -> None:
        """Puts a process back."""
        await self._answer("restore", pid)
        self._card.use(pid)

    async def _answer(self, verb: str, pid: int) -> None:
        self.asked.append((verb, pid))
        await self.going_on.wait()
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault
