"""What holds on a cluster besides the contract of engines: what Ray adds or refuses."""

from __future__ import annotations

import asyncio
import os
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import (
    AsyncCaller,
    Caller,
    Counter,
    Echo,
    Gate,
    Keeper,
    Log,
    Stop,
)
from helpers.calls import raised
from helpers.on_ray import NEEDS_RAY
from helpers.one_thread import OneThread

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorPlacementGroupRemoved,
    GetTimeoutError,
    PlacementGroupAlreadyExistsError,
    TaskCancelledError,
    TaskError,
    TaskUnschedulableError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from actorlib import Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

pytestmark = [
    pytest.mark.process,
    pytest.mark.ray,
    NEEDS_RAY,
    pytest.mark.asyncio(loop_scope="module"),
]

request_id = actorlib.propagate(ContextVar("cluster_request_id", default="none"))


@pytest.fixture(scope="module")
def address(ray_cluster: str) -> str:
    return ray_cluster


@actorlib.remote
class Source:
    """Makes items."""

    def items(self, count: int, *, fails: bool = False) -> Iterator[int]:
        yield from range(count)
        if fails:
            raise ValueError("no more")

    def parts(self) -> tuple[int, int]:
        return 1, 2

    def flaky(self, path: str) -> str:
        if not os.path.exists(path):  # noqa: PTH110  # one look
            Path(path).touch()
            raise LookupError("the first time")
        return "the second time"

    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    def context(self) -> Any:
        return actorlib.get_runtime_context()

    def itself(self) -> Any:
        return actorlib.get_runtime_context().current_actor

    def request(self) -> str:
        return request_id.get()

    def where(self) -> str:
        return os.getcwd()  # noqa: PTH109  # a text


