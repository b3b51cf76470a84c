"""What is made of many calls: maps, pools, iterators of results, and queues."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest
from helpers.kinds import AWAITING, CONTRACT, FEW_KINDS, OWN_ENGINES, kinds
from helpers.reused import Echo, Gate
from helpers.waiting_calls import until_canceled

import actorlib
import actorlib.blocking
import actorlib.blocking.util
from actorlib.blocking.util.queue import Queue as BlockingQueue
from actorlib.exceptions import ActorDiedError, DeadlineExceededError, Empty, Full

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

    from helpers.callees import Callee
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]

pytestmark = CONTRACT


async def called(api: Api, function: Any, *args: Any, **kwargs: Any) -> Any:
    """What a function gives, if its API blocks, or what it gives to be awaited."""
    if api.is_blocking:
        return await asyncio.to_thread(lambda: function(*args, **kwargs))
    waiting = function(*args, **kwargs)
    return await waiting if inspect.isawaitable(waiting) else waiting


async def error_of_call(api: Api, function: Any, *args: Any, **kwargs: Any) -> Any:
    """The exception that it raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the test looks closer
        await called(api, function, *args, **kwargs)
    return caught.value


def util_of(api: Api) -> Any:
    return actorlib.blocking.util if api.is_blocking else actorlib


# Maps.


def add(left: int, right: int = 1) -> int:
    return left + right


class Adder:
    """Adds."""

    def add(self, left: int, right: int = 1) -> int:
        return left + right


class AsyncAdder:
    """Adds on its loop."""

    async def add(self, left: int, right: int = 1) -> int:
        await asyncio.sleep(0)
        return left + right


def adder_of(callee: Callee) -> Any:
    """The function or method that adds, with ``map``."""
    if not callee.is_actor:
        return actorlib.remote(add)
    cls: Any = actorlib.remote(AsyncAdder if callee.is_async else Adder)
    limited = {} if callee.kind == "plain" else {"max_concurrency": 3}
    return cls.options(**limited).remote().add


@kinds("function", "plain", "threaded", "async")
async def test_map_when_given_items_then_results_in_their_order(
    api: Api, callee: Callee
) -> None:
    adder = adder_of(callee)

    async def values_of(results: Any) -> list[Any]:
        if callee.is_actor and not api.is_blocking:
            return list(await results)
        return await api.items(results)

    for chunksize in (1, 3, 100):
        results = adder.map(range(8), chunksize=chunksize)
        assert await values_of(results) == list(range(1, 9))
    assert await values_of(adder.map([1, 2], [3, 4])) == [4, 6]
    assert await values_of(adder.map([])) == []
    with pytest.raises(TypeError, match="can only concatenate") as caught:
        await values_of(adder.map([1, "x"], chunksize=2))
    assert caught.value.__notes__ == ["in call 1 of a map, counted from 0"]


async def test_map_when_it_has_a_cache_then_the_next_one_makes_no_calls(
    api: Api, tmp_path: Path
) -> None:
    def count(value: int) -> int:
        with (tmp_path / "called").open("a") as file:
            file.write(f"{value}\n")
        return value + 1

    counted: Any = actorlib.remote(count)

    async def values(items: Iterable[int], **options: Any) -> list[int]:
        results = counted.map(items, cache=tmp_path / "runs", version="1", **options)
        return await api.items(results)

    assert await values(range(4)) == [1, 2, 3, 4]
    assert await values(range(6), chunksize=4) == [1, 2, 3, 4, 5, 6]
    called = (tmp_path / "called").read_text().split()
    assert sorted(called) == ["0", "1", "2", "3", "4", "5"]


@OWN_ENGINES
@FEW_KINDS
async def test_map_when_a_callee_iterates_then_results_in_their_order(
    api: Api, callee: Callee
) -> None:
    assert await api.get(callee.run(sums, 5)) == [1, 2, 3, 4, 5]


def sums(count: int) -> Steps:
    results = actorlib.remote(add).map(range(count))
    values: list[int] = []
    while (value := (yield results)) is not None:
        values.append(value)
    return values


def work(_: int) -> None:
    until_canceled()


@OWN_ENGINES
@AWAITING
async def test_map_when_a_chunk_takes_too_long_then_it_fails() -> None:
    late = actorlib.remote(work).options(timeout=0.05).map(range(2), chunksize=2)

    with pytest.raises(DeadlineExceededError):
        await anext(late)


# Results as they come.


@OWN_ENGINES
async def test_as_completed_when_one_is_late_then_the_others_come_first(
    api: Api,
) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    refs = [gate.wait.remote("late"), echo.echo.remote("early")]
    results = util_of(api).as_completed(refs)

    assert await api.next_item(results) == "early"
    await api.get(gate.open.remote("late"))
    assert await api.items(results) == ["late"]
    doubled = util_of(api).map_unordered(echo.echo, range(5))
    assert sorted(await api.items(doubled)) == [0, 1, 2, 3, 4]


