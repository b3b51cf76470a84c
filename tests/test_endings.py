"""However an owner ends: no process, file or descriptor of its runtime is left."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from helpers.owners import DESCENDANTS, Bell, Looped, Owner, Serial, Watched, open_files
from helpers.rare_cases import rarely

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    TemplateError,
)

if TYPE_CHECKING:
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
SILENT = ("leaves the block", "sys.exit", "os._exit", "SIGTERM", "SIGKILL")


@pytest.mark.parametrize(
    ("method", "loop", "how"),
    [
        ("template", "asyncio", "sys.exit"),
        ("template", "asyncio", "SIGINT"),
        ("template", "asyncio", "SIGKILL"),
        ("template", "uvloop", "leaves the block"),
        ("template", "uvloop", "SIGINT"),
        *rarely(
            ("template", "asyncio", "raises"),
            ("template", "asyncio", "is cancelled"),
            ("template", "asyncio", "os._exit"),
            ("template", "asyncio", "SIGTERM"),
            ("template", "asyncio", "segfault"),
            ("template", "uvloop", "SIGKILL"),
            ("spawn", "asyncio", "leaves the block"),
            ("spawn", "asyncio", "SIGINT"),
            ("spawn", "asyncio", "SIGKILL"),
        ),
    ],
)
def test_owner_when_it_ends_then_nothing_is_left(
    method: str, loop: str, how: str, tmp_path: Path
) -> None:
    ends, code = ENDS[how]
    has_all = how in ("leaves the block", "SIGKILL")
    kinds = DESCENDANTS if has_all else ["a child", "a session"]
    path = tmp_path / "exit"
    run = {"asyncio": "asyncio.run", "uvloop": "actorlib.run"}[loop]
    program = household(
        f"await actor.write_at_exit.remote({str(path)!r}); {ends}", run=run
    )
    with Owner(program, method, *kinds, folder=tmp_path) as owner:
        home = owner.told()
        with Watched(home.values()) as watched:
            owner.go_on()
            assert owner.end() == code, owner.err
            assert watched.left_of(home) == []
        assert_clean_end(owner, silent=how in SILENT)
    assert path.read_text() == "it was run"
    if how == "raises":
        assert owner.err.endswith("ValueError: mine\n")


@pytest.mark.parametrize(
    "exits",
    [
        "loop = asyncio.new_event_loop(); loop.run_until_complete(main())",
        "thread = threading.Thread(target=asyncio.run, args=[main()]); "
        "thread.start(); thread.join()",
        *rarely(
            "asyncio.run(main())",
            "loop = asyncio.new_event_loop(); loop.run_until_complete(main()); "
            "sys.exit(0)",
        ),
    ],
    ids=["open loop", "thread", "asyncio.run", "sys.exit"],
)
def test_owner_when_it_never_shuts_down_then_nothing_is_left(
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
import warnings
warnings.simplefilter("ignore", DeprecationWarning)

def forked(leave):
    pid = os.fork()
    if not pid:
        leave()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def fail():
    raise LookupError("in the fork")

def look(actor):
    del actor

def end_runtimes(runtime):
    signal.alarm(10)  # its loop would wait for the parent's
    asyncio.run(runtime.shutdown())
    asyncio.run(actorlib.shutdown())
    os._exit(0)
"""


