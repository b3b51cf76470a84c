from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
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

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorUnschedulableError,
    SerializationError,
    TaskCancelledError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from actorlib import Runtime
    from actorlib._core.runtime_options import RuntimeKeywords

pytestmark = [pytest.mark.memory, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"preload": [__name__], "num_cpus": 2, "grace": 0.2}


async def ready() -> tuple[Any, int, asyncio.Future[None]]:
    """A handle, its process, and its end."""
    target = Target.remote()
    return target, await target.ping.remote(), end_of(target)


# The last handle.


async def test_an_actor_ends_with_its_last_handle(runtime: Runtime) -> None:
    target, pid, end = await ready()
    del target
    await end
    await gone(pid)
    assert runtime.snapshot().actors == ()


async def test_ten_actors_dropped_together_all_end(runtime: Runtime) -> None:
    targets = [Target.remote() for _ in range(10)]
    pids = await asyncio.gather(*(target.ping.remote() for target in targets))
    ends = [end_of(target) for target in targets]
    targets.clear()
    await asyncio.gather(*ends, *map(gone, pids))
    assert runtime.snapshot().actors == ()


@pytest.mark.usefixtures("runtime")
async def test_an_actor_lives_while_any_handle_in_this_process_does() -> None:
    target, pid, end = await ready()
    other = await Echo.remote().echo.remote(target)
    copies = [copy.copy(target), copy.deepcopy(target), other]
    del target, other
    while len(copies) > 1:
        copies.pop()
        assert await copies[0].ping.remote() == pid
    assert not end.done()
    copies.clear()
    await end


async def test_an_actor_dropped_before_it_is_ready_ends(runtime: Runtime) -> None:
    target = Target.remote()
    end = end_of(target)
    del target
    await end
    assert runtime.snapshot().actors == ()


async def test_an_actor_dropped_while_it_waits_in_line_ends(runtime: Runtime) -> None:
    holder = Target.options(num_cpus=2).remote()
    waiting = Target.options(num_cpus=1).remote()
    await holder
    end = end_of(waiting)
    del waiting
    await end
    assert runtime.snapshot().waiting == ()
    assert len(runtime.snapshot().actors) == 1


@pytest.mark.usefixtures("runtime")
async def test_what_it_was_sent_is_done_first() -> None:
    counter = Counter.remote()
    refs = [counter.add.remote() for _ in range(100)]
    end = end_of(counter)
    del counter
    assert await asyncio.gather(*refs) == list(range(1, 101))
    await end
    assert await Counter.remote().add.remote() == 1


@pytest.mark.usefixtures("runtime")
async def test_what_it_was_sent_is_done_also_if_nobody_holds_the_refs() -> None:
    counter, caller = Counter.remote(), Caller.remote()
    for _ in range(3):
        caller.call.remote(counter, "add")
    end = end_of(caller)
    del caller
    await end
    assert await counter.add.remote() == 4


@pytest.mark.usefixtures("runtime")
async def test_what_waits_for_an_argument_is_done_too() -> None:
    gate, counter = Gate.remote(), Counter.remote()
    slow = gate.wait.remote("5")
    target = Echo.remote()
    refs = [target.echo.remote(slow), target.echo.remote(6)]
    end = end_of(target)
    del target
    await gate.reached.remote("5")
    assert not end.done()
    assert await counter.add.remote() == 1
    await gate.open.remote("5")
    assert await asyncio.gather(*refs) == ["5", 6]
    await end


@pytest.mark.usefixtures("runtime")
async def test_a_running_async_call_is_finished_first() -> None:
    gate, outer = Gate.remote(), AsyncCaller.remote()
    ref = outer.call.remote(gate, "wait", "it")
    end = end_of(outer)
    del outer
    await gate.reached.remote("it")
    assert not end.done()
    await gate.open.remote("it")
    assert await ref == "it"
    await end


@pytest.mark.process
@pytest.mark.usefixtures("runtime")
async def test_atexit_handlers_run_at_an_end_like_this(tmp_path: Path) -> None:
    @actorlib.remote
    class Leaving:
        def prepare(self, path: Any) -> None:
            import atexit  # noqa: PLC0415

            atexit.register(path.write_text, "left")

    leaving = Leaving.remote()
    await leaving.prepare.remote(tmp_path / "said")
    end = end_of(leaving)
    del leaving
    await end
    assert (tmp_path / "said").read_text() == "left"


@pytest.mark.usefixtures("runtime")
async def test_a_handle_in_a_garbage_cycle_goes_with_it() -> None:
    target, _, end = await ready()
    cycle: list[Any] = [target]
    cycle.append(cycle)
    del target, cycle
    gc.collect()
    await end


