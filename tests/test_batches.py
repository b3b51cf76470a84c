"""Many calls of one method in few frames: ``handle.method.map(items)``."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import AsyncCaller, Caller, Counter, Echo, Gate
from helpers.calls import raised

import actorlib
from actorlib.exceptions import (
    DeadlineExceededError,
    GetTimeoutError,
    PendingCallsLimitExceeded,
    SerializationError,
    TaskCancelledError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._options.runtime_options import RuntimeKeywords

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"num_cpus": 8}


@actorlib.remote
class Adder:
    """Adds, one call at a time."""

    def add(self, left: int, right: int = 1) -> int:
        """The sum."""
        return left + right

    def picky(self, number: int) -> int:
        """Takes all numbers but one."""
        if number == 300:
            raise ValueError(number)
        return number

    def items(self, number: int) -> Any:
        """A generator."""
        yield number

    def pair(self, number: int) -> tuple[int, int]:
        """Two of it."""
        return number, number


@actorlib.remote
class AsyncAdder:
    """Counts how many calls run beside one another, and how many were given up."""

    def __init__(self) -> None:
        self.running = self.most = self.given_up = self.begun = 0
        self.changed = asyncio.Condition()

    async def add(self, left: int, right: int = 1) -> int:
        """The sum, after others had their turn."""
        await asyncio.sleep(0)
        return left + right

    async def meet(self, number: int) -> None:
        """Waits until so many calls were here at once."""
        async with self.changed:
            self.running += 1
            self.most = max(self.most, self.running)
            self.changed.notify_all()
            await self.changed.wait_for(lambda: self.most >= number)
            self.running -= 1

    async def picky(self, number: int) -> int:
        """Takes all numbers but one; the others never end."""
        if number == 300:
            raise ValueError(number)
        async with self.changed:
            self.begun += 1
            self.changed.notify_all()
        try:
            await asyncio.Event().wait()
        finally:
            async with self.changed:
                self.given_up += 1
                self.changed.notify_all()
        return number

    async def entered(self, number: int) -> int:
        """Waits until so many calls of ``picky`` have begun."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.begun >= number)
        return self.begun

    async def seen(self) -> int:
        """How many calls were here at once, at the most."""
        return self.most

    async def left(self, number: int) -> int:
        """Waits until so many calls were given up."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.given_up >= number)
        return self.given_up

    def plain(self, number: int) -> int:
        """A method without a loop, of an actor that has one."""
        return -number


ADDERS = pytest.mark.parametrize(
    "adder",
    [Adder, Adder.options(max_concurrency=3), AsyncAdder],
    ids=["serial", "threaded", "async"],
)


@ADDERS
async def test_map_when_it_is_awaited_then_results_are_in_order(adder: Any) -> None:
    actor = adder.remote()

    assert await actor.add.map(range(1000)) == list(range(1, 1001))
    assert await actor.add.map([1, 2, 3], iter([10, 20])) == [11, 22]
    assert await actor.add.map([]) == []
    assert [n async for n in actor.add.map(range(600))] == list(range(1, 601))
    assert await actor.add.map(range(5), chunksize=2) == [1, 2, 3, 4, 5]


async def test_map_when_a_method_is_plain_beside_a_loop_then_it_works() -> None:
    assert await AsyncAdder.remote().plain.map(range(600)) == [-n for n in range(600)]


@ADDERS
async def test_map_when_items_are_refs_then_their_values_arrive(adder: Any) -> None:
    actor = adder.remote()
    refs = [actor.add.remote(n) for n in range(5)]

    assert await actor.add.map([*refs, 7, actorlib.put(8)]) == [2, 3, 4, 5, 6, 8, 9]


async def test_map_when_calls_come_before_and_behind_then_all_are_in_order() -> None:
    counter = Counter.remote()
    before = counter.add.remote(1)
    batch = counter.add.map([1] * 600)
    behind = counter.add.remote(1)

    assert await behind == 602
    assert await batch == list(range(2, 602))
    assert await before == 1


async def test_map_when_items_are_large_then_they_arrive() -> None:
    arrays = [np.full(100_000, n) for n in range(6)]
    back = await Echo.remote().echo.map(arrays, chunksize=2)

    assert [int(array[-1]) for array in back] == list(range(6))


@ADDERS
async def test_map_when_an_item_raises_then_it_says_which_and_the_rest_is_given_up(
    adder: Any,
) -> None:
    actor = adder.remote()
    error = await raised(actor.picky.map(range(1000)))

    assert isinstance(error, ValueError)
    assert error.args == (300,)
    assert "in call 300 of a map, counted from 0" in error.__notes__
    assert await actor.add.remote(1) == 2


async def test_map_when_the_caller_is_an_actor_then_it_works_there_too() -> None:
    actor = Adder.remote()

    def blocking(actor: Any) -> tuple[list[int], list[int]]:
        return actor.add.map(range(600)).get(), list(actor.add.map(range(3)))

    async def awaiting(actor: Any) -> tuple[list[int], list[int]]:
        last = [n async for n in actor.add.map(range(3))]
        return await actor.add.map(range(600)), last

    expected = (list(range(1, 601)), [1, 2, 3])
    assert await Caller.remote().run.remote(blocking, actor) == expected
    assert await AsyncCaller.remote().run.remote(awaiting, actor) == expected


async def test_map_when_a_blocking_wait_takes_too_long_then_the_calls_go_on() -> None:
    gate = Gate.remote()

    def impatient(gate: Any) -> list[str]:
        batch = gate.wait.map(["a", "b"])
        try:
            batch.get(timeout=0.01)
        except GetTimeoutError:
            gate.open.map(["a", "b"]).get()
        return batch.get()

    assert await Caller.remote().run.remote(impatient, gate) == ["a", "b"]


@pytest.mark.parametrize("places", [1, 4, 200])
async def test_map_when_methods_are_async_then_as_many_run_as_may(places: int) -> None:
    actor = AsyncAdder.options(max_concurrency=places).remote()
    await actor.meet.map([places] * 200, chunksize=50)

    assert await actor.seen.remote() == places


async def test_map_when_the_wait_is_cancelled_then_calls_stop_if_nobody_holds_it() -> (
    None
):
    actor, gate = await AsyncAdder.remote(), await Gate.remote()
    kept = gate.wait.map(["kept"])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await kept

    async def wait() -> None:
        await actor.picky.map(range(3), chunksize=1)

    waiting = asyncio.ensure_future(wait())
    assert await actor.entered.remote(3) == 3
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await gate.open.remote("kept")

    assert await kept == ["kept"]
    assert await actor.left.remote(3) == 3


async def test_map_when_it_is_cancelled_then_a_plain_method_stops_between_items() -> (
    None
):
    gate = Gate.remote()
    slow = actorlib.remote(Slow).remote()
    batch = slow.work.map([gate] * 1000, chunksize=1000)
    await gate.wait.remote("begun")
    batch.cancel()

    assert isinstance(await raised(batch), TaskCancelledError)
    assert await slow.count.remote() < 1000


class Slow:
    """Works until nobody wants the result any more."""

    def __init__(self) -> None:
        self.calls = 0

    def work(self, gate: Any) -> None:
        """One call."""
        self.calls += 1
        gate.open.remote("begun")
        while not actorlib.get_runtime_context().is_canceled():
            pass

    def count(self) -> int:
        """How many there were."""
        return self.calls


async def test_map_when_its_time_is_over_then_it_fails() -> None:
    actor = AsyncAdder.remote()
    late = actor.picky.options(timeout=0.05).map(range(3))

    assert isinstance(await raised(late), DeadlineExceededError)


PLACE = actorlib.propagate(ContextVar("test_batches.place", default="nowhere"))


class Where:
    """Tells what a context variable holds."""

    def place(self, _: int) -> str:
        """Here."""
        return PLACE.get()


async def test_map_when_variables_travel_then_every_call_has_them() -> None:
    token = PLACE.set("there")
    try:
        places = actorlib.remote(Where).remote().place.map(range(3))
    finally:
        PLACE.reset(token)

    assert await places == ["there"] * 3


async def test_map_when_too_many_calls_wait_then_chunks_count_and_it_is_refused() -> (
    None
):
    actor = Adder.options(max_pending_calls=3).remote()

    assert len(await actor.add.map(range(30), chunksize=10)) == 30
    with pytest.raises(PendingCallsLimitExceeded):
        actor.add.map(range(40), chunksize=10)
    await actor
    assert await actor.add.map([1]) == [2]


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda a: a.add.map(), TypeError, "an iterable for each argument"),
        (lambda a: a.add.map([1], [2], [3]), TypeError, "takes from 1 to 2 positional"),
        (lambda a: a.add.map(7), TypeError, "takes its values from an iterable"),
        (lambda a: a.add.map([1], chunksize=0), ValueError, "chunksize"),
        (lambda a: a.add.map([1], chunksize="8"), TypeError, "chunksize"),
        (lambda a: a.items.map([1]), TypeError, r"Adder\.items is a generator"),
        (
            lambda a: a.pair.options(num_returns=2).map([1]),
            TypeError,
            "num_returns=2",
        ),
        (lambda a: a.add.map([1, (n for n in "")]), SerializationError, "generator"),
    ],
)
async def test_map_when_it_cannot_be_then_it_says_so_at_the_call(
    call: Callable[[Any], Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        call(Adder.remote())


async def test_map_when_it_was_cancelled_then_every_wait_says_so() -> None:
    gate = Gate.remote()
    batch = gate.wait.map(["x"] * 3, chunksize=1)
    batch.cancel()

    assert isinstance(await raised(batch), TaskCancelledError)
    assert repr(batch) == "<Batch, 3 of 3 chunks done>"


class Fragile:
    """Breaks at a number, once: its process dies, or the call fails."""

    def __init__(self) -> None:
        self.is_broken = False

    def step(self, number: int) -> int:
        """The number."""
        if number == 20 and not self.is_broken:
            self.is_broken = True
            raise ConnectionError(number)
        return number


async def test_map_when_a_chunk_fails_then_it_is_made_again_if_that_was_said() -> None:
    fragile = actorlib.remote(Fragile)
    step = fragile.remote().step.options(max_task_retries=1, retry_exceptions=True)

    assert await step.map(range(40), chunksize=10) == list(range(40))
    assert isinstance(
        await raised(fragile.remote().step.map(range(40))), ConnectionError
    )


@ADDERS
@pytest.mark.parametrize("chunksize", [2, "auto"])
async def test_map_when_errors_are_returned_then_all_calls_are_made(
    adder: Any, chunksize: Any
) -> None:
    add = adder.remote().add
    items = [1, "x", 3, "y", 5]
    found = await add.map(items, chunksize=chunksize, on_error="return")

    assert found[0::2] == [2, 4, 6]
    assert [error.__notes__ for error in found[1::2]] == [
        ["in call 1 of a map, counted from 0"],
        ["in call 3 of a map, counted from 0"],
    ]


async def test_map_when_an_item_fails_then_those_before_it_come_first() -> None:
    batch = Adder.remote().picky.map(range(1000))
    for _ in range(2):
        results: Any = aiter(batch)
        assert [await anext(results) for _ in range(300)] == list(range(300))
        with pytest.raises(ValueError, match="300"):
            await anext(results)


async def test_map_when_iterated_twice_then_from_the_first_result() -> None:
    batch = Adder.remote().add.map(range(5), chunksize=2)

    for _ in range(2):
        assert [n async for n in batch] == [1, 2, 3, 4, 5]
        assert await batch == [1, 2, 3, 4, 5]
