"""Remote functions that call others and wait: what they lend meanwhile, and to whom."""

from __future__ import annotations

import asyncio
import os
import random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from helpers.actors import Caller, Counter, Gate, Log, Stop, Target, gone
from helpers.functions import add, fail, group_of, halt
from helpers.marks import USES_RUNTIME, in_memory

import actorlib
from actorlib._core.engine import find_engine
from actorlib._owner.functions.task_queue import MAX_DEPTH
from actorlib.exceptions import TaskUnschedulableError

if TYPE_CHECKING:
    from helpers.actors import Place

    from actorlib import ActorHandle, ObjectRef, Runtime

pytestmark = [*in_memory(num_cpus=2, num_gpus=2, resources={"lane": 1}), USES_RUNTIME]


@actorlib.remote
def fibonacci(number: int) -> int:
    if number < 2:
        return number
    ref = fibonacci.remote(number - 1)
    return fibonacci_here(number - 2) + actorlib.get(ref)


def fibonacci_here(number: int) -> int:
    ref = fibonacci.remote(number)
    return actorlib.get(ref)


# Quick ones and slow ones.


async def test_quick_calls_when_one_is_slow_then_the_others_do_not_wait_behind_it(
    stop: Stop,
) -> None:
    for _ in range(3):
        await asyncio.gather(*(maybe_halt.remote(None) for _ in range(MAX_DEPTH)))
    refs = [maybe_halt.remote(None) for _ in range(20)]
    slow = maybe_halt.remote(stop.place)
    refs += [maybe_halt.remote(None) for _ in range(300)]
    await stop.reached()
    await asyncio.gather(*refs)
    assert not slow.done()
    stop.release()
    await slow


@actorlib.remote
def maybe_halt(place: Place | None) -> None:
    if place is not None:
        place.stop_here()


# Functions that call.


async def test_nested_calls_when_they_wait_for_each_other_then_none_hangs() -> None:
    # Three deep on two CPUs would hang if who waits kept its CPU.
    assert await fibonacci.remote(6) == 8


@actorlib.remote
def ask(place: Place, *, waits: bool) -> Any:
    """Gets what another function returns."""
    refs = [halt.options(num_cpus=2).remote(place, 7)]
    if waits:
        refs, _ = actorlib.wait(refs).get()
    return actorlib.get(refs)


@pytest.mark.parametrize(
    ("options", "kept", "waits"),
    [
        ({"num_cpus": 2}, {}, False),
        ({"num_cpus": 2}, {}, True),
        ({"num_cpus": 2, "num_gpus": 2}, {"GPU": 2}, False),
        ({"resources": {"lane": 1}}, {"lane": 1}, False),
    ],
)
async def test_nested_call_when_it_waits_then_its_cpus_alone_are_free(
    options: Any,
    kept: dict[str, float],
    runtime: Runtime,
    stop: Stop,
    *,
    waits: bool,
) -> None:
    ref = ask.options(**options).remote(stop.place, waits=waits)
    await stop.reached()
    available = runtime.available_resources()
    blocked = [group.blocked for group in runtime.snapshot().worker_groups]
    stop.release()

    assert await ref == [7]
    whole = runtime.cluster_resources()
    assert available["CPU"] == 0  # the inner call has both
    for name in ("GPU", "lane"):
        assert whole[name] - available[name] == kept.get(name, 0)
    assert sum(blocked) == 1


async def test_nested_call_when_it_waits_then_it_goes_on_with_its_cpus_alone(
    runtime: Runtime, stop: Stop
) -> None:
    gate, log = Gate.remote(), actorlib.remote(Log).remote()

    @actorlib.remote(num_cpus=2)
    def outer(gate: ActorHandle[Any], log: ActorHandle[Any]) -> None:
        actorlib.get(gate.wait.remote())
        actorlib.get(log.note.remote("goes on"))

    @actorlib.remote
    def other(log: ActorHandle[Any], place: Place) -> None:
        place.stop_here()
        actorlib.get(log.note.remote("other"))

    ref = outer.remote(gate, log)
    await gate.reached.remote()
    others = other.remote(log, stop.place)
    await stop.reached()
    assert runtime.available_resources()["CPU"] == 1
    await gate.open.remote()
    for _ in range(20):  # time enough for it, were it not to wait
        await log.seen.remote()
    assert await log.seen.remote() == []
    stop.release()
    await asyncio.gather(ref, others)
    assert await log.seen.remote() == ["other", "goes on"]


async def test_nested_call_when_others_wait_for_what_its_caller_has_then_it_runs() -> (
    None
):
    holder = Target.options(num_cpus=1).remote()
    await holder  # which leaves one CPU
    load = add.options(num_cpus=1)

    @actorlib.remote(num_cpus=1, num_gpus=2)
    def train(number: int) -> int:
        return actorlib.get(load.remote(number, 1))

    assert await asyncio.gather(*map(train.remote, range(4))) == [1, 2, 3, 4]
    await actorlib.kill(holder)
    await Target.options(num_cpus=2, num_gpus=2).remote()


