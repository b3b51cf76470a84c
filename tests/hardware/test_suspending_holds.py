"""On a machine with an NVIDIA GPU: a card is given on while its actor is suspended."""

from __future__ import annotations

import pytest

import actorlib
from actorlib.exceptions import SuspendError

pytestmark = [pytest.mark.accelerator, pytest.mark.process]

PART = 0.6
"""The part of a card that each has: two of them do not fit."""


@actorlib.remote(num_gpus=1)
class Holder:
    """Has more than half of a card, full of ones."""

    def __init__(self) -> None:
        import cuda  # noqa: PLC0415  # in the actor's process, behind its mask

        self._context = cuda.Context()
        _, total = self._context.memory()
        self._nbytes = int(total * PART)
        self._address = self._context.allocate(self._nbytes)

    def ends(self) -> tuple[bytes, bytes]:
        """What stands at the beginning and at the end of its memory."""
        last = self._address + self._nbytes - 4
        return self._context.read(self._address, 4), self._context.read(last, 4)


@pytest.mark.usefixtures("card")
async def test_suspend_when_a_card_is_full_then_the_next_has_it_and_gives_it_back() -> (
    None
):
    async with actorlib.init(num_gpus=1):
        first = await Holder.remote()
        try:
            await first.suspend(timeout=60)
        except SuspendError as error:
            pytest.skip(f"this driver does not do it: {error}")
        held = first.ends.remote()
        second = await Holder.remote()
        assert await second.ends.remote() == (b"\x01" * 4, b"\x01" * 4)
        assert not held.done()
        await actorlib.kill(second)

        await first.resume()

        assert await held == (b"\x01" * 4, b"\x01" * 4)
        await first.suspend(timeout=60)
        await first.resume()
        assert await first.ends.remote() == (b"\x01" * 4, b"\x01" * 4)
