"""What the threads of a program may do beside the one that runs the loop.

It holds on every engine, so on each of them: a part of the contract of engines.
"""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, Cleaner, Counter, Echo, Gate, Log, end_of, living
from helpers.functions import add, fail
from helpers.on_ray import FROM_AFAR, ON_RAY
from helpers.streams import Source as PlainSource

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorNotFoundError,
    GetTimeoutError,
    SerializationError,
    TaskCancelledError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib import Runtime

Source = actorlib.remote(PlainSource)

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("on_both_loops"),
]


@actorlib.remote
class Holder:
    """Makes an item when a gate is opened."""

    def items(self, gate: Any) -> Iterator[str]:
        yield actorlib.get(gate.wait.remote())


@pytest.fixture(
    scope="module", params=[pytest.param("", id="local"), ON_RAY, FROM_AFAR]
)
def address(request: pytest.FixtureRequest) -> str:
    """Of a runtime on Ray, the address."""
    way: str = request.param
    return way and request.getfixturevalue(way)


async def test_thread_when_it_calls_actors_then_answers_come_in_order(
    runtime: Runtime,
) -> None:
    log = actorlib.remote(Log).remote()

    def call() -> Any:
        refs = [log.note.remote(number) for number in range(100)]
        refs += [log.note.remote(value=(number,)) for number in range(5)]
        return actorlib.get(refs), refs[7].get(), log.seen.remote().get(timeout=20)

    values, seventh, seen = await asyncio.to_thread(call)

    assert values == seen == [*range(100), *((number,) for number in range(5))]
    assert seventh == 7
    assert runtime.calls() == []


async def test_threads_when_they_call_side_by_side_then_each_is_answered(
    runtime: Runtime,
) -> None:
    del runtime
    counter, loop = Counter.remote(), asyncio.get_running_loop()

    def call() -> list[int]:
        return actorlib.get([counter.add.remote() for _ in range(50)])

    with ThreadPoolExecutor(8) as pool:
        found = [loop.run_in_executor(pool, call) for _ in range(8)]
        own = await asyncio.gather(*[counter.add.remote() for _ in range(50)])
        values = [value for each in await asyncio.gather(*found) for value in each]

    assert sorted(values + own) == list(range(1, 451))


@pytest.mark.usefixtures("runtime")
async def test_thread_when_it_asks_for_what_is_wrong_then_it_is_told_in_its_line() -> (
    None
):
    echo, gate = Echo.remote(), Gate.remote()

    def ask() -> None:
        with pytest.raises(TypeError, match="value"):
            echo.echo.remote()
        with pytest.raises(SerializationError, match="generator"):
            echo.echo.remote(number for number in [])
        with pytest.raises(ValueError, match="no"):
            echo.fail.remote(ValueError("no")).get()
        with pytest.raises(ValueError, match="no"):
            actorlib.get([gate.wait.remote(), fail.remote(ValueError("no"))])
        with pytest.raises(GetTimeoutError):
            gate.wait.remote().get(timeout=0.01)
        with pytest.raises(ActorNotFoundError):
            actorlib.get_actor("nobody")

    await asyncio.to_thread(ask)


@pytest.mark.usefixtures("runtime")
async def test_thread_when_it_makes_finds_and_kills_actors_then_so_it_is() -> None:
    Counter.options(name="known", lifetime="detached").remote(4)

    def work() -> Any:
        made, known = Counter.remote(8), actorlib.get_actor("known")
        values = actorlib.get([made.add.remote(), known.add.remote(), add.remote(1, 2)])
        actorlib.kill(known).get()
        with pytest.raises(ActorDiedError):
            known.add.remote().get()
        return values, actorlib.put(values).get()

    assert await asyncio.to_thread(work) == ([9, 5, 3], [9, 5, 3])


@pytest.mark.usefixtures("runtime")
async def test_thread_when_it_drops_the_last_handle_then_the_actor_ends() -> None:
    counter = Counter.remote()
    ended = end_of(counter)
    held = [counter]
    del counter

    await asyncio.to_thread(lambda: (held.pop().add.remote().get(), gc.collect()))
    await ended


@pytest.mark.usefixtures("runtime")
async def test_thread_when_it_waits_for_several_then_as_anywhere() -> None:
    gate = Gate.remote()

    def work() -> Any:
        refs = [gate.wait.remote(name) for name in "ab"]
        gate.open.remote("b")
        ready, left = actorlib.wait(refs).get()
        refs[0].cancel()
        with pytest.raises(TaskCancelledError):
            left[0].get()
        done = sorted(actorlib.as_completed([add.remote(1), add.remote(2)]))
        return actorlib.get(ready), done, add.remote(3).future().result(20)

    assert await asyncio.to_thread(work) == (["b"], [1, 2], 3)


