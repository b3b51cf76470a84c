"""Remote functions in real processes: calls, their order, their ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import pytest_asyncio
from helpers.actors import (
    AsyncCaller,
    Caller,
    Counter,
    Echo,
    Gate,
    Stop,
    gone,
    living,
    shared,
)

import actorlib
from actorlib._local.ahead import MOST
from actorlib.exceptions import (
    SerializationError,
    TaskCancelledError,
    TaskError,
    TaskUnschedulableError,
    WorkerCrashedError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from helpers.actors import Place

    from actorlib import ActorHandle, ObjectRef, Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("on_both_loops", "runtime"),
]

NAMED = "before"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lend() -> AsyncIterator[Lend]:
    async with shared(num_cpus=2, num_gpus=2, resources={"lane": 1}) as lend:
        yield lend


@pytest_asyncio.fixture(loop_scope="module")
async def runtime(lend: Lend) -> AsyncIterator[Runtime]:
    async with lend() as runtime:
        yield runtime
    # The processes of its functions are gone by now, and so is what they held.
    assert runtime.available_resources()["CPU"] == 2
    assert runtime.snapshot().waiting == ()


@pytest.fixture
def stop() -> Iterator[Stop]:
    with Stop() as stop:
        yield stop


@actorlib.remote
def add(first: int, second: int = 0, *, scale: int = 1) -> int:
    return (first + second) * scale


@actorlib.remote
def pid() -> int:
    return os.getpid()


@actorlib.remote
def halt(place: Place, value: Any = None) -> Any:
    place.stop_here()
    return value


@actorlib.remote
def give(value: Any) -> Any:
    return value


@actorlib.remote
def fail(error: BaseException) -> None:
    raise error


@actorlib.remote
def fibonacci(number: int) -> int:
    if number < 2:
        return number
    ref = fibonacci.remote(number - 1)
    return fibonacci_here(number - 2) + actorlib.get(ref)


def fibonacci_here(number: int) -> int:
    ref = fibonacci.remote(number)
    return actorlib.get(ref)


def mark(path: Path) -> int:
    """Counts how often it was called with that path."""
    with path.open("a") as file:
        file.write("x")
    return len(path.read_text())


@actorlib.remote
def die(path: Path, times: int) -> int:
    count = mark(path)
    if count <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return count


async def raised(ref: Any) -> Any:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the test looks closer
        await ref
    return caught.value


def crew(runtime: Runtime, resources: str = "CPU=1") -> Any:
    return next(c for c in runtime.snapshot().crews if c.resources == resources)


# Calls.


async def test_tsk_001_a_call_gives_a_ref_with_the_result() -> None:
    assert await add.remote(1) == 1
    assert await add.remote(1, second=2, scale=3) == 9
    assert await asyncio.gather(*map(add.remote, range(100))) == list(range(100))


async def test_tsk_001_a_call_holds_one_cpu_while_it_runs(
    runtime: Runtime, stop: Stop
) -> None:
    ref = halt.remote(stop.place)
    await stop.reached()
    assert runtime.available_resources()["CPU"] == 1
    stop.release()
    await ref
    assert runtime.available_resources()["CPU"] == 2


async def test_tsk_001_options_are_for_that_call(runtime: Runtime, stop: Stop) -> None:
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
    assert crew(runtime).waiting == 1
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
    assert len(crew(runtime).pids) <= 2
    assert await pid.remote() in crew(runtime).pids


async def test_call_when_given_refs_then_it_waits_for_their_values(stop: Stop) -> None:
    later = halt.remote(stop.place, 5)
    total = add.remote(later, second=add.remote(1))
    await stop.reached()
    stop.release()
    assert await total == 6
    [inside] = await give.remote([later])
    assert await inside == 5


async def test_can_014_a_call_that_is_given_a_failed_ref_fails_with_it() -> None:
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
    assert error.where.startswith("fail (pid=")


async def test_call_when_it_raises_keyboard_interrupt_then_the_caller_goes_on() -> None:
    error = await raised(fail.remote(KeyboardInterrupt("stop")))
    assert type(error) is TaskError
    assert "KeyboardInterrupt: stop" in str(error)


async def test_call_when_the_result_cannot_be_sent_then_it_says_so() -> None:
    frame = actorlib.remote(lambda: sys._getframe())
    error = await raised(frame.remote())
    assert isinstance(error, TypeError)
    assert "cannot be sent" in str(error)


async def test_opt_001_what_can_never_be_given_is_refused_at_once() -> None:
    error = await raised(add.options(num_cpus=80).remote(1))
    assert type(error) is TaskUnschedulableError
    assert "add asks CPU=80; this machine has CPU=2" in str(error)
    error = await raised(add.options(accelerator_type="H900").remote(1))
    assert type(error) is TaskUnschedulableError


# Code by value.


async def test_tsk_003_names_are_seen_that_are_defined_before_the_first_call() -> None:
    scope: dict[str, Any] = {"__name__": "__main__", "actorlib": actorlib}
    exec("def f():\n    return later()\nf = actorlib.remote(f)", scope)  # noqa: S102  # as at a prompt
    exec("def later():\n    return 'defined after'", scope)  # noqa: S102  # likewise
    assert await scope["f"].remote() == "defined after"


async def test_tsk_003_a_redefinition_is_for_later_calls_only(stop: Stop) -> None:
    def version() -> int:
        stop_at.stop_here()
        return 1

    stop_at = stop.place
    first = actorlib.remote(version)
    refs = [first.remote(), first.remote()]

    def version() -> int:  # type: ignore[no-redef]  # noqa: F811  # that is the point
        return 2

    second = actorlib.remote(version)
    await stop.reached()
    await stop.reached()
    later = second.remote()
    stop.release()
    stop.release()
    assert await asyncio.gather(*refs, later) == [1, 1, 2]


async def test_ser_003_lambdas_and_closures_travel() -> None:
    base = {"a": 1}

    def closed(key: str) -> int:
        return base[key]

    assert await actorlib.remote(lambda x: x * 2).remote(21) == 42
    assert await actorlib.remote(closed).remote("a") == 1


async def test_ser_003_a_handle_in_a_closure_is_held_and_works() -> None:
    def closed(counter: Any) -> Any:
        return actorlib.remote(lambda: actorlib.get(counter.add.remote(1)))

    counting = closed(Counter.remote())
    assert await counting.remote() == 1
    assert await counting.remote() == 2


async def test_ser_003_what_cannot_be_sent_is_refused_at_the_call() -> None:
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
    assert len(crew(runtime).pids) <= 4


# Devices.


async def test_tsk_004_a_process_that_had_a_device_is_not_used_again(
    runtime: Runtime,
) -> None:
    on_gpu = pid.options(num_gpus=1)
    pids = [await on_gpu.remote() for _ in range(3)]
    assert len(set(pids)) == 3
    await asyncio.gather(*map(gone, pids))


async def test_tsk_004_the_device_is_free_when_the_process_is_gone(
    runtime: Runtime, stop: Stop
) -> None:
    @actorlib.remote(num_gpus=2)
    def linger(place: Place) -> int:
        import atexit

        atexit.register(place.stop_here)
        return os.getpid()

    first = await linger.remote(stop.place)
    await stop.reached()
    assert runtime.available_resources()["GPU"] == 0
    second = pid.options(num_gpus=0.5).remote()
    stop.release()
    await gone(first)
    assert await second != first


async def test_tsk_004_max_calls_0_uses_the_process_again() -> None:
    @actorlib.remote(num_gpus=1, max_calls=0)
    def here() -> int:
        return os.getpid()

    pids = {await here.remote() for _ in range(5)}
    assert len(pids) == 1
    # Who wants the device gets it, though the process had nothing to do.
    assert await pid.options(num_gpus=2).remote() not in pids
    await gone(pids.pop())


async def test_tsk_004_max_calls_is_kept_also_without_a_device() -> None:
    @actorlib.remote(max_calls=2)
    def here() -> int:
        return os.getpid()

    pids = [await here.remote() for _ in range(6)]
    assert {pids.count(one) for one in pids} == {2}


async def test_gpu_001_a_call_knows_its_devices() -> None:
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
        {"CPU": 1, "GPU": 2},
    )
    assert await look.remote() == (None, [], "", {"CPU": 1})


async def test_res_014_functions_and_actors_share_no_whole_device() -> None:
    echo = Echo.options(num_gpus=1).remote()
    await echo
    get_ids = actorlib.remote(num_gpus=1)(actorlib.get_gpu_ids)
    assert await asyncio.gather(*(get_ids.remote() for _ in range(3))) == [[1]] * 3
    del echo


# Processes of their own kind.


async def test_env_001_functions_with_other_variables_run_elsewhere() -> None:
    here = actorlib.remote(lambda: (os.getpid(), os.environ.get("COLOUR")))
    pid_red, red = await here.options(
        runtime_env={"env_vars": {"COLOUR": "red"}}
    ).remote()
    pid_none, none = await here.remote()
    assert (red, none) == ("red", None)
    assert pid_red != pid_none


async def test_env_001_what_a_function_calls_inherits_its_variables() -> None:
    here = actorlib.remote(lambda: os.environ.get("COLOUR"))
    outer = actorlib.remote(lambda: actorlib.get(here.remote()))
    red = {"env_vars": {"COLOUR": "red"}}
    assert await outer.options(runtime_env=red).remote() == "red"


async def test_env_001_a_missing_directory_is_refused_at_the_call() -> None:
    lost = add.options(runtime_env={"working_dir": "/nowhere/at/all"})
    with pytest.raises(NotADirectoryError):
        lost.remote(1)


# Deaths and retries.


async def test_ret_012_a_call_whose_process_died_is_made_again(tmp_path: Path) -> None:
    assert await die.remote(tmp_path / "count", 3) == 4


async def test_ret_012_after_max_retries_it_says_how_the_process_ended(
    tmp_path: Path,
) -> None:
    error = await raised(die.options(max_retries=1).remote(tmp_path / "count", 9))
    assert type(error) is WorkerCrashedError
    assert error.exit.signal == signal.SIGKILL
    assert "die ended 2 times (max_retries=1)" in str(error)
    assert len((tmp_path / "count").read_text()) == 2


async def test_ret_012_without_retries_it_runs_once(tmp_path: Path) -> None:
    error = await raised(die.options(max_retries=0).remote(tmp_path / "count", 9))
    assert type(error) is WorkerCrashedError
    assert len((tmp_path / "count").read_text()) == 1


async def test_ret_012_for_ever_means_until_it_succeeds(tmp_path: Path) -> None:
    assert await die.options(max_retries=-1).remote(tmp_path / "count", 6) == 7


async def test_ret_012_exceptions_are_retried_if_asked(tmp_path: Path) -> None:
    @actorlib.remote(max_retries=2, retry_exceptions=[KeyError])
    def unlucky(path: Path, error: Exception) -> int:
        count = mark(path)
        if count < 3:
            raise error
        return count

    assert await unlucky.remote(tmp_path / "key", KeyError()) == 3
    assert isinstance(
        await raised(unlucky.remote(tmp_path / "v", ValueError())), ValueError
    )
    assert len((tmp_path / "v").read_text()) == 1
    every = unlucky.options(retry_exceptions=True, max_retries=1)
    assert isinstance(
        await raised(every.remote(tmp_path / "w", ValueError())), ValueError
    )
    assert len((tmp_path / "w").read_text()) == 2


async def test_ret_012_calls_behind_the_one_that_died_are_not_charged(
    tmp_path: Path,
) -> None:
    for _ in range(3):  # known to be quick, so that many are sent ahead
        await asyncio.gather(*(mark_once.remote(None) for _ in range(MOST)))
    quick = mark_once.options(max_retries=1)
    refs = [quick.remote(None) for _ in range(50)]
    refs.append(quick.remote(tmp_path))
    refs += [quick.remote(None) for _ in range(200)]
    answers = await asyncio.gather(*refs, return_exceptions=True)
    assert isinstance(answers.pop(50), WorkerCrashedError)
    assert set(answers) == {0}


@actorlib.remote
def mark_once(path: Path | None) -> int:
    if path is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return 0


async def test_ret_012_sys_exit_ends_the_process_and_is_told() -> None:
    leave = actorlib.remote(max_retries=0)(lambda: sys.exit(3))
    error = await raised(leave.remote())
    assert (type(error), error.exit.code) == (WorkerCrashedError, 3)


async def test_process_when_killed_while_idle_then_the_next_call_gets_another() -> None:
    first = await pid.remote()
    os.kill(first, signal.SIGKILL)
    await gone(first)
    assert await pid.remote() != first


async def test_lif_012_exit_actor_is_refused_in_a_function() -> None:
    error = await raised(actorlib.remote(actorlib.exit_actor).remote())
    assert isinstance(error, TypeError)


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


async def test_act_016_actors_call_functions(stop: Stop) -> None:
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


# Cancelling.


async def test_can_001_a_call_that_waits_never_runs(tmp_path: Path, stop: Stop) -> None:
    both = [halt.remote(stop.place) for _ in range(2)]
    await stop.reached()
    await stop.reached()
    ref = die.options(max_retries=0).remote(tmp_path / "count", 0)
    actorlib.cancel(ref)
    assert type(await raised(ref)) is TaskCancelledError
    stop.release()
    stop.release()
    await asyncio.gather(*both)
    await add.remote(1)
    assert not (tmp_path / "count").exists()


async def test_can_001_a_call_that_waits_for_its_arguments_never_runs(
    tmp_path: Path, stop: Stop
) -> None:
    first = halt.remote(stop.place, 0)
    ref = die.remote(tmp_path / "count", first)
    await stop.reached()
    actorlib.cancel(ref)
    stop.release()
    await first
    await add.remote(1)
    assert not (tmp_path / "count").exists()


async def test_can_013_a_running_function_gets_keyboard_interrupt(
    tmp_path: Path, stop: Stop
) -> None:
    @actorlib.remote
    def careful(place: Place, path: Path) -> None:
        try:
            place.stop_here()
        except KeyboardInterrupt:
            path.write_text(str(os.getpid()))
            raise

    ref = careful.remote(stop.place, tmp_path / "told")
    await stop.reached()
    actorlib.cancel(ref)
    assert type(await raised(ref)) is TaskCancelledError
    # Both CPUs are free again, and the process is used again.
    assert await pid.options(num_cpus=2).remote()
    assert int((tmp_path / "told").read_text()) in {
        await pid.remote() for _ in range(4)
    }


async def test_can_013_a_function_that_waits_for_another_is_interrupted(
    tmp_path: Path, stop: Stop
) -> None:
    @actorlib.remote
    def careful(place: Place, path: Path) -> None:
        try:
            actorlib.get(halt.remote(place))
        finally:
            path.write_text("left")

    ref = careful.remote(stop.place, tmp_path / "told")
    await stop.reached()
    actorlib.cancel(ref)
    assert type(await raised(ref)) is TaskCancelledError
    stop.release()
    assert await pid.options(num_cpus=2).remote()
    assert (tmp_path / "told").read_text() == "left"


async def test_can_013_only_that_very_call_is_interrupted() -> None:
    @actorlib.remote
    def busy() -> int:
        total = 0
        for number in range(20_000):
            total += number
        return total

    for _ in range(30):
        refs = [busy.remote() for _ in range(20)]
        await refs[0]
        for ref in refs[1::2]:
            actorlib.cancel(ref)
        kept = await asyncio.gather(*refs[::2])
        assert set(kept) == {199990000}


async def test_can_013_force_ends_the_process_and_nobody_else_suffers(
    stop: Stop,
) -> None:
    ref = halt.remote(stop.place)
    await stop.reached()
    actorlib.cancel(ref, force=True)
    assert type(await raised(ref)) is TaskCancelledError
    assert await pid.options(num_cpus=2).remote()


async def test_can_007_force_is_refused_for_a_call_of_an_actor() -> None:
    echo = Echo.remote()
    ref = echo.echo.remote(1)
    with pytest.raises(ValueError, match="force=True"):
        actorlib.cancel(ref, force=True)
    assert await ref == 1


async def test_can_010_an_actor_cancels_what_it_called(stop: Stop) -> None:
    @actorlib.remote
    class Impatient:
        def start(self, place: Place) -> None:
            self.ref = halt.remote(place)

        def give_up(self, force: bool) -> str:  # noqa: FBT001  # it travels
            actorlib.cancel(self.ref, force=force)
            try:
                actorlib.get(self.ref)
            except TaskCancelledError:
                return "cancelled"
            return "not"

    actor = Impatient.remote()
    for force in (False, True):
        await actor.start.remote(stop.place)
        await stop.reached()
        assert await actor.give_up.remote(force) == "cancelled"
    assert await pid.options(num_cpus=2).remote()


async def test_can_011_very_many_are_cancelled_at_once(stop: Stop) -> None:
    both = [halt.remote(stop.place) for _ in range(2)]
    await stop.reached()
    await stop.reached()
    refs = [add.remote(number) for number in range(2_500)]
    for ref in refs:
        actorlib.cancel(ref)
    assert all(ref.cancelled() for ref in refs)
    stop.release()
    stop.release()
    await asyncio.gather(*both)
    assert await add.remote(1) == 1


async def test_can_006_a_finished_call_keeps_its_value() -> None:
    ref = add.remote(1)
    await ref
    actorlib.cancel(ref)
    actorlib.cancel(ref, force=True)
    assert await ref == 1


async def test_call_when_nobody_can_ask_any_more_then_it_is_cancelled(
    stop: Stop,
) -> None:
    waiting = asyncio.ensure_future(wait_for(halt.remote(stop.place)))
    await stop.reached()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    del waiting
    assert await pid.options(num_cpus=2).remote()


async def wait_for(ref: Any) -> Any:
    return await ref
