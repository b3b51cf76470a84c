from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import AsyncCaller, Caller, Echo, Target, end_of, living
from helpers.marks import USES_RUNTIME, in_memory
from helpers.turns import in_time, next_turn

import actorlib
from actorlib import Queue
from actorlib.exceptions import (
    ActorDiedError,
    ActorlibError,
    Empty,
    Full,
    SerializationError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib import Runtime


pytestmark = [*in_memory(), USES_RUNTIME]


async def started(make: Callable[[], Any]) -> asyncio.Task[Any]:
    """A task that waits already, and alone holds what it waits for."""

    async def wait() -> Any:
        return await make()

    task = asyncio.create_task(wait())
    await next_turn()
    return task


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


# Rows.


async def test_without_awaits_the_order_is_that_of_the_calls() -> None:
    q: Queue[int] = Queue()
    for number in range(500):
        q.put(number)
    gets = [q.get() for _ in range(500)]
    assert await asyncio.gather(*gets) == list(range(500))


async def test_options_and_shutdown(runtime: Runtime) -> None:
    q: Queue[int] = Queue(actor_options={"num_cpus": 1.5, "name": "the queue"})
    await q.put(1)
    assert runtime.available_resources()["CPU"] == 2.5
    assert actorlib.get_actor("the queue") == q.actor
    waiting = q.get()
    assert await waiting == 1
    waiting = q.get()

    await q.shutdown()

    assert runtime.available_resources()["CPU"] == 4
    with pytest.raises(ActorDiedError):
        await waiting
    for late in (q.put(1), q.get(), q.qsize(), q.get_nowait_batch(1)):
        with pytest.raises(ActorDiedError):
            await late
    await q.shutdown(0)  # once more does no harm


async def test_many_waiting_gets_do_not_stop_a_put() -> None:
    q: Queue[int] = Queue()
    gets = [q.get() for _ in range(1_500)]
    await q.put(7)
    assert await gets[0] == 7
    assert not any(get.done() for get in gets[1:])
    assert await q.qsize() == 0


# Batches.


async def test_batch_when_it_fits_then_all_and_else_none() -> None:
    q: Queue[int] = Queue(maxsize=3)
    for error, standard in ((Full, queue.Full), (Empty, queue.Empty)):
        assert issubclass(error, standard)
        assert issubclass(error, ActorlibError)
    await q.put_nowait_batch(range(2))
    with pytest.raises(Full, match="2 more"):
        await q.put_nowait_batch([2, 3])
    with pytest.raises(Empty, match="fewer than 3"):
        await q.get_nowait_batch(3)
    assert await q.get_nowait_batch(0) == []
    assert await q.get_nowait_batch(2) == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"maxsize": -1}, ValueError),
        ({"maxsize": "3"}, TypeError),
        ({"maxsize": None}, TypeError),
        ({"actor_options": 3}, TypeError),
        ({"actor_options": {"num_cpu": 1}}, ValueError),
    ],
)
async def test_queue_when_made_wrongly_then_it_is_refused(
    runtime: Runtime, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Queue(**arguments)
    assert living(runtime) == []


async def test_queue_when_used_wrongly_then_it_fails_at_the_call() -> None:
    q: Any = Queue()
    with pytest.raises(TypeError, match="values, not refs"):
        q.put(q.qsize())
    with pytest.raises(SerializationError, match="generator"):
        q.put(x for x in "ab")
    with pytest.raises(TypeError, match="block"):
        q.put(1, block=1)
    with pytest.raises(TypeError, match="timeout"):
        q.get(timeout="1")
    with pytest.raises(TypeError, match="iterable of items"):
        q.put_nowait_batch(1)
    with pytest.raises(ValueError, match="num_items"):
        q.get_nowait_batch(-1)
    with pytest.raises(ValueError, match="grace"):
        q.shutdown(-1)
    assert await q.empty()


# Giving up.


@pytest.mark.parametrize("item", [7, np.ones(100_000)], ids=["small", "large"])
async def test_get_when_cancelled_as_the_item_comes_then_it_goes_back(
    item: Any,
) -> None:
    q: Queue[Any] = Queue()
    await q.put(item)
    await q.put(2)
    get = q.get()
    ready, _ = await actorlib.wait([get])
    assert ready  # it has come, and nobody has looked
    del get, ready

    assert np.array_equal(await q.get(), item)
    assert await q.get() == 2


async def test_get_when_the_task_is_cancelled_in_the_turn_of_the_answer() -> None:
    q: Queue[int] = Queue()
    tasks: list[asyncio.Task[Any]] = []
    held = [q.get()]
    held[0].add_done_callback(lambda _: tasks[0].cancel())
    tasks.append(await started(held.pop))
    await q.put(1)
    await asyncio.wait(tasks)
    assert tasks.pop().cancelled()

    assert await q.get() == 1


async def test_get_when_many_give_up_at_any_time_then_each_item_comes_once() -> None:
    q: Queue[int] = Queue()
    found: list[int] = []

    async def give_up(turns: int) -> None:
        task = await started(q.get)
        for _ in range(turns):
            await next_turn()
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            found.append(task.result())

    async def produce() -> None:
        for number in range(200):
            await q.put(number)

    producing = asyncio.create_task(produce())
    await asyncio.gather(*(give_up(turns % 13) for turns in range(300)))
    await producing
    async with in_time():
        while len(found) < 200:
            found.append(await q.get())

    assert sorted(found) == list(range(200))


async def test_put_when_cancelled_while_it_waits_then_it_puts_nothing() -> None:
    q: Queue[int] = Queue(maxsize=1)
    await q.put(1)
    await cancelled(await started(lambda: q.put(2)))
    with contextlib.suppress(Full):
        await q.put(3, timeout=0.01)

    assert await q.get() == 1
    assert await q.empty()


async def test_put_when_nobody_holds_its_ref_then_it_goes_on() -> None:
    q: Queue[int] = Queue(maxsize=1)
    q.put(1)
    q.put(2)
    assert [await q.get(), await q.get()] == [1, 2]


# Who uses it.


def take_here(q: Any, number: int) -> list[Any]:
    return [q.get(timeout=10).get() for _ in range(number)]


def give_here(q: Any, name: str, number: int) -> None:
    for count in range(number):
        q.put((name, count)).get()


def give_up_here(q: Any) -> None:
    with contextlib.suppress(TimeoutError):
        q.get().get(timeout=0)
    try:
        q.get_nowait().get()
    except queue.Empty:
        pass
    else:
        raise AssertionError


async def take_there(q: Any, number: int) -> list[Any]:
    return [await q.get() for _ in range(number)]


async def test_queue_when_shared_by_actors_then_each_producer_is_in_order() -> None:
    q: Queue[Any] = Queue(maxsize=3)
    producers = [Caller.remote() for _ in range(2)]
    gives = [p.run.remote(give_here, q, n, 20) for p, n in zip(producers, "ab")]  # noqa: B905
    takes = [
        Caller.remote().run.remote(take_here, q, 10),
        AsyncCaller.remote().run.remote(take_there, q, 10),
    ]
    own = [await q.get() for _ in range(20)]
    others = await asyncio.gather(*takes)
    await asyncio.gather(*gives)

    for taken in (own, *others):
        for name in "ab":
            counts = [count for whose, count in taken if whose == name]
            assert counts == sorted(counts)
    everything = sorted([*own, *others[0], *others[1]])
    assert everything == [(name, count) for name in "ab" for count in range(20)]


async def test_get_when_given_up_in_a_plain_method_then_no_item_is_lost() -> None:
    q: Queue[int] = Queue()
    caller = Caller.remote()
    await caller.run.remote(give_up_here, q)
    await caller.run.remote(os.getpid)  # it has told the queue by now
    await q.put(1)
    async with in_time():
        assert await q.get() == 1


async def test_queue_when_its_last_handle_goes_then_so_does_its_actor(
    runtime: Runtime,
) -> None:
    q: Queue[int] = Queue()
    await q.put(1)
    end = end_of(q.actor)
    del q
    async with in_time():
        await end
    assert living(runtime) == []


# Items.


class Unloadable:
    """What cannot be loaded anywhere."""

    def __reduce__(self) -> tuple[object, ...]:
        return int, ("no number",)


async def test_item_when_only_its_taker_can_load_it_then_the_queue_does_not_mind() -> (
    None
):
    q: Queue[Any] = Queue()
    await q.put(Unloadable())
    await q.put("next")
    with pytest.raises(SerializationError, match="no number"):
        await q.get()
    assert await q.get() == "next"


async def test_item_when_there_is_a_handle_in_it_then_it_keeps_its_actor_alive(
    runtime: Runtime,
) -> None:
    q: Queue[Any] = Queue()
    await q.put({"target": Target.remote()})
    await q.qsize()
    assert len(living(runtime)) == 2

    found = (await q.get())["target"]

    pid = await found.ping.remote()
    assert pid > 0
    end = end_of(found)
    del found
    async with in_time():
        await end


async def test_worker_of_a_queue_when_it_starts_then_it_loads_nothing_of_the_users() -> (  # noqa: E501
    None
):
    asked = "import actorlib._api.queue_actor, sys; print(*sys.modules)"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", asked, stdout=subprocess.PIPE
    )
    found = (await process.communicate())[0].decode().split()

    assert not {"numpy", "rich", "actorlib._owner", "actorlib._api.actor_pool"} & set(
        found
    )


