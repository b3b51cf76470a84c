"""Calls by threads of the program, which do not run the loop of the runtime."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, Cleaner, Counter, end_of, living
from helpers.callees import LIMIT
from helpers.callers import error_of
from helpers.functions import add, fail
from helpers.kinds import CONTRACT, OWN_ENGINES
from helpers.reused import Echo, Gate

import actorlib
import actorlib.blocking
from actorlib.exceptions import (
    ActorDiedError,
    ActorNotFoundError,
    GetTimeoutError,
    SerializationError,
    TaskCancelledError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from helpers.callers import Api

    from actorlib import Runtime

pytestmark = CONTRACT


@pytest.fixture
def get(api: Api, runtime: Runtime) -> Callable[..., Any]:
    """What threads wait with."""
    del runtime  # it runs
    return actorlib.blocking.get if api.is_blocking else actorlib.get


@actorlib.remote
class Source:
    """Makes items."""

    def items(self, count: int) -> Iterator[int]:
        yield from range(count)

    def item_behind(self, gate: Any) -> Iterator[str]:
        yield gate.wait.remote().get(timeout=LIMIT)


async def test_threads_when_they_call_at_once_then_each_is_answered(
    api: Api, get: Any
) -> None:
    counter, loop = Counter.remote(), asyncio.get_running_loop()

    def call() -> list[int]:
        return get([counter.add.remote() for _ in range(50)])

    with ThreadPoolExecutor(8) as pool:
        others = [loop.run_in_executor(pool, call) for _ in range(8)]
        values = await api.get([counter.add.remote() for _ in range(50)])
        for each in others:
            values += await each

    assert sorted(values) == [*range(1, 451)]


@OWN_ENGINES
async def test_threads_when_they_wait_for_one_ref_then_each_has_its_value(
    api: Api, get: Any
) -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("x")
    waiting = [asyncio.to_thread(get, ref) for _ in range(8)]
    together = asyncio.gather(*waiting)
    await api.get(gate.open.remote("x"))

    assert await together == ["x"] * 8
    assert await asyncio.to_thread(ref.get) == "x"


@OWN_ENGINES
async def test_thread_when_its_call_is_wrong_then_the_error_is_raised_there(
    get: Any,
) -> None:
    echo, gate = Echo.remote(), Gate.remote()

    def ask() -> None:
        with pytest.raises(TypeError, match="value"):
            echo.echo.remote()
        with pytest.raises(SerializationError, match="generator"):
            echo.echo.remote(number for number in range(3))
        with pytest.raises(ValueError, match="no"):
            echo.fail.remote(ValueError("no")).get()
        with pytest.raises(ValueError, match="no"):
            get([gate.wait.remote(), fail.remote(ValueError("no"))])
        with pytest.raises(GetTimeoutError):
            gate.wait.remote().get(timeout=0.01)
        with pytest.raises(ActorNotFoundError):
            actorlib.get_actor("unknown")

    await asyncio.to_thread(ask)


async def test_thread_when_it_makes_finds_and_kills_actors_then_it_can(
    get: Any,
) -> None:
    Counter.options(name="known", lifetime="detached").remote(4)

    def work() -> Any:
        made, known = Counter.remote(8), actorlib.get_actor("known")
        values = get([made.add.remote(), known.add.remote(), add.remote(1, 2)])
        get(actorlib.kill(known))
        with pytest.raises(ActorDiedError):
            get(known.add.remote())
        return values, get(actorlib.put(values))

    assert await asyncio.to_thread(work) == ([9, 5, 3], [9, 5, 3])


@OWN_ENGINES
async def test_thread_when_it_drops_the_last_handle_then_the_actor_ends(
    api: Api, get: Any
) -> None:
    counter = Counter.remote()
    await api.ready(counter)
    ended = None if api.is_blocking else end_of(counter)
    handles = [counter]
    del counter

    await asyncio.to_thread(lambda: (get(handles.pop().add.remote()), gc.collect()))
    if ended is not None:  # scripts tell of it in test_blocking_verbs
        await ended


async def test_thread_when_it_waits_for_several_then_it_has_those_that_are_done(
    get: Any,
) -> None:
    gate = Gate.remote()

    def work() -> Any:
        refs = [gate.wait.remote(name) for name in "ab"]
        gate.open.remote("b")
        ready, others = actorlib.wait(refs).get()
        refs[0].cancel()
        with pytest.raises(TaskCancelledError):
            get(others[0])
        done = sorted(actorlib.as_completed([add.remote(1), add.remote(2)]))
        return get(ready), done

    assert await asyncio.to_thread(work) == (["b"], [1, 2])


async def test_futures_when_threads_wait_for_them_then_they_have_the_values(
    api: Api, get: Any
) -> None:
    del get
    echo, gate = Echo.remote(), Gate.remote()
    futures = [echo.echo.remote(number).future() for number in range(10)]

    def collect() -> list[int]:
        done = concurrent.futures.as_completed(futures, LIMIT)
        return sorted(future.result(LIMIT) for future in done)

    assert await asyncio.to_thread(collect) == [*range(10)]
    assert all(isinstance(each, concurrent.futures.Future) for each in futures)
    assert await asyncio.wrap_future(echo.echo.remote("x").future()) == "x"
    done = echo.echo.remote("y")
    assert await api.get(done) == "y"
    assert await asyncio.wrap_future(done.future()) == "y"
    failed = echo.fail.remote(KeyError("k")).future()
    with pytest.raises(KeyError):
        await asyncio.wrap_future(failed)

    ref = gate.wait.remote()
    future, other = ref.future(), ref.future()
    assert other.cancel()
    assert not ref.done()
    ref.cancel()
    with pytest.raises(TaskCancelledError):
        await asyncio.wrap_future(future)


async def test_thread_when_it_reads_a_stream_then_it_has_its_items(
    get: Any, engine: str
) -> None:
    source = Source.remote()

    async def read_on_loop() -> list[int]:
        return [await ref async for ref in source.items.remote(3)]

    def work() -> Any:
        items = [get(ref) for ref in source.items.remote(3)]
        return items, asyncio.run(read_on_loop())

    if engine == "client":
        with pytest.raises(UnsupportedOptionError):
            await asyncio.to_thread(work)
    else:
        assert await asyncio.to_thread(work) == ([0, 1, 2], [0, 1, 2])


@OWN_ENGINES
@pytest.mark.parametrize("detach", [False, True], ids=["cancelled", "detached"])
async def test_thread_when_it_closes_a_stream_then_a_wait_for_an_item_ends(
    api: Api,
    get: Any,
    detach: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    del get
    loop, source, gate = asyncio.get_running_loop(), Source.remote(), Gate.remote()
    make = source.item_behind.options(detach=detach).remote
    stream = make(gate)
    waiting = asyncio.ensure_future(api.next_item(stream))
    await api.get(gate.reached.remote())

    loop.set_debug(enabled=True)  # it then refuses what another thread must not do
    try:
        await asyncio.to_thread(stream.close)
    finally:
        loop.set_debug(enabled=False)
    await api.get(gate.open.remote())  # one that is detached goes on

    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_thread_when_it_cancels_then_the_ref_waits_for_the_cleanup(
    get: Any,
) -> None:
    cleaner = Cleaner.remote()

    def work() -> Any:
        ref = cleaner.work.remote("it")
        get(cleaner.began.remote())
        ref.cancel()
        get(cleaner.cleans.remote())
        was_done = ref.done()
        get(cleaner.end.remote())
        with pytest.raises(TaskCancelledError):
            get(ref)
        return was_done, get(cleaner.ended.remote())

    assert await asyncio.to_thread(work) == (False, ["it"])


@OWN_ENGINES
async def test_thread_when_it_asks_about_the_runtime_then_it_is_answered(
    api: Api, runtime: Runtime, get: Any, engine: str
) -> None:
    gate = Gate.remote()
    await api.ready(gate)
    state: Any = actorlib.blocking.util.state

    def work() -> Any:
        ref = gate.wait.remote("a")
        get(gate.reached.remote("a"))
        calls = state.list_tasks() if api.is_blocking else runtime.calls()
        ref.cancel()
        with pytest.raises(TaskCancelledError):
            get(ref)
        return [call.method for call in calls]

    def explain(asked: Any) -> str:
        return state.explain(asked) if api.is_blocking else runtime.explain(asked)

    assert await asyncio.to_thread(work) == ["wait"]
    if engine == "attached":
        with pytest.raises(UnsupportedOptionError, match="has started the runtime"):
            await asyncio.to_thread(explain, gate)
    else:
        assert "Gate" in await asyncio.to_thread(explain, gate)
        assert "Counter" in await asyncio.to_thread(explain, Counter)
    if not api.is_blocking:
        assert len(await asyncio.to_thread(living, runtime)) == 1
        total = runtime.cluster_resources()
        free = await asyncio.to_thread(runtime.available_resources)
        assert free.keys() <= total.keys()


@OWN_ENGINES
async def test_thread_when_it_reserves_a_group_then_its_members_are_inside(
    get: Any,
) -> None:
    def work() -> Any:
        group = actorlib.placement_group([{"CPU": 1}], name="gang")
        assert get(group.ready()) == group
        assert actorlib.get_placement_group("gang") == group
        member = Counter.options(placement_group=group, num_cpus=1).remote()
        value = get(member.add.remote())
        del member
        state = actorlib.placement_group_table(group)["state"]
        actorlib.remove_placement_group(group)
        return value, state

    assert await asyncio.to_thread(work) == (1, "CREATED")


@OWN_ENGINES
async def test_thread_when_it_passes_refs_and_handles_then_they_arrive(
    get: Any,
) -> None:
    echo, caller = Echo.remote(), Caller.remote()

    def work() -> Any:
        ref, kept = echo.echo.remote(1), actorlib.put("kept")
        return get(
            [echo.both.remote(ref, name=kept), caller.call.remote(echo, "echo", 2)]
        )

    assert await asyncio.to_thread(work) == [((1,), {"name": "kept"}), 2]


async def test_loop_when_it_runs_in_another_thread_then_it_awaits_calls_there(
    api: Api, get: Any
) -> None:
    del get
    counter = Counter.remote()

    async def work() -> Any:
        first = await counter.add.remote()
        others = await asyncio.gather(counter.add.remote(), counter.add.remote())
        last = await asyncio.wait_for(counter.add.remote(), 20)
        made = await Counter.remote(7)
        kept = await made.add.remote()
        await actorlib.kill(made)
        ready, _ = await actorlib.wait([counter.add.remote()])
        return first, others, last, kept, await ready[0]

    values = await asyncio.to_thread(lambda: asyncio.run(work()))

    assert values == (1, [2, 3], 4, 8, 5)
    error = await error_of(api, counter.add.remote("text"))
    assert isinstance(error, TypeError)
