"""What is true of actors in their owner's process alone.

``tests/contract`` has what they have in common with others.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import gc
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import pytest_asyncio
from helpers.actors import AsyncCaller, Caller, Counter, Echo, Stop, running
from helpers.calls import raised
from helpers.program_runner import printed_by

import actorlib
from actorlib._core.engine import (
    current_engine,
    find_engine,
    set_engine,
    use_own_engine,
)
from actorlib._worker.executors.actor_loop import ActorLoop
from actorlib._worker.startup import ExecutorThreads
from actorlib.exceptions import ActorDiedError, ActorlibError, UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from helpers.actors import Place

    from actorlib import Runtime

CALLERS = pytest.mark.parametrize(
    "caller", [Caller, AsyncCaller], ids=["sync", "async"]
)
ROOT = Path(actorlib.__file__).parents[1]

seen: list[object] = []


@pytest_asyncio.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with running(engine="inline", num_gpus=1, grace=0.2) as runtime:
        yield runtime


def note(value: object) -> int:
    seen.append(value)
    return os.getpid()


def join_threads_but(known: set[threading.Thread]) -> None:
    """Waits for the actors' threads; those of the loop's executor stay."""
    for thread in set(threading.enumerate()) - known:
        if "asyncio" not in thread.name:
            thread.join()


def thread_name() -> str:
    return threading.current_thread().name


# Which engine.


async def test_engine_when_named_or_by_the_variable_then_the_name_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    init: Any = actorlib.init
    known = "takes one of 'local', 'inline', 'ray'"
    with pytest.raises(ValueError, match=f"engine {known}"):
        init(engine="spark")
    with pytest.raises(TypeError, match="engine"):
        init(engine=1)
    monkeypatch.setenv("ACTORLIB_ENGINE", "spark")
    with pytest.raises(ValueError, match="ACTORLIB_ENGINE takes one of 'local'"):
        init()
    async with running(engine="inline"):
        assert await Echo.remote().pid.remote() == os.getpid()
    monkeypatch.setenv("ACTORLIB_ENGINE", "inline")
    async with running():
        assert await Echo.remote().pid.remote() == os.getpid()


@pytest.mark.process
async def test_engine_when_local_is_named_then_the_variable_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACTORLIB_ENGINE", "inline")
    async with running(engine="local"):
        assert await Echo.remote().pid.remote() != os.getpid()


# One process.


@CALLERS
async def test_actor_when_it_runs_then_in_this_process_with_its_modules_and_debugger(
    runtime: Runtime, caller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []

    def stop_here() -> None:
        frame = sys._getframe(1)
        stopped.append(f"{frame.f_code.co_name} {frame.f_locals}")

    monkeypatch.setattr(sys, "breakpointhook", stop_here)
    monkeypatch.setattr(sys.modules[__name__], "answer", lambda: "replaced")
    actor = caller.remote()
    seen.clear()

    assert await actor.run.remote(note, "noted") == os.getpid()
    assert seen == ["noted"]
    assert [info.pid for info in actorlib.list_actors()] == [os.getpid()]
    assert runtime.snapshot().actors[0].mask is None
    name = await actor.run.remote(thread_name)
    assert name.startswith(("Caller #", "AsyncCaller #"))
    assert await actor.run.remote(ask) == "replaced"
    await actor.run.remote(stops, 7)
    assert stopped == ["stops {'number': 7}"]


def answer() -> str:
    return "real"


def ask() -> str:
    return answer()


def stops(number: int) -> None:
    breakpoint()
    del number


PROGRAM = """
import actorlib

class Base:
    def plain(self, number):
        breakpoint()
        return number

Plain = actorlib.remote(type("Plain", (Base,), {}))

@actorlib.remote
class Mixed(Base):
    async def later(self, number):
        breakpoint()
        return number

async def main():
    async with actorlib.init(engine="inline"):
        print(await Plain.remote().plain.remote(1))
        print(await Mixed.remote().plain.remote(2))
        print(await Mixed.remote().later.remote(3))

