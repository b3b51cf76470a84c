"""Functions that are ``async def`` where workers are processes or threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

from helpers.actors import running
from helpers.calls import raised
from test_async_functions import (
    count_up,
    exists,
    is_there,
    meet,
    touch,
    wait_for_ever,
)

import actorlib
import actorlib.blocking as ray
from actorlib.exceptions import TaskCancelledError, WorkerCrashedError

if TYPE_CHECKING:
    from pathlib import Path


async def test_worker_when_it_dies_then_all_its_calls_are_retried_or_fail(
    tmp_path: Path,
) -> None:
    async with running() as runtime:
        sibling = survive.remote(tmp_path / "sibling")
        once = survive.options(max_retries=0).remote(tmp_path / "once")
        await is_there(tmp_path / "sibling")
        await is_there(tmp_path / "once")
        error = await raised(die.options(max_retries=0).remote())
        assert isinstance(error, WorkerCrashedError)
        assert "exit code 3" in str(error)
        assert isinstance(await raised(once), WorkerCrashedError)
        assert await sibling == "again"
        assert runtime.available_resources()["CPU"] == 4


@actorlib.remote
async def survive(path: Path) -> str:
    if exists(path):
        return "again"
    touch(path)
    return await asyncio.get_running_loop().create_future()


@actorlib.remote
async def die() -> None:
    os._exit(3)


async def test_force_cancel_when_other_calls_run_beside_it_then_they_go_on(
    tmp_path: Path,
) -> None:
    async with running():
        other = meet.remote("force", 2)
        ref = wait_for_ever.remote(tmp_path / "begun", tmp_path / "ended")
        await is_there(tmp_path / "begun")
        ref.cancel(force=True)
        assert isinstance(await raised(ref), TaskCancelledError)
        assert await meet.remote("force", 2) == await other
        alone = ignore_cancelling.remote(tmp_path / "alone")
        await is_there(tmp_path / "alone")
        alone.cancel(force=True)
        assert isinstance(await raised(alone), TaskCancelledError | WorkerCrashedError)


@actorlib.remote(max_retries=0)
async def ignore_cancelling(path: Path) -> None:
    touch(path)
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()


async def test_inline_engine_runs_async_functions() -> None:
    async with running(engine="inline"):
        assert await asyncio.gather(meet.remote("in", 2), meet.remote("in", 2))
        assert [await ref async for ref in count_up.remote(3)] == [0, 1, 2]


def test_script_calls_async_functions() -> None:
    with ray.init(num_cpus=2):
        first, second = ray.get([meet.remote("script", 2) for _ in range(2)])
        assert first == second
