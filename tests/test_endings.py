"""However an owner ends: no process, file or descriptor of its runtime is left."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from helpers.owners import DESCENDANTS, Bell, Looped, Owner, Serial, Watched, open_files

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    TemplateError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches pidfds"),
]

METHODS = ["template", "spawn"]
both_methods = pytest.mark.parametrize("method", METHODS)
PROMPTLY = 10.0

HEAD = """
import asyncio, multiprocessing, os, signal, sys, threading
import actorlib
from helpers.owners import Looped, Mortal, Serial, listen, tell

METHOD, *ARGUMENTS = sys.argv[1:]
"""


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[Bell]:
    bell = Bell(tmp_path)
    yield bell
    bell.close()


def household(ends: str, *, run: str = "asyncio.run", before: str = "") -> str:
    """A program with one actor and its descendants, and how it comes to an end."""
    return f"""{HEAD}
{before}
async def main():
    # Without the memory monitor, whose timer wakes the loop.
    async with actorlib.init(start_method=METHOD, memory_threshold=1) as runtime:
        actor = Serial.remote()
        home = await actor.household.remote(*ARGUMENTS)
        tell(home)
        await asyncio.to_thread(listen)
        {ends}

{run}(main())
"""


def assert_clean_end(owner: Owner, *, silent: bool = True) -> None:
    assert owner.leftovers() == []
    if silent:
        assert (owner.out, owner.err) == ("", "")


async def left(watched: Watched) -> list[int]:
    return await asyncio.to_thread(watched.left)


# The ways to end.

ENDS = {
    "leaves the block": ("pass", 0),
    "raises": ("raise ValueError('mine')", 1),
    "sys.exit": ("sys.exit(3)", 3),
    "is cancelled": ("asyncio.current_task().cancel(); await asyncio.sleep(0)", 1),
    "os._exit": ("os._exit(4)", 4),
    "SIGINT": ("os.kill(0, signal.SIGINT); await asyncio.Event().wait()", -2),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM)", -15),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", -9),
    "segfault": ("Mortal().segfault()", -11),
}
# The two start methods differ in what the workers are; how they end is one matter.
ENDED = [("template", how) for how in ENDS] + [
    ("spawn", how) for how in ("leaves the block", "SIGINT", "SIGKILL")
]
SILENT = ("leaves the block", "sys.exit", "os._exit", "SIGTERM", "SIGKILL")


@pytest.mark.parametrize(("method", "how"), ENDED)
def test_owner_when_it_ends_leaves_nothing(
    method: str, how: str, tmp_path: Path
) -> None:
    ends, code = ENDS[how]
    kinds = ["a child", "a session"]
    with Owner(household(ends), method, *kinds, folder=tmp_path) as owner:
        home = owner.told()
        with Watched(home.values()) as watched:
            owner.go_on()
            assert owner.end() == code, owner.err
            assert watched.left() == []
        assert_clean_end(owner, silent=how in SILENT)
    if how == "raises":
        assert owner.err.endswith("ValueError: mine\n")


@pytest.mark.parametrize("how", ["leaves the block", "SIGINT", "SIGKILL"])
def test_owner_when_it_runs_on_the_fastest_loop_leaves_nothing(
    how: str, tmp_path: Path
) -> None:
    ends, code = ENDS[how]
    program = household(ends, run="actorlib.run")
    with Owner(program, "template", folder=tmp_path) as owner:
        with Watched(owner.told().values()) as watched:
            owner.go_on()
            assert owner.end() == code, owner.err
            assert watched.left() == []
        assert_clean_end(owner, silent=how in SILENT)


@pytest.mark.parametrize("how", ["leaves the block", "SIGKILL"])
def test_owner_when_it_ends_leaves_no_descendant_of_its_actors(
    how: str, tmp_path: Path
) -> None:
    ends, code = ENDS[how]
    with Owner(household(ends), "template", *DESCENDANTS, folder=tmp_path) as owner:
        home = owner.told()
        with Watched(home.values()) as watched:
            owner.go_on()
            assert owner.end() == code, owner.err
            assert watched.left_of(home) == []


@pytest.mark.parametrize(
    "exits",
    [
        "asyncio.run(main())",
        "loop = asyncio.new_event_loop(); loop.run_until_complete(main())",
        "loop = asyncio.new_event_loop(); loop.run_until_complete(main()); sys.exit(0)",
        "thread = threading.Thread(target=asyncio.run, args=[main()]); "
        "thread.start(); thread.join()",
    ],
    ids=["asyncio.run", "open loop", "sys.exit", "thread"],
)
def test_owner_when_it_never_shuts_down_leaves_nothing(
    exits: str, tmp_path: Path
) -> None:
    program = f"""{HEAD}
