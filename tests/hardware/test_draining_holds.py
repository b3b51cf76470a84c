"""On a machine with an NVIDIA GPU: nobody is given a card before its memory is back."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

import actorlib
from actorlib.exceptions import ActorUnavailableError

pytestmark = [
    pytest.mark.accelerator,
    pytest.mark.process,
    pytest.mark.usefixtures("card"),
]

ROUNDS = 20


@actorlib.remote(num_gpus=1)
class Hoarder:
    """Takes four fifths of a card in its constructor."""

    def __init__(self) -> None:
        import cuda  # noqa: PLC0415  # in the actor's process, behind its mask

        self._context = cuda.Context()
        _, self._total = self._context.memory()
        # A part of all, not of what is free: who comes early has to run out.
        self._context.allocate(self._total * 4 // 5)

    def total(self) -> int:
        """All bytes of the card."""
        return self._total

    def crash(self) -> None:
        """Ends at once, and leaves the driver all the work."""
        os._exit(1)


async def _ready(actor: Any) -> None:
    await actor


async def test_kill_when_a_card_was_full_then_the_next_never_runs_out() -> None:
    async with actorlib.init(num_gpus=1):
        for _ in range(ROUNDS):
            hoarder = await Hoarder.remote()
            assert await hoarder.total.remote() > 0
            await actorlib.kill(hoarder)


async def test_restart_when_a_card_was_full_then_it_never_runs_out() -> None:
    async with actorlib.init(num_gpus=1):
        hoarder = await Hoarder.options(max_restarts=-1, restart_backoff=0).remote()
        for _ in range(ROUNDS):
            with pytest.raises(ActorUnavailableError):
                await hoarder.crash.remote()
            await hoarder
            assert await hoarder.total.remote() > 0


async def test_control_when_draining_is_off_then_a_card_may_be_full_for_the_next() -> (
    None
):
    """Without it some of the next run out; if none does, the others show little."""
    failed = 0
    async with actorlib.init(num_gpus=1, enforcement="off"):
        for _ in range(ROUNDS):
            hoarder = Hoarder.remote()
            [error] = await asyncio.gather(_ready(hoarder), return_exceptions=True)
            assert error is None or "out of memory" in str(error)
            failed += error is not None
            await actorlib.kill(hoarder)
    if not failed:
        pytest.skip("this driver has given everything back before the process was gone")
