"""What every engine promises of remote functions: the same tests for each of them.

What belongs to processes (deaths, variables, large values in shared memory) has tests
of its own.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

import pytest
import pytest_asyncio
from helpers.actors import (
    AsyncCaller,
    Caller,
    Counter,
    Gate,
    Stop,
    shared,
    shared_in_memory,
)
from helpers.attached import shared_by_attaching
from helpers.calls import raised
from helpers.functions import add, fail, group_of, halt
from helpers.streams import all_of

import actorlib
from actorlib.exceptions import (
    DeadlineExceededError,
    PlacementGroupRemovedError,
    SerializationError,
    TaskCancelledError,
    TaskError,
    TaskPlacementGroupRemoved,
    TaskUnschedulableError,
    WorkerCrashedError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from typing import Literal

    from helpers.actors import Place

    from actorlib import PlacementGroup, Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]
    Engine = Literal["local", "memory", "inline", "attached"]

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]

SOON = 0.05
SOON_ENOUGH = 0.25
"""For calls that make calls."""
NEVER = 60.0

request_id = actorlib.propagate(ContextVar[str]("function_request_id"))


ATTACHED = pytest.param("attached", marks=pytest.mark.thorough)


@pytest.fixture(scope="module", params=["local", "memory", "inline", ATTACHED])
def engine(request: pytest.FixtureRequest) -> Engine:
    return cast("Engine", request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lend(engine: Engine) -> AsyncIterator[Lend]:
    if engine == "memory":
        async with shared_in_memory(num_cpus=2, num_gpus=2) as lend:
            yield lend
        return
    if engine == "attached":
        async with shared_by_attaching(num_cpus=2) as lend:
            yield lend
        return
    async with shared(engine=engine, num_cpus=2, num_gpus=2) as lend:
        yield lend


@pytest_asyncio.fixture(loop_scope="module")
async def runtime(lend: Lend) -> AsyncIterator[Runtime]:
    async with lend() as runtime:
        yield runtime


@pytest.fixture
def stop() -> Iterator[Stop]:
    with Stop() as stop:
        yield stop


@actorlib.remote
def items(number: int) -> Iterator[int]:
    yield from range(number)


@actorlib.remote
def until_canceled(path: Path | None = None) -> None:
    """Looks whether anybody still waits."""
    context = actorlib.get_runtime_context()
    try:
        while not context.is_canceled():
            pass
    finally:
        if path is not None:
            path.write_text("left")


@actorlib.remote
def endless(place: Place) -> Iterator[int]:
    yield 1
    place.stop_here()
    while True:
        yield 2


@actorlib.remote
def ticks() -> Iterator[int]:
    while True:
        yield 1


@actorlib.remote
def left() -> float | None:
    return actorlib.get_runtime_context().time_left()


@actorlib.remote
def told() -> str:
    return request_id.get("nothing")


async def idle() -> None:
    """Waits until no call holds a CPU."""
    await actorlib.remote(num_cpus=2)(lambda: None).remote()


def after(function: Any, *args: Any) -> Any:
    """What a function gives that another one calls."""
    return actorlib.get(function.remote(*args))


async def after_later(function: Any, *args: Any) -> Any:
    """The same, from an ``async def``."""
    return await function.remote(*args)


call = actorlib.remote(after)


# Calls.


@pytest.mark.parametrize("is_done", [False, True], ids=["fails later", "has failed"])
async def test_get_when_one_fails_then_it_waits_for_no_other(
    is_done: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    gate = Gate.remote()

    @actorlib.remote
    def both(gate: Any) -> Any:
        slow, bad = gate.wait.remote("slow"), fail.remote(ValueError("no"))
        if is_done:
            actorlib.wait([bad]).get()
        return actorlib.get([slow, bad])

    assert isinstance(await raised(both.remote(gate)), TaskError)
    await gate.open.remote("slow")


async def test_function_when_defined_in_one_then_it_captures_what_is_there() -> None:
    @actorlib.remote
    def outer() -> Any:
        mine = Counter.remote(1)
        first = mine.add.remote()
        inner = actorlib.remote(lambda: actorlib.get([mine.add.remote(), first]))

        @actorlib.remote
        class Inner:
            def use(self) -> Any:
                return actorlib.get([mine.add.remote(), first])

        return [actorlib.get(inner.remote()), actorlib.get(Inner.remote().use.remote())]

    assert await outer.remote() == [[3, 2], [4, 2]]


async def test_wait_when_refs_come_in_a_list_then_their_values_are_asked_for() -> None:
    refs = [add.remote(1, 2), actorlib.put(3)]

    @actorlib.remote
    def ready(refs: list[Any]) -> list[Any]:
        done, left = actorlib.wait(refs, num_returns=2, timeout=NEVER).get()
        return [actorlib.get(done), left]

    assert await ready.remote(refs) == [[3, 3], []]


async def test_call_when_made_then_its_result() -> None:
    assert await add.remote(1, second=2, scale=3) == 9
    assert await asyncio.gather(*map(add.remote, range(50))) == list(range(50))


async def test_call_when_given_refs_then_their_values() -> None:
    assert await add.remote(add.remote(1), second=add.remote(2)) == 3
    assert isinstance(await raised(add.remote(fail.remote(OSError()))), OSError)


async def test_call_when_it_raises_then_its_own_class() -> None:
    error = await raised(fail.remote(KeyError("no")))
    assert isinstance(error, KeyError)
    assert isinstance(error, TaskError)


async def test_call_when_an_argument_cannot_be_sent_then_refused_at_once() -> None:
    with pytest.raises(SerializationError):
        add.remote(asyncio.get_running_loop())  # type: ignore[arg-type]


async def test_call_when_functions_call_functions_then_none_hangs() -> None:
    assert await call.remote(call, call, call, add, 1) == 1


@pytest.mark.parametrize(
    ("caller", "ask"),
    [(Caller, after), (AsyncCaller, after_later)],
    ids=["sync", "async"],
)
async def test_actors_call_functions_and_functions_actors(
    caller: Any, ask: Any
) -> None:
    assert await caller.remote().run.remote(ask, add, 3) == 3
    counter = Counter.remote()
    assert await actorlib.remote(lambda c: c.add.remote(2).get()).remote(counter) == 2


async def test_call_when_it_holds_a_device_then_nobody_else_has_it(
    runtime: Runtime, stop: Stop
) -> None:
    ref = halt.options(num_gpus=1).remote(stop.place)
    await stop.reached()
    assert runtime.available_resources()["GPU"] == 1
    stop.release()
    await ref
    ids = actorlib.remote(num_gpus=2)(actorlib.get_gpu_ids)
    assert await ids.remote() == [0, 1]


async def test_call_when_its_process_ends_then_it_is_told() -> None:
    error = await raised(fail.options(max_retries=0).remote(SystemExit(3)))
    assert type(error) is WorkerCrashedError


async def test_call_when_retried_then_its_last_answer() -> None:
    counter = Counter.remote()

    @actorlib.remote(retry_exceptions=[ValueError], max_retries=5)
    def often(counter: Any) -> int:
        count: int = counter.add.remote(1).get()
        if count < 3:
            raise ValueError(count)
        return count

    assert await often.remote(counter) == 3


async def test_num_returns_gives_as_many_refs() -> None:
    pair = actorlib.remote(num_returns=2)(lambda: (1, 2))
    refs: Any = pair.remote()
    assert [await ref for ref in refs] == [1, 2]
    assert add.options(num_returns=0).remote(1) is None
    parts: Any = add.options(num_returns=2).remote(1)
    assert isinstance(await raised(parts[0]), ValueError)
    inside = actorlib.remote(lambda: [ref.get() for ref in pair.remote()])  # type: ignore[attr-defined]
    assert await inside.remote() == [1, 2]


async def test_num_returns_when_a_function_yields_so_many_then_each_is_a_ref() -> None:
    @actorlib.remote(num_returns=3, max_retries=0)
    def three() -> Iterator[int]:
        yield from (1, 2, 3)

    refs: Any = three.remote()
    assert [await ref for ref in refs] == [1, 2, 3]
    alone: Any = three.options(num_returns=1).remote()
    assert await alone == 1
    assert three.options(num_returns=0).remote() is None
    streamed: Any = three.options(num_returns="streaming").remote()
    assert await all_of(streamed) == [1, 2, 3]
    inside = actorlib.remote(lambda: actorlib.get(three.remote()))  # type: ignore[call-overload]
    assert await inside.remote() == [1, 2, 3]


async def test_num_returns_when_a_function_yields_fewer_then_the_rest_fails() -> None:
    @actorlib.remote(num_returns=4)
    def two() -> Iterator[int]:
        yield from (1, 2)

    first, second, *rest = cast("Any", two).remote()
    assert (await first, await second) == (1, 2)
    for ref in rest:
        error = await raised(ref)
        assert isinstance(error, TaskError)
        assert isinstance(error, ValueError)
        assert "two yielded 2 values, and was called with num_returns=4" in str(error)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


async def test_num_returns_when_a_function_yields_more_then_the_first_are_taken(
    stop: Stop,
) -> None:
    @actorlib.remote(num_returns=2, max_retries=0)
    def numbers(place: Any) -> Iterator[int]:
        number = 0
        try:
            while True:
                yield number
                number += 1
        finally:
            place.stop_here()

    refs: Any = numbers.remote(stop.place)
    assert [await ref for ref in refs] == [0, 1]
    await stop.reached()  # it was closed
    stop.release()


async def test_num_returns_when_a_function_raises_between_then_what_came_is_kept() -> (
    None
):
    @actorlib.remote(num_returns=3)
    def fails() -> Iterator[int]:
        yield 1
        raise KeyError("after one")

    first, *rest = cast("Any", fails).remote()
    assert await first == 1
    for ref in rest:
        assert isinstance(await raised(ref), KeyError)


async def test_num_returns_when_a_function_returns_other_many_then_each_says_so() -> (
    None
):
    pair = actorlib.remote(num_returns=3)(lambda: (1, 2))
    for ref in cast("Any", pair).remote():
        error = await raised(ref)
        assert isinstance(error, TaskError)
        assert isinstance(error, ValueError)
        assert "returned 2 values, and was called with num_returns=3" in str(error)


async def test_num_returns_when_a_value_has_come_then_it_is_there_before_the_rest(
    stop: Stop,
) -> None:
    @actorlib.remote(num_returns=2, max_retries=0)
    def slowly(place: Any) -> Iterator[int]:
        yield 1
        place.stop_here()
        yield 2

    first, second = cast("Any", slowly).remote(stop.place)
    assert await first == 1
    await stop.reached()
    assert not second.done()
    stop.release()
    assert await second == 2


async def test_num_returns_when_a_function_raises_behind_them_then_it_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @actorlib.remote(num_returns=1, max_retries=0)
    def fails() -> Iterator[int]:
        yield 1
        raise KeyError("behind one")

    logged = asyncio.Event()
    caplog.handler.addFilter(lambda _: logged.set() or True)
    assert await cast("Any", fails).remote() == 1
    await logged.wait()
    assert "KeyError: 'behind one'" in caplog.text


async def test_remote_when_called_by_its_older_name_then_it_is_the_same() -> None:
    assert await add._remote([1], {"second": 2}, num_cpus=1) == 3
    assert await add._remote(args=(1,)) == 1


async def test_get_when_given_a_generator_then_it_says_what_to_write() -> None:
    @actorlib.remote
    def three() -> Iterator[int]:
        yield from (1, 2, 3)

    stream = three.remote()
    for given in (stream, [stream]):
        with pytest.raises(TypeError, match=r"\[get\(ref\) for ref in generator\]"):
            actorlib.get(given)  # type: ignore[call-overload]
    assert await all_of(stream) == [1, 2, 3]


async def test_context_when_a_function_asks_then_it_is_told_of_the_call() -> None:
    @actorlib.remote
    def look() -> tuple[str | None, str | None, str | None]:
        context = actorlib.get_runtime_context()
        function = context.get_task_function_name()
        return context.get_task_name(), function, context.get_actor_id()

    name, function, actor = await look.remote()
    assert (name, actor) == ("look", None)
    assert (function or "").endswith("look")
    name, *_ = await look.options(name="nightly").remote()
    assert name == "nightly"


# Cancelling.


async def test_cancel_when_the_call_waits_then_it_never_runs(
    stop: Stop, tmp_path: Path
) -> None:
    busy = [halt.remote(stop.place) for _ in range(2)]
    await stop.reached()
    await stop.reached()
    ref = until_canceled.remote(tmp_path / "left")
    ref.cancel()
    stop.release()
    stop.release()
    await asyncio.gather(*busy)
    await idle()
    assert ref.cancelled()
    assert not (tmp_path / "left").exists()


async def test_cancel_when_the_call_runs_then_it_is_told_and_leaves(
    stop: Stop, tmp_path: Path
) -> None:
    @actorlib.remote
    def stops(place: Place, path: Path) -> None:
        place.stop_here()
        until_canceled.__wrapped__(path)

    ref = stops.remote(stop.place, tmp_path / "left")
    await stop.reached()
    stop.release()
    ref.cancel()
    await idle()
    assert ref.cancelled()


async def test_cancel_when_the_call_waits_for_another_then_both_stop(
    stop: Stop, tmp_path: Path
) -> None:
    @actorlib.remote
    def outer(place: Place, path: Path) -> None:
        ref = until_canceled.remote(path)
        place.stop_here()
        ref.get()

    ref = outer.remote(stop.place, tmp_path / "left")
    await stop.reached()
    ref.cancel()
    stop.release()
    await idle()
    assert ref.cancelled()


# Streams.


async def test_a_function_that_yields_gives_items_in_order() -> None:
    stream = items.options(backpressure=3).remote(20)
    assert await all_of(stream) == list(range(20))
    assert await stream.completed() == 20


async def test_a_cancelled_stream_ends(stop: Stop) -> None:
    stream = endless.remote(stop.place)
    assert await (await anext(stream)) == 1
    await stop.reached()
    stream.cancel()
    [ref] = [ref async for ref in stream]
    assert isinstance(await raised(ref), TaskCancelledError)
    stop.release()
    await idle()


async def test_more_streams_than_cpus_are_read_together() -> None:
    streams = [items.options(backpressure=1).remote(3) for _ in range(3)]
    for number in range(3):
        assert [await (await anext(s)) for s in streams] == [number] * 3
    assert [await stream.completed() for stream in streams] == [3] * 3


# Deadlines.


async def late(ref: Any) -> DeadlineExceededError:
    with pytest.raises(DeadlineExceededError) as caught:
        await ref
    return caught.value


async def test_timeout_when_the_function_runs_then_it_is_cancelled() -> None:
    error = await late(until_canceled.options(timeout=SOON).remote())
    assert "until_canceled was not done within the 0.05 s" in str(error)
    assert (error.timeout, error.is_inherited) == (SOON, False)
    await idle()


async def test_map_when_in_chunks_then_in_order_and_each_chunk_has_its_time() -> None:
    assert [v async for v in add.map(range(5), chunksize=2)] == [0, 1, 2, 3, 4]
    late = until_canceled.options(timeout=SOON).map([None] * 2, chunksize=2)
    with pytest.raises(DeadlineExceededError):
        await anext(late)
    await idle()
    assert [v async for v in add.map([1, 2], [3, 4], chunksize=2)] == [4, 6]


async def test_timeout_when_the_call_waits_in_line_then_it_never_runs(
    stop: Stop, tmp_path: Path
) -> None:
    busy = [halt.remote(stop.place) for _ in range(2)]
    await stop.reached()
    await stop.reached()
    await late(until_canceled.options(timeout=SOON).remote(tmp_path / "left"))
    stop.release()
    stop.release()
    await asyncio.gather(*busy)
    await idle()
    assert not (tmp_path / "left").exists()


async def test_timeout_when_an_argument_does_not_come_then_it_is_over() -> None:
    gate = Gate.remote()
    never = gate.wait.remote()
    await late(add.options(timeout=SOON).remote(never))
    held = actorlib.remote(
        lambda gate: add.options(timeout=SOON).remote(gate.wait.remote()).get()
    )
    assert isinstance(await raised(held.remote(gate)), DeadlineExceededError)


async def test_timeout_when_a_stream_takes_too_long_then_its_last_item_tells() -> None:
    *_, last = [ref async for ref in ticks.options(timeout=SOON_ENOUGH).remote()]
    await late(last)
    await idle()


async def test_timeout_when_it_is_long_then_the_result() -> None:
    assert await add.options(timeout=NEVER).remote(1) == 1
    assert await all_of(items.options(timeout=NEVER).remote(3)) == [0, 1, 2]
    remaining = await left.options(timeout=NEVER).remote()
    assert remaining is not None
    assert 0 < remaining <= NEVER
    assert await left.remote() is None


async def test_timeout_when_a_function_calls_others_then_they_inherit_it() -> None:
    inner = await call.options(timeout=NEVER).remote(call, left)
    assert inner is not None
    assert inner <= NEVER
    error = await late(call.options(timeout=SOON_ENOUGH).remote(until_canceled))
    assert "after was not done" in str(error)
    await idle()


async def test_timeout_when_an_actor_calls_a_function_then_that_inherits_it() -> None:
    caller = Caller.remote()
    inner = await caller.run.options(timeout=NEVER).remote(after, left)
    assert inner is not None
    assert inner <= NEVER


async def test_timeout_when_it_is_no_time_then_refused() -> None:
    for wrong in (0, -1, float("inf")):
        with pytest.raises(ValueError, match="timeout"):
            add.options(timeout=wrong)


# Context variables.


async def test_propagate_when_a_function_is_called_then_it_has_the_value() -> None:
    token = request_id.set("a7")
    try:
        assert await told.remote() == "a7"
        assert await call.remote(call, told) == "a7"
        assert await Caller.remote().run.remote(after, told) == "a7"
        stream = actorlib.remote(yields_told).remote()
        assert await all_of(stream) == ["a7", "a7"]
    finally:
        request_id.reset(token)
    assert await told.remote() == "nothing"


def yields_told() -> Iterator[str]:
    yield request_id.get("nothing")
    yield request_id.get("nothing")


# Placement groups.


async def test_group_when_a_function_runs_in_it_then_it_holds_a_bundle_s_share(
    runtime: Runtime, stop: Stop
) -> None:
    group = await actorlib.placement_group([{"CPU": 1, "GPU": 1}]).ready()
    assert runtime.available_resources()["CPU"] == 1
    inside = halt.options(placement_group=group)
    ref = inside.remote(stop.place, 1)
    await stop.reached()
    assert runtime.available_resources()["CPU"] == 1
    [bundle] = runtime.snapshot().groups[0].bundles
    assert (bundle.available["CPU"], bundle.actors) == (0, ())
    second = add.options(placement_group=group).remote(2)
    stop.release()
    assert (await ref, await second) == (1, 2)
    on_gpu = actorlib.remote(actorlib.get_gpu_ids).options(
        num_gpus=1, placement_group=group, placement_group_bundle_index=0
    )
    assert len(await on_gpu.remote()) == 1
    assert await all_of(items.options(placement_group=group).remote(3)) == [0, 1, 2]
    await removed(group)
    assert runtime.available_resources() == runtime.cluster_resources()


@actorlib.remote
def where() -> str | None:
    return actorlib.get_runtime_context().get_placement_group_id()


async def removed(group: PlacementGroup) -> None:
    await actorlib.remove_placement_group(group)


async def test_group_when_captured_then_what_it_calls_runs_there_too() -> None:
    group = await actorlib.placement_group([{"CPU": 1}]).ready()
    strategy = actorlib.PlacementGroupSchedulingStrategy(
        group, placement_group_capture_child_tasks=True
    )
    inside = call.options(scheduling_strategy=strategy)
    assert await inside.remote(where) == group.id.hex()
    outside = call.options(placement_group=group)
    assert await outside.remote(where) is None
    assert await where.remote() is None
    await removed(group)


async def test_group_when_it_has_no_such_room_then_refused_at_the_call() -> None:
    group = await actorlib.placement_group([{"CPU": 1}]).ready()
    with pytest.raises(ValueError, match="in its placement group"):
        add.options(num_cpus=2, placement_group=group).remote(1)
    with pytest.raises(ValueError, match="bundle index 3"):
        add.options(placement_group=group, placement_group_bundle_index=3).remote(1)
    with pytest.raises(ValueError, match="is in none"):
        add.options(placement_group_bundle_index=0).remote(1)
    await removed(group)


async def test_group_when_it_can_never_be_then_the_call_fails() -> None:
    group = actorlib.placement_group([{"CPU": 80}])
    error = await raised(add.options(placement_group=group).remote(1))
    assert type(error) is TaskUnschedulableError
    await removed(group)


@pytest.mark.parametrize("num_gpus", [0, 0.5])
async def test_group_when_it_is_removed_then_its_calls_fail(
    engine: Engine, stop: Stop, num_gpus: float, runtime: Runtime
) -> None:
    before = threading.enumerate()
    group = await actorlib.placement_group([{"CPU": 1, "GPU": 1}]).ready()
    inside = halt.options(placement_group=group, num_gpus=num_gpus)
    runs, waits = inside.remote(stop.place), inside.remote(stop.place)
    await stop.reached()
    gone = asyncio.ensure_future(removed(group))
    await asyncio.sleep(0)
    if engine in ("memory", "inline"):  # a thread is told, and has to end by itself
        stop.release()
    for ref in (runs, waits):
        assert type(await raised(ref)) is TaskPlacementGroupRemoved
    await gone
    assert type(await raised(inside.remote(stop.place))) is TaskPlacementGroupRemoved
    assert runtime.available_resources() == runtime.cluster_resources()
    with stop:  # a thread may have come to the second one before it was told
        pass
    for thread in threading.enumerate():
        is_its = thread not in before and not thread.name.startswith("asyncio")
        if engine == "inline" and is_its:
            thread.join(5)


async def test_group_when_it_is_removed_before_it_is_there_then_its_calls_fail(
    stop: Stop,
) -> None:
    busy = halt.remote(stop.place)
    await stop.reached()
    group = actorlib.placement_group([{"CPU": 2}])
    for options in ({}, {"num_gpus": 0}):
        ref = add.options(placement_group=group, **options).remote(1)  # type: ignore[arg-type]
    await removed(group)
    assert type(await raised(ref)) is TaskPlacementGroupRemoved
    with pytest.raises(PlacementGroupRemovedError):
        await group.ready()
    stop.release()
    await busy


async def test_group_when_nested_calls_wait_inside_then_none_hangs() -> None:
    group = await actorlib.placement_group([{"CPU": 1, "GPU": 1}]).ready()
    inner = add.options(placement_group=group)
    for num_gpus in (0, 0.5):
        outer = call.options(placement_group=group, num_gpus=num_gpus)
        assert await outer.remote(inner, 4) == 4
    await removed(group)


# The end.


async def test_max_calls_when_reached_then_another_worker(
    runtime: Runtime, engine: Engine
) -> None:
    @actorlib.remote(max_calls=1)
    def here() -> str:
        return actorlib.get_runtime_context().get_worker_id()

    assert len({await here.remote() for _ in range(3)}) == 3
    if engine != "attached":  # the owner is asked later, and may know of no group
        assert group_of(runtime).running == 0