KEPT = []

async def main():
    runtime = await actorlib.init(start_method=METHOD)
    actor = Serial.remote()
    KEPT.extend([runtime, actor, actor.echo])
    tell(await actor.household.remote("a child", "a session"))
    await asyncio.to_thread(listen)

{exits}
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        with Watched(owner.told().values()) as watched:
            owner.go_on()
            assert owner.end() == 0, owner.err
            assert watched.left() == []
        assert_clean_end(owner)


@pytest.mark.parametrize("run", ["asyncio.run", "actorlib.run"])
def test_owner_when_interrupted_twice_leaves_nothing(
    run: str, bell: Bell, tmp_path: Path
) -> None:
    program = f"""{HEAD}
async def main():
    async with actorlib.init(start_method=METHOD, grace=600):
        actor = Serial.remote()
        busy = actor.count_in_c.remote(ARGUMENTS[0])
        other = Serial.remote()
        await other.ring_at_exit.remote(ARGUMENTS[0])
        tell(await other.household.remote("a child", "a session"))
        await asyncio.Event().wait()

{run}(main())
"""
    with Owner(program, "template", bell.path, folder=tmp_path) as owner:
        with Watched([*owner.told().values(), bell.heard()]) as watched:
            owner.signal(signal.SIGINT, group=True)
            bell.heard()  # the idle one leaves: the owner waits for the busy one
            owner.signal(signal.SIGINT, group=True)
            assert owner.end() != 0
            assert watched.left() == []
        assert_clean_end(owner, silent=False)


FORKED = """
def forked(leave):
    pid = os.fork()
    if not pid:
        leave()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def fail():
    raise LookupError("in the fork")
"""


@pytest.mark.parametrize(
    ("leave", "code"), [("lambda: sys.exit(3)", 3), ("fail", 1)], ids=["exit", "error"]
)
@pytest.mark.parametrize("run", ["asyncio.run", "actorlib.run"])
@pytest.mark.parametrize("engine", ["local", "inline"])
def test_fork_of_the_owner_when_it_leaves_then_its_parents_runtime_goes_on(
    engine: str, run: str, leave: str, code: int, tmp_path: Path
) -> None:
    program = f"""{HEAD}{FORKED}
import warnings
warnings.simplefilter("ignore", DeprecationWarning)

async def main():
    async with actorlib.init(engine="{engine}"):
        actor = Serial.remote()
        looped = Looped.remote()
        waiting = [Serial.remote() for _ in range(2)]
        await asyncio.gather(actor, looped)
        code = forked({leave})
        echoes = [await actor.echo.remote(1), await looped.echo.remote(2)]
        echoes += await asyncio.gather(*[late.echo.remote(3) for late in waiting])
        # What threads have done wakes the loop, and so do the actors' ends.
        echoes.append(await asyncio.to_thread(lambda: 4))
        await actorlib.kill(actor)
    tell([code, echoes])

{run}(main())
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        assert owner.told() == [code, [1, 2, 3, 3, 4]]
        assert owner.end() == 0
    assert_clean_end(owner, silent=leave != "fail")


def test_fork_of_a_program_without_a_runtime_when_it_exits_then_it_ends(
    tmp_path: Path,
) -> None:
    program = f"""{HEAD}{FORKED}
import warnings
warnings.simplefilter("ignore", DeprecationWarning)

async def main():
    tell(forked(lambda: sys.exit(3)))

