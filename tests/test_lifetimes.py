"""Records, processes and handles that are given back when an actor ends."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import (
    AsyncCaller,
    Caller,
    Counter,
    Echo,
    Gate,
    Keeper,
    Stop,
    Target,
    end_of,
    gone,
    running,
)
from helpers.calls import raised
from helpers.marks import in_memory

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorNotFoundError,
    ActorUnschedulableError,
    RuntimeDrainingError,
    TaskCancelledError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actorlib import Runtime


pytestmark = in_memory(preload=[__name__], num_cpus=2, grace=0.5)


async def ready() -> tuple[Any, int, asyncio.Future[None]]:
    """A handle, its process, and its end."""
    target = Target.remote()
    return target, await target.ping.remote(), end_of(target)


# The last handle.


async def test_an_actor_dropped_while_it_waits_in_line_ends(runtime: Runtime) -> None:
    holder = Target.options(num_cpus=2).remote()
    waiting = Target.options(num_cpus=1).remote()
    await holder
    end = end_of(waiting)
    del waiting
    await end
    assert runtime.snapshot().waiting == ()
    assert len(runtime.snapshot().actors) == 1


async def test_100_actors_leave_no_process_and_no_record(runtime: Runtime) -> None:
    targets = [Target.remote() for _ in range(100)]
    pids = await asyncio.gather(*(target.ping.remote() for target in targets))
    assert len(set(pids)) == 100
    ends = [end_of(target) for target in targets]
    targets.clear()
    await asyncio.gather(*ends)
    assert runtime.snapshot().actors == ()
    await asyncio.gather(*map(gone, pids))


async def test_record_of_the_dead_when_its_last_handle_goes_then_it_goes_too(
    runtime: Runtime,
) -> None:
    killed, stillborn = Target.remote(), Target.options(num_cpus=100).remote()
    await actorlib.kill(killed)
    with pytest.raises(ActorUnschedulableError):
        await stillborn
    rows = runtime.snapshot().actors
    assert [(row.state, row.pending_calls) for row in rows] == [("dead", 0)] * 2
    del killed, stillborn
    gc.collect()
    await asyncio.sleep(0)
    assert runtime.snapshot().actors == ()


# Handles elsewhere.


@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
async def test_the_result_of_a_cancelled_call_gives_its_handle_back(
    runtime: Runtime, caller_class: Any, stop: Stop
) -> None:
    def make(place: Any, target_class: Any) -> Any:
        made = target_class.remote()
        place.stop_here()
        return [made]

    caller = caller_class.remote()
    ref = caller.run.remote(make, stop.place, Target)
    await stop.reached()
    ref.cancel()
    (actor,) = (a for a in runtime.snapshot().actors if a.class_name == "Target")
    end = end_of(actor.actor_id)
    stop.release()
    with pytest.raises(TaskCancelledError):
        await ref
    await end


@pytest.mark.process
@pytest.mark.parametrize("is_looped", [False, True])
@pytest.mark.usefixtures("runtime")
async def test_a_handle_in_a_call_that_was_cancelled_before_it_ran(
    stop: Stop, *, is_looped: bool
) -> None:
    class Plain:
        def stop(self, stop: Any) -> None:
            stop.stop_here()

        def take(self, target: Any) -> None: ...

    class Looped(Plain):
        async def take_later(self, target: Any) -> None: ...

    actor = actorlib.remote(Looped if is_looped else Plain).remote()
    target, _, end = await ready()
    stopped = actor.stop.remote(stop.place)
    await stop.reached()
    refs = [actor.take.remote(target)]
    if is_looped:
        refs += [actor.take_later.remote(None), actor.take_later.remote(target)]
    del target
    for ref in refs:
        ref.cancel()
    await asyncio.sleep(0)
    stop.release()
    await stopped
    await actor.take.remote(None)
    await end


@pytest.mark.usefixtures("runtime")
async def test_a_handle_in_a_call_that_was_cancelled_before_it_went(stop: Stop) -> None:
    @actorlib.remote
    class Slow:
        def __init__(self, stop: Any) -> None:
            stop.stop_here()

        def take(self, *_: Any) -> None: ...

    gate = Gate.remote()
    slow_value = gate.wait.remote("value")
    target, _, end = await ready()
    slow = Slow.remote(stop.place)
    refs = [slow.take.remote(target), slow.take.remote(slow_value, target)]
    del target
    while refs:
        refs.pop(0).cancel()
    await gate.open.remote("value")
    await slow_value
    gc.collect()
    await end
    await stop.reached()
    stop.release()
    await slow


@pytest.mark.slow
@pytest.mark.parametrize("is_looped", [False, True])
@pytest.mark.usefixtures("runtime")
async def test_handles_in_garbage_of_a_worker_never_lock_it_up(
    *, is_looped: bool
) -> None:
    class Littering:
        def thresholds(self, number: int) -> None:
            gc.set_threshold(number)

        def litter(self, target: Any, others: list[Any]) -> int:
            cycle: list[Any] = [target, others]
            cycle.append(cycle)
            return len(others)

    class Looped(Littering):
        async def litter_later(self, target: Any, others: list[Any]) -> int:
            return self.litter(target, others)

    actor = actorlib.remote(Looped if is_looped else Littering).remote()
    method = actor.litter_later if is_looped else actor.litter
    targets = [Target.remote() for _ in range(3)]
    # Collections come after every so many allocations, wherever that is.
    for number in (1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41):
        await actor.thresholds.remote(number)
        refs = [method.remote(targets[i % 3], targets) for i in range(40)]
        assert await asyncio.gather(*refs) == [3] * 40


# From one runtime to the next.


async def test_an_actor_made_while_the_runtime_ends_is_refused() -> None:
    async with running(grace=1) as runtime:
        gate = await Gate.remote()
        waits = gate.wait.remote()
        ending = asyncio.create_task(runtime.shutdown())
        await asyncio.sleep(0)
        assert actorlib.is_initialized()
        with pytest.raises(RuntimeError, match="this runtime was shut down"):
            Echo.remote()
        await ending
        assert isinstance(await raised(waits), ActorDiedError)


async def test_handle_when_the_runtime_ends_in_its_block_then_the_error_stays() -> None:
    async with running() as runtime:
        with pytest.raises(LookupError):  # noqa: PT012  # it is about the block
            async with Counter.remote():
                await runtime.shutdown()
                raise LookupError


async def test_handles_dropped_after_the_end_of_their_runtime_are_no_trouble() -> None:
    async with running():
        old = [Counter.remote() for _ in range(3)]
        methods = [counter.add for counter in old]
        await asyncio.gather(*(method.remote() for method in methods))
    thread = threading.Thread(target=old.clear)
    thread.start()
    thread.join()
    async with running():
        methods.clear()
        gc.collect()
        assert await Counter.remote().add.remote() == 1


# Actors that end with their maker, and detached ones, which do not.


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


@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.usefixtures("runtime")
async def test_children_when_busy_then_they_have_the_grace_and_are_killed_after_it(
    stop: Stop, *, returns: bool
) -> None:
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
    if returns:
        stop.release()
        assert await ref is None
    else:
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


# Runtimes that drain.


@actorlib.remote
class Front:
    """Calls another actor after a while."""

    async def ask(self, back: Any, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return str(await back.answer.remote())

    async def answer(self) -> str:
        return "answered"

    async def items(self) -> AsyncIterator[int]:
        for number in range(3):
            await asyncio.sleep(1)
            yield number


@actorlib.remote
def double(x: int) -> int:
    return 2 * x


async def test_drain_when_calls_are_under_way_then_finished_and_new_ones_refused(
    own_runtime: Runtime,
) -> None:
    front, back = Front.remote(), Front.remote()
    ref = front.ask.remote(back, 5)
    computed = double.remote(21)
    stream: Any = front.items.remote()

    drained = asyncio.create_task(own_runtime.drain())
    await asyncio.sleep(0)
    for refused in (
        front.answer.remote,
        front.items.remote,
        lambda: double.remote(1),
        Front.remote,
        lambda: actorlib.placement_group([{"CPU": 1}]),
    ):
        with pytest.raises(RuntimeDrainingError, match="takes no new ones"):
            refused()
    with pytest.raises(RuntimeDrainingError):
        await asyncio.to_thread(front.answer.remote)

    assert [await item async for item in stream] == [0, 1, 2]
    assert await drained == []
    assert (ref.done(), await ref, await computed) == (True, "answered", 42)
    assert await own_runtime.drain() == []


async def test_drain_when_one_takes_too_long_then_it_is_told_of(
    own_runtime: Runtime,
) -> None:
    front = await Front.remote()
    ref = front.ask.remote(front, 1000)

    [left] = await own_runtime.drain(timeout=1)

    assert left.method == "ask"
    assert not ref.done()
    with pytest.raises(ValueError, match="timeout takes a finite number"):
        await own_runtime.drain(timeout=-1)