actorlib.run(main())
"""


@pytest.mark.process
@pytest.mark.thorough
def test_debugger_when_it_stops_in_methods_then_it_can_be_spoken_to(
    tmp_path: Path,
) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)

    done = subprocess.run(
        [sys.executable, str(script)],
        input="number += 40\nc\n" * 3,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert re.findall(r"\(Pdb\) (\d+)$", done.stdout, re.MULTILINE) == [
        "41",
        "42",
        "43",
    ]


# What one process cannot have.


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    "env", [{"env_vars": {"A": "1"}}, {"working_dir": "."}], ids=["env_vars", "dir"]
)
async def test_runtime_env_when_asked_for_then_it_is_refused_where_it_is_written(
    env: Any,
) -> None:
    made = Echo.options(runtime_env=env)
    function = forty_two.options(runtime_env=env)
    for begin in (made.remote, function.remote):
        with pytest.raises(UnsupportedOptionError, match="local engine") as caught:
            begin()
        assert next(iter(env)) in str(caught.value)
        assert isinstance(caught.value, ActorlibError)
        assert isinstance(caught.value, ValueError)

    for ref in (
        Caller.remote().make.remote(made),
        AsyncCaller.remote().make.remote(made),
        Caller.remote().run.remote(lambda: function.remote().get()),
    ):
        assert isinstance(await raised(ref), UnsupportedOptionError)
    # One that says nothing is accepted.
    assert await Echo.options(runtime_env={"env_vars": {}}).remote().echo.remote(1)


async def test_environment_when_an_actor_has_devices_then_it_stays_as_it_was(
    runtime: Runtime,
) -> None:
    before = dict(os.environ)
    caller = Caller.options(num_gpus=1, num_cpus=1).remote()

    assert await caller.run.remote(actorlib.get_gpu_ids) == [0]
    assert dict(os.environ) == before
    assert runtime.available_resources()["GPU"] == 0


class Endless:
    def numbers(self) -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    def ping(self) -> None: ...


@pytest.mark.parametrize("threads", [1, 2], ids=["serial", "threaded"])
async def test_kill_when_a_stream_runs_that_nobody_reads_then_its_thread_ends(
    threads: int,
) -> None:
    known = {*threading.enumerate()}
    async with actorlib.init(engine="inline", num_cpus=1):
        actor = actorlib.remote(max_concurrency=threads)(Endless).remote()
        numbers = actor.numbers.options(detach=True).remote()
        await anext(numbers)
        del numbers
        await actor.ping.remote()  # it knows by now that nobody reads

        await actorlib.kill(actor)
    join_threads_but(known)


@pytest.mark.parametrize("threads", [1, 2], ids=["serial", "threaded"])
async def test_kill_when_a_method_does_not_return_then_it_is_left_behind_and_told(
    threads: int, stop: Stop, caplog: pytest.LogCaptureFixture
) -> None:
    known = set(threading.enumerate())
    async with running(engine="inline", grace=0.01, num_cpus=1) as runtime:
        options: Any = {"num_cpus": 1, "max_concurrency": threads}
        caller = Caller.options(**options).remote()
        refs = [caller.run.remote(stop.place.stop_here) for _ in range(threads)]
        refs += [caller.run.remote(note, "never") for _ in range(3)]
        for _ in range(threads):
            await stop.reached()
        seen.clear()
        await actorlib.kill(caller)
        for ref in refs:
            assert isinstance(await raised(ref), ActorDiedError)
        assert runtime.available_resources()["CPU"] == 1
    assert "a thread cannot be killed" in caplog.text
    assert "Caller #1" in caplog.text

    for _ in range(threads):
        stop.release()
    join_threads_but(known)
    assert seen == []  # no other method has begun


@pytest.mark.thorough
async def test_kill_when_the_process_pauses_meanwhile_then_the_thread_has_time_to_end(
    stop: Stop,
    caplog: pytest.LogCaptureFixture,
) -> None:
    grace = 2.0  # half of it has to be enough for 50 threads on a busy machine
    async with running(engine="inline", grace=grace):
        caller = Caller.options(max_concurrency=50).remote()
        refs = [caller.run.remote(stop.place.stop_here) for _ in range(50)]
        for _ in refs:
            await stop.reached()
        for _ in refs:
            stop.release()
        await asyncio.gather(*refs)
        death = actorlib.kill(caller)
        # It keeps the lock of the interpreter, so no other thread runs.
        ctypes.PyDLL(None).usleep(int(1.5 * grace * 1e6))
        await death
    assert "left behind" not in caplog.text


def test_actors_when_made_then_their_threads_import_no_executor() -> None:
    assert printed_by(_IMPORTS_IN_THREADS) == "done"


_IMPORTS_IN_THREADS = """
import asyncio, sys, threading
import actorlib

