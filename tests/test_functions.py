"""Remote functions on the local engine: their shares, their code, their workers.

What holds for every engine is in ``tests/contract/``.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo, Stop, gone
from helpers.calls import raised
from helpers.functions import add, group_of, halt, pid
from helpers.marks import USES_RUNTIME, in_memory

import actorlib
from actorlib.exceptions import TaskUnschedulableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from helpers.actors import Place

    from actorlib import Runtime

pytestmark = [*in_memory(num_cpus=2, num_gpus=2, resources={"lane": 1}), USES_RUNTIME]


# Shares.


@pytest.mark.parametrize(
    ("options", "count", "rest"),
    [
        ({}, 1, {"CPU": 1}),
        ({"num_cpus": 0.5, "resources": {"lane": 1}}, 1, {"CPU": 1.5, "lane": 0}),
        ({"num_cpus": 0}, 5, {"CPU": 2}),
        ({"num_gpus": 0.5}, 4, {"CPU": 2, "GPU": 0}),
    ],
)
async def test_calls_when_they_run_at_once_then_each_holds_what_it_asks_for(
    runtime: Runtime,
    stop: Stop,
    options: Any,
    count: int,
    rest: dict[str, float],
) -> None:
    refs = [halt.options(**options).remote(stop.place, n) for n in range(count)]
    for _ in refs:
        await stop.reached()
    available = runtime.available_resources()
    for _ in refs:
        stop.release()

    assert await asyncio.gather(*refs) == list(range(count))
    assert {name: available[name] for name in rest} == rest
    available = runtime.available_resources()
    assert (available["CPU"], available["lane"]) == (2, 1)


async def test_calls_when_they_ask_for_many_different_things_then_all_of_them_run() -> (
    None
):
    # More than there are workers that may be started at once.
    refs = [add.options(memory=1000 + extra).remote(extra) for extra in range(8)]
    assert await asyncio.gather(*refs) == list(range(8))


async def test_call_when_the_machine_is_full_then_it_waits_its_turn(
    runtime: Runtime, stop: Stop
) -> None:
    both = [halt.remote(stop.place, value) for value in (1, 2)]
    await stop.reached()
    await stop.reached()
    third = add.remote(3)
    assert runtime.snapshot().waiting == ("add: CPU=1",)
    assert group_of(runtime).waiting == 1
    stop.release()
    assert await third == 3
    stop.release()
    assert await asyncio.gather(*both) == [1, 2]


async def test_call_when_an_actor_waits_for_the_cpu_then_calls_let_it_pass() -> None:
    refs = [add.remote(number) for number in range(2_000)]
    echo = Echo.options(num_cpus=2).remote()
    assert await echo.echo.remote(1) == 1
    assert not refs[-1].done()
    del echo
    assert await asyncio.gather(*refs) == list(range(2_000))


async def test_call_when_made_many_times_then_as_many_processes_as_cpus(
    runtime: Runtime,
) -> None:
    await asyncio.gather(*(pid.remote() for _ in range(200)))
    assert len(group_of(runtime).pids) <= 2
    assert await pid.remote() in group_of(runtime).pids


async def test_call_when_it_asks_for_more_than_there_is_then_it_fails() -> None:
    error = await raised(add.options(num_cpus=80).remote(1))
    assert type(error) is TaskUnschedulableError
    assert "add requests CPU=80; this machine has CPU=2" in str(error)
    error = await raised(add.options(accelerator_type="H900").remote(1))
    assert type(error) is TaskUnschedulableError


# Errors.


# Code by value.


async def test_names_are_seen_that_are_defined_before_the_first_call() -> None:
    scope: dict[str, Any] = {"__name__": "__main__", "actorlib": actorlib}
    exec("def f():\n    return later()\nf = actorlib.remote(f)", scope)
    exec("def later():\n    return 'defined after'", scope)
    assert await scope["f"].remote() == "defined after"


async def test_a_redefinition_is_for_later_calls_only(stop: Stop) -> None:
    def version() -> int:
        stop_at.stop_here()
        return 1

    stop_at = stop.place
    first = actorlib.remote(version)
    refs = [first.remote(), first.remote()]

    def version() -> int:  # type: ignore[no-redef]  # that is the point
        return 2

    second = actorlib.remote(version)
    await stop.reached()
    await stop.reached()
    later = second.remote()
    stop.release()
    stop.release()
    assert await asyncio.gather(*refs, later) == [1, 1, 2]


async def test_code_when_there_are_very_many_then_workers_are_replaced(
    runtime: Runtime,
) -> None:
    functions = [actorlib.remote(lambda n=n: n) for n in range(600)]
    assert await asyncio.gather(*(f.remote() for f in functions)) == list(range(600))
    assert len(group_of(runtime).pids) <= 4


async def test_functions_when_their_variables_differ_then_so_do_their_processes() -> (
    None
):
    here = actorlib.remote(lambda: (os.getpid(), os.environ.get("COLOUR")))
    outer = actorlib.remote(lambda: actorlib.get(here.remote()))
    red = {"env_vars": {"COLOUR": "red"}}

    pid_red, colour = await here.options(runtime_env=red).remote()
    pid_none, none = await here.remote()

    assert (colour, none) == ("red", None)
    assert pid_red != pid_none
    # What it calls inherits its variables.
    assert (await outer.options(runtime_env=red).remote())[1] == "red"


# Workers.


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ({"num_gpus": 1}, 1),
        ({"num_gpus": 1, "max_calls": 0}, 6),
        ({"max_calls": 2}, 2),
    ],
)
async def test_worker_when_a_function_has_run_often_enough_then_it_ends(
    options: Any, runs: int
) -> None:
    here = actorlib.remote(**options)(os.getpid)

    pids = [await here.remote() for _ in range(6)]

    assert {pids.count(number) for number in pids} == {runs}
    # Who wants the devices gets them, though a process may have nothing to do.
    assert await pid.options(num_gpus=2).remote() not in pids
    if "num_gpus" in options:
        await asyncio.gather(*map(gone, set(pids)))


async def test_max_calls_when_calls_are_streams_then_they_count() -> None:
    @actorlib.remote(max_calls=1)
    def here() -> Iterator[int]:
        yield os.getpid()

    streams = [here.remote() for _ in range(2)]
    assert len({await ref for stream in streams async for ref in stream}) == 2


@pytest.mark.process
async def test_the_device_is_free_when_the_process_is_gone(
    runtime: Runtime, stop: Stop
) -> None:
    @actorlib.remote(num_gpus=2)
    def linger(place: Place) -> int:
        atexit.register(place.stop_here)
        return os.getpid()

    first = await linger.remote(stop.place)
    await stop.reached()
    assert runtime.available_resources()["GPU"] == 0
    second = pid.options(num_gpus=0.5).remote()
    stop.release()
    await gone(first)
    assert await second != first


async def test_a_call_knows_its_devices() -> None:
    @actorlib.remote
    def look() -> tuple[Any, ...]:
        context = actorlib.get_runtime_context()
        ids = actorlib.get_gpu_ids()
        mask = os.environ.get("CUDA_VISIBLE_DEVICES")
        return context.actor_id, ids, mask, context.get_assigned_resources()

    both = await look.options(num_gpus=2).remote()
    assert both == (None, [0, 1], "0,1", {"GPU": 2})
    assert await look.remote() == (None, [], "", {"CPU": 1})


async def test_functions_and_actors_share_no_whole_device() -> None:
    echo = Echo.options(num_gpus=1).remote()
    await echo
    get_ids = actorlib.remote(num_gpus=1)(actorlib.get_gpu_ids)
    assert await asyncio.gather(*(get_ids.remote() for _ in range(3))) == [[1]] * 3
    del echo


async def test_list_actors_when_functions_run_then_their_processes_are_none(
    runtime: Runtime,
) -> None:
    await add.remote(1)
    assert len(group_of(runtime).pids) >= 1
    assert {actor.state for actor in actorlib.list_actors()} <= {"dead"}