@actorlib.remote
class AsyncSource:
    """Makes items on its loop."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def left(self) -> bool:
        return await self.ended.wait()

    async def items(self, count: int) -> AsyncIterator[int]:
        for number in range(count):
            await asyncio.sleep(0)
            yield number

    def plain(self, count: int) -> Iterator[int]:
        yield from range(count)

    async def endless(self) -> AsyncIterator[int]:
        try:
            yield 0
            await asyncio.Event().wait()
        finally:
            self.ended.set()


@actorlib.remote
def double(number: int) -> int:
    return 2 * number


@actorlib.remote(max_retries=0)
def fail() -> None:
    raise KeyError("lost")


@actorlib.remote
def nested(number: int) -> int:
    return actorlib.get(double.remote(number)) + 1


async def read(stream: Any) -> list[Any]:
    return [await ref async for ref in stream]


# Streams.


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    ("source", "method"),
    [(Source, "items"), (AsyncSource, "items"), (AsyncSource, "plain")],
)
async def test_stream_when_read_then_every_item_comes_in_order(
    source: Any, method: str
) -> None:
    stream = getattr(source.remote(), method).remote(5)

    assert await read(stream) == [0, 1, 2, 3, 4]
    assert await stream.completed() == 5


@pytest.mark.usefixtures("runtime")
async def test_stream_when_it_fails_then_the_last_item_says_so() -> None:
    stream = Source.remote().items.remote(2, fails=True)
    first, second = await anext(stream), await anext(stream)
    last = await anext(stream)

    assert [await first, await second] == [0, 1]
    error = await raised(last)
    assert isinstance(error, ValueError)
    assert isinstance(error, TaskError)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


@pytest.mark.usefixtures("runtime")
async def test_stream_when_it_is_complete_unread_then_its_items_wait() -> None:
    stream = Source.options(num_cpus=0).remote().items.remote(3)

    assert await stream.completed() == 3
    assert await read(stream) == [0, 1, 2]


@pytest.mark.usefixtures("runtime")
async def test_stream_when_cancelled_then_its_end_says_so() -> None:
    stream = AsyncSource.remote().endless.remote()
    assert await (await anext(stream)) == 0
    stream.cancel()

    assert isinstance(await raised(await anext(stream)), TaskCancelledError)


@pytest.mark.usefixtures("runtime")
async def test_stream_when_dropped_then_it_ends_where_it_is() -> None:
    source = AsyncSource.remote()
    stream = source.endless.remote()
    assert await (await anext(stream)) == 0
    del stream

    assert await source.left.remote()


@pytest.mark.usefixtures("runtime")
async def test_stream_when_detached_and_dropped_then_its_end_is_awaited_still() -> None:
    source = Source.remote()

    assert await source.items.options(detach=True).remote(5).completed() == 5


@pytest.mark.usefixtures("runtime")
async def test_stream_when_its_actor_dies_then_its_end_says_so() -> None:
    source = AsyncSource.remote()
    stream = source.endless.remote()
    assert await (await anext(stream)) == 0
    await actorlib.kill(source)

    assert isinstance(await raised(await anext(stream)), ActorDiedError)


@pytest.mark.usefixtures("runtime")
async def test_stream_when_a_plain_method_reads_then_it_blocks_for_each() -> None:
    def total(source: Any) -> int:
        return sum(actorlib.get(ref) for ref in source.items.remote(4))

    assert await Caller.remote().run.remote(total, Source.remote()) == 6


@pytest.mark.usefixtures("runtime")
async def test_stream_when_its_item_is_an_argument_then_it_arrives() -> None:
    ref = await anext(Source.remote().items.remote(1))

    assert await Echo.remote().both.remote(ref, name=ref) == ((0,), {"name": 0})


# Refs.


@pytest.mark.usefixtures("runtime")
async def test_put_when_given_to_many_then_it_arrives_as_its_value() -> None:
    kept = actorlib.put({"weights": [1.0, 2.0]})
    echo = Echo.remote()

    assert await echo.echo.remote(kept) == {"weights": [1.0, 2.0]}
    assert await kept == {"weights": [1.0, 2.0]}
    assert await echo.kind.remote([kept]) == "list"


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("caller", [Caller, AsyncCaller], ids=["sync", "async"])
async def test_ref_when_inside_of_a_value_then_it_is_asked_for_there(
    caller: Any,
) -> None:
    def first(refs: list[Any]) -> Any:
        return actorlib.get(refs[0], timeout=20)

    gate = Gate.remote()
    asked = caller.remote().run.remote(first, [gate.wait.remote("a")])
    await gate.open.remote("a")

    assert await asked == "a"


@pytest.mark.usefixtures("runtime")
async def test_ref_when_returned_inside_then_its_value_comes_here() -> None:
    keeper = Keeper.remote()
    await keeper.keep.remote([actorlib.put("kept")])
    [ref] = await keeper.kept.remote()

    assert await ref == "kept"


@pytest.mark.usefixtures("runtime")
async def test_ref_when_its_call_failed_then_what_it_is_given_to_fails_likewise() -> (
    None
):
    echo = Echo.remote()
    error = await raised(echo.echo.remote(echo.fail.remote(KeyError("lost"))))

    assert isinstance(error, KeyError)


@pytest.mark.usefixtures("runtime")
async def test_handle_when_pickled_for_something_else_then_it_is_refused() -> None:
    import pickle  # noqa: PLC0415  # only here

    with pytest.raises(TypeError, match="travels only"):
        pickle.dumps(Echo.remote())


@pytest.mark.usefixtures("runtime")
async def test_wait_when_some_are_done_then_they_are_told_apart() -> None:
    gate = Gate.remote()
    refs = [gate.wait.remote("a"), gate.wait.remote("b")]
    await gate.open.remote("b")
    ready, left = await actorlib.wait(refs, num_returns=1)
    assert (ready, left) == ([refs[1]], [refs[0]])

    ready, left = await actorlib.wait(left, timeout=0.01)
    assert not ready


@pytest.mark.usefixtures("runtime")
async def test_parts_when_asked_for_then_each_is_a_ref() -> None:
    first, second = Source.remote().parts.options(num_returns=2).remote()

    assert await asyncio.gather(first, second) == [1, 2]
    assert await Echo.remote().echo.remote(first) == 1
    for part in Source.remote().parts.options(num_returns=3).remote():
        error = await raised(part)
        assert isinstance(error, TaskError)
        assert isinstance(error, ValueError)


@pytest.mark.usefixtures("runtime")
async def test_parts_when_a_generator_fails_or_yields_more_then_those_that_came() -> (
    None
):
    items = Source.remote().items
    first, *rest = items.options(num_returns=3).remote(1, fails=True)

    assert await first == 0
    for part in rest:
        assert isinstance(await raised(part), ValueError)
    many = items.options(num_returns=2).remote(1_000)
    assert await asyncio.gather(*many) == [0, 1]


@pytest.mark.usefixtures("runtime")
async def test_part_of_a_generator_when_not_there_yet_then_it_is_refused() -> None:
    source, echo = Source.remote(), Echo.remote()
    first, second = source.items.options(num_returns=2).remote(2)

    with pytest.raises(UnsupportedOptionError, match="await it first"):
        echo.echo.remote(first)
    assert await second == 1
    assert await echo.both.remote(first, second) == ((0, 1), {})


# Calls.


@pytest.mark.usefixtures("runtime")
async def test_exception_when_listed_then_the_call_is_made_again(
    tmp_path: Path,
) -> None:
    source = Source.options(max_task_retries=1, retry_exceptions=[LookupError]).remote()

    assert await source.flaky.remote(str(tmp_path / "a")) == "the second time"
    flaky = source.flaky.options(retry_exceptions=[ValueError])
    assert isinstance(await raised(flaky.remote(str(tmp_path / "b"))), LookupError)


@pytest.mark.usefixtures("runtime")
async def test_context_variable_when_marked_then_it_travels() -> None:
    token = request_id.set("r-1")
    try:
        assert await Source.remote().request.remote() == "r-1"
    finally:
        request_id.reset(token)


@pytest.mark.usefixtures("runtime")
async def test_context_when_asked_in_an_actor_then_it_tells_the_actor() -> None:
    source = Source.options(name="told", num_cpus=1).remote()
    context = await source.context.remote()

    assert context.get_actor_name() == "told"
    assert context.get_assigned_resources() == {"CPU": 1.0}
    assert context.get_job_id() == actorlib.get_runtime_context().get_job_id()
    assert await source.itself.remote() == source


@pytest.mark.usefixtures("runtime")
async def test_built_in_methods_when_called_then_they_answer() -> None:
    counter = Counter.remote(4)

    def total(instance: Any) -> int:
        return int(instance._total)

    assert await counter.__ray_ready__.remote() is True
    assert await counter.__ray_call__.remote(total) == 4


@pytest.mark.usefixtures("runtime")
async def test_get_when_it_takes_too_long_in_a_coroutine_then_it_is_told() -> None:
    async def wait(handle: Any) -> None:
        actorlib.get(handle.wait.remote("a"), timeout=0.01)

    error = await raised(AsyncCaller.remote().run.remote(wait, Gate.remote()))

    assert isinstance(error, GetTimeoutError)


# Options.


@pytest.mark.usefixtures("runtime")
async def test_env_when_given_then_the_process_has_it(tmp_path: Path) -> None:
    env: Any = {"env_vars": {"WHO": "me"}, "working_dir": str(tmp_path)}
    source = Source.options(runtime_env=env).remote()

    assert await source.variable.remote("WHO") == "me"
    assert await source.where.remote() == str(tmp_path)


@pytest.mark.usefixtures("runtime")
async def test_accelerators_when_not_asked_for_then_they_are_hidden() -> None:
    hidden, open_ = Source.remote(), Source.options(accelerators="inherit").remote()

    assert await hidden.variable.remote("CUDA_VISIBLE_DEVICES") == ""
    assert await open_.variable.remote("CUDA_VISIBLE_DEVICES") is None


async def test_resource_when_one_machine_has_it_then_the_actor_is_there(
    runtime: Runtime,
) -> None:
    near, far = Source.remote(), Source.options(resources={"far": 1}).remote()
    there = await far.context.remote()

    assert there.get_node_id() != actorlib.get_runtime_context().get_node_id()
    assert await Caller.remote().call.remote(far, "request") == "none"
    assert await near.request.remote() == "none"
    assert runtime.cluster_resources()["far"] == 4


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    "options",
    [
        {"device": 0, "num_gpus": 1},
        {"placement": "spread", "num_gpus": 1},
        {"restart_window": 5.0, "max_restarts": 1},
        {"restart_backoff": 5.0, "max_restarts": 1},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_option_when_ray_cannot_keep_it_then_it_is_refused_by_name(
    options: Any,
) -> None:
    with pytest.raises(UnsupportedOptionError, match=next(iter(options))):
        Echo.options(**options).remote()


@pytest.mark.usefixtures("runtime")
async def test_wish_when_about_other_actors_then_it_is_refused_by_name() -> None:
    other = Echo.options(num_gpus=1).remote()
    with pytest.raises(UnsupportedOptionError, match="near"):
        Echo.options(num_gpus=1, near=other).remote()
    with pytest.raises(UnsupportedOptionError, match="apart_from"):
        Echo.options(num_gpus=1, apart_from=other).remote()


@pytest.mark.usefixtures("runtime")
async def test_call_when_ray_cannot_keep_an_option_then_it_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedOptionError, match="backpressure"):
        AsyncSource.remote().items.options(backpressure=2).remote(1)
    with pytest.raises(UnsupportedOptionError, match="max_unread_items"):
        AsyncSource.options(max_unread_items=2).remote()


@pytest.mark.usefixtures("runtime")
async def test_backpressure_when_given_then_the_producer_waits() -> None:
    @actorlib.remote
    class Eager:
        def __init__(self, seen: Any) -> None:
            self._seen = seen

        def items(self) -> Iterator[int]:
            for number in range(4):
                actorlib.get(self._seen.note.remote(number))
                yield number

    log: Any = actorlib.remote(Log).remote()
    stream = Eager.remote(log).items.options(backpressure=1).remote()
    assert await (await anext(stream)) == 0

    assert 3 not in await log.seen.remote()
    assert await read(stream) == [1, 2, 3]


# Placement groups.


@pytest.mark.usefixtures("runtime")
async def test_group_when_reserved_then_its_members_are_inside() -> None:
    group = actorlib.placement_group([{"CPU": 1, "GPU": 1}], name="gang")
    assert await group.ready() == group
    assert actorlib.get_placement_group("gang") == group
    with pytest.raises(PlacementGroupAlreadyExistsError):
        actorlib.placement_group([{"CPU": 1}], name="gang")
    member = Caller.options(placement_group=group, num_gpus=1).remote()

    def here() -> Any:
        return actorlib.get_current_placement_group(), actorlib.get_gpu_ids()

    inside, gpus = await member.run.remote(here)
    assert inside == group
    assert len(gpus) == 1
    assert actorlib.placement_group_table(group)["state"] == "CREATED"

    await actorlib.remove_placement_group(group)
    error = await raised(member.run.remote(len, "ab"))
    assert isinstance(error, ActorPlacementGroupRemoved), str(error)


@pytest.mark.usefixtures("runtime")
async def test_group_when_it_does_not_fit_yet_then_it_waits() -> None:
    first = actorlib.placement_group([{"GPU": 2}])
    assert await first.wait(20)
    second = actorlib.placement_group([{"GPU": 1}])
    assert not await second.wait(0.05)
    await actorlib.remove_placement_group(first)

    assert await second.wait(20)
    await actorlib.remove_placement_group(second)


@pytest.mark.usefixtures("runtime")
async def test_gpu_memory_when_asked_for_then_refused_with_what_to_write() -> None:
    refused = r"Ray counts GPUs and not their memory.*num_gpus="
    with pytest.raises(UnsupportedOptionError, match=refused):
        actorlib.placement_group([{"CPU": 1}, {"gpu_memory": "1GiB"}])
    asked = Caller.options(gpu_memory="1GiB")
    with pytest.raises(UnsupportedOptionError, match=refused):
        asked.remote()


# Functions.


@pytest.mark.usefixtures("runtime")
async def test_function_when_called_then_a_worker_runs_it() -> None:
    doubled = double.remote(double.remote(2))

    assert await doubled == 8
    assert await nested.remote(2) == 5
    error = await raised(fail.remote())
    assert isinstance(error, KeyError)
    assert isinstance(error, TaskError)


@pytest.mark.usefixtures("runtime")
async def test_function_when_it_yields_or_is_in_a_group_then_ray_does_it() -> None:
    @actorlib.remote
    def count(to: int) -> Iterator[tuple[int, str]]:
        for number in range(to):
            yield number, request_id.get()

    @actorlib.remote
    def double(number: int) -> int:
        return 2 * number

    token = request_id.set("r7")
    try:
        items = count.remote(3)
    finally:
        request_id.reset(token)
    group = actorlib.placement_group([{"CPU": 1}])
    await group.ready()

    assert [await ref async for ref in items] == [(0, "r7"), (1, "r7"), (2, "r7")]
    assert await double.options(placement_group=group).remote(4) == 8


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_map_when_the_actor_is_on_ray_then_its_calls_are_made(kind: str) -> None:
    @actorlib.remote
    class Plain:
        def add(self, left: int, right: int = 1) -> int:
            return left + right

    @actorlib.remote
    class Looped:
        async def add(self, left: int, right: int = 1) -> int:
            await asyncio.sleep(0)
            return left + right

    made: Any = Plain if kind == "plain" else Looped.options(max_concurrency=3)
    actor = made.remote()

    assert await actor.add.map(range(600)) == list(range(1, 601))
    assert await actor.add.map([1, 2], [3, 4]) == [4, 6]
    with pytest.raises(TypeError, match="can only concatenate") as caught:
        await actor.add.map([1, "x"])
    assert "in call 1 of a batch" in "".join(caught.value.__notes__)


@pytest.mark.usefixtures("runtime")
async def test_function_when_it_asks_for_too_much_then_it_is_told() -> None:
    error = await raised(double.options(num_cpus=1_000).remote(1))

    assert isinstance(error, TaskUnschedulableError)
    assert "CPU=1000" in str(error)


# One actor, one thread.


@actorlib.remote
class Mixed(OneThread):
    """Tells besides where it runs."""

    def is_where_it_was_born(self) -> bool:
        return threading.get_ident() == self.born_on

    async def is_there_too(self) -> bool:
        return self.is_where_it_was_born()

    def items(self) -> Iterator[bool]:
        yield self.is_where_it_was_born()


@pytest.mark.usefixtures("runtime")
async def test_methods_when_some_are_async_then_all_run_on_one_thread() -> None:
    actor = Mixed.remote()

    assert await actor.is_where_it_was_born.remote()
    assert await actor.is_there_too.remote()
    assert await read(actor.items.remote()) == [True]


@pytest.mark.usefixtures("runtime")
async def test_state_when_plain_and_async_methods_change_it_then_nothing_is_lost() -> (
    None
):
    actor = Mixed.remote()
    methods = [actor.add, actor.add_later]

    await asyncio.gather(*(m.remote(20_000) for _ in range(10) for m in methods))

    assert await actor.total.remote() == 2 * 10 * 20_000


@pytest.mark.usefixtures("runtime")
async def test_tasks_when_plain_code_makes_them_then_they_run() -> None:
    actor = Mixed.remote()
    await actor.begin.remote("plain")

    assert await actor.made.remote() == ["constructor", "plain"]


@pytest.mark.usefixtures("runtime")
async def test_plain_method_when_it_blocks_its_loop_then_what_it_waits_for_comes() -> (
    None
):
    def ask(echo: Any, source: Any) -> list[Any]:
        refs = [echo.echo.remote(number) for number in range(20)]
        ready, left = actorlib.wait(refs, num_returns=3).get()
        items = [ref.get() for ref in source.items.remote(4)]
        passed = actorlib.get(echo.echo.remote(echo.echo.remote(5)))
        return [actorlib.get(refs), len(ready), len(left), items, passed]

    asked = Mixed.remote().run.remote(ask, Echo.remote(), Source.remote())

    assert await asked == [[*range(20)], 3, 17, [0, 1, 2, 3], 5]


@pytest.mark.usefixtures("runtime")
async def test_plain_method_when_its_threads_ask_then_they_are_answered() -> None:
    def ask(echo: Any, source: Any) -> list[int]:
        found: list[int] = []

        def run(number: int) -> None:
            found.append(echo.echo.remote(number).get())
            found.extend(ref.get() for ref in source.items.remote(3))

        threads = [threading.Thread(target=run, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(found)

    asked = Mixed.remote().run.remote(ask, Echo.remote(), Source.remote())

    assert await asked == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


@pytest.mark.usefixtures("runtime")
async def test_plain_method_when_cancelled_then_it_sees_it() -> None:
    def work(gate: Any) -> None:
        gate.open.remote("runs").get()
        while not actorlib.get_runtime_context().is_canceled():
            pass
        gate.open.remote("seen").get()

    actor, gate = Mixed.remote(), Gate.remote()
    ref = actor.run.remote(work, gate)
    await gate.wait.remote("runs")
    ref.cancel()

    assert isinstance(await raised(ref), TaskCancelledError)
    assert await gate.wait.remote("seen") == "seen"


@pytest.mark.usefixtures("runtime")
async def test_group_when_its_plain_method_blocks_then_the_loop_goes_on() -> None:
    with Stop() as stop:
        actor = Mixed.options(concurrency_groups={"work": 2}).remote()
        blocked = actor.run.options(concurrency_group="work").remote(
            stop.place.stop_here
        )
        await stop.reached()
        there = actor.is_where_it_was_born

        assert await actor.is_there_too.remote()
        assert await there.remote()
        assert not await there.options(concurrency_group="work").remote()
        stop.release()
        await blocked


@actorlib.remote
def _late_parts(gate: Any, *, fails: bool = False) -> tuple[list[int], list[int]]:
    gate.wait.remote("parts").get()
    if fails:
        raise KeyError("no parts")
    return [1], [2, 3]


@actorlib.remote
def _lengths(parts: list[Any], *others: list[int]) -> list[int]:
    return [*(len(part.get()) for part in parts), *map(len, others)]


async def test_part_of_a_result_when_it_is_sent_before_it_is_there_then_it_arrives(
    runtime: Runtime,
) -> None:
    del runtime
    gate = Gate.remote()
    one, two = _late_parts.options(num_returns=2).remote(gate)
    keeper, echo = Keeper.remote(two), Echo.remote()
    both = echo.both.remote(one, two)
    lengths = _lengths.remote([one, two, one], two)
    kept = actorlib.put([one, two])
    bad, _ = _late_parts.options(num_returns=2).remote(gate, fails=True)
    failed = echo.echo.remote(bad)
    await gate.open.remote("parts")

    assert await both == (([1], [2, 3]), {})
    assert await keeper.kept.remote() == [2, 3]
    assert await lengths == [1, 2, 1, 2]
    assert [await part for part in await kept] == [[1], [2, 3]]
    assert isinstance(await raised(failed), KeyError)
    assert await echo.echo.remote(one) == [1]