main_thread = threading.current_thread()

class Recorder:
    def find_spec(self, name, path=None, target=None):
        if "executor" in name and threading.current_thread() is not main_thread:
            print(name)

sys.meta_path.insert(0, Recorder())

class Plain:
    def get(self, value):
        return value

class Async:
    async def get(self, value):
        return value

def at_once(value):
    return value

async def later(value):
    return value

async def main():
    async with actorlib.init(engine="inline", num_cpus=8):
        for cls in (Plain, Async):
            for options in {}, {"max_concurrency": 2}:
                await actorlib.remote(cls).options(**options).remote().get.remote(1)
        await actorlib.remote(at_once).remote(1)
        await actorlib.remote(later).remote(1)
    print("done")

asyncio.run(main())
"""


@actorlib.remote
def fail_at(place: Place) -> None:
    place.stop_here()
    raise BrokenPipeError("the owner is gone")


async def test_call_when_it_fails_as_the_runtime_ends_then_asyncio_does_not_log_it(
    stop: Stop, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(engine="inline", num_cpus=1):
        engine: Any = find_engine()
        ref = fail_at.options(max_retries=0).remote(stop.place)
        await stop.reached()
        engine.actor_table.pool.close("the runtime was shut down")
        stop.release()
        await asyncio.wait([ref])
        del ref
        gc.collect()
    assert "never retrieved" not in caplog.text


async def test_actor_when_left_behind_then_it_does_not_wait_for_others(
    stop: Stop, caplog: pytest.LogCaptureFixture
) -> None:
    known = set(threading.enumerate())
    for asks in (Asker, AsyncAsker):
        async with running(engine="inline", grace=0.01):
            ref = asks.remote().stop_and_ask.remote(stop.place, Echo.remote())
            await stop.reached()
        assert isinstance(await raised(ref), ActorDiedError)
        stop.release()
    assert caplog.text.count("left behind") == 2
    join_threads_but(known)


@actorlib.remote
class Asker:
    """Asks another after it has stopped."""

    def stop_and_ask(self, place: Any, echo: Any) -> Any:
        place.stop_here()
        return actorlib.get(echo.echo.remote(1))


@actorlib.remote
class AsyncAsker(Asker.__wrapped__):  # type: ignore[misc]  # the plain class
    """The same on a loop."""

    async def nothing(self) -> None:
        """Makes it have one."""


async def test_kill_when_a_plain_method_blocks_its_loop_then_no_other_begins(
    stop: Stop, caplog: pytest.LogCaptureFixture
) -> None:
    known = set(threading.enumerate())
    async with running(engine="inline", grace=0.01):
        mixed = Mixed.remote()
        refs = [mixed.later.remote()]
        await mixed.answer.remote()
        refs += [mixed.stop.remote(stop.place), mixed.plain.remote("never")]
        await stop.reached()
        seen.clear()
        await actorlib.kill(mixed)
        for ref in refs:
            assert isinstance(await raised(ref), ActorDiedError)
    assert "left behind" in caplog.text

    stop.release()
    join_threads_but(known)
    assert seen == ["given up"]


@actorlib.remote
class Mixed:
    """Plain methods beside a coroutine that never ends by itself."""

    def stop(self, place: Any) -> None:
        place.stop_here()

    def plain(self, value: object) -> None:
        seen.append(value)

    async def later(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            seen.append("given up")

    async def answer(self) -> None:
        """Answers when what was called before has begun."""

    async def begin(self) -> None:
        self._task = asyncio.create_task(self.later())
        await asyncio.sleep(0)

    async def stream(self) -> None:
        self._stream = _numbers()
        await anext(self._stream)


async def _numbers() -> Any:
    try:
        yield 1
    finally:
        seen.append("closed")


@pytest.mark.usefixtures("runtime")
async def test_actor_when_it_ends_then_it_is_gone_with_what_is_on_its_loop() -> None:
    async with Mixed.remote() as mixed:
        await mixed.begin.remote()
        await mixed.stream.remote()
        seen.clear()
    assert sorted(map(str, seen)) == ["closed", "given up"]

    seen.clear()
    for kind in (Leaver, AsyncLeaver):
        async with kind.remote() as leaver:
            await leaver.ping.remote()
    gc.collect()
    assert seen == ["gone", "gone"]


class _Leaver:
    def __del__(self) -> None:
        seen.append("gone")

    def ping(self) -> None: ...


Leaver = actorlib.remote(type("Leaver", (_Leaver,), {"__module__": __name__}))


@actorlib.remote
class AsyncLeaver(_Leaver):
    async def ping(self) -> None: ...  # type: ignore[override]


@pytest.mark.usefixtures("runtime")
async def test_error_of_a_method_when_it_ends_the_actor_then_the_program_goes_on(
    capfd: pytest.CaptureFixture[str],
) -> None:
    error = await raised(Caller.remote().run.remote(leave))

    assert isinstance(error, ActorDiedError)
    assert (error.exit.cause, error.exit.code) == ("exited", 1)
    assert error.exit.reason == "its own code ended its thread"
    assert "it is over" in capfd.readouterr().err
    assert await Counter.remote().add.remote() == 1


def leave() -> None:
    sys.exit("it is over")


@pytest.mark.usefixtures("runtime")
async def test_thread_when_given_the_context_then_it_is_the_actor_s() -> None:
    own, copied, empty = await Caller.remote().run.remote(actor_id_in_a_thread)

    assert own == copied
    assert empty is None


def actor_id_in_a_thread() -> list[Any]:
    def ask() -> None:
        found.append(actorlib.get_runtime_context().get_actor_id())

    found = [actorlib.get_runtime_context().get_actor_id()]
    run = contextvars.copy_context().run
    for thread in (
        threading.Thread(target=run, args=(ask,)),
        threading.Thread(target=contextvars.Context().run, args=(ask,)),
    ):
        thread.start()
        thread.join()
    return found


# The slot and the threads.


def test_slot_when_taken_then_the_process_keeps_its_own() -> None:
    engine: Any = object()
    found: list[object] = []

    def inside() -> None:
        use_own_engine()
        found.append(find_engine())
        set_engine(engine)
        found.append(current_engine())

    contextvars.copy_context().run(inside)

    assert found == [None, engine]
    assert find_engine() is None


def test_slot_when_the_process_is_forked_then_its_engine_is_told() -> None:
    class Forsaken:
        def close_in_fork(self) -> None:
            os.write(writing, b"forsaken")

    def inside() -> int:
        use_own_engine()
        set_engine(cast("Any", Forsaken()))
        pid = os.fork()
        if not pid:
            os._exit(0 if find_engine() is None else 1)
        return pid

    reading, writing = os.pipe()
    try:
        pid = contextvars.copy_context().run(inside)
        assert os.waitpid(pid, 0)[1] == 0
        assert os.read(reading, 20) == b"forsaken"
    finally:
        os.close(reading)
        os.close(writing)


def test_threads_when_it_starts_a_thread_then_with_the_context_of_who_starts_it() -> (
    None
):
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(5)
    found: list[object] = []
    threads = ExecutorThreads()
    thread = threads.start("named", lambda: found.append(variable.get()))
    threads.join()

    assert found == [5]
    assert (thread.name, thread.daemon) == ("named", True)


@actorlib.remote
def forty_two() -> int:
    return 42


@actorlib.remote
def stops_and_looks(place: Place) -> None:
    place.stop_here()
    seen.append(actorlib.get_runtime_context().is_canceled())


class Asking:
    def ask(self) -> int:
        return actorlib.get(forty_two.remote())


@pytest.mark.usefixtures("runtime")
async def test_function_when_called_then_it_runs_in_this_process() -> None:
    seen.clear()
    assert await actorlib.remote(note).remote("here") == os.getpid()
    assert seen == ["here"]
    assert await actorlib.remote(Asking).remote().ask.remote() == 42
    assert (await actorlib.remote(thread_name).remote()).startswith("function #")


@pytest.mark.usefixtures("runtime")
async def test_rank_when_its_variables_would_be_everybodys_then_it_is_refused() -> None:
    group = actorlib.placement_group([{"CPU": 0.1}, {"CPU": 0.1}])
    function = actorlib.remote(num_cpus=0.1)(abs_of)
    with pytest.raises(UnsupportedOptionError, match="use the local engine"):
        group.map(function.options(torch=True), [3, -4])

    assert await group.map(function, [3, -4]) == [3, 4]

    await actorlib.remove_placement_group(group)


def abs_of(number: int) -> int:
    return abs(number)


async def test_function_when_cancelled_then_its_thread_goes_on_until_it_looks(
    runtime: Runtime, stop: Stop
) -> None:
    seen.clear()
    ref = stops_and_looks.remote(stop.place)
    await stop.reached()
    ref.cancel()
    stop.release()
    every = runtime.cluster_resources()["CPU"]  # so it begins when the other has ended
    await forty_two.options(num_cpus=every).remote()
    assert seen == [True]


async def test_function_when_stopped_by_force_then_it_is_left_behind_and_told(
    stop: Stop, caplog: pytest.LogCaptureFixture
) -> None:
    known = set(threading.enumerate())
    async with running(engine="inline", grace=0.01, num_cpus=1):
        ref = stops_and_looks.remote(stop.place)
        await stop.reached()
        ref.cancel(force=True)
        assert await forty_two.remote() == 42
    assert "a thread cannot be killed" in caplog.text

    stop.release()
    join_threads_but(known)


@pytest.mark.usefixtures("runtime")
async def test_group_when_called_before_the_main_loop_runs_then_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @actorlib.remote(concurrency_groups={"health": 1})
    class Grouped:
        async def work(self) -> None: ...

        @actorlib.method(concurrency_group="health")
        def check(self) -> str:
            return "well"

    answered, run = threading.Event(), ActorLoop.run

    def late(actor_loop: ActorLoop) -> None:
        answered.wait()
        run(actor_loop)

    monkeypatch.setattr(ActorLoop, "run", late)
    try:
        assert await Grouped.remote().check.remote() == "well"
    finally:
        answered.set()


@pytest.mark.usefixtures("runtime")
async def test_group_when_it_ends_the_actor_before_the_main_loop_runs_then_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @actorlib.remote(concurrency_groups={"health": 1})
    class Grouped:
        @actorlib.method(concurrency_group="health")
        async def leave(self) -> None:
            sys.exit(3)

    ended, run, end = threading.Event(), ActorLoop.run, ActorLoop.end

    def late(actor_loop: ActorLoop) -> None:
        ended.wait()
        run(actor_loop)

    def end_and_say(actor_loop: ActorLoop, error: BaseException | None) -> None:
        end(actor_loop, error)
        ended.set()

    monkeypatch.setattr(ActorLoop, "run", late)
    monkeypatch.setattr(ActorLoop, "end", end_and_say)
    try:
        error = await raised(Grouped.remote().leave.remote())
    finally:
        ended.set()

    assert isinstance(error, ActorDiedError)
    assert error.exit is not None
    assert error.exit.code == 3


@pytest.mark.usefixtures("runtime")
async def test_actor_when_the_system_has_no_more_threads_then_it_says_so() -> None:
    before = threading.stack_size(1 << 47)  # more than a process can address
    try:
        error = await raised(Caller.remote())
    finally:
        threading.stack_size(before)

    assert isinstance(error, ActorDiedError)
    assert "no further process or thread may be started" in str(error)
    assert await Caller.remote().run.remote(len, "ab") == 2