async def test_pool_when_it_has_values_then_its_actors_share_them(
    api: Api,
) -> None:
    pool: Any = util_of(api).ActorPool([Echo.remote() for _ in range(2)])

    def send(actor: Any, value: Any) -> Any:
        return actor.echo.remote(value)

    assert await api.items(pool.map(send, range(7))) == [*range(7)]
    assert sorted(await api.items(pool.map_unordered(send, range(7)))) == [*range(7)]
    for value in (1, 2, 3):
        pool.submit(send, value)
    results = [
        await called(api, pool.get_next_unordered, timeout=20),
        await called(api, pool.get_next_unordered, timeout=20),
        await called(api, pool.get_next, 20),
    ]
    assert sorted(results) == [1, 2, 3]
    assert not pool.has_next()
    with pytest.raises(StopIteration):
        pool.get_next()


# Queues.


def queue_of(api: Api, maxsize: int = 0) -> Any:
    cls: Any = BlockingQueue if api.is_blocking else actorlib.Queue
    return cls(maxsize)


async def test_queue_when_used_then_first_in_first_out(api: Api) -> None:
    queue = queue_of(api, 3)

    async def state() -> list[Any]:
        asked = (queue.empty, queue.full, queue.qsize, queue.size)
        return [await called(api, function) for function in asked]

    assert await state() == [True, False, 0, 0]
    for number in range(3):
        await called(api, queue.put, number)
    assert await state() == [False, True, 3, 3]
    if api.is_blocking:
        assert await called(api, len, queue) == 3
        assert queue  # also when it is empty
    assert queue.maxsize == 3
    assert [await called(api, queue.get) for _ in range(2)] == [0, 1]
    assert await called(api, queue.get_nowait) == 2
    await called(api, queue.put_nowait_batch, [3, 4])
    assert await called(api, queue.get_nowait_batch, 2) == [3, 4]
    await queue.put_async(5)
    assert await queue.get_async() == 5


async def test_queue_when_full_or_empty_then_refused_or_too_late(api: Api) -> None:
    queue = queue_of(api, 1)

    for get, args, kwargs in (
        (queue.get_nowait, (), {}),
        (queue.get, (), {"block": False}),
        (queue.get, (), {"timeout": 0.01}),
        (queue.get_nowait_batch, (1,), {}),
    ):
        assert type(await error_of_call(api, get, *args, **kwargs)) is Empty
    await called(api, queue.put, 1)
    for put, args, kwargs in (
        (queue.put_nowait, (2,), {}),
        (queue.put, (2,), {"block": False}),
        (queue.put, (2,), {"timeout": 0.01}),
        (queue.put_nowait_batch, ([2],), {}),
    ):
        assert type(await error_of_call(api, put, *args, **kwargs)) is Full
    for function, args in ((queue.get, ()), (queue.put, (2,))):
        error = await error_of_call(api, function, *args, timeout=-1)
        assert isinstance(error, ValueError)
    with pytest.raises(Full):
        await queue.put_nowait_async(2)
    waiting = asyncio.ensure_future(called(api, queue.put, 2))
    assert await called(api, queue.get) == 1
    await waiting
    assert await queue.get_nowait_async() == 2
    with pytest.raises(Empty):
        await queue.get_nowait_async()


@OWN_ENGINES
async def test_queue_when_ended_then_waits_and_calls_fail(api: Api) -> None:
    queue = queue_of(api)
    waiting = asyncio.ensure_future(called(api, queue.get))
    await called(api, queue.qsize)

    await called(api, queue.shutdown)

    with pytest.raises(ActorDiedError):
        await waiting
    assert isinstance(await error_of_call(api, queue.put, 1), ActorDiedError)


def take(queue: Any, others: Any, count: int) -> Steps:
    values: list[Any] = []
    for _ in range(count):
        values.append((yield queue.get()))
        yield others.put(values[-1])
    return values


def take_blocking(queue: Any, others: Any, count: int) -> Any:
    values: list[Any] = []
    for _ in range(count):
        values.append(queue.get())
        others.put(values[-1])
    return values


@OWN_ENGINES
@FEW_KINDS
async def test_queue_when_a_callee_has_it_then_items_pass(
    api: Api, callee: Callee
) -> None:
    queue, others = queue_of(api), queue_of(api)
    if api.is_blocking and callee.is_async:  # it awaits what the queue inside returns
        taking = callee.run(take, queue._queue, others._queue, 3)
    else:
        function = take_blocking if api.is_blocking else take
        taking = callee.run(function, queue, others, 3)
    for number in range(3):
        await called(api, queue.put, number)

    assert await api.get(taking) == [0, 1, 2]
    assert [await called(api, others.get) for _ in range(3)] == [0, 1, 2]