async def test_nested_call_when_it_is_an_actor_s_then_it_runs_likewise() -> None:
    @actorlib.remote(num_cpus=1, num_gpus=2)
    def train() -> int:
        counter = Counter.options(num_cpus=2).remote(3)
        return actorlib.get(counter.add.remote(1))

    assert await asyncio.gather(*(train.remote() for _ in range(3))) == [4] * 3


@actorlib.remote(num_cpus=2)
def pids(depth: int, width: int) -> set[int]:
    """The processes of a call and of those that it makes."""
    depths = range(depth) if width == 0 else [depth - 1] * width if depth else []
    refs = [pids.remote(deeper, width) for deeper in depths]
    return {os.getpid()}.union(*(actorlib.get(ref) for ref in reversed(refs)))


@actorlib.remote
def count_up() -> int:
    counter = Counter.options(num_cpus=1).remote(41)
    return actorlib.get(counter.add.remote())


async def test_nested_call_when_its_groups_actor_has_its_cpus_then_it_goes_on() -> None:
    group = actorlib.placement_group([{"CPU": 1}])
    captured = count_up.options(
        placement_group=group, placement_group_capture_child_tasks=True
    )
    assert await captured.remote() == 42
    await actorlib.remove_placement_group(group)


def add_by_names(count: int) -> int:
    """Calls a function with new options each time; run inside of an actor."""
    refs = [add.options(name=f"add {number}").remote(1, 0) for number in range(count)]
    return sum(actorlib.get(refs))


async def test_nested_call_when_each_has_new_options_then_few_are_remembered() -> None:
    engine: Any = find_engine()
    caller = Caller.remote()

    assert await caller.run.remote(add_by_names, 600) == 600

    codes = engine.actor_table.pool.functions._registered.values()
    assert max(len(code.entries) for code in codes) < 300


async def test_nested_calls_when_there_are_many_then_few_processes_run_them(
    runtime: Runtime,
) -> None:
    chains = await asyncio.gather(*(pids.remote(2, 1) for _ in range(50)))
    tree = await pids.remote(5, 0)

    assert len(set[int]().union(*chains)) <= 8  # and not three for each call
    assert len(tree) <= 12  # and not one for each of 32 calls
    assert runtime.available_resources()["CPU"] == 2


class Tree(NamedTuple):
    """A call: what it asks for, what it calls, and how it waits for that."""

    options: dict[str, Any]
    calls: list[Any]
    manner: int


def tree(draw: random.Random, depth: int = 0) -> Tree:
    """A random one; no call keeps what a deeper one may ask for, CPUs apart."""
    options: dict[str, Any] = {"num_cpus": draw.choice([0, 0.5, 1, 1, 2])}
    if draw.random() < 0.4 and depth == 0:
        options["num_gpus"] = draw.choice([0.5, 1])
    elif draw.random() < 0.4 and depth == 1:
        options["resources"] = {"lane": draw.choice([0.5, 1])}
    count = 0 if depth == 2 else draw.choice([0, 1, 1, 2, 3])
    calls = [tree(draw, depth + 1) for _ in range(count)]
    return Tree(options, calls, draw.randrange(4))


def calls_in(asked: Tree) -> int:
    return 1 + sum(map(calls_in, asked.calls))


@actorlib.remote
def count_calls(asked: Tree) -> int:
    refs = [count_calls.options(**call.options).remote(call) for call in asked.calls]
    if asked.manner == 0:
        return 1 + sum(actorlib.get(refs))
    if asked.manner == 1:
        return 1 + sum(ref.get() for ref in refs)
    total, timeout = 1, (None, 0.01)[asked.manner - 2]
    while refs:
        done, refs = actorlib.wait(refs, timeout=timeout).get()
        total += sum(actorlib.get(done))
    return total


async def test_nested_calls_when_they_are_random_trees_then_all_of_them_end() -> None:
    draw = random.Random(11)
    asked = [tree(draw) for _ in range(8)]
    refs = [count_calls.options(**call.options).remote(call) for call in asked]
    assert await asyncio.gather(*refs) == [calls_in(call) for call in asked]


@pytest.mark.parametrize("force", [False, True])
async def test_nested_call_when_its_caller_is_cancelled_then_its_cpus_are_back(
    runtime: Runtime, stop: Stop, *, force: bool
) -> None:
    ref = ask.options(num_cpus=2).remote(stop.place, waits=False)
    await stop.reached()
    actorlib.cancel(ref, force=force)
    stop.release()
    assert await add.options(num_cpus=2).remote(1, 2) == 3
    assert await add.options(num_cpus=2).remote(2, 2) == 4
    assert runtime.available_resources()["CPU"] == 2


async def test_nested_call_when_it_is_behind_its_caller_then_it_goes_elsewhere() -> (
    None
):
    @actorlib.remote
    def step(ref: list[ObjectRef[int]] | None) -> int:
        return actorlib.get(ref[0]) + 1 if ref else 0

    for _ in range(3):  # known to be quick, so that they are sent ahead
        await asyncio.gather(*(step.remote(None) for _ in range(MAX_DEPTH)))
    gate = Gate.remote()
    waited = gate.wait.remote()
    chain = [step.remote(None)]
    for _ in range(40):
        chain.append(step.remote([chain[-1]]))
    chain += [step.remote(None) for _ in range(50)]
    assert await chain[40] == 40
    await gate.open.remote()
    await asyncio.gather(waited, *chain)