actorlib.run(main())
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        assert owner.told() == 3
        assert owner.end() == 0
    assert_clean_end(owner)


@pytest.mark.parametrize(
    ("leave", "code"), [("lambda: sys.exit(3)", 3), ("fail", 1)], ids=["exit", "error"]
)
def test_fork_of_a_script_when_it_leaves_then_its_parents_runtime_goes_on(
    leave: str, code: int, tmp_path: Path
) -> None:
    program = f"""{HEAD}{FORKED}
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
import actorlib.blocking as ray

ray.init()
actor = Serial.remote()
ray.get(actor.echo.remote(0))
pid = os.fork()
if not pid:
    ({leave})()
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
tell([code, ray.get(actor.echo.remote(1))])
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        assert owner.told() == [code, 1]
        assert owner.end() == 0
    assert_clean_end(owner, silent=leave != "fail")


async def test_fork_when_it_ends_its_parents_runtime_then_nothing_happens() -> None:
    async with actorlib.init() as runtime:
        actor = Serial.remote()
        await actor
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            signal.alarm(int(PROMPTLY))  # its loop would wait for the parent's
            try:
                asyncio.run(runtime.shutdown())
                asyncio.run(actorlib.shutdown())
                os._exit(0)
            finally:
                os._exit(1)
        _, status = await asyncio.to_thread(os.waitpid, pid, 0)
        assert status == 0
        assert await actor.echo.remote(1) == 1


@pytest.mark.parametrize(
    ("forks", "number"),
    [
        ("if not os.fork(): signal.pause()", signal.SIGKILL),
        ("if not os.fork(): signal.pause()", signal.SIGINT),
        (
            "multiprocessing.get_context('fork').Process(target=signal.pause).start()",
            signal.SIGKILL,
        ),
    ],
    ids=["os.fork-SIGKILL", "os.fork-SIGINT", "multiprocessing-SIGKILL"],
)
def test_owner_when_a_fork_of_it_lives_on_leaves_nothing(
    forks: str, number: int, tmp_path: Path
) -> None:
    program = f"""{HEAD}
import warnings
warnings.simplefilter("ignore", DeprecationWarning)

async def main():
    async with actorlib.init(start_method=METHOD):
        actor = Serial.remote()
        home = await actor.household.remote(*ARGUMENTS)
        {forks}
        with open(f"/proc/self/task/{{os.getpid()}}/children") as children:
            pids = set(map(int, children.read().split())) - {{home["template"]}}
        tell([home, *pids])
        await asyncio.Event().wait()

asyncio.run(main())
"""
    with Owner(program, "template", *DESCENDANTS, folder=tmp_path) as owner:
        home, fork = owner.told()
        with Watched(home.values()) as watched, Watched([fork]) as forked:
            owner.signal(number)
            assert owner.end() == -number
            assert watched.left_of(home) == []
            assert forked.alive() == [fork]


def test_owner_when_a_signal_does_not_wake_its_loop_ends_for_it_still(
    tmp_path: Path,
) -> None:
    """As one does not that comes just before the loop sleeps: that cannot be timed."""
    before = """
import selectors
is_asleep, is_awaited = threading.Event(), threading.Event()

class Telling(selectors.DefaultSelector):
    def select(self, timeout=None):
        if timeout is None and is_awaited.is_set():
            is_asleep.set()  # whom this wakes gets the interpreter when the loop sleeps
        return super().select(timeout)

def interrupt():
    is_asleep.wait()
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
"""
    ends = (
        "threading.Thread(target=interrupt).start(); is_awaited.set(); "
        "await asyncio.Event().wait()"
    )
    loop = "asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(Telling()))"
    program = household(ends, run=f"{loop}.run", before=before)
    with Owner(program, "spawn", folder=tmp_path) as owner:
        with Watched(owner.told().values()) as watched:
            owner.go_on()
            assert owner.end() == -signal.SIGINT
            assert watched.left() == []
        assert_clean_end(owner, silent=False)


def test_fork_of_an_owner_when_it_ends_harms_no_actor(tmp_path: Path) -> None:
    program = f"""{HEAD}
import warnings
warnings.simplefilter("ignore", DeprecationWarning)