@pytest.mark.usefixtures("runtime")
async def test_a_handle_dropped_in_another_thread() -> None:
    target, pid, end = await ready()
    box = [target]
    del target
    thread = threading.Thread(target=box.clear)
    thread.start()
    await end
    thread.join()
    await gone(pid)


async def test_the_share_comes_back(runtime: Runtime) -> None:
    whole = Target.options(num_cpus=2)
    for _ in range(5):
        target = whole.remote()
        assert await target.ping.remote()
        assert runtime.available_resources()["CPU"] == 0
        del target
    last = whole.remote()
    await last
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


async def test_a_dead_actor_s_record_goes_with_its_last_handle(
    runtime: Runtime,
) -> None:
    target, _, _ = await ready()
    await actorlib.kill(target)
    (row,) = runtime.snapshot().actors
    assert (row.state, row.pending_calls) == ("dead", 0)
    del target
    await asyncio.sleep(0)
    assert runtime.snapshot().actors == ()


async def test_a_stillborn_actor_s_record_goes_with_its_last_handle(
    runtime: Runtime,
) -> None:
    target = Target.options(num_cpus=100).remote()
    with pytest.raises(ActorUnschedulableError):
        await target
    del target
    gc.collect()
    await asyncio.sleep(0)
    assert runtime.snapshot().actors == ()


# Handles elsewhere.


@pytest.mark.usefixtures("runtime")
async def test_a_method_object_keeps_the_actor() -> None:
    target, pid, end = await ready()
    ping = target.ping
    del target
    await asyncio.sleep(0)
    assert await ping.remote() == pid
    assert not end.done()
    del ping
    await end


@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
@pytest.mark.usefixtures("runtime")
async def test_a_handle_in_another_actor_s_state_keeps_the_actor(
    caller_class: Any,
) -> None:
    target, pid, end = await ready()
    keeper, caller = Keeper.remote([target]), caller_class.remote()
    await caller.call.remote(keeper, "keep", {"kept": target})
    del target
    kept = (await keeper.kept.remote())["kept"]
    assert await kept.ping.remote() == pid
    del kept
    assert await caller.call.remote(keeper, "pid") > 0
    assert not end.done()
    await keeper.keep.remote(None)
    await end


@pytest.mark.usefixtures("runtime")
async def test_a_method_object_in_another_actor_s_state_keeps_the_actor() -> None:
    target, pid, end = await ready()
    keeper = Keeper.remote(target.ping)
    await keeper
    del target
    await asyncio.sleep(0)
    assert await (await keeper.kept.remote()).remote() == pid
    await keeper.keep.remote(None)
    await end


async def test_the_end_of_a_holder_ends_what_it_held(runtime: Runtime) -> None:
    for how in ("drop", "kill", "crash"):
        target, _, end = await ready()
        keeper, caller = Keeper.remote(target), Caller.remote()
        await caller.call.remote(keeper, "keep", target)
        del target
        pid = await keeper.pid.remote()
        assert not end.done()
        ends = [end, end_of(keeper), end_of(caller)]
        if how == "kill":
            await actorlib.kill(keeper)
        elif how == "crash":
            os.kill(pid, signal.SIGKILL)
        del keeper, caller
        await asyncio.gather(*ends)
    gc.collect()
    await asyncio.sleep(0)
    assert runtime.snapshot().actors == ()


@pytest.mark.usefixtures("runtime")
async def test_a_chain_of_holders_ends_link_by_link() -> None:
    target, _, end = await ready()
    chain: Any = target
    for _ in range(4):
        chain = Keeper.remote(chain)
    await chain
    del target
    assert not end.done()
    del chain
    await end


@pytest.mark.usefixtures("runtime")
async def test_a_handle_on_its_way_keeps_the_actor(stop: Stop) -> None:
    @actorlib.remote
    class Slow:
        def __init__(self, stop: Any) -> None:
            stop.stop_here()

        def ping(self, target: Any) -> int:
            return actorlib.get(target.ping.remote())

    target, pid, end = await ready()
    slow = Slow.remote(stop.place)
    ref = slow.ping.remote(target)
    del target
    await stop.reached()
    assert not end.done()
    stop.release()
    assert await ref == pid
    await end


@pytest.mark.usefixtures("runtime")
async def test_a_handle_given_to_a_constructor_and_nowhere_else() -> None:
    keeper = Keeper.remote(Keeper.remote(Target.remote()))
    inner = await keeper.kept.remote()
    target = await inner.kept.remote()
    assert await target.ping.remote() > 0
    ends = [end_of(inner), end_of(target)]
    del inner, target
    await keeper.kept.remote()
    assert not any(end.done() for end in ends)
    await keeper.keep.remote(None)
    await asyncio.gather(*ends)


