from __future__ import annotations

import asyncio

import numpy as np
import pytest
from helpers.actors import (
    Counter,
    Echo,
    Gate,
)
from helpers.calls import raised

import actorlib
from actorlib.exceptions import ActorDiedError

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("on_both_loops", "same_loop_in_workers", "runtime"),
]


@pytest.mark.slow
async def test_100_megabytes_are_equal_after_the_trip() -> None:
    echo = Echo.remote()
    array = np.arange(100_000_000 // 8, dtype=np.int64)
    assert np.array_equal(await echo.echo.remote(array), array)


async def test_a_task_group_gives_up_the_others_when_one_fails() -> None:
    gate, echo = Gate.remote(), Echo.remote()

    async def wait() -> None:
        await gate.wait.remote("never")

    async def fail() -> None:
        await gate.reached.remote("never")
        await echo.fail.remote(ValueError("x"))

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wait())
            group.create_task(fail())

    error = await raised(together())
    assert isinstance(error, ExceptionGroup)
    assert isinstance(error.exceptions[0], ValueError)
    # The wait that was given up was the only one, so the call is over too.
    await gate.wait.remote("never")
    assert await gate.left.remote() == ["never"]


async def test_a_call_to_a_dead_actor_fails_by_its_ref() -> None:
    counter = Counter.remote()
    await counter
    await actorlib.kill(counter)
    ref = counter.add.remote()
    assert isinstance(await raised(ref), ActorDiedError)