def look(actor):
    del actor

async def main():
    async with actorlib.init(start_method=METHOD):
        actor = Serial.remote()
        await actor
        fork = multiprocessing.get_context("fork")
        for process in [fork.Process(target=look, args=[actor]) for _ in range(2)]:
            process.start()
            await asyncio.to_thread(process.join)
        tell(await actor.echo.remote("alive"))

asyncio.run(main())
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        assert owner.told() == "alive"
        assert owner.end() == 0, owner.err


def write_endless_preload(folder: Path, bell: Bell) -> None:
    """Writes a module whose import rings the bell and then never ends."""
    (folder / "preload_of_a_test.py").write_text(
        "import os, signal\n"
        f"with open({bell.path!r}, 'w') as bell:\n"
        "    bell.write(f'{os.getpid()}\\n')\n"
        "while True:\n"
        "    signal.pause()\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.thorough
def test_owner_when_it_ends_while_a_preload_is_imported_leaves_nothing(
    number: int, bell: Bell, tmp_path: Path
) -> None:
    write_endless_preload(tmp_path, bell)
    program = f"""{HEAD}
async def main():
    async with actorlib.init(start_method=METHOD, preload=["preload_of_a_test"]):
        pass

asyncio.run(main())
"""
    with (
        Owner(program, "template", folder=tmp_path) as owner,
        Watched([bell.heard()]) as watched,
    ):
        owner.signal(number, group=True)
        assert owner.end() == -number
        assert watched.left() == []


# What the workers do meanwhile.

STUBBORN = [
    "count",
    "count_in_c",
    "wait",
    "ignore_signals",
    "keep_thread",
    "stop_itself",
]


@pytest.mark.parametrize(
    ("method", "deed"),
    [*(("template", deed) for deed in STUBBORN), ("spawn", "count_in_c")],
)
async def test_shutdown_when_a_worker_does_not_end_kills_it(
    method: str, deed: str, bell: Bell
) -> None:
    async with asyncio.timeout(PROMPTLY):
        async with actorlib.init(start_method=method, grace=0.1):
            actor = Serial.remote()
            home = await actor.household.remote("a child", "a session")
            running = getattr(actor, deed).remote(bell.path)
            await asyncio.to_thread(bell.heard)
            watched = Watched(home.values())
    with watched:
        assert await left(watched) == []
    if deed == "keep_thread":
        assert await running is None
    else:
        with pytest.raises(ActorDiedError, match="shut down"):
            await running


async def test_shutdown_when_a_loop_is_busy_kills_it(bell: Bell) -> None:
    async with asyncio.timeout(PROMPTLY):
        async with actorlib.init(grace=0.1):
            actor = Looped.remote()
            running = actor.do.remote("count_in_c", bell.path)
            watched = Watched([await asyncio.to_thread(bell.heard)])
    with watched:
        assert await left(watched) == []
    with pytest.raises(ActorDiedError):
        await running


@pytest.mark.parametrize("deed", ["count_in_c", "keep_thread"])
def test_killed_owner_when_a_worker_does_not_end_leaves_nothing(
    deed: str, bell: Bell, tmp_path: Path
) -> None:
    program = f"""{HEAD}
async def main():
    async with actorlib.init(start_method=METHOD):
        actor = Serial.remote()
        tell(await actor.household.remote("a child", "a session"))
        await actor.{deed}.remote(ARGUMENTS[0])
        await asyncio.Event().wait()

asyncio.run(main())
"""
    with Owner(program, "template", bell.path, folder=tmp_path) as owner:
        home = owner.told()
        bell.heard()
        with Watched(home.values()) as watched:
            owner.signal(signal.SIGKILL)
            assert owner.end() == -9
            assert watched.left() == []
        assert_clean_end(owner)


async def test_shutdown_when_a_constructor_runs_ends_it(bell: Bell) -> None:
    async with asyncio.timeout(PROMPTLY):
        async with actorlib.init(grace=0.1):
            actor = Serial.remote(bell.path, "count_in_c", bell.path)
            queued = actor.echo.remote()
            watched = Watched([await asyncio.to_thread(bell.heard)])
    with watched:
        assert await left(watched) == []
    with pytest.raises(ActorDiedError, match="shut down"):
        await queued


async def test_shutdown_when_calls_are_quick_lets_them_finish() -> None:
    async with actorlib.init():
        actor = Serial.remote()
        await actor
        refs = [actor.echo.remote(i) for i in range(100)]
    assert await asyncio.gather(*refs) == list(range(100))


@both_methods
async def test_shutdown_when_many_actors_are_being_started_leaves_nothing(
    method: str,
) -> None:
    async with asyncio.timeout(PROMPTLY):
        async with actorlib.init(start_method=method):
            actors = [Serial.remote() for _ in range(40)]
            refs = [actor.echo.remote() for actor in actors]
            await refs[0]
    results = await asyncio.gather(*refs, return_exceptions=True)
    assert all(r is None or isinstance(r, ActorDiedError) for r in results)


@pytest.mark.thorough
async def test_shutdown_when_the_template_is_stopped_still_ends_and_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("actorlib._owner.engine._PATIENCE", 0.2)
    monkeypatch.setattr("actorlib._owner.engine._QUIET", 0.1)
    async with asyncio.timeout(PROMPTLY):
        async with actorlib.init(grace=0.1):
            actor = Serial.remote()  # held: it would end at once
            home = await actor.household.remote()
            watched = Watched(home.values())
            os.kill(home["template"], signal.SIGSTOP)
    with watched:
        assert await left(watched) == []
    assert "the shutdown waits for the end of Serial (pid " in caplog.text
    assert f"the template process (pid {home['template']}) is stopped" in caplog.text


async def test_shutdown_when_the_template_was_killed_leaves_nothing() -> None:
    async with asyncio.timeout(PROMPTLY):
        async with actorlib.init(grace=0.1):
            actor = Serial.remote()  # held: it would end at once
            home = await actor.household.remote()
            watched = Watched(home.values())
            os.kill(home["template"], signal.SIGKILL)
    with watched:
        assert await left(watched) == []


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_shutdown_when_the_loop_is_closed_and_the_template_stuck_leaves_nothing(
    number: int,
) -> None:
    async def begin() -> tuple[Watched, int]:
        await actorlib.init()
        actor = Serial.remote()
        home = await actor.household.remote("a daemon")
        # Watched from here on: the end of the loop may end the worker.
        return Watched(home.values()), home["template"]

    watched, template = asyncio.run(begin())
    with watched:
        os.kill(template, number)
        asyncio.run(actorlib.shutdown())
        assert watched.left() == []


async def test_shutdown_when_cancelled_leaves_nothing(bell: Bell) -> None:
    watched: list[Watched] = []
    busy = asyncio.Event()

    async def own() -> None:
        async with actorlib.init(grace=600):
            actor = Serial.remote()
            home = await actor.household.remote("a child")
            watched.append(Watched(home.values()))
            await asyncio.wait([actor.count_in_c.remote(bell.path)], timeout=0)
            await asyncio.to_thread(bell.heard)
            busy.set()
        pytest.fail("the owner was not cancelled")

    owner = asyncio.ensure_future(own())
    await busy.wait()
    for _ in range(2):
        owner.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PROMPTLY):
            await owner
    assert not actorlib.is_initialized()
    with watched[0]:
        assert await left(watched[0]) == []


