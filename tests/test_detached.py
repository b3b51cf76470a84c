"""Actors that end with their maker, and detached ones, which do not."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import (
    AsyncCaller,
    Caller,
    Keeper,
    Stop,
    Target,
    end_of,
    gone,
    running,
)
from helpers.marks import in_memory

import actorlib
from actorlib.exceptions import ActorDiedError, ActorNotFoundError

if TYPE_CHECKING:
    from actorlib import Runtime

pytestmark = in_memory(preload=[__name__], num_cpus=2, grace=0.5)


async def end_maker(caller: Any, way: str) -> None:
    """Ends an actor, whose last handle this is unless it is killed."""
    if way == "kill -9":
        os.kill(await caller.run.remote(os.getpid), signal.SIGKILL)
    elif way == "kill":
        actorlib.kill(caller)
    elif way == "exit":
        with pytest.raises(ActorDiedError):
            await caller.run.remote(actorlib.exit_actor)


def detached(name: str) -> Any:
    return Target.options(name=name, lifetime="detached")


async def pid_of(actor: Any) -> int:
    return await actor.ping.remote()  # type: ignore[no-any-return]


async def assert_detached_outlives(caller_class: Any, way: str) -> None:
    caller = caller_class.remote()
    await caller.run.remote(lambda: detached("t").remote() and None)
    pid = await pid_of(actorlib.get_actor("t"))
    end = end_of(caller)
    await end_maker(caller, way)
    del caller
    await end

    assert await pid_of(actorlib.get_actor("t")) == pid


@pytest.mark.process
@pytest.mark.usefixtures("runtime")
async def test_maker_when_it_crashes_then_its_children_end_and_detached_ones_live() -> (
    None
):
    await assert_detached_outlives(Caller, "kill -9")
    await assert_children_end(Caller, "kill -9")


@pytest.mark.process
async def test_detached_actor_when_it_is_killed_or_crashes_then_it_is_forgotten(
    runtime: Runtime,
) -> None:
    for is_crash in (False, True):
        target = detached("t").remote()
        pid, end = await pid_of(target), end_of(target)
        if is_crash:
            os.kill(pid, signal.SIGKILL)
        else:
            actorlib.kill(target)
        del target
        await end
        await gone(pid)
        gc.collect()
        await asyncio.sleep(0)  # a dropped handle is counted in the next turn
        with pytest.raises(ActorNotFoundError):
            actorlib.get_actor("t")
        assert runtime.snapshot().actors == ()


async def test_detached_actors_when_the_runtime_ends_then_they_end() -> None:
    async with running():
        pid = await pid_of(detached("t").remote())
        idle = await pid_of(Target.options(lifetime="detached").remote())
    await gone(pid)
    await gone(idle)


# Who is not detached ends with its maker.


async def assert_children_end(caller_class: Any, way: str) -> None:
    caller, keeper = caller_class.remote(), Keeper.remote()
    child = await caller.make.remote(Target)
    grandchild_maker = await caller.make.remote(caller_class)
    grandchild = await grandchild_maker.make.remote(Target)
    await keeper.keep.remote([child, grandchild])
    pids = [await pid_of(child), await pid_of(grandchild)]
    end = end_of(caller)
    await end_maker(caller, way)
    del caller
    await end

    for pid in pids:
        await gone(pid)
    with pytest.raises(ActorDiedError, match="the actor that made it ended"):
        await child.ping.remote()
    with pytest.raises(ActorDiedError, match="the actor that made it ended"):
        await grandchild.ping.remote()


@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
@pytest.mark.parametrize("way", ["kill", "drop", "exit"])
@pytest.mark.usefixtures("runtime")
async def test_children_when_their_maker_ends_then_they_do_whoever_holds_them(
    caller_class: Any, way: str
) -> None:
    await assert_children_end(caller_class, way)


@pytest.mark.usefixtures("runtime")
async def test_children_when_busy_then_they_have_the_grace(stop: Stop) -> None:
    caller = Caller.remote()
    child = await caller.make.remote(Caller)
    await child
    ref = child.run.remote(stop.place.stop_here)
    await stop.reached()
    end = end_of(caller)
    actorlib.kill(caller)
    await end
    with pytest.raises(ActorDiedError, match="the actor that made it ended"):
        await child.run.remote(os.getpid)
    stop.release()
    assert await ref is None


@pytest.mark.usefixtures("runtime")
async def test_children_when_busy_for_ever_then_they_are_killed(stop: Stop) -> None:
    caller = Caller.remote()
    child = await caller.make.remote(Caller)
    await child
    ref = child.run.remote(stop.place.stop_here)
    await stop.reached()
    actorlib.kill(caller)
    with pytest.raises(ActorDiedError, match="the actor that made it ended"):
        await ref


async def test_children_when_they_wait_in_line_then_they_leave_it(
    runtime: Runtime,
) -> None:
    caller = Caller.remote()
    first = await caller.make.remote(Target.options(num_cpus=2))
    await first
    second = await caller.make.remote(Target.options(num_cpus=2))
    await actorlib.kill(caller)
    with pytest.raises(ActorDiedError, match="the actor that made it ended"):
        await second
    await asyncio.gather(*map(end_of, (first, second)), return_exceptions=True)
    assert runtime.available_resources()["CPU"] == 2.0


@pytest.mark.usefixtures("runtime")
async def test_children_when_found_by_get_if_exists_then_they_are_no_children() -> None:
    def obtain() -> Any:
        return Target.options(name="t", get_if_exists=True).remote()

    target, caller = obtain(), Caller.remote()
    assert await caller.run.remote(obtain) == target
    await actorlib.kill(caller)
    assert await pid_of(target)
