"""Handles: which of them keep an actor alive, and what those that travel can do."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Counter, Keeper, Target
from helpers.callers import error_of
from helpers.kinds import (
    ACTORS,
    AWAITING,
    CONTRACT,
    FEW_KINDS,
    OWN_ENGINES,
    PLAIN,
    TWO_KINDS,
)
from helpers.lives import end_of, keep, kept, leave, remote
from helpers.reused import Echo, Gate
from helpers.waiting_calls import wait_at

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorlibError,
    ActorUnschedulableError,
    SerializationError,
    TaskCancelledError,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from helpers.callees import Callee
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]


pytestmark = CONTRACT


async def new_target(api: Api) -> tuple[Any, int, asyncio.Future[None]]:
    """The only handle of an actor, its process, and its end."""
    target = Target.remote()
    return target, await api.get(target.ping.remote()), end_of(api, target)


def same(value: Any) -> Any:
    return value


# In this process.


async def test_handle_when_copied_then_each_copy_keeps_the_actor(api: Api) -> None:
    target, pid, end = await new_target(api)
    cycle: list[Any] = [target]
    cycle.append(cycle)
    copies = [copy.copy(target), copy.deepcopy(target), cycle]
    ping = target.ping
    del target, cycle
    copies.clear()
    gc.collect()

    assert await api.get(ping.remote()) == pid
    assert not end.done()
    del ping
    await end


@OWN_ENGINES
async def test_handle_when_pickled_by_the_user_then_refused(api: Api) -> None:
    counter = Counter.remote()
    with pytest.raises(TypeError, match=r"argument or a result|travels only"):
        pickle.dumps(counter)

    assert await api.get(counter.add.remote()) == 1


# In other processes.


@ACTORS
async def test_handle_when_a_callee_keeps_it_then_the_actor_lives(
    api: Api, callee: Callee
) -> None:
    target, pid, end = await new_target(api)
    call = callee.actor.__ray_call__
    await api.get(call.remote(keep, {"kept": [target, target.ping]}))
    del target
    gc.collect()
    [handle, method] = (await api.get(call.remote(kept)))["kept"]

    assert await api.get([handle.ping.remote(), method.remote()]) == [pid, pid]
    del handle, method
    assert await api.get(callee.run(len, "ab")) == 2
    assert not end.done()
    await api.get(call.remote(keep, None))
    gc.collect()
    await end


@OWN_ENGINES
@pytest.mark.parametrize("how", ["drop", "kill", "leave"])
@PLAIN
async def test_holder_when_it_ends_then_what_it_held_ends_too(
    api: Api, callee: Callee, how: str
) -> None:
    target, _, end = await new_target(api)
    holder = callee.new()
    await api.get(holder.actor.__ray_call__.remote(keep, Keeper.remote([target])))
    del target
    assert not end.done()
    if how == "kill":
        await api.kill(holder.actor)
    elif how == "leave":
        await error_of(api, holder.run(leave, 3))
    del holder
    gc.collect()

    await end


@FEW_KINDS
async def test_handle_when_it_travels_in_values_then_each_holder_counts_once(
    api: Api, callee: Callee
) -> None:
    target, pid, end = await new_target(api)
    values: list[Any] = [
        target,
        [target, target],
        {"a": target, "b": [target, {"c": target.ping}]},
        (target.ping, target.ping),
        {target: {target}},
    ]
    while values:
        value = values.pop()
        back = await api.get(callee.run(same, value))
        assert type(back) is type(value)
        await api.get([callee.run(id, value) for _ in range(3)])
        del value
    back = await api.get(callee.run(same, target))
    assert (back, hash(back), repr(back)) == (target, hash(target), repr(target))
    del target, values
    assert await api.get(back.ping.remote()) == pid
    assert not end.done()

    del back
    gc.collect()
    await end


def make() -> Any:
    return [Target.remote()]


@ACTORS
async def test_actor_when_a_callee_made_it_then_the_handle_that_came_back_keeps_it(
    api: Api, callee: Callee
) -> None:
    [target] = await api.get(callee.run(make))
    assert await api.get(target.ping.remote()) > 0
    end = end_of(api, target)
    assert await api.get(callee.run(len, "ab")) == 2
    assert not end.done()
    del target

    gc.collect()
    await end


def make_and_drop(log: Any) -> Any:
    counter = Counter.remote()
    log.keep.remote(counter)
    yield counter.add.remote()


@OWN_ENGINES
@TWO_KINDS
async def test_actor_when_a_callee_made_and_dropped_it_then_it_ends(
    api: Api, callee: Callee
) -> None:
    keeper = Keeper.remote()
    await api.get(callee.run(make_and_drop, keeper))
    counter = await api.get(keeper.kept.remote())
    assert await api.get(counter.add.remote()) == 2
    end = end_of(api, counter)
    del counter
    await api.get(keeper.keep.remote(None))

    await end


async def test_result_when_it_holds_a_handle_then_its_ref_keeps_the_actor(
    api: Api,
) -> None:
    target, pid, end = await new_target(api)
    ref = Echo.remote().echo.remote([target])
    await api.wait([ref])
    del target
    gc.collect()
    [again] = await api.get(ref)
    assert await api.get(again.ping.remote()) == pid
    del again
    assert not end.done()
    del ref

    gc.collect()
    await end


def fail_with(handle: Any) -> None:
    raise LookupError("with", handle)


@OWN_ENGINES
@TWO_KINDS
async def test_error_when_it_has_a_handle_then_it_keeps_the_actor(
    api: Api, callee: Callee
) -> None:
    target, pid, end = await new_target(api)
    error = await error_of(api, callee.run(fail_with, target))
    del target

    assert await api.get(error.args[1].ping.remote()) == pid
    assert not end.done()
    del error
    gc.collect()
    await end


# In calls that run later, or never.


def ping(target: Any) -> Generator[Any, Any, Any]:
    return (yield target.ping.remote())


@OWN_ENGINES
@PLAIN
async def test_handle_when_its_call_waits_then_the_actor_lives(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    target, pid, end = await new_target(api)
    callee.run(wait_at, gate, "the place")
    ref = callee.run(ping, target)
    del target
    await api.get(gate.reached.remote("the place"))
    gc.collect()
    assert not end.done()
    await api.get(gate.open.remote("the place"))

    assert await api.get(ref) == pid
    await end


def bad_number(*_: Any) -> int:
    return int("no number")


class Unloadable:
    def __reduce__(self) -> Any:
        return bad_number, ()


@OWN_ENGINES
@TWO_KINDS
async def test_handle_when_the_call_is_refused_or_fails_then_it_is_released(
    api: Api, callee: Callee, *, is_on_ray: bool
) -> None:
    target, _, end = await new_target(api)
    with pytest.raises(SerializationError):
        callee.run(same, target, threading.Lock())
    with pytest.raises(SerializationError):
        Keeper.remote([target, threading.Lock()])
    with pytest.raises(TypeError):
        remote(Keeper.__wrapped__).remote(target, target)
    error = await error_of(api, callee.run(bad_number, target))
    assert isinstance(error, ValueError)
    error = await error_of(api, callee.run(divmod, target, Unloadable()))
    assert isinstance(error, ActorlibError if is_on_ray else ValueError)
    assert "no number" in str(error)
    del target, error
    gc.collect()

    await end


@OWN_ENGINES
@PLAIN
async def test_handle_when_the_call_is_cancelled_then_it_is_released(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    target, _, end = await new_target(api)
    busy = callee.run(wait_at, gate, "the place")
    await api.get(gate.reached.remote("the place"))
    refs = [
        callee.run(same, target),
        callee.run(divmod, gate.wait.remote("argument"), target),
    ]
    del target
    while refs:
        api.cancel(refs[0])
        assert isinstance(await error_of(api, refs.pop(0)), TaskCancelledError)
    await api.get([gate.open.remote("the place"), gate.open.remote("argument")])
    await api.get(busy)
    assert await api.get(callee.run(len, "ab")) == 2

    gc.collect()
    await end


@OWN_ENGINES
@TWO_KINDS
async def test_handle_when_its_receiver_dies_of_the_call_then_it_is_released(
    api: Api, callee: Callee
) -> None:
    target, _, end = await new_target(api)
    refs = [callee.run(leave, [target]), callee.run(same, target)]
    del target
    while refs:
        assert isinstance(await error_of(api, refs.pop()), ActorDiedError)

    gc.collect()
    await end


class Failing:
    def __init__(self, value: Any) -> None:
        raise ValueError(repr(value))

    def take(self, value: Any) -> None: ...


@OWN_ENGINES
async def test_handle_when_its_receiver_never_lives_then_it_is_released(
    api: Api,
) -> None:
    target, _, end = await new_target(api)
    holder = Echo.options(num_gpus=2).remote()
    await api.get(holder.echo.remote(1))
    waiting = Keeper.options(num_gpus=1).remote(target)
    huge = Keeper.options(num_gpus=100).remote({"t": target})
    failing = actorlib.remote(Failing).remote(target)
    refs = [waiting.keep.remote([target]), huge.keep.remote(target)]
    refs.append(failing.take.remote(target))
    del target
    await api.kill(waiting)
    for ref, kind in zip(
        refs, [ActorDiedError, ActorUnschedulableError, ActorDiedError], strict=True
    ):
        assert isinstance(await error_of(api, ref), kind)

    gc.collect()
    await end


# Handles of actors as arguments, in results, and inside of other values.


def add_by_all(values: dict[str, Any]) -> Steps:
    listed, pair, deep = values["list"], values["pair"], values["deep"]
    return (yield [h.add.remote() for h in [*listed, pair[1], deep[0][0]["k"]]])


async def test_handle_when_inside_of_an_argument_then_the_callee_can_call_it(
    api: Api, callee: Callee
) -> None:
    one, two = Counter.remote(), Counter.remote(10)
    values = {"list": [one, two, one], "pair": (0, two), "deep": [({"k": one},)]}

    answers = await api.get(callee.run(add_by_all, values))

    assert sorted(answers) == [1, 2, 3, 11, 12]


def keys_and_values(table: dict[Any, Any]) -> Any:
    return table


@FEW_KINDS
async def test_handle_when_it_comes_back_then_it_is_equal(
    api: Api, callee: Callee
) -> None:
    counter, other = Counter.remote(), Counter.remote()
    bare = await api.get(callee.first(counter))
    [listed], same = await api.get(callee.all([counter], counter))
    value = (await api.get(callee.run(keys_and_values, {"h": (counter, 1)})))["h"][0]
    [(key, [item])] = (
        await api.get(callee.run(keys_and_values, {counter: {counter}}))
    ).items()

    backs = [bare, listed, same, value, key, item]
    for back in backs:
        assert back == counter
        assert hash(back) == hash(counter)
        assert repr(back) == repr(counter)
        assert back != other
        assert back != "counter"
    assert len({*backs, counter, other}) == 2
    await api.get([back.add.remote() for back in backs])
    assert await api.get(counter.add.remote()) == 7


def call_both(value: int, handle: Any) -> Steps:
    return value, (yield handle.add.remote())


@FEW_KINDS
async def test_handle_when_beside_or_behind_a_ref_then_the_callee_can_call_it(
    api: Api, callee: Callee
) -> None:
    echo, counter = Echo.remote(), Counter.remote()
    beside = callee.run(call_both, echo.echo.remote(1), counter)
    assert await api.get(beside) == (1, 1)

    behind = callee.run(call_both, 2, echo.echo.remote(counter))
    assert await api.get(behind) == (2, 2)
    assert await api.get(callee.run(call_both, 3, api.put(counter))) == (3, 3)


# Handles and refs that functions and classes mention where they are defined.


def capturing(counter: Any, ref: Any) -> list[Any]:
    """Definitions that mention a handle and a ref of those who define them."""

    class Captor:
        def use(self) -> list[int]:
            return actorlib.get([counter.add.remote(), ref])

    class AsyncCaptor:
        async def use(self) -> list[int]:
            refs: Any = counter.add.remote(), ref
            return await asyncio.gather(*refs)

    def use() -> list[int]:
        return actorlib.get([counter.add.remote(), ref])

    return [*map(actorlib.remote, (Captor, AsyncCaptor)), actorlib.remote(use)]


async def test_definition_when_it_mentions_a_handle_and_a_ref_then_it_has_them(
    api: Api,
) -> None:
    counter = Counter.remote(1)
    ref = counter.add.remote()
    assert await api.get(ref) == 2
    plain, coroutine, function = capturing(counter, ref)

    assert await api.get(plain.remote().use.remote()) == [3, 2]
    assert await api.get(coroutine.remote().use.remote()) == [4, 2]
    assert await api.get(function.remote()) == [5, 2]
    assert await api.get(plain.remote().use.remote()) == [6, 2]


@OWN_ENGINES
async def test_function_when_it_mentions_a_handle_and_a_ref_then_it_runs_with_them(
    api: Api, callee: Callee
) -> None:
    counter = Counter.remote(1)
    ref = counter.add.remote()

    def use() -> Generator[Any, Any, list[int]]:
        return (yield [ref, counter.add.remote()])

    # Calls of two callers have no order: on Ray the callee's may be the first.
    assert sorted(await api.get(callee.run(use))) == [2, 3]


def define() -> Steps:
    counter = Counter.remote(1)
    ref = counter.add.remote()
    yield ref
    plain, coroutine, function = capturing(counter, ref)
    return plain.remote(), coroutine.remote(), (yield function.remote())


@OWN_ENGINES
@FEW_KINDS
async def test_definition_when_a_callee_makes_it_then_it_has_what_is_there(
    api: Api, callee: Callee
) -> None:
    plain, coroutine, values = await api.get(callee.run(define))
    assert values == [3, 2]
    await api.get(callee.run(gc.collect))  # what was defined there is gone

    assert await api.get(coroutine.use.remote()) == [4, 2]
    assert await api.get(plain.use.remote()) == [5, 2]


@OWN_ENGINES
@AWAITING
async def test_definition_when_it_alone_has_a_handle_then_the_actor_lives_as_long(
    api: Api,
) -> None:
    counter = Counter.remote(1)
    ended = end_of(api, counter)
    captor, *others = capturing(counter, api.put(0))
    user = captor.remote()
    assert await api.get(user.use.remote()) == [2, 0]

    await api.kill(user)
    del counter, others, user
    gc.collect()
    user = captor.remote()
    assert await api.get(user.use.remote()) == [3, 0]

    del captor, user
    gc.collect()
    await ended