# What runs at the end of a worker.


@both_methods
async def test_exit_handler_when_the_runtime_is_shut_down_runs(
    method: str, tmp_path: Path
) -> None:
    path = tmp_path / "exit"
    async with actorlib.init(start_method=method):
        await Serial.remote().write_at_exit.remote(str(path))
        actor = Looped.remote()
        await actor.write_at_exit.remote(f"{path}-looped")
    assert path.read_text() == "it was run"
    assert (tmp_path / "exit-looped").read_text() == "it was run"


async def test_exit_handler_when_the_actor_leaves_by_itself_runs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "exit"
    async with actorlib.init(log_to_driver=False):
        actor = Serial.remote()
        await actor.write_at_exit.remote(str(path))
        with pytest.raises(ActorDiedError):
            await actor.leave.remote(3)
        assert path.read_text() == "it was run"


async def test_exit_handler_when_the_last_handle_is_gone_runs(tmp_path: Path) -> None:
    path = tmp_path / "exit"
    async with actorlib.init():
        actor = Serial.remote()
        await actor.write_at_exit.remote(str(path))
        with Watched([await actor.pid.remote()]) as watched:
            del actor
            assert await left(watched) == []
        assert path.read_text() == "it was run"


@both_methods
async def test_exit_handler_when_the_actor_is_killed_does_not_run(
    method: str, tmp_path: Path
) -> None:
    path = tmp_path / "exit"
    async with actorlib.init(start_method=method):
        actor = Serial.remote()
        await actor.write_at_exit.remote(str(path))
        await actorlib.kill(actor)
    assert not path.exists()