@pytest.mark.usefixtures("runtime")
async def test_thread_when_it_reads_a_stream_then_its_items_come(address: str) -> None:
    source = Source.remote()

    async def read_there() -> list[int]:
        return [await ref async for ref in source.items.remote(3)]

    def work() -> Any:
        items = [ref.get() for ref in source.items.remote(3)]
        return items, asyncio.run(read_there())

    if address.startswith("ray://"):
        with pytest.raises(UnsupportedOptionError):
            await asyncio.to_thread(work)
    else:
        assert await asyncio.to_thread(work) == ([0, 1, 2], [0, 1, 2])


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("detach", [False, True], ids=["cancelled", "detached"])
async def test_thread_when_it_closes_a_stream_then_who_awaits_an_item_is_told(
    address: str,
    detach: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    if address.startswith("ray://"):
        pytest.skip("a client has no streams")
    loop, holder, gate = asyncio.get_running_loop(), Holder.remote(), Gate.remote()
    stream = holder.items.options(detach=detach).remote(gate)
    waiting = asyncio.ensure_future(anext(stream, None))
    await gate.reached.remote()

    loop.set_debug(enabled=True)  # it then refuses what another thread must not do
    try:
        await asyncio.to_thread(stream.close)
    finally:
        loop.set_debug(enabled=False)
    await gate.open.remote()  # one that is detached goes on

    assert await waiting is None


@pytest.mark.usefixtures("runtime")
async def test_thread_when_it_cancels_then_the_ref_is_told_when_it_is_over() -> None:
    cleaner = Cleaner.remote()

    def work() -> Any:
        ref = cleaner.work.remote("it")
        cleaner.began.remote().get()
        ref.cancel()
        cleaner.cleans.remote().get()
        was_done = ref.done()
        cleaner.end.remote().get()
        with pytest.raises(TaskCancelledError):
            ref.get()
        return was_done, cleaner.ended.remote().get()

    assert await asyncio.to_thread(work) == (False, ["it"])


async def test_thread_when_it_asks_about_the_runtime_then_it_is_told(
    runtime: Runtime,
) -> None:
    gate = await Gate.remote()

    def work() -> Any:
        ref = gate.wait.remote("a")
        gate.reached.remote("a").get()
        told = [call.method for call in runtime.calls()]
        ref.cancel()
        with pytest.raises(TaskCancelledError):
            ref.get()
        assert len(living(runtime)) == 1
        assert (
            runtime.available_resources().keys() <= runtime.cluster_resources().keys()
        )
        return told, runtime.explain(gate), runtime.explain(Gate)

    told, there, asked = await asyncio.to_thread(work)

    assert told == ["wait"]
    assert "Gate" in there
    assert "Gate" in asked


@pytest.mark.usefixtures("runtime")
async def test_thread_when_it_reserves_a_group_then_its_members_are_inside() -> None:
    def work() -> Any:
        group = actorlib.placement_group([{"CPU": 1}], name="gang")
        assert group.ready().get() == group
        assert actorlib.get_placement_group("gang") == group
        member = Counter.options(placement_group=group, num_cpus=1).remote()
        value = member.add.remote().get()
        del member
        state = actorlib.placement_group_table(group)["state"]
        actorlib.remove_placement_group(group)
        return value, state

    assert await asyncio.to_thread(work) == (1, "CREATED")


@pytest.mark.usefixtures("runtime")
async def test_thread_when_it_gives_refs_and_handles_on_then_they_arrive() -> None:
    echo, caller = Echo.remote(), Caller.remote()

    def work() -> Any:
        ref = echo.echo.remote(1)
        kept = actorlib.put("kept")
        return actorlib.get(
            [echo.both.remote(ref, name=kept), caller.call.remote(echo, "echo", 2)]
        )

    assert await asyncio.to_thread(work) == [((1,), {"name": "kept"}), 2]


@pytest.mark.usefixtures("runtime")
async def test_loop_when_in_another_thread_then_it_awaits_as_anywhere() -> None:
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

    found = await asyncio.to_thread(lambda: asyncio.run(work()))

    assert found == (1, [2, 3], 4, 8, 5)