async def test_nested_call_when_it_fails_then_its_caller_has_the_error() -> None:
    caller = Caller.remote()

    def error_of(ref: Any) -> str:
        try:
            actorlib.get(ref)
        except (KeyError, TaskUnschedulableError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def fails() -> str:
        return error_of(fail.remote(KeyError("a")))

    def never() -> str:
        return error_of(add.options(num_cpus=99).remote(1))

    assert (await caller.run.remote(fails)).startswith("TaskError(KeyError)")
    assert "add requests CPU=99" in await caller.run.remote(never)


async def test_an_actor_that_a_function_makes_lives_as_long_as_its_handles(
    runtime: Runtime,
) -> None:
    @actorlib.remote(max_calls=1)
    def make() -> tuple[int, ActorHandle[Any]]:
        made = Counter.remote(5)
        return os.getpid(), made

    maker, made = await make.remote()
    await gone(maker)
    assert await made.add.remote(1) == 6
    ended = runtime.snapshot().actors[0].pid
    del made
    await gone(ended)


async def test_nested_ref_when_its_process_is_to_end_then_that_waits_for_the_value(
    stop: Stop,
) -> None:
    @actorlib.remote(num_gpus=1)
    def nested(place: Place) -> list[Any]:
        return [halt.remote(place, 5)]

    [ref] = await nested.remote(stop.place)
    await stop.reached()
    stop.release()
    assert await ref == 5


async def test_refs_in_arguments_when_calls_are_over_then_none_is_counted() -> None:
    engine: Any = find_engine()
    give = actorlib.remote(lambda value: value)
    ref = actorlib.put("kept")

    for _ in range(20):
        await give.remote([ref])

    assert len(engine.actor_table.pool.calls) == 0


# Functions that get what is there.


@actorlib.remote(num_cpus=2)
def get_in_order(refs: list[ObjectRef[int]]) -> tuple[int, list[int]]:
    return os.getpid(), [actorlib.get(ref) for ref in refs]


@actorlib.remote(num_cpus=2)
def get_at_once(refs: list[ObjectRef[int]]) -> tuple[int, list[int]]:
    return os.getpid(), actorlib.get(refs)


@actorlib.remote(num_cpus=2)
def wait_for_some(refs: list[ObjectRef[int]]) -> tuple[int, list[int]]:
    ready, left = actorlib.wait(refs, num_returns=len(refs) - 1).get()
    return os.getpid(), [*actorlib.get(ready), *actorlib.get(left)]


@pytest.mark.parametrize("function", [get_in_order, get_at_once, wait_for_some])
async def test_get_when_the_values_are_there_then_no_cpu_is_lent(
    function: Any, runtime: Runtime
) -> None:
    counter = Counter.remote()
    results = [add.remote(1, 2), counter.add.remote(4)]
    await asyncio.gather(*results)
    refs = [*map(actorlib.put, range(3)), *results]
    answers = await asyncio.gather(*(function.remote(refs) for _ in range(20)))
    assert [sorted(values) for _, values in answers] == [[0, 1, 2, 3, 4]] * 20
    # Each needs all CPUs: a second process runs them only while the first has lent its.
    assert len({pid for pid, _ in answers}) == 1
    assert group_of(runtime, "CPU=2").blocked == 0


async def test_get_when_the_answer_came_before_then_no_cpu_is_lent(stop: Stop) -> None:
    @actorlib.remote(num_cpus=2)
    def outer(counter: ActorHandle[Any], place: Place) -> tuple[int, int]:
        ref = counter.add.remote(1)
        place.stop_here()
        return os.getpid(), actorlib.get(ref)

    counter = Counter.remote()
    refs = [outer.remote(counter, stop.place) for _ in range(2)]
    for count in (1, 2):
        await stop.reached()
        # The actor's next answer: so that to the function has come before.
        assert await counter.add.remote(0) == count
        stop.release()
    (first, _), (second, _) = await asyncio.gather(*refs)
    assert first == second


async def test_get_when_a_placement_group_is_there_then_no_cpu_is_lent() -> None:
    @actorlib.remote(num_cpus=2)
    def outer(group: actorlib.PlacementGroup) -> int:
        group.ready().get()
        return os.getpid()

    group = await actorlib.placement_group([{"lane": 1}]).ready()
    numbers = await asyncio.gather(*(outer.remote(group) for _ in range(5)))
    await actorlib.remove_placement_group(group)
    assert len(set(numbers)) == 1


async def test_get_when_some_values_are_there_then_the_cpus_are_lent_until_the_last(
    runtime: Runtime, stop: Stop
) -> None:
    slow = halt.options(num_cpus=0).remote(stop.place, 3)
    await stop.reached()
    ref = get_at_once.remote([actorlib.put(1), slow])
    assert await add.options(num_cpus=2).remote(1) == 1
    assert group_of(runtime, "CPU=2").blocked == 1
    stop.release()
    assert (await ref)[1] == [1, 3]