@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
@pytest.mark.usefixtures("runtime")
async def test_a_handle_returned_by_the_actor_that_made_it(caller_class: Any) -> None:
    maker = caller_class.remote()
    target = await maker.make.remote(Target)
    pid, end = await target.ping.remote(), end_of(target)
    keeper = Keeper.remote()
    await keeper.keep.remote(target)
    del target
    assert await maker.call.remote(await keeper.kept.remote(), "ping") == pid
    assert not end.done()
    await keeper.keep.remote(None)
    await end


@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
async def test_what_an_actor_made_and_dropped_ends(
    runtime: Runtime, caller_class: Any
) -> None:
    def make(gate: Any) -> None:
        counter = Counter.remote()
        counter.add.remote()
        del counter, gate

    gate, caller = Gate.remote(), caller_class.remote()
    await gate
    for _ in range(5):
        await caller.run.remote(make, gate)
    ids = [a.actor_id for a in runtime.snapshot().actors if a.class_name == "Counter"]
    await asyncio.gather(*map(end_of, ids))
    assert len(runtime.snapshot().actors) == 2


async def test_what_a_constructor_made_ends_with_the_actor(runtime: Runtime) -> None:
    @actorlib.remote
    class Parent:
        def __init__(self) -> None:
            self.child = Counter.remote()

        def ask(self) -> int:
            return actorlib.get(self.child.add.remote())

    parent = Parent.remote()
    assert await parent.ask.remote() == 1
    ends = [end_of(actor.actor_id) for actor in runtime.snapshot().actors]
    del parent
    await asyncio.gather(*ends)
    assert runtime.snapshot().actors == ()


@pytest.mark.usefixtures("runtime")
async def test_a_result_nobody_takes_gives_its_handle_back() -> None:
    caller = Caller.remote()
    ref = caller.make.remote(Target)
    await asyncio.wait([ref])
    end = end_of(ref.result())
    assert not end.done()
    del ref
    await end


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


@pytest.mark.usefixtures("runtime")
async def test_handles_inside_values_are_counted_right() -> None:
    target, pid, end = await ready()
    echo, caller = Echo.remote(), AsyncCaller.remote()
    again = await echo.echo.remote(target)
    values = [
        target,
        [target, target],
        (target, again),
        {"a": target, "b": [again, {"c": target.ping}]},
        [target.ping, again.ping],
    ]
    for value in values:
        await echo.echo.remote(value)
        await echo.both.remote(value, key=value)
        await caller.call.remote(echo, "echo", value)
        await Keeper.remote(value).kept.remote()
        await asyncio.gather(*(echo.kind.remote(value) for _ in range(3)))
    assert await again.ping.remote() == pid
    assert not end.done()
    del target, again, value, values
    await end


@pytest.mark.usefixtures("runtime")
async def test_a_handle_in_an_exception_is_counted() -> None:
    def fail(target: Any) -> None:
        raise LookupError("with", target)

    for caller in (Caller.remote(), AsyncCaller.remote()):
        target, pid, end = await ready()
        error = await raised(caller.run.remote(fail, target))
        del target
        assert await error.args[1].ping.remote() == pid
        assert not end.done()
        del error
        gc.collect()
        await end


@pytest.mark.usefixtures("runtime")
async def test_a_handle_in_a_call_that_could_not_be_sent() -> None:
    target, _, end = await ready()
    echo = Echo.remote()
    with pytest.raises(SerializationError):
        echo.both.remote(target, threading.Lock())
    with pytest.raises(SerializationError):
        Keeper.remote([target, threading.Lock()])
    with pytest.raises(TypeError):
        echo.echo.remote(target, target)
    del target
    gc.collect()
    await end


@pytest.mark.usefixtures("runtime")
async def test_a_handle_in_a_call_that_failed() -> None:
    class Fragile:
        def __reduce__(self) -> Any:
            return int, ("no number",)

    for caller in (Caller.remote(), AsyncCaller.remote()):
        target, _, end = await ready()
        # The handle is loaded, and what stands behind it cannot be.
        await raised(caller.run.remote(print, target, Fragile()))
        await raised(caller.run.remote(int, target))
        del target
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
    for ref in refs:
        ref.cancel()
    del ref, refs
    await gate.open.remote("value")
    await slow_value
    gc.collect()
    await end
    await stop.reached()
    stop.release()
    await slow


