"""Remote functions in real processes: calls, their order, their ends."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import Counter, Echo, Stop, gone
from helpers.calls import raised
from helpers.functions import add, fail, group_of, halt, pid

import actorlib
from actorlib.exceptions import SerializationError, TaskError, TaskUnschedulableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from helpers.actors import Place

    from actorlib import Runtime
    from actorlib._options.runtime_options import RuntimeKeywords

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"num_cpus": 2, "num_gpus": 2, "resources": {"lane": 1}}


@actorlib.remote
def give(value: Any) -> Any:
    return value


# Calls.


async def test_a_call_gives_a_ref_with_the_result() -> None:
    assert await add.remote(1) == 1
    assert await add.remote(1, second=2, scale=3) == 9
    assert await asyncio.gather(*map(add.remote, range(100))) == list(range(100))


async def test_a_call_holds_one_cpu_while_it_runs(runtime: Runtime, stop: Stop) -> None:
    ref = halt.remote(stop.place)
    await stop.reached()
    assert runtime.available_resources()["CPU"] == 1
    stop.release()
    await ref
    assert runtime.available_resources()["CPU"] == 2


async def test_calls_when_they_ask_for_many_different_things_then_all_of_them_run() -> (
    None
):
    # More than there are workers that may be started at once.
    refs = [add.options(memory=1000 + extra).remote(extra) for extra in range(8)]
    assert await asyncio.gather(*refs) == list(range(8))


async def test_options_are_for_that_call(runtime: Runtime, stop: Stop) -> None:
    ref = halt.options(num_cpus=0.5, resources={"lane": 1}).remote(stop.place)
    await stop.reached()
    available = runtime.available_resources()
    assert (available["CPU"], available["lane"]) == (1.5, 0)
    stop.release()
    await ref
    assert runtime.available_resources()["lane"] == 1


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


async def test_call_when_it_asks_for_nothing_then_many_run_at_once(stop: Stop) -> None:
    refs = [halt.options(num_cpus=0).remote(stop.place, n) for n in range(5)]
    for _ in refs:
        await stop.reached()
    for _ in refs:
        stop.release()
    assert await asyncio.gather(*refs) == list(range(5))


async def test_call_when_made_many_times_then_as_many_processes_as_cpus(
    runtime: Runtime,
) -> None:
    await asyncio.gather(*(pid.remote() for _ in range(200)))
    assert len(group_of(runtime).pids) <= 2
    assert await pid.remote() in group_of(runtime).pids


async def test_call_when_given_refs_then_it_waits_for_their_values(stop: Stop) -> None:
    later = halt.remote(stop.place, 5)
    total = add.remote(later, second=add.remote(1))
    await stop.reached()
    stop.release()
    assert await total == 6
    [inside] = await give.remote([later])
    assert await inside == 5


async def test_a_call_that_is_given_a_failed_ref_fails_with_it() -> None:
    error = await raised(add.remote(fail.remote(ValueError("no"))))
    assert isinstance(error, ValueError)


async def test_call_when_an_argument_cannot_be_sent_then_refused_at_once() -> None:
    with pytest.raises(SerializationError, match="argument 1 of give"):
        give.remote(sys._getframe())


async def test_call_when_values_are_large_then_they_arrive() -> None:
    large = np.arange(1_000_000)
    assert (await give.remote(large) == large).all()
    kept = actorlib.put(large)
    assert (await give.remote(kept) == large).all()


async def test_call_when_the_function_raises_then_its_own_class() -> None:
    error = await raised(fail.remote(KeyError("nothing")))
    assert isinstance(error, KeyError)
    assert isinstance(error, TaskError)
    assert error.where.startswith("fail (pid ")


async def test_call_when_it_raises_keyboard_interrupt_then_the_caller_goes_on() -> None:
    error = await raised(fail.remote(KeyboardInterrupt("stop")))
    assert type(error) is TaskError
    assert "KeyboardInterrupt: stop" in str(error)


async def test_call_when_the_result_cannot_be_sent_then_it_says_so() -> None:
    frame = actorlib.remote(lambda: [sys._getframe()])
    error = await raised(frame.remote())
    assert isinstance(error, TypeError)
    assert "cannot be sent" in str(error)


async def test_what_can_never_be_given_is_refused_at_once() -> None:
    error = await raised(add.options(num_cpus=80).remote(1))
    assert type(error) is TaskUnschedulableError
    assert "add asks CPU=80; this machine has CPU=2" in str(error)
    error = await raised(add.options(accelerator_type="H900").remote(1))
    assert type(error) is TaskUnschedulableError


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


async def test_lambdas_and_closures_travel() -> None:
    base = {"a": 1}

    def closed(key: str) -> int:
        return base[key]

    assert await actorlib.remote(lambda x: x * 2).remote(21) == 42
    assert await actorlib.remote(closed).remote("a") == 1


async def test_a_handle_in_a_closure_is_held_and_works() -> None:
    def closed(counter: Any) -> Any:
        return actorlib.remote(lambda: actorlib.get(counter.add.remote(1)))

    counting = closed(Counter.remote())
    assert await counting.remote() == 1
    assert await counting.remote() == 2


async def test_what_cannot_be_sent_is_refused_at_the_call() -> None:
    frame = sys._getframe()
    with pytest.raises(SerializationError, match="the function"):
        actorlib.remote(lambda: frame).remote()


async def test_code_when_it_cannot_be_loaded_then_every_call_says_why() -> None:
    class Odd:
        def __reduce__(self) -> Any:
            return int, ("no number",)

    odd = Odd()
    function = actorlib.remote(lambda: odd)
    assert isinstance(await raised(function.remote()), ValueError)
    assert isinstance(await raised(function.remote()), ValueError)
    assert await add.remote(1) == 1


async def test_code_when_there_are_very_many_then_workers_are_replaced(
    runtime: Runtime,
) -> None:
    functions = [actorlib.remote(lambda n=n: n) for n in range(600)]
    assert await asyncio.gather(*(f.remote() for f in functions)) == list(range(600))
    assert len(group_of(runtime).pids) <= 4


# Devices.


async def test_a_process_that_had_a_device_is_not_used_again() -> None:
    on_gpu = pid.options(num_gpus=1)
    pids = [await on_gpu.remote() for _ in range(3)]
    assert len(set(pids)) == 3
    await asyncio.gather(*map(gone, pids))


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


async def test_max_calls_0_uses_the_process_again() -> None:
    @actorlib.remote(num_gpus=1, max_calls=0)
    def here() -> int:
        return os.getpid()

    pids = {await here.remote() for _ in range(5)}
    assert len(pids) == 1
    # Who wants the device gets it, though the process had nothing to do.
    assert await pid.options(num_gpus=2).remote() not in pids
    await gone(pids.pop())


async def test_max_calls_is_kept_also_without_a_device() -> None:
    @actorlib.remote(max_calls=2)
    def here() -> int:
        return os.getpid()

    pids = [await here.remote() for _ in range(6)]
    assert {pids.count(one) for one in pids} == {2}


async def test_a_call_knows_its_devices() -> None:
    @actorlib.remote
    def look() -> tuple[Any, ...]:
        context = actorlib.get_runtime_context()
        ids = actorlib.get_gpu_ids()
        mask = os.environ.get("CUDA_VISIBLE_DEVICES")
        return context.actor_id, ids, mask, context.get_assigned_resources()

    assert await look.options(num_gpus=2).remote() == (
        None,
        [0, 1],
        "0,1",
        {"GPU": 2},
    )
    assert await look.remote() == (None, [], "", {"CPU": 1})


async def test_gpu_calls_when_more_than_there_are_cpus_then_all_run_at_once(
    runtime: Runtime, stop: Stop
) -> None:
    trial = halt.options(num_gpus=0.5)
    refs = [trial.remote(stop.place, number) for number in range(4)]
    for _ in refs:
        await stop.reached()
    available = runtime.available_resources()
    assert (available["CPU"], available["GPU"]) == (2, 0)
    for _ in refs:
        stop.release()
    assert await asyncio.gather(*refs) == [0, 1, 2, 3]


async def test_functions_and_actors_share_no_whole_device() -> None:
    echo = Echo.options(num_gpus=1).remote()
    await echo
    get_ids = actorlib.remote(num_gpus=1)(actorlib.get_gpu_ids)
    assert await asyncio.gather(*(get_ids.remote() for _ in range(3))) == [[1]] * 3
    del echo


# Processes of their own kind.


async def test_functions_with_other_variables_run_elsewhere() -> None:
    here = actorlib.remote(lambda: (os.getpid(), os.environ.get("COLOUR")))
    pid_red, red = await here.options(
        runtime_env={"env_vars": {"COLOUR": "red"}}
    ).remote()
    pid_none, none = await here.remote()
    assert (red, none) == ("red", None)
    assert pid_red != pid_none


async def test_what_a_function_calls_inherits_its_variables() -> None:
    here = actorlib.remote(lambda: os.environ.get("COLOUR"))
    outer = actorlib.remote(lambda: actorlib.get(here.remote()))
    red = {"env_vars": {"COLOUR": "red"}}
    assert await outer.options(runtime_env=red).remote() == "red"


async def test_a_missing_directory_is_refused_at_the_call() -> None:
    lost = add.options(runtime_env={"working_dir": "/nowhere/at/all"})
    with pytest.raises(NotADirectoryError):
        lost.remote(1)
