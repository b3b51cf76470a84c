"""A loop that plain code blocks, and what is posted to it meanwhile; without Ray."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from actorlib._loops.loop_thread import may_block
from actorlib._ray.host_loop import HostLoop

SOON = 0.01


def posted_by_a_thread(host: HostLoop, ref: asyncio.Future[str], value: str) -> None:
    thread = threading.Thread(target=host.post, args=(ref.set_result, value))
    thread.start()
    thread.join()


async def test_post_when_the_loop_is_free_then_it_runs_there_in_order() -> None:
    host = HostLoop(asyncio.get_running_loop())
    seen: list[Any] = []
    for number in range(3):
        host.post(seen.append, number)
    last: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    posted_by_a_thread(host, last, "last")

    assert await last == "last"
    assert seen == [0, 1, 2]


async def test_wait_when_the_loop_is_blocked_then_it_runs_what_is_posted() -> None:
    loop = asyncio.get_running_loop()
    host, ref = HostLoop(loop), loop.create_future()
    with host.blocked():
        posted_by_a_thread(host, ref, "came")
        was_in_time = host.wait(ref, None)

    assert was_in_time
    assert ref.result() == "came"


async def test_wait_when_nothing_comes_then_it_ends_in_time() -> None:
    loop = asyncio.get_running_loop()
    host, ref = HostLoop(loop), loop.create_future()
    with host.blocked():
        assert not host.wait(ref, SOON)
        assert not host.wait(ref, 0)
        host.post(ref.set_result, None)
        assert host.wait(ref, 0)


async def test_wait_when_a_thread_does_so_while_the_loop_is_blocked_then_it_ends() -> (
    None
):
    loop = asyncio.get_running_loop()
    host, ref = HostLoop(loop), loop.create_future()
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(host.wait(ref, None)))
    with host.blocked():
        thread.start()
        posted_by_a_thread(host, ref, "came")
        thread.join()

    assert found == [True]


async def test_wait_when_a_thread_does_so_and_the_loop_runs_then_it_ends() -> None:
    loop = asyncio.get_running_loop()
    host, ref = HostLoop(loop), loop.create_future()
    waits = asyncio.create_task(asyncio.to_thread(host.wait, ref, None))
    host.post(ref.set_result, "came")

    assert await waits


async def test_blocked_when_inside_of_a_task_then_plain_code_may_block() -> None:
    host = HostLoop(asyncio.get_running_loop())
    task = asyncio.current_task()
    assert not may_block()
    with host.blocked():
        assert may_block()

    assert not may_block()
    assert asyncio.current_task() is task


async def test_post_when_a_callback_fails_then_the_loop_is_told_and_goes_on() -> None:
    loop = asyncio.get_running_loop()
    host, ref = HostLoop(loop), loop.create_future()
    told: list[Any] = []
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))

    def fail() -> None:
        raise LookupError("lost")

    host.post(fail)
    host.post(ref.set_result, "next")

    assert await ref == "next"
    assert [str(error) for error in told] == ["lost"]