def test_exit_handler_when_the_owner_is_killed_runs(tmp_path: Path) -> None:
    path = tmp_path / "exit"
    program = household(
        "await actor.write_at_exit.remote(ARGUMENTS[0]); os.kill(os.getpid(), 9)"
    ).replace("*ARGUMENTS)", ")")
    with (
        Owner(program, "template", str(path), folder=tmp_path) as owner,
        Watched(owner.told().values()) as watched,
    ):
        owner.go_on()
        owner.end()
        assert watched.left() == []
    assert path.read_text() == "it was run"


# The owner lives on.


@pytest.mark.thorough
async def test_runtime_when_started_five_times_leaves_no_descriptor(
    on_both_loops: None,
) -> None:
    del on_both_loops
    before = open_files()
    for turn in range(5):
        method = METHODS[turn % 2]
        async with actorlib.init(start_method=method, num_gpus=1) as runtime:
            actors = [Serial.options(num_gpus=0.5).remote() for _ in range(2)]
            refs = [actor.echo.remote(turn) for actor in actors]
            assert await asyncio.gather(*refs) == [turn, turn]
            assert runtime.available_resources()["GPU"] == 0.0
        assert not actorlib.is_initialized()
        assert open_files() == before


async def test_runtime_when_actors_come_and_go_keeps_no_descriptor() -> None:
    async with actorlib.init(log_to_driver=False):
        other = Serial.remote()
        await other
        before = open_files()
        for end in ("get_signal", "exit_at_once", "leave"):
            actor = Serial.remote()
            with pytest.raises(ActorDiedError):
                await getattr(actor, end).remote(9)
            failing = Serial.remote("", "raise_error", "no")
            with pytest.raises(ActorDiedError):
                await failing
            killed = Serial.remote()
            await killed
            await actorlib.kill(killed)
            with Watched([await (kept := Serial.remote()).pid.remote()]) as watched:
                async with kept:
                    pass
                assert await left(watched) == []
        assert open_files() == before


async def test_shutdown_when_repeated_is_no_error() -> None:
    runtime = await actorlib.init()
    await Serial.remote().echo.remote()
    await asyncio.gather(runtime.shutdown(), runtime.shutdown())
    await runtime.shutdown()
    assert not actorlib.is_initialized()


async def test_shutdown_when_awaited_inside_the_block_is_enough() -> None:
    async with actorlib.init() as runtime:
        await Serial.remote().echo.remote()
        await runtime.shutdown()
        assert not actorlib.is_initialized()
        async with actorlib.init():
            assert await Serial.remote().echo.remote("second") == "second"


async def test_runtime_when_another_was_started_meanwhile_is_refused() -> None:
    first, second = actorlib.init(), actorlib.init()
    results = await asyncio.gather(_started(first), _started(second))
    assert sorted(results) == ["refused", "started"]
    await first.shutdown()
    await second.shutdown()


async def _started(runtime: actorlib.Runtime) -> str:
    try:
        await runtime
    except RuntimeError:
        return "refused"
    return "started"


async def test_runtime_when_it_was_shut_down_is_not_started_again() -> None:
    runtime = actorlib.init()
    async with runtime:
        pass
    with pytest.raises(RuntimeError, match=r"call init\(\) again"):
        await runtime