@pytest.mark.parametrize("run", ["actorlib.run", "asyncio.run"])
def test_fork_of_the_owner_when_it_leaves_then_its_parents_runtime_goes_on(
    run: str, tmp_path: Path
) -> None:
    program = f"""{HEAD}{FORKED}
async def fork_beside(engine):
    async with actorlib.init(engine=engine) as runtime:
        actor = Serial.remote()
        looped = Looped.remote()
        waiting = [Serial.remote() for _ in range(2)]
        await asyncio.gather(actor, looped)
        codes = [
            forked(lambda: sys.exit(3)),
            forked(fail),
            forked(lambda: end_runtimes(runtime)),
        ]
        process = multiprocessing.get_context("fork").Process(target=look, args=[actor])
        process.start()
        await asyncio.to_thread(process.join)
        echoes = [await actor.echo.remote(1), await looped.echo.remote(2)]
        echoes += await asyncio.gather(*[late.echo.remote(3) for late in waiting])
        # What threads have done wakes the loop, and so do the actors' ends.
        echoes.append(await asyncio.to_thread(lambda: 4))
        await actorlib.kill(actor)
    tell([*codes, process.exitcode, echoes])

async def main():
    if {run} is actorlib.run:  # asyncio's does nothing for forks
        tell(forked(lambda: sys.exit(3)))
    for engine in ("local", "inline"):
        await fork_beside(engine)

{run}(main())
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        if run == "actorlib.run":
            assert owner.told() == 3, "without a runtime"
        for _ in range(2):
            assert owner.told() == [3, 1, 0, 0, [1, 2, 3, 3, 4]]
        assert owner.end() == 0
    assert_clean_end(owner, silent=False)


def test_fork_of_a_script_when_it_leaves_then_its_parents_runtime_goes_on(
    tmp_path: Path,
) -> None:
    program = f"""{HEAD}{FORKED}
import actorlib.blocking as ray

ray.init()
actor = Serial.remote()
ray.get(actor.echo.remote(0))
codes = [forked(lambda: sys.exit(3)), forked(fail)]
tell([*codes, ray.get(actor.echo.remote(1))])
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        assert owner.told() == [3, 1, 1]
        assert owner.end() == 0
    assert_clean_end(owner, silent=False)


