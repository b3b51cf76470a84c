"""Which handles keep an actor alive, wherever they are."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Counter, Echo, Gate, Keeper, Target
from helpers.callers import error_of
from helpers.lives import end_of, keep, kept, leave, remote

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorlibError,
    ActorUnschedulableError,
    SerializationError,
    TaskCancelledError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Generator

    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [
    pytest.mark.process,
    pytest.mark.usefixtures("runtime"),
    pytest.mark.asyncio(loop_scope="module"),
]

ACTORS = pytest.mark.parametrize(
    "callee", ["plain", "threaded", "async", "group"], indirect=True
)
PLAIN = pytest.mark.parametrize("callee", ["plain"], indirect=True)
THREE_KINDS = pytest.mark.parametrize(
    "callee", ["function", "plain", "async"], indirect=True
)
TWO_KINDS = pytest.mark.parametrize("callee", ["plain", "async"], indirect=True)


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


async def test_handle_when_only_a_constructor_has_it_then_the_actor_lives(
    api: Api,
) -> None:
    target, pid, end = await new_target(api)
    keeper = Keeper.remote(Keeper.remote(target))
    del target
    inner = await api.get(keeper.kept.remote())
    again = await api.get(inner.kept.remote())

    assert await api.get(again.ping.remote()) == pid
    assert not end.done()
    del inner, again
    await api.get(keeper.keep.remote(None))
    gc.collect()
    await end


@THREE_KINDS
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


class Parent:
    def __init__(self) -> None:
        self.child = Target.remote()

    def hand_out(self) -> Any:
        return self.child


async def test_actor_when_a_constructor_made_it_then_it_ends_with_its_maker(
    api: Api,
) -> None:
    parent = actorlib.remote(Parent).remote()
    child = await api.get(parent.hand_out.remote())
    assert await api.get(child.ping.remote()) > 0
    end = end_of(api, child)
    del child, parent

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


@TWO_KINDS
async def test_error_when_it_has_a_handle_then_it_keeps_the_actor(
    api: Api, callee: Callee, *, is_on_ray: bool
) -> None:
    target, pid, end = await new_target(api)
    error = await error_of(api, callee.run(fail_with, target))
    del target
    if is_on_ray:  # handles pass in values only; the error arrives as its text
        assert len(error.args) == 1
        end.cancel()
        return

    assert await api.get(error.args[1].ping.remote()) == pid
    assert not end.done()
    del error
    gc.collect()
    await end


# In calls that run later, or never.


def ping(target: Any) -> Generator[Any, Any, Any]:
    return (yield target.ping.remote())


@PLAIN
async def test_handle_when_its_call_waits_then_the_actor_lives(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    target, pid, end = await new_target(api)
    callee.run(pass_gate, gate)
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


def pass_gate(gate: Any) -> Any:
    yield gate.wait.remote("the place")


@PLAIN
async def test_handle_when_the_call_is_cancelled_then_it_is_released(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    target, _, end = await new_target(api)
    busy = callee.run(pass_gate, gate)
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