@both_methods
async def test_init_when_too_much_is_declared_leaves_nothing(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    before = open_files()
    with pytest.raises(ValueError, match="CUDA_VISIBLE_DEVICES"):
        await actorlib.init(num_gpus=2, start_method=method)
    assert not actorlib.is_initialized()
    assert open_files() == before


async def test_init_when_a_preload_is_missing_leaves_nothing() -> None:
    before = open_files()
    with pytest.raises(TemplateError, match="no_such_module"):
        await actorlib.init(preload=["no_such_module"])
    assert not actorlib.is_initialized()
    assert open_files() == before


async def test_init_when_there_is_no_interpreter_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    before = open_files()
    with pytest.raises(TemplateError, match="/no/such/python"):
        await actorlib.init()
    assert not actorlib.is_initialized()
    assert open_files() == before


@pytest.mark.parametrize("turns", range(1, 4))
async def test_init_when_cancelled_early_leaves_nothing(turns: int) -> None:
    before = open_files()
    opening = asyncio.ensure_future(_opened())
    for _ in range(turns):
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PROMPTLY):
            await opening
    assert not actorlib.is_initialized()
    assert open_files() == before


async def test_init_when_cancelled_leaves_nothing(
    bell: Bell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write_endless_preload(tmp_path, bell)
    before = open_files()
    opening = asyncio.ensure_future(_opened(preload=["preload_of_a_test"]))
    with Watched([await asyncio.to_thread(bell.heard)]) as watched:
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(PROMPTLY):
                await opening
        assert await left(watched) == []
    assert not actorlib.is_initialized()
    assert open_files() == before


async def _opened(**options: Any) -> None:
    await actorlib.init(**options)


# Signals that ask a program to end.


SERVICE = """
import asyncio, signal, sys
import actorlib
from helpers.owners import tell

@actorlib.remote
class Log:
    def __init__(self, path):
        self.path = path
    @actorlib.close
    async def flush(self):
        with open(self.path, "a") as file:
            file.write("flushed ")
    def where(self):
        import os
        return os.getpid()

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, for all it starts

async def main():
    async with actorlib.init(num_cpus=2, grace=30):
        log = Log.remote(sys.argv[1])
        pid = await log.where.remote()
        try:
            tell(pid)  # a signal may come from here on
            await asyncio.Event().wait()
        finally:
            tell("finally")
            if sys.argv[2] == "hangs":
                while True:
                    await asyncio.sleep(1000)

%s
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_program_when_it_is_told_to_end_then_its_actors_are_closed(
    number: signal.Signals, tmp_path: Path
) -> None:
    path = tmp_path / "said"
    program = SERVICE % "actorlib.run(main())"
    with Owner(program, str(path), "ends", folder=tmp_path) as owner:
        with Watched([owner.told()]) as watched:
            owner.signal(number)
            assert owner.told() == "finally"
            assert owner.end() == 128 + number, owner.err
            assert watched.left() == []
        assert owner.leftovers() == []
    assert path.read_text() == "flushed "
    assert (owner.out, owner.err) == ("", "")


def test_program_when_it_is_told_twice_then_it_ends_at_once(tmp_path: Path) -> None:
    path = tmp_path / "said"
    program = SERVICE % "actorlib.run(main())"
    with Owner(program, str(path), "hangs", folder=tmp_path) as owner:
        with Watched([owner.told()]) as watched:
            owner.signal(signal.SIGTERM)
            assert owner.told() == "finally"
            owner.signal(signal.SIGTERM)
            assert owner.end() == -signal.SIGTERM
            assert watched.left() == []
        assert owner.leftovers() == []


def test_program_when_it_handles_the_signal_itself_then_that_is_left(
    tmp_path: Path,
) -> None:
    run = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5)); actorlib.run(main())"
    with Owner(SERVICE % run, str(tmp_path / "s"), "ends", folder=tmp_path) as owner:
        owner.told()
        owner.signal(signal.SIGTERM)
        assert owner.told() == "finally"
        assert owner.end() == 5, owner.err
