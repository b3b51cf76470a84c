"""Functions that are ``async def``: many calls at once in one worker."""

from __future__ import annotations

import asyncio
import contextvars
import os
from typing import TYPE_CHECKING, Any

import pytest
from helpers.calls import raised
from helpers.functions import group_of
from helpers.marks import USES_RUNTIME, in_memory

import actorlib
from actorlib.exceptions import (
    DeadlineExceededError,
    TaskCancelledError,
    TaskError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from actorlib import Runtime

pytestmark = [*in_memory(num_cpus=2, num_gpus=1), USES_RUNTIME]

_meetings: dict[tuple[object, str], asyncio.Barrier] = {}
_request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="")
actorlib.propagate(_request)


def meeting(where: str, count: int) -> asyncio.Barrier:
    """Returns the barrier of a worker; those in memory share this module."""
    key = asyncio.get_running_loop(), where
    return _meetings.setdefault(key, asyncio.Barrier(count))


def touch(path: Path) -> None:
    path.touch()


def exists(path: Path) -> bool:
    return path.exists()


@actorlib.remote
async def meet(where: str, count: int) -> int:
    """Waits until so many calls have come."""
    async with meeting(where, count):
        return os.getpid()


@actorlib.remote(num_gpus=0.5)
async def meet_on_gpu(where: str, count: int) -> tuple[list[int], float]:
    async with meeting(where, count):
        return actorlib.get_gpu_ids(), available("GPU")


def available(name: str) -> float:
    return actorlib.get_runtime_context().get_assigned_resources()[name]


@actorlib.remote
async def most_at_once(turns: int, counts: str) -> int:
    """The most calls that have run at once while this one did."""
    here = _counts.setdefault(counts, [0])
    here[0] += 1
    most = 0
    for _ in range(turns):
        await asyncio.sleep(0)
        most = max(most, here[0])
    here[0] -= 1
    return most


_counts: dict[str, list[int]] = {}


@actorlib.remote
async def count_up(number: int) -> AsyncIterator[int]:
    for item in range(number):
        await asyncio.sleep(0)
        yield item


@actorlib.remote
async def wait_for_ever(begun: Path, ended: Path) -> None:
    touch(begun)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        touch(ended)


@actorlib.remote
async def fail(error: BaseException) -> None:
    raise error


@actorlib.remote
async def depth(number: int) -> int:
    return 0 if not number else 1 + await depth.remote(number - 1)


@actorlib.remote
async def described() -> tuple[str | None, str | None, str]:
    context = actorlib.get_runtime_context()
    await asyncio.sleep(0)
    return context.get_task_name(), context.get_task_function_name(), _request.get()


async def is_there(path: Path) -> None:
    while not exists(path):  # noqa: ASYNC110  # another process touches it
        await asyncio.sleep(0.01)


# Calls.


async def test_calls_when_many_are_made_then_a_hundred_run_at_once_in_one_worker(
    runtime: Runtime,
) -> None:
    pids = await asyncio.gather(*(meet.remote("hundred", 100) for _ in range(100)))
    assert len({*pids}) == 1
    assert runtime.available_resources()["CPU"] == 2


async def test_calls_when_a_worker_is_full_then_another_runs_the_rest() -> None:
    few = meet.options(max_concurrency=2)
    await asyncio.gather(*(few.remote("full", 2) for _ in range(8)))


async def test_max_concurrency_limits_the_calls_of_one_worker() -> None:
    one_worker = most_at_once.options(num_gpus=1, max_concurrency=3)
    calls = [one_worker.remote(20, "limited") for _ in range(20)]
    assert max(await asyncio.gather(*calls)) == 3


async def test_calls_when_they_ask_for_a_share_then_their_worker_holds_one_for_all(
    runtime: Runtime,
) -> None:
    calls = [meet_on_gpu.remote("share", 5) for _ in range(5)]
    assert await asyncio.gather(*calls) == [([0], 0.5)] * 5
    whole = meet_on_gpu.options(num_gpus=1)
    assert await whole.remote("whole", 1) == ([0], 1.0)
    assert group_of(runtime, "GPU=1").running == 0


