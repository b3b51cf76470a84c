"""On a machine with an NVIDIA GPU: who has more of a card than its share is found."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest

import actorlib
from actorlib.exceptions import DeviceMemoryExceeded

pytestmark = [pytest.mark.accelerator, pytest.mark.process]

LOOKS = 3.5
"""Seconds within which two looks in a row are taken."""


@actorlib.remote(num_gpus=0.5)
class Taker:
    """Takes memory of a card, here or in a child, whatever its share is."""

    def take(self, part: float) -> int:
        """Takes that part of the whole card; gives the bytes."""
        import cuda  # noqa: PLC0415  # in the actor's process, behind its mask

        self._context = cuda.Context()
        _, total = self._context.memory()
        self._context.allocate(int(total * part))
        return int(total * part)

    def take_in_a_child(self, part: float) -> int:
        """Has a child take it; gives the child's process id once it has."""
        code = (
            "import cuda, time; c = cuda.Context(); "
            f"c.allocate(int(c.memory()[1] * {part})); print('there', flush=True); "
            "time.sleep(60)"
        )
        here = os.path.dirname(__import__("cuda").__file__)  # noqa: PTH120
        self._child = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": here},
            stdout=subprocess.PIPE,
        )
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == b"there\n"
        return self._child.pid


@pytest.mark.parametrize("in_child", [False, True])
@pytest.mark.usefixtures("card")
async def test_watchdog_when_raw_cuda_takes_too_much_then_told_with_figures(
    *, in_child: bool
) -> None:
    told: list[DeviceMemoryExceeded] = []
    async with actorlib.init(num_gpus=1, device_memory_overuse=told.append) as runtime:
        taker = Taker.remote()  # held: who is not ends
        if in_child:
            await taker.take_in_a_child.remote(0.7)
        else:
            taken = await taker.take.remote(0.7)
        assert taker.share.enforced_by == "watchdog"
        await asyncio.sleep(LOOKS)
        used = [info.device_memory for info in runtime.snapshot().actors]

    [error] = told
    assert max(max(each.values(), default=0) for each in used) > error.granted
    assert in_child or error.used >= taken > error.granted


@pytest.mark.usefixtures("card")
async def test_watchdog_when_kill_is_asked_then_the_actor_is_ended() -> None:
    async with actorlib.init(num_gpus=1, device_memory_overuse="kill"):
        taker = Taker.remote()
        await taker.take.remote(0.7)
        await asyncio.sleep(LOOKS)
        with pytest.raises(DeviceMemoryExceeded):
            await taker.take.remote(0.01)


@pytest.mark.parametrize(("word", "part"), [("auto", 0.45), ("frameworks", 0.7)])
@pytest.mark.usefixtures("card")
async def test_watchdog_when_it_keeps_to_its_share_or_frameworks_alone_hold_then_quiet(
    word: Any, part: float
) -> None:
    told: list[DeviceMemoryExceeded] = []
    async with actorlib.init(
        num_gpus=1, device_memory_overuse=told.append, enforcement=word
    ):
        taker = Taker.remote()
        await taker.take.remote(part)
        await asyncio.sleep(LOOKS)

    assert told == []
