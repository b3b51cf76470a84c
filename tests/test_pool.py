"""Pools of actors. What all maps have in common is in ``test_maps.py``."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
from typing import Any

import pytest
from helpers.actors import Caller, Echo, Gate, end_of
from helpers.marks import USES_RUNTIME, in_memory
from helpers.turns import next_turn

import actorlib
from actorlib import ActorPool
from actorlib.exceptions import ActorDiedError, ActorError, GetTimeoutError

pytestmark = [*in_memory(), USES_RUNTIME]


def echo(actor: Any, value: Any) -> Any:
    return actor.echo.remote(value)


def wait_at(actor: Any, name: str) -> Any:
    return actor.wait.remote(name)


def echoes(number: int) -> Any:
    return ActorPool([Echo.remote() for _ in range(number)])


class Two:
    """Two gates of a pool, so that a test says which call is done, and when."""

    def __init__(self, number: int = 2) -> None:
        self.gates: list[Any] = [Gate.remote() for _ in range(number)]
        self.pool: ActorPool[Any] = ActorPool(self.gates)

    async def reached(self, name: str) -> Any:
        """The gate where somebody waits at a place."""
        waits = [(gate, gate.reached.remote(name)) for gate in self.gates]
        refs = [ref for _, ref in waits]
        (ready,), _ = await actorlib.wait(refs)
        return next(gate for gate, ref in waits if ref is ready)

    async def open(self, *names: str) -> None:
        for name in names:
            await asyncio.gather(*(gate.open.remote(name) for gate in self.gates))


# One by one.


async def test_get_next_when_calls_are_done_then_in_order_or_whichever_is_first() -> (
    None
):
    two = Two()
    for name in "abcd":
        two.pool.submit(wait_at, name)
    await two.open("b", "a")
    assert await two.pool.get_next() == "a"
    assert await two.pool.get_next() == "b"
    await two.open("d")
    assert await two.pool.get_next_unordered() == "d"
    await two.open("c")
    assert await two.pool.get_next_unordered() == "c"
    assert not two.pool.has_next()

    pool = echoes(1)
    pool.submit(lambda a, v: [a.echo.remote(v), a.echo.remote(v + 1)], 1)
    assert await pool.get_next() == [1, 2]


async def test_more_values_than_actors_wait_for_one() -> None:
    two = Two(1)
    for name in "abc":
        two.pool.submit(wait_at, name)
    (gate,) = two.gates
    await gate.reached.remote("a")
    assert not two.pool.has_free()
    later = gate.reached.remote("b")
    await gate.open.remote("a")
    assert not later.done()

    assert await two.pool.get_next() == "a"
    await later
    await two.open("b", "c")
    assert [await two.pool.get_next(), await two.pool.get_next()] == ["b", "c"]


async def test_nothing_under_way_raises_stop_iteration_at_the_call() -> None:
    pool = echoes(1)
    with pytest.raises(StopIteration):
        pool.get_next()
    with pytest.raises(StopIteration):
        pool.get_next_unordered()
    pool.submit(echo, 1)
    pool.submit(echo, 2)
    assert await pool.get_next_unordered() == 1
    assert await pool.get_next() == 2  # Ray may refuse it; here it is what is left


async def test_idle_actors_come_and_go() -> None:
    two = Two(1)
    (gate,) = two.gates
    assert two.pool.has_free()
    two.pool.submit(wait_at, "a")
    assert not two.pool.has_free()
    assert two.pool.pop_idle() is None
    with pytest.raises(ValueError, match="already"):
        two.pool.push(gate)
    two.pool.submit(wait_at, "b")

    other: Any = Gate.remote()
    two.pool.push(other)

    await other.reached.remote("b")  # it took the waiting task at once
    await asyncio.gather(gate.open.remote("a"), other.open.remote("b"))
    assert [await two.pool.get_next(), await two.pool.get_next()] == ["a", "b"]
    assert {two.pool.pop_idle(), two.pool.pop_idle()} == {gate, other}
    assert two.pool.pop_idle() is None
    two.pool.push(gate)
    assert two.pool.has_free()


async def test_get_next_when_late_then_it_raises_and_the_result_can_still_come() -> (
    None
):
    two = Two(1)
    two.pool.submit(wait_at, "a")
    with pytest.raises(GetTimeoutError, match="within"):
        await two.pool.get_next(timeout=0.01)
    with pytest.raises(TimeoutError):
        await two.pool.get_next_unordered(timeout=0)
    assert two.pool.has_next()
    await two.open("a")
    assert await two.pool.get_next(timeout=10) == "a"


async def test_get_next_when_late_and_ignored_then_the_next_one_comes() -> None:
    two = Two()
    two.pool.submit(wait_at, "a")
    two.pool.submit(wait_at, "b")
    with pytest.raises(TimeoutError):
        await two.pool.get_next(timeout=0, ignore_if_timedout=True)
    await two.open("b")

    assert await two.pool.get_next() == "b"
    assert not two.pool.has_next()
    await two.open("a")
    busy = await two.reached("a")
    await busy.left.remote()
    assert len({two.pool.pop_idle(), two.pool.pop_idle()}) == 2


async def test_get_next_when_cancelled_then_no_result_is_lost() -> None:
    two = Two(1)
    two.pool.submit(wait_at, "a")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            await two.pool.get_next()
    await two.open("a")
    assert await two.pool.get_next() == "a"


async def test_get_next_when_somebody_submits_meanwhile_then_it_sees_that_too() -> None:
    two = Two()
    two.pool.submit(wait_at, "slow")
    getting = asyncio.ensure_future(two.pool.get_next_unordered())
    await two.reached("slow")
    two.pool.submit(wait_at, "quick")
    await two.open("quick")

    assert await getting == "quick"
    await two.open("slow")


async def test_submit_when_the_function_raises_then_at_the_call_and_nothing_is_lost() -> (  # noqa: E501
    None
):
    pool = echoes(1)
    with pytest.raises(AttributeError, match="no method"):
        pool.submit(lambda a, v: a.nothing.remote(v), 1)
    with pytest.raises(TypeError, match="has to return the ref"):
        pool.submit(lambda _, v: v, 1)
    assert not pool.has_next()
    assert pool.has_free()


async def test_pool_when_an_actor_dies_then_it_leaves_and_the_others_do_the_rest() -> (
    None
):
    a, b = Echo.remote(), Echo.remote()
    pool: ActorPool[Any] = ActorPool([a, b])
    await actorlib.kill(a)
    found: list[Any] = []
    results = pool.map(echo, range(6))
    while True:
        try:
            found.extend([value async for value in results])
            break
        except ActorDiedError as error:
            found.append(error)

    assert [v if isinstance(v, int) else None for v in found] == [None, 1, 2, 3, 4, 5]
    assert pool.pop_idle() == b
    assert pool.pop_idle() is None
    pool.push(a)  # whoever knows better may say so


async def test_pool_when_every_actor_has_died_then_what_waits_fails() -> None:
    a = Echo.remote()
    pid = await a.pid.remote()
    pool: ActorPool[Any] = ActorPool([a])
    for value in range(3):
        pool.submit(lambda a, v: a.echo.remote(v), value)
    os.kill(pid, signal.SIGKILL)
    await end_of(a)
    outcomes: list[Any] = []
    while pool.has_next():
        try:
            outcomes.append(await pool.get_next())
        except ActorError as error:
            outcomes.append(error)

    assert len(outcomes) == 3
    assert isinstance(outcomes[-1], ActorError)
    with pytest.raises(ActorError, match="no actor of the pool is left"):
        await anext(pool.map(echo, [1]))


async def test_pool_when_it_has_no_actor_then_it_says_so_instead_of_waiting() -> None:
    pool: ActorPool[Any] = ActorPool([])
    pool.submit(echo, 1)
    with pytest.raises(RuntimeError, match="push"):
        await pool.get_next()
    pool.push(Echo.remote())
    assert await pool.get_next() == 1


# By the dozen.


@pytest.mark.parametrize("name", ["map", "map_unordered"])
async def test_map_when_not_iterated_yet_then_idle_actors_are_at_work(
    name: str,
) -> None:
    two = Two()
    values = iter("abcd")
    results = getattr(two.pool, name)(wait_at, values)

    # Nobody has asked for a result.
    await asyncio.gather(two.reached("a"), two.reached("b"))
    assert next(values) == "c"  # the rest is taken as it is asked for
    await two.open("a", "b", "d")
    assert {value async for value in results} == {"a", "b", "d"}


async def test_map_when_the_values_are_endless_then_few_are_taken_ahead() -> None:
    values = itertools.count()
    pool = echoes(2)
    results = pool.map(echo, values)
    for number in range(20):
        assert await anext(results) == number

    assert next(values) <= 20 + 4 * 2
    results = pool.map_unordered(echo, values)
    for _ in range(20):
        await anext(results)
    assert next(values) <= 20 + 20 + 2 * (4 * 2) + 1


@pytest.mark.parametrize("name", ["map", "map_unordered"])
async def test_map_when_a_result_leads_to_another_value_then_it_yields_that_too(
    name: str,
) -> None:
    pool = echoes(2)
    results: list[int] = []
    async for value in getattr(pool, name)(echo, range(20)):
        results.append(value)
        if value in (0, 19):  # the last one, too
            pool.submit(echo, 100 + value)

    assert sorted(results) == [*range(20), 100, 119]
    if name == "map":
        assert [value for value in results if value < 100] == [*range(20)]
        assert results[-1] == 119
        # Later than on Ray only if all values were read before.
        assert results.index(100) <= 2 * 4 + 1


async def test_map_when_the_first_is_slow_then_others_go_on_only_so_far() -> None:
    two = Two()
    taken: list[str] = []

    def values() -> Any:
        for name in map(str, itertools.count()):
            taken.append(name)
            yield name

    first = asyncio.ensure_future(anext(two.pool.map(wait_at, values())))
    slow = await two.reached("0")
    (other,) = (gate for gate in two.gates if gate is not slow)
    for number in range(1, 8):
        await other.reached.remote(str(number))
        await other.open.remote(str(number))
    await slow.open.remote("0")
    assert await first == "0"
    assert len(taken) == 8


async def test_map_when_cancelled_then_the_iterator_goes_on_where_it_was() -> None:
    two = Two(1)
    results = two.pool.map(wait_at, "ab")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            await anext(results)
    await two.open("a", "b")

    assert [value async for value in results] == ["a", "b"]


async def test_map_gives_up_earlier_values_without_waiting_for_them() -> None:
    two = Two(1)
    earlier = two.pool.map(wait_at, ["x"])
    two.pool.submit(wait_at, "a")
    two.pool.submit(wait_at, "b")
    (gate,) = two.gates
    await gate.reached.remote("x")

    results = two.pool.map(wait_at, ["c"])

    assert not two.pool.has_next()
    with pytest.raises(RuntimeError, match="has begun, which ended this one"):
        await anext(earlier)
    first = asyncio.ensure_future(anext(results))
    await next_turn()
    await two.open("c", "x")  # its actor is busy until then
    assert await first == "c"


def submit_here(handles: list[Any]) -> Any:
    pool: ActorPool[Any] = ActorPool(handles)
    pool.submit(echo, "first")
    first = pool.get_next(timeout=10).get()
    return first, sorted(pool.map_unordered(echo, "ab"))


async def test_pool_when_used_in_a_plain_method_then_without_a_loop() -> None:
    handles = [Echo.remote(), Echo.remote()]
    found = await Caller.remote().run.remote(submit_here, handles)

    assert found == ("first", ["a", "b"])


async def test_pool_when_misused_then_it_fails_at_the_call() -> None:
    wrong_actors: list[Any] = [3, ["one"], [None]]
    for actors in wrong_actors:
        with pytest.raises(TypeError, match="handles of actors"):
            ActorPool(actors)
    actor = Echo.remote()
    with pytest.raises(ValueError, match="already"):
        ActorPool([actor, actor])
    pool: Any = ActorPool([actor])
    for wrong in (
        lambda: pool.submit("echo", 1),
        lambda: pool.map("echo", [1]),
        lambda: pool.map(echo, 1),
        lambda: pool.map(echo, [1], progress=1),
        lambda: pool.push("actor"),
    ):
        with pytest.raises(TypeError):
            wrong()
    pool.submit(echo, 1)
    with pytest.raises(ValueError, match="timeout"):
        pool.get_next(timeout=-1)
    with pytest.raises(TypeError, match="ignore_if_timedout"):
        pool.get_next(ignore_if_timedout="yes")
    assert await pool.get_next() == 1


# In chunks.


@pytest.mark.parametrize("chunksize", [1, 6])
async def test_map_when_calls_or_the_function_fail_then_errors_in_their_places(
    chunksize: int,
) -> None:
    def work(actor: Any, value: int) -> Any:
        if value == 1:
            return actor.fail.remote(KeyError("one"))
        if value == 2:
            raise RuntimeError("two")
        if value == 3:
            return value
        return actor.echo.remote(value)

    pool: Any = echoes(1)
    found = await pool.map(work, range(6), chunksize=chunksize, on_error="return")

    assert (found[0], found[4:]) == (0, [4, 5])
    kinds = (KeyError, RuntimeError, TypeError)
    assert all(map(isinstance, found[1:4], kinds))
    assert [error.__notes__[-1] for error in found[1:4]] == [
        f"in call {place} of a map, counted from 0" for place in (1, 2, 3)
    ]


async def test_map_when_chunked_and_an_actor_dies_then_each_item_has_the_error() -> (
    None
):
    actor = Echo.remote()
    await actorlib.kill(actor)
    pool: Any = ActorPool([actor, Echo.remote()])
    found = await pool.map(echo, range(4), chunksize=2, return_exceptions=True)

    assert [type(value) for value in found] == [ActorDiedError] * 2 + [int] * 2
    assert found[0].__notes__ == ["in calls 0 to 1 of a map, counted from 0"]


async def test_map_when_chunked_and_an_item_is_not_one_call_then_it_says_so() -> None:
    calls: list[Any] = []

    def both(actor: Any, value: Any) -> Any:
        actor.echo.remote(value)
        return actor.echo.remote(value)

    def earlier(actor: Any, value: Any) -> Any:
        calls.append(calls[0] if calls else actor.echo.remote(value))
        return calls[-1]

    pool: Any = echoes(1)
    for work in (both, earlier, lambda a, v: a.echo.remote(a.echo.remote(v))):
        found = await pool.map(work, range(3), chunksize=3, on_error="return")
        assert all("return the call of one method" in str(error) for error in found)


async def test_map_when_chunked_and_calls_have_options_then_the_same_results() -> None:
    methods: dict[Any, Any] = {}

    def work(actor: Any, value: int) -> Any:
        if value % 4 == 0:
            return actor.echo.options(name=f"echo {value}").remote(value)
        if value % 4 == 1:
            return actor.echo.remote(value=value)
        if value % 4 == 2:
            return actor.echo.remote(value)
        kept = methods.setdefault(actor, actor.echo.options(timeout=60))
        return kept.remote(value)

    pool: Any = echoes(2)

    assert await pool.map(work, range(300), chunksize=100) == [*range(300)]