@pytest.mark.usefixtures("runtime")
async def test_a_handle_given_to_an_actor_that_was_never_placed() -> None:
    holder = Target.options(num_cpus=2).remote()
    await holder
    target, _, end = await ready()
    pending = Keeper.options(num_cpus=1).remote(target)
    queued = pending.keep.remote([target])
    del target
    await asyncio.sleep(0)
    assert not end.done()
    await actorlib.kill(pending)
    assert isinstance(await raised(queued), ActorDiedError)
    await end


@pytest.mark.usefixtures("runtime")
async def test_a_handle_given_to_an_actor_that_can_never_be_placed() -> None:
    target, _, end = await ready()
    never = Keeper.options(num_cpus=100).remote({"t": target})
    assert isinstance(await raised(never.keep.remote(target)), ActorUnschedulableError)
    del target
    await end


@pytest.mark.usefixtures("runtime")
async def test_a_handle_given_to_a_constructor_that_fails() -> None:
    @actorlib.remote
    class Failing:
        def __init__(self, target: Any) -> None:
            raise ValueError(repr(target))

        def take(self, target: Any) -> None: ...

    target, _, end = await ready()
    failing = Failing.remote(target)
    assert isinstance(await raised(failing.take.remote(target)), ActorDiedError)
    del target
    await end


@pytest.mark.usefixtures("runtime")
async def test_a_handle_sent_to_an_actor_that_died_of_it() -> None:
    def die(*_: Any) -> None:
        os._exit(1)

    for caller in (Caller.remote(), AsyncCaller.remote()):
        target, _, end = await ready()
        ref = caller.run.remote(die, target)
        behind = caller.run.remote(print, target)
        del target
        for lost in (ref, behind, caller.run.remote(print, caller)):
            assert isinstance(await raised(lost), ActorDiedError)
        await end


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


# Blocks.


async def test_a_block_ends_its_actor_behind_what_it_was_sent(
    runtime: Runtime,
) -> None:
    async with Counter.options(num_cpus=2).remote() as counter:
        pid = runtime.snapshot().actors[0].pid
        refs = [counter.add.remote() for _ in range(50)]
        end = end_of(counter)
    assert end.done()
    assert await asyncio.gather(*refs) == list(range(1, 51))
    assert runtime.available_resources()["CPU"] == 2
    error = await raised(counter.add.remote())
    assert isinstance(error, ActorDiedError)
    assert error.exit.cause == "asked"
    await gone(pid)


async def test_a_block_gives_a_handle_that_is_ready(runtime: Runtime) -> None:
    async with Target.remote() as target:
        assert isinstance(target, actorlib.ActorHandle)
        assert runtime.snapshot().actors[0].state == "alive"


@pytest.mark.usefixtures("runtime")
async def test_a_block_kills_its_actor_after_an_exception() -> None:
    gate = Gate.remote()
    seen: list[Any] = []

    async def block() -> None:
        async with AsyncCaller.remote() as caller:
            seen.append(caller.call.remote(gate, "wait", "for ever"))
            await gate.reached.remote("for ever")
            seen.append(end_of(caller))
            raise ValueError("in the block")

    assert str(await raised(block())) == "in the block"
    stuck, end = seen
    assert end.done()
    error = await raised(stuck)
    assert isinstance(error, ActorDiedError)
    assert error.exit.signal == signal.SIGKILL


async def test_a_block_around_a_failing_constructor_is_not_entered(
    runtime: Runtime,
) -> None:
    @actorlib.remote
    class Failing:
        def __init__(self) -> None:
            raise ValueError("no")

    failing = Failing.remote()
    end = end_of(failing)
    with pytest.raises(ActorDiedError, match="ValueError: no"):
        async with failing:
            raise AssertionError
    del failing
    await end
    gc.collect()
    await asyncio.sleep(0)
    assert runtime.snapshot().actors == ()


@pytest.mark.usefixtures("runtime")
async def test_a_block_refuses_calls_of_others_after_its_end() -> None:
    async with Counter.remote() as counter:
        keeper = Keeper.remote(counter)
        await keeper
    kept = await keeper.kept.remote()
    assert isinstance(await raised(kept.add.remote()), ActorDiedError)
    error = await raised(Caller.remote().call.remote(kept, "add"))
    assert isinstance(error, ActorDiedError)


@pytest.mark.usefixtures("runtime")
async def test_a_block_inside_an_actor() -> None:
    async def use() -> Any:
        async with Counter.remote() as counter:
            first = await counter.add.remote()
            pending = counter.add.remote()
        second = await pending
        try:
            await counter.add.remote()
        except actorlib.exceptions.ActorDiedError as error:
            return first, second, error.exit.cause
        return None

    assert await AsyncCaller.remote().run.remote(use) == (1, 2, "asked")


