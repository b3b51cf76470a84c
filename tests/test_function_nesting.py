"""Remote functions that are quick or slow, call others, and wait for them."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import (
    AsyncCaller,
    Caller,
    Counter,
    Gate,
    Stop,
    gone,
    living,
)
from helpers.functions import add, crew, fail, halt

import actorlib
from actorlib._local.ahead import MOST
from actorlib.exceptions import (
    TaskUnschedulableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from helpers.actors import Place

    from actorlib import ActorHandle, ObjectRef, Runtime
    from actorlib._runtime_options import RuntimeKeywords

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("on_both_loops", "runtime"),
]


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"num_cpus": 2, "num_gpus": 2, "resources": {"lane": 1}}


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
        await asyncio.gather(*(maybe_halt.remote(None) for _ in range(MOST)))
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


async def test_nested_call_when_it_waits_then_its_cpu_is_free(
    runtime: Runtime, stop: Stop
) -> None:
    outer = actorlib.remote(lambda place: actorlib.get(halt.remote(place, 7)))
    ref = outer.options(num_cpus=2).remote(stop.place)
    await stop.reached()
    assert runtime.available_resources()["CPU"] == 1
    assert crew(runtime, "CPU=2").blocked == 1
    stop.release()
    assert await ref == 7


async def test_nested_call_when_it_is_behind_its_caller_then_it_goes_elsewhere() -> (
    None
):
    @actorlib.remote
    def step(ref: list[ObjectRef[int]] | None) -> int:
        return actorlib.get(ref[0]) + 1 if ref else 0

    for _ in range(3):  # known to be quick, so that they are sent ahead
        await asyncio.gather(*(step.remote(None) for _ in range(MOST)))
    gate = Gate.remote()
    waited = gate.wait.remote()
    chain = [step.remote(None)]
    for _ in range(40):
        chain.append(step.remote([chain[-1]]))
    chain += [step.remote(None) for _ in range(50)]
    assert await chain[40] == 40
    await gate.open.remote()
    await asyncio.gather(waited, *chain)


async def test_act_016_actors_call_functions() -> None:
    plain, looped = Caller.remote(), AsyncCaller.remote()
    assert await plain.run.remote(lambda: actorlib.get(add.remote(1, 2))) == 3

    async def call() -> int:
        return await add.remote(add.remote(1), second=2)

    assert await looped.run.remote(call) == 3

    def fails() -> str:
        try:
            actorlib.get(fail.remote(KeyError("a")))
        except KeyError as error:
            return type(error).__name__
        return ""

    assert await plain.run.remote(fails) == "TaskError(KeyError)"

    def never() -> str:
        try:
            actorlib.get(add.options(num_cpus=99).remote(1))
        except TaskUnschedulableError as error:
            return str(error)
        return ""

    assert "add asks CPU=99" in await plain.run.remote(never)


async def test_tsk_006_functions_call_actors_and_are_given_handles() -> None:
    counter = Counter.remote()

    @actorlib.remote
    def count(given: ActorHandle[Any]) -> int:
        return actorlib.get(given.add.remote(2))

    assert await count.remote(counter) == 2
    assert await count.remote(counter) == 4


async def test_tsk_006_an_actor_that_a_function_makes_lives_as_long_as_its_handles(
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


async def test_nested_ref_when_returned_then_it_can_be_awaited() -> None:
    nested = actorlib.remote(lambda: [add.remote(40, 2)])
    [ref] = await nested.remote()
    assert await ref == 42


async def test_list_actors_when_functions_run_then_their_processes_are_none(
    runtime: Runtime,
) -> None:
    await add.remote(1)
    assert len(crew(runtime).pids) >= 1
    assert {actor.state for actor in actorlib.list_actors()} <= {"dead"}
    assert living(runtime) == []