async def test_calls_when_others_wait_for_their_device_then_it_is_passed_on() -> None:
    pending = {meet_on_gpu.remote(f"busy {n}", 1) for n in range(50)}
    whole = asyncio.ensure_future(
        meet_on_gpu.options(num_gpus=1).remote("passed on", 1)
    )
    while not whole.done():
        done, pending = await asyncio.wait(
            {*pending, whole}, return_when=asyncio.FIRST_COMPLETED
        )
        pending -= {whole}
        pending |= {meet_on_gpu.remote("busy", 1) for _ in done - {whole}}
    await asyncio.gather(*pending)


async def test_calls_when_they_ask_for_cpus_then_the_worker_holds_them(
    runtime: Runtime,
) -> None:
    with_cpu = meet.options(num_cpus=1.5)
    await asyncio.gather(*(with_cpu.remote("cpus", 3) for _ in range(3)))
    [group] = [g for g in runtime.snapshot().worker_groups if g.resources == "CPU=1.5"]
    assert len(group.pids) == 1


async def test_calls_when_they_are_nested_deeply_then_all_have_room() -> None:
    assert await depth.options(max_concurrency=2).remote(20) == 20
    assert await depth.remote(150) == 150


async def test_call_knows_its_name_and_the_variables_of_its_caller() -> None:
    token = _request.set("r1")
    try:
        name, function_name, request = await described.remote()
    finally:
        _request.reset(token)
    assert (name, request) == ("described", "r1")
    assert function_name == f"{__name__}.described"
    assert (await described.options(name="other").remote())[0] == "other"


async def test_stream_yields_items_and_the_end() -> None:
    streams = [count_up.remote(300) for _ in range(3)]
    for stream in streams:
        assert [await ref async for ref in stream] == list(range(300))
    refs = count_up.options(num_returns=3).remote(3)
    assert [await ref for ref in refs] == [0, 1, 2]


async def test_map_and_batches_run_their_items_at_once() -> None:
    results = meet.map(["map"] * 4, [4] * 4, chunksize=4)
    assert len([pid async for pid in results]) == 4
    results = count_items.map(range(40))
    assert [value async for value in results] == list(range(40))


@actorlib.remote
async def count_items(item: int) -> int:
    await asyncio.sleep(0)
    return item


# Failures and ends.


async def test_call_when_it_raises_then_its_own_class() -> None:
    error = await raised(fail.remote(KeyError("lost")))
    assert isinstance(error, KeyError)
    assert isinstance(error, TaskError)
    assert "fail (pid" in str(error.__cause__)


async def test_call_when_it_is_cancelled_then_its_finally_runs(tmp_path: Path) -> None:
    ref = wait_for_ever.remote(tmp_path / "begun", tmp_path / "ended")
    await is_there(tmp_path / "begun")
    ref.cancel()
    assert isinstance(await raised(ref), TaskCancelledError)
    await is_there(tmp_path / "ended")


async def test_call_when_its_deadline_passes_then_it_is_cancelled(
    tmp_path: Path,
) -> None:
    limited = wait_for_ever.options(timeout=0.2)
    ref = limited.remote(tmp_path / "begun", tmp_path / "ended")
    assert isinstance(await raised(ref), DeadlineExceededError)
    await is_there(tmp_path / "ended")


async def test_call_when_its_error_is_to_be_retried_then_it_runs_again(
    tmp_path: Path,
) -> None:
    retried = fail_once.options(retry_exceptions=[OSError], max_retries=1)
    assert await retried.remote(tmp_path / "failed") == "the second time"


@actorlib.remote
async def fail_once(path: Path) -> str:
    await asyncio.sleep(0)
    if not exists(path):
        touch(path)
        raise OSError("the first time")
    return "the second time"


async def test_function_when_it_cannot_be_loaded_then_each_call_fails() -> None:
    class Broken:
        def __reduce__(self) -> tuple[Any, ...]:
            return exec, ("raise LookupError('not here')",)

    broken = Broken()

    @actorlib.remote
    async def uses() -> object:
        return broken

    for _ in range(2):
        assert "not here" in str(await raised(uses.remote()))


# Declarations.


async def test_max_concurrency_of_a_plain_function_is_refused() -> None:
    def plain() -> None: ...

    with pytest.raises(ValueError, match="plain is to have max_concurrency=4"):
        actorlib.remote(max_concurrency=4)(plain)
    with pytest.raises(ValueError, match="max_concurrency"):
        meet.options(max_concurrency=-1)