@pytest.mark.parametrize(
    ("forks", "number"),
    [
        ("if not os.fork(): signal.pause()", signal.SIGINT),
        (
            "multiprocessing.get_context('fork').Process(target=signal.pause).start()",
            signal.SIGKILL,
        ),
        *rarely(("if not os.fork(): signal.pause()", signal.SIGKILL)),
    ],
    ids=["os.fork-SIGINT", "multiprocessing-SIGKILL", "os.fork-SIGKILL"],
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


@both_methods
async def test_shutdown_when_workers_do_not_end_then_they_are_killed(
    method: Any, bell: Bell
) -> None:
    deeds = STUBBORN if method == "template" else ["count_in_c"]
    async with asyncio.timeout(PROMPTLY):
        async with actorlib.init(start_method=method, grace=0.1):
            actors = [Serial.remote() for _ in deeds]
            homes = [await a.household.remote("a child", "a session") for a in actors]
            running = {
                deed: getattr(actor, deed).remote(bell.path)
                for deed, actor in zip(deeds, actors, strict=True)
            }
            looped = Looped.remote()
            running["on a loop"] = looped.do.remote("count_in_c", bell.path)
            born = Serial.remote(bell.path, "count_in_c", bell.path)
            running["constructor"] = born.echo.remote()
            rings = [await asyncio.to_thread(bell.heard) for _ in [*running, "born"]]
            watched = Watched(
                {*rings, *(pid for home in homes for pid in home.values())}
            )
    with watched:
        assert await left(watched) == []
    for deed, ref in running.items():
        if deed == "keep_thread":
            assert await ref is None
        else:
            with pytest.raises(ActorDiedError, match="shut down"):
                await ref


@pytest.mark.thorough
def test_killed_owner_when_workers_do_not_end_then_nothing_is_left(
    bell: Bell, tmp_path: Path
) -> None:
    program = f"""{HEAD}
async def main():
    async with actorlib.init(start_method=METHOD):
        actors = [Serial.remote() for _ in range(2)]
        for actor in actors:
            tell(await actor.household.remote("a child", "a session"))
        await actors[0].keep_thread.remote(ARGUMENTS[0])
        await actors[1].count_in_c.remote(ARGUMENTS[0])

asyncio.run(main())
"""
    with Owner(program, "template", bell.path, folder=tmp_path) as owner:
        homes = [owner.told() for _ in range(2)]
        for _ in homes:
            bell.heard()
        with Watched({pid for home in homes for pid in home.values()}) as watched:
            owner.signal(signal.SIGKILL)
            assert owner.end() == -9
            assert watched.left() == []
        assert_clean_end(owner)


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


@pytest.mark.parametrize("number", [signal.SIGSTOP, *rarely(signal.SIGKILL)])
@pytest.mark.thorough
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
async def test_exit_handlers_when_an_actor_is_not_killed_then_they_run(
    method: Any, tmp_path: Path
) -> None:
    async def new(kind: Any, name: str) -> Any:
        actor = kind.remote()
        await actor.write_at_exit.remote(str(tmp_path / name))
        return actor

    async with actorlib.init(start_method=method, log_to_driver=False):
        kept = [await new(Serial, "shutdown"), await new(Looped, "looped shutdown")]
        leaving, killed = await new(Serial, "leaving"), await new(Serial, "killed")
        dropped = await new(Serial, "dropped")
        with pytest.raises(ActorDiedError):
            await leaving.leave.remote(3)
        await actorlib.kill(killed)
        with Watched([await dropped.pid.remote()]) as watched:
            del dropped
            assert await left(watched) == []
        assert sorted(os.listdir(tmp_path)) == ["dropped", "leaving"]  # noqa: PTH208
        refs = [kept[0].echo.remote(i) for i in range(100)]
    assert await asyncio.gather(*refs) == list(range(100))
    names = ["dropped", "leaving", "looped shutdown", "shutdown"]
    assert sorted(os.listdir(tmp_path)) == names  # noqa: PTH208
    assert {(tmp_path / name).read_text() for name in names} == {"it was run"}


# The owner lives on.


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


async def test_shutdown_when_repeated_or_inside_the_block_is_enough() -> None:
    async with actorlib.init() as runtime:
        await Serial.remote().echo.remote()
        await asyncio.gather(runtime.shutdown(), runtime.shutdown())
        await runtime.shutdown()
        assert not actorlib.is_initialized()
        async with actorlib.init():
            assert await Serial.remote().echo.remote("second") == "second"
    assert not actorlib.is_initialized()
    with pytest.raises(RuntimeError, match=r"call init\(\) again"):
        await runtime


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


async def test_init_when_it_fails_then_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = open_files()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    for method in METHODS:
        with pytest.raises(ValueError, match="CUDA_VISIBLE_DEVICES"):
            await actorlib.init(num_gpus=2, start_method=method)  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(TemplateError, match="/no/such/python"):
        await actorlib.init()
    assert not actorlib.is_initialized()
    assert open_files() == before


async def test_init_when_cancelled_early_then_nothing_is_left() -> None:
    before = open_files()
    for turns in range(1, 4):
        opening = asyncio.ensure_future(_opened())
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(PROMPTLY):
                await opening
        assert not actorlib.is_initialized()
        assert open_files() == before


@pytest.mark.thorough
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


OWN_HANDLER = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))"
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


@pytest.mark.parametrize(
    ("run", "number", "is_hanging", "code"),
    [
        ("actorlib.run(main())", signal.SIGTERM, False, 128 + signal.SIGTERM),
        ("actorlib.run(main())", signal.SIGTERM, True, -signal.SIGTERM),
        (f"{OWN_HANDLER}; actorlib.run(main())", signal.SIGTERM, False, 5),
        *rarely(("actorlib.run(main())", signal.SIGHUP, False, 128 + signal.SIGHUP)),
    ],
    ids=["SIGTERM", "twice", "own handler", "SIGHUP"],
)
def test_program_when_it_is_told_to_end_then_its_actors_are_closed(
    run: str, number: int, code: int, tmp_path: Path, *, is_hanging: bool
) -> None:
    path = tmp_path / "said"
    deed = "hangs" if is_hanging else "ends"
    with Owner(SERVICE % run, str(path), deed, folder=tmp_path) as owner:
        with Watched([owner.told()]) as watched:
            owner.signal(number)
            assert owner.told() == "finally"
            if is_hanging:
                owner.signal(number)
            assert owner.end() == code, owner.err
            assert watched.left() == []
        assert_clean_end(owner, silent=code == 128 + number)
    assert is_hanging or path.read_text() == "flushed "