@pytest.mark.usefixtures("runtime")
async def test_kill_inside_an_actor() -> None:
    async def later(target: Any) -> str:
        await actorlib.kill(target)
        await actorlib.kill(target)
        try:
            await target.ping.remote()
        except actorlib.exceptions.ActorDiedError as error:
            return error.exit.cause
        return ""

    def plain(target: Any) -> str:
        actorlib.get(actorlib.kill(target))
        try:
            actorlib.get(target.ping.remote())
        except actorlib.exceptions.ActorDiedError as error:
            return error.exit.cause
        return ""

    for caller, function in ((AsyncCaller, later), (Caller, plain)):
        target, pid, end = await ready()
        assert await caller.remote().run.remote(function, target) == "asked"
        await end
        await gone(pid)


@pytest.mark.parametrize("kind", [Target, AsyncCaller])
@pytest.mark.usefixtures("runtime")
async def test_kill_when_it_has_returned_then_no_call_is_answered(kind: Any) -> None:
    for _ in range(5):
        target = kind.remote()
        await target
        killed = actorlib.kill(target)
        refs = [target.__ray_ready__.remote() for _ in range(20)]
        for ref in refs:
            error = await raised(ref)
            assert isinstance(error, ActorDiedError)
            assert error.exit.reason == "it was killed"
        await killed


@pytest.mark.usefixtures("runtime")
async def test_kill_inside_an_actor_when_it_has_returned_then_no_call_is_answered() -> (
    None
):
    def kill_and_call(target: Any) -> list[bool]:
        for _ in range(50):  # so that a link is made between the two
            actorlib.get(target.ping.remote())
        killed = actorlib.kill(target)
        refs = [target.ping.remote() for _ in range(20)]
        dead = []
        for ref in refs:
            try:
                actorlib.get(ref)
                dead.append(False)
            except ActorDiedError:
                dead.append(True)
        actorlib.get(killed)
        return dead

    caller = Caller.remote()
    for _ in range(5):
        target, _, end = await ready()
        assert await caller.run.remote(kill_and_call, target) == [True] * 20
        await end


@pytest.mark.usefixtures("runtime")
async def test_killing_twice_and_after_the_end_is_no_error() -> None:
    target, pid, _ = await ready()
    await asyncio.gather(actorlib.kill(target), actorlib.kill(target))
    await actorlib.kill(target)
    await gone(pid)
    unborn = Target.options(num_cpus=100).remote()
    await actorlib.kill(unborn)


@pytest.mark.usefixtures("runtime")
async def test_a_call_to_the_dead_fails_by_its_ref() -> None:
    target, _, _ = await ready()
    await actorlib.kill(target)
    refs = [target.ping.remote() for _ in range(3)]
    for ref in refs:
        assert isinstance(await raised(ref), ActorDiedError)


# From one runtime to the next.


async def test_handles_of_an_earlier_runtime_raise_clearly() -> None:
    async with running():
        old = Counter.remote()
        ref = old.add.remote()
        assert await ref == 1
        pending = Gate.remote().wait.remote()
    assert isinstance(await raised(pending), ActorDiedError)
    assert await ref == 1
    for again in (False, True):
        if not again:
            await all_refused(old)
            continue
        async with running() as runtime:
            await all_refused(old)
            with pytest.raises(ValueError, match=r"shut down|another runtime"):
                runtime.explain(old)
            with pytest.raises((TypeError, ValueError), match="another runtime"):
                Echo.remote().echo.remote(old)
            with pytest.raises((TypeError, ValueError), match="another runtime"):
                Keeper.remote([old])
            assert await Counter.remote().add.remote() == 1
    assert repr(old).startswith("Actor(Counter, ")


async def all_refused(old: Any) -> None:
    with pytest.raises(ValueError, match="shut down"):
        old.add.remote()
    with pytest.raises(ValueError, match="shut down"):
        await old
    with pytest.raises(ValueError, match="shut down"):
        await actorlib.kill(old)
    with pytest.raises(ValueError, match="shut down"):
        async with old:
            raise AssertionError


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


@pytest.mark.usefixtures("runtime")
async def test_a_handle_cannot_be_pickled_behind_the_runtime_s_back() -> None:
    counter = Counter.remote()
    with pytest.raises(TypeError, match="argument or a result"):
        pickle.dumps(counter)
    assert await counter.add.remote() == 1