# Deaths.


def take_two_here(q: Any, taken: Any) -> None:
    first, second = q.get(), q.get()
    taken.put(first.get()).get()
    second.get()


async def take_two_there(q: Any, taken: Any) -> None:
    first, second = q.get(), q.get()
    await taken.put(await first)
    await second


@pytest.mark.parametrize("is_async", [False, True])
async def test_get_when_its_process_dies_while_it_waits_then_no_item_is_lost(
    *, is_async: bool
) -> None:
    q: Queue[int] = Queue()
    getter: Any = AsyncCaller.remote() if is_async else Caller.remote()
    pid = await getter.run.remote(os.getpid)
    taken: Queue[int] = Queue()
    take_two = take_two_there if is_async else take_two_here
    taking = getter.run.remote(take_two, q, taken)
    await q.put(0)
    assert await taken.get() == 0  # so its second get waits by now
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ActorDiedError):
        await taking
    for number in range(1, 4):
        await q.put(number)

    async with in_time():
        assert [await q.get() for _ in range(3)] == [1, 2, 3]


async def test_wait_when_given_gets_of_queues_then_whichever_has_something() -> None:
    a: Queue[str] = Queue()
    b: Queue[str] = Queue()
    gets = [a.get(), b.get()]
    await b.put("b")

    ready, left = await actorlib.wait(gets)

    assert [await get for get in ready] == ["b"]
    del gets, left
    await a.put("a")
    assert await a.get() == "a"
    assert await Echo.remote().echo.remote("done") == "done"
