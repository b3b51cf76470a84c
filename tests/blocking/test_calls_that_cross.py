"""Calls of another thread that have not crossed to the runtime's loop yet."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Log

import actorlib
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actorlib._owner.engine import LocalEngine

pytestmark = pytest.mark.process

LIMIT = 20.0
"""Seconds after which a test has failed."""

Logs = actorlib.remote(Log)


@actorlib.remote
def two() -> tuple[int, int]:
    return 1, 2


@pytest.fixture
def hold_loop(
    crossing: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], None]]:
    """Stops the loop until a thread waits for it, so that no call crosses before."""
    home: Any = crossing.loop
    call, is_waited_for = home.call, threading.Event()

    def release_and_call(*args: Any) -> Any:
        is_waited_for.set()
        return call(*args)

    def hold() -> None:
        home.post(is_waited_for.wait, LIMIT)
        monkeypatch.setattr(home, "call", release_and_call)

    yield hold
    is_waited_for.set()


def waiting_log(ray: Any) -> tuple[Any, Any]:
    """An actor that has all GPUs, and one that waits for them."""
    first = Logs.options(num_gpus=2).remote()
    ray.get(first.seen.remote())
    return first, Logs.options(num_gpus=2).remote()


async def give_up_wait(method: Any) -> None:
    async def wait() -> Any:
        return await method.remote("given up")

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)  # it has begun
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting


def test_wait_when_given_up_before_its_call_crosses_then_the_call_never_runs(
    ray: Any, hold_loop: Callable[[], None]
) -> None:
    first, second = waiting_log(ray)

    hold_loop()
    asyncio.run(give_up_wait(second.note))
    ray.kill(first)

    assert ray.get(second.seen.remote(), timeout=LIMIT) == []


def test_call_when_interrupted_before_it_crosses_then_it_is_cancelled(
    ray: Any, hold_loop: Callable[[], None]
) -> None:
    first, second = waiting_log(ray)

    hold_loop()
    ref = second.note.remote("interrupted")
    ray.cancel(ref, interrupt=True)
    ray.kill(first)

    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=LIMIT)
    assert ray.get(second.seen.remote(), timeout=LIMIT) == []


def test_part_of_a_result_when_cancelled_by_force_before_its_call_crosses(
    ray: Any, hold_loop: Callable[[], None]
) -> None:
    function = two.options(num_gpus=1, num_returns=2)
    assert ray.get(function.remote()) == [1, 2]
    _kept = waiting_log(ray)

    hold_loop()
    part, _ = function.remote()
    ray.cancel(part, force=True)

    with pytest.raises(TaskCancelledError):
        ray.get(part, timeout=LIMIT)


@actorlib.remote
def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_refs_when_another_loop_waits_for_them_then_its_tasks_are_woken(
    ray: Any,
) -> None:
    del ray

    async def wait() -> None:
        quick, slow = nap.remote(0.01), nap.remote(60)
        first = asyncio.FIRST_COMPLETED
        done, pending = await asyncio.wait([quick, slow], return_when=first)
        assert (done, pending) == ({quick}, {slow})
        done, pending = await asyncio.wait([quick])  # it is done already
        assert (done, pending) == ({quick}, set())

    asyncio.run(asyncio.wait_for(wait(), LIMIT))
