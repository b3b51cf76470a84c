"""However an actor dies: nothing hangs, the reason is told, and nobody else is hurt."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import logging
import os
import pkgutil
import select
import signal
import sys
import textwrap
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from helpers.marks import USES_RUNTIME, in_processes
from helpers.owners import (
    DESCENDANTS,
    Bell,
    Looped,
    Serial,
    Watched,
    open_files,
)
from helpers.rare_cases import rarely

import actorlib
from actorlib.exceptions import ActorDiedError, ActorError, TemplateError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator
    from pathlib import Path

    from helpers.actors import Stop

    from actorlib import Runtime
    from actorlib._api.decorators import ActorClass
    from actorlib._options.runtime_options import RuntimeKeywords
    from actorlib.exceptions import Exit

QUIET: RuntimeKeywords = {"num_gpus": 1, "log_to_driver": False, "grace": 0.2}

pytestmark = [
    *in_processes(**QUIET),
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches pidfds"),
]

both_methods = pytest.mark.parametrize("method", ["template", "spawn"])
PROMPTLY = 10.0


class Way(NamedTuple):
    """A way to die, and what must be told of it."""

    deed: str
    arguments: tuple[Any, ...]
    cause: str
    code: int | None
    signal: int | None
    tail: str = "farewell"


WAYS = {
    "SIGKILL": Way("get_signal", (9,), "crashed", None, signal.SIGKILL),
    "SIGTERM": Way("get_signal", (15,), "crashed", None, signal.SIGTERM),
    "segfault": Way("segfault", (), "crashed", None, signal.SIGSEGV, "in segfault"),
    "os._exit": Way("exit_at_once", (7,), "exited", 7, None),
    "sys.exit": Way("leave", (3,), "exited", 3, None),
    "sys.exit()": Way("leave", (), "exited", 0, None),
    "sys.exit(text)": Way("leave", ("it is over",), "exited", 1, None, "it is over"),
}
CLASSES: dict[str, ActorClass[..., Any]] = {"Serial": Serial, "Looped": Looped}


def quiet(**options: Any) -> Runtime:
    """A runtime with one GPU, in which nothing is shown and nothing has long."""
    return actorlib.init(**QUIET, **options)


async def death_of(waiting: Awaitable[object]) -> Exit:
    """Waits for what must fail, and gives the end of the actor that made it fail."""
    with pytest.raises(ActorDiedError) as caught:
        async with asyncio.timeout(PROMPTLY):
            await waiting
    assert isinstance(caught.value, ActorError)
    return caught.value.exit


async def rung(bell: Bell) -> int:
    return await asyncio.to_thread(bell.heard)


async def left(watched: Watched) -> list[int]:
    return await asyncio.to_thread(watched.left)


# A method ends the process.


@pytest.mark.parametrize(
    ("each_runtime", "actor_class", "name"),
    [
        *itertools.product(["template"], ["Serial"], WAYS),
        # SIGTERM lets the calls of a looped actor end: see below.
        *itertools.product(["template"], ["Looped"], sorted({*WAYS} - {"SIGTERM"})),
        ("spawn", "Serial", "SIGKILL"),
        ("spawn", "Serial", "sys.exit"),
    ],
    indirect=["each_runtime"],
)
async def test_actor_when_it_dies_fails_running_queued_and_later_calls(
    each_runtime: Runtime, actor_class: str, name: str
) -> None:
    way, other = WAYS[name], Serial.remote()
    actor = CLASSES[actor_class].options(num_gpus=1).remote()
    await actor
    running = getattr(actor, way.deed).remote(*way.arguments)
    queued = [actor.echo.remote(i) for i in range(3)]

    told = await death_of(running)

    assert [(await death_of(ref)).cause for ref in queued] == [way.cause] * 3
    assert (await death_of(actor.echo.remote())).cause == way.cause
    await actorlib.kill(actor)
    assert (await death_of(actor.echo.remote())).cause == way.cause
    assert each_runtime.available_resources()["GPU"] == 1.0
    assert await other.echo.remote("unharmed") == "unharmed"
    assert (told.cause, told.code, told.signal) == (way.cause, way.code, way.signal)
    assert told.method == way.deed
    assert told.pid > 0
    assert way.tail in told.log_tail


async def test_idle_actor_when_killed_gives_its_share_to_the_next(
    each_runtime: Runtime,
) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM):
        actor = Serial.options(num_gpus=1).remote()
        pid = await actor.pid.remote()
        waiting = Serial.options(num_gpus=1).remote()
        assert each_runtime.available_resources()["GPU"] == 0.0
        os.kill(pid, number)
        async with asyncio.timeout(PROMPTLY):
            assert await waiting.echo.remote("here") == "here"
        told = await death_of(actor.echo.remote())
        assert (told.cause, told.signal) == ("crashed", number)
        await actorlib.kill(waiting)


TERMINATED = pytest.mark.parametrize(
    ("kind", "method"),
    [(Serial.options(max_concurrency=3), "terminate"), (Looped, "terminate_on_loop")],
)


@USES_RUNTIME
@TERMINATED
async def test_actor_when_it_gets_sigterm_then_running_calls_end_first(
    kind: Any, method: str, stop: Stop
) -> None:
    actor = kind.remote()
    stopped = getattr(actor, method).remote(stop.place)
    await stop.reached()
    stop.release()

    assert await stopped == "whole"
    assert (await death_of(actor.pid.remote())).signal == signal.SIGTERM


@USES_RUNTIME
@TERMINATED
async def test_actor_when_it_gets_sigterm_again_then_it_ends_at_once(
    kind: Any, method: str, stop: Stop
) -> None:
    actor = kind.remote()
    pid = await actor.pid.remote()
    stopped = getattr(actor, method).remote(stop.place)
    await stop.reached()
    while not stopped.done():  # two that come together are one
        os.kill(pid, signal.SIGTERM)
        await asyncio.wait([stopped], timeout=0.1)

    await death_of(stopped)


async def test_actor_when_it_closes_its_pipe_and_stays_is_killed(
    runtime: Runtime,
) -> None:
    actor = Serial.options(num_gpus=1).remote()
    with Watched([await actor.pid.remote()]) as watched:
        told = await death_of(actor.close_everything.remote())
        assert await left(watched) == []
    assert told.cause == "crashed"
    assert runtime.available_resources()["GPU"] == 1.0


@USES_RUNTIME
@pytest.mark.parametrize("actor_class", CLASSES)
async def test_results_when_returned_before_a_crash_still_arrive(
    actor_class: str,
) -> None:
    actor = CLASSES[actor_class].remote()
    large = b"x" * 10_000_000
    before = [actor.echo.remote(large), *(actor.echo.remote(i) for i in range(100))]
    crash = actor.exit_at_once.remote(1)
    assert (await death_of(crash)).method == "exit_at_once"
    assert await asyncio.gather(*before) == [large, *range(100)]


@USES_RUNTIME
async def test_quick_results_when_the_last_call_leaves_still_arrive() -> None:
    actor = Serial.remote()
    refs = [actor.echo_until.remote(i, 50) for i in range(51)]
    assert (await death_of(refs[-1])).code == 7
    assert await asyncio.gather(*refs[:-1]) == list(range(50))


@USES_RUNTIME
async def test_error_when_much_was_printed_then_it_has_the_last_lines() -> None:
    actor = Serial.remote()
    await actor.complain.remote(*(f"line {i}" for i in range(100)))
    with pytest.raises(ActorDiedError) as caught:
        await actor.get_signal.remote(9)
    text = str(caught.value)
    assert all(word in text for word in ("Serial", "SIGKILL", "get_signal", "farewell"))
    *others, last = caught.value.exit.log_tail.splitlines()
    assert last == "farewell"
    assert others == [f"line {i}" for i in range(100)][-len(others) :]
    assert len(others) >= 5


def killed_now(pid: int) -> None:
    """Kills a process and waits until it is gone, without the loop that owns it."""
    gone = select.poll()
    descriptor = os.pidfd_open(pid)
    gone.register(descriptor, select.POLLIN)
    os.kill(pid, signal.SIGKILL)
    assert gone.poll(1000 * PROMPTLY)
    os.close(descriptor)


@USES_RUNTIME
@pytest.mark.parametrize("kind", [Serial, Looped])
async def test_death_when_nothing_ran_then_it_was_idle_whatever_came_later(
    kind: Any,
) -> None:
    actor = kind.remote()
    assert await actor.echo.remote(1) == 1
    killed_now(await actor.pid.remote())
    refs = [actor.echo.remote(n) for n in range(3)]

    told = await death_of(refs[0])

    assert (told.method, told.others) == (None, 0)
    assert str(told) == "a signal ended its process while idle (SIGKILL)"


@USES_RUNTIME
async def test_death_when_a_call_came_after_it_then_what_ran_before_is_told(
    bell: Bell,
) -> None:
    actor = Serial.remote()
    pid = await actor.pid.remote()
    ref = actor.wait.remote(bell.path)
    await rung(bell)
    killed_now(pid)
    actor.echo.remote(1)

    told = await death_of(ref)

    assert (told.method, told.others) == ("wait", 0)


@USES_RUNTIME
async def test_death_when_several_ran_then_the_one_that_failed_and_how_many_others(
    bell: Bell,
) -> None:
    actor = Serial.options(max_concurrency=3).remote()
    refs = [actor.wait.remote(bell.path)]
    await rung(bell)
    refs.append(actor.segfault.remote())

    told = await death_of(refs[0])

    assert (told.method, told.others) == ("segfault", 1)
    assert "with segfault and 1 other under way" in str(told)
    lines = told.log_tail.splitlines()
    assert lines[:2] == ["farewell", "Fatal Python error: Segmentation fault"]
    assert lines[-1].endswith("in segfault")
    assert "actorlib/_" not in told.log_tail


async def test_death_when_it_cannot_be_logged_is_told_all_the_same(
    runtime: Runtime,
) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError(f"the log is closed: {record.getMessage()}")

    handler = Broken()
    logging.getLogger("actorlib").addHandler(handler)
    try:
        actor = Serial.options(num_gpus=1).remote()
        assert (await death_of(actor.exit_at_once.remote(7))).code == 7
        assert runtime.available_resources()["GPU"] == 1.0
    finally:
        logging.getLogger("actorlib").removeHandler(handler)


async def test_actors_when_all_die_at_once_are_all_told_apart(
    each_runtime: Runtime,
) -> None:
    actors = [Serial.options(num_gpus=0.25).remote() for _ in range(4)]
    ends = [death_of(a.exit_at_once.remote(i)) for i, a in enumerate(actors)]
    told = await asyncio.gather(*ends)
    assert [end.code for end in told] == [0, 1, 2, 3]
    assert len({end.pid for end in told}) == 4
    assert each_runtime.available_resources()["GPU"] == 1.0


# It never becomes ready.


@pytest.mark.parametrize("actor_class", CLASSES)
@pytest.mark.parametrize("name", ["SIGKILL", "os._exit", "sys.exit"])
async def test_constructor_when_it_ends_the_process_fails_the_actor(
    runtime: Runtime, name: str, actor_class: str
) -> None:
    way = WAYS[name]
    actor = (
        CLASSES[actor_class].options(num_gpus=1).remote("", way.deed, *way.arguments)
    )
    queued = actor.echo.remote()
    told = await death_of(actor)
    assert await death_of(queued) == told
    assert told.signal == way.signal
    assert told.pid > 0
    assert "farewell" in told.log_tail
    assert runtime.available_resources()["GPU"] == 1.0


async def test_actor_when_killed_from_outside_while_it_starts_fails_its_calls(
    runtime: Runtime, bell: Bell
) -> None:
    actor = Serial.options(num_gpus=1).remote(bell.path, "wait", bell.path)
    queued = actor.echo.remote()
    os.kill(await rung(bell), signal.SIGKILL)
    told = await death_of(actor)
    assert await death_of(queued) == told
    assert (told.cause, told.signal) == ("crashed", signal.SIGKILL)
    assert "before it was ready" in told.reason
    assert runtime.available_resources()["GPU"] == 1.0


MODULE = """
    import actorlib

    @actorlib.remote(num_gpus=1)
    class Imported:
        def echo(self, value):
            return value
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a module with an actor class, in a folder of the owner's path."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "actors_of_a_test.py"
    path.write_text(textwrap.dedent(MODULE))
    yield path
    sys.modules.pop(path.stem, None)


def rewrite(module: Path, text: str | None) -> None:
    """Changes what a module will be for those who have not imported it yet."""
    if text is None:
        module.unlink()
    else:
        module.write_text(text)


@pytest.mark.parametrize(
    ("text", "cause", "message"),
    [
        (None, ModuleNotFoundError, "actors_of_a_test"),
        ("raise OSError('libmodel.so is missing')", OSError, "libmodel.so is missing"),
        ("import os; os._exit(5)", None, "exit code 5"),
    ],
    ids=["missing", "raises", "os._exit"],
)
async def test_class_when_its_module_fails_in_the_worker_fails_the_actor(
    each_runtime: Runtime,
    module: Path,
    text: str | None,
    cause: type[Exception] | None,
    message: str,
) -> None:
    imported = importlib.import_module(module.stem).Imported
    rewrite(module, text)
    actor = imported.remote()
    queued = actor.echo.remote(1)
    with pytest.raises(ActorDiedError, match=message) as caught:
        await actor
    await death_of(queued)
    if cause is not None:
        assert isinstance(caught.value.__cause__, cause)
        assert caught.value.exit.cause == "failed to start"
    assert each_runtime.available_resources()["GPU"] == 1.0
    assert await Serial.remote().echo.remote("unharmed") == "unharmed"


# The template dies.


@both_methods
async def test_actors_when_the_template_is_killed_die_and_new_ones_live(
    method: str, bell: Bell
) -> None:
    async with quiet(start_method=method) as runtime:
        waits, busy = Serial.options(num_gpus=1).remote(), Serial.remote()
        marked = [kind for kind in DESCENDANTS if kind != "an unmarked session"]
        home = await waits.household.remote(*marked)
        template = home["template"]
        pids = [*(set(home.values()) - {template}), await busy.pid.remote()]
        waiting = waits.wait.remote("/dev/null")
        running = busy.count_in_c.remote(bell.path)
        await rung(bell)
        with Watched(pids) as watched:
            os.kill(home["template"], signal.SIGKILL)
            told = await death_of(running)
            assert (await death_of(waiting)).cause == "lost"
            assert await left(watched) == []
        assert told.cause == "lost"
        assert "template" in told.reason
        assert told.method == "count_in_c"
        assert runtime.available_resources()["GPU"] == 1.0

        new = Serial.options(num_gpus=1).remote()
        async with asyncio.timeout(PROMPTLY):
            assert (await new.household.remote())["template"] != home["template"]


async def test_template_when_killed_again_and_again_comes_back(
    own_runtime: Runtime,
) -> None:
    del own_runtime
    actor = Serial.remote()
    await actor
    before = open_files()
    for _ in range(2):
        async with asyncio.timeout(PROMPTLY):
            home = await actor.household.remote()
        running = actor.wait.remote("/dev/null")
        os.kill(home["template"], signal.SIGKILL)
        actor, *others = [Serial.remote() for _ in range(3)]
        assert (await death_of(running)).cause == "lost"
        async with asyncio.timeout(PROMPTLY):
            assert await actor.echo.remote(1) == 1
            await asyncio.gather(*(other.echo.remote() for other in others))
            await asyncio.gather(*map(actorlib.kill, others))
        assert open_files() == before


async def test_actors_when_the_template_cannot_come_back_fail_until_it_can(
    module: Path,
) -> None:
    rewrite(module, "")
    async with quiet(preload=[module.stem]) as runtime:
        first = Serial.options(num_gpus=1).remote()
        home = await first.household.remote()
        running = first.wait.remote("/dev/null")
        rewrite(module, None)
        os.kill(home["template"], signal.SIGKILL)
        assert (await death_of(running)).cause == "lost"
        for _ in range(2):
            told = await death_of(Serial.options(num_gpus=1).remote())
            assert module.stem in told.reason
        assert runtime.available_resources()["GPU"] == 1.0
        rewrite(module, "")
        async with asyncio.timeout(PROMPTLY):
            assert await Serial.remote().echo.remote(1) == 1


DYING = """
    import os, signal
    with open({path!r}, "rb+", buffering=0) as tries:
        left = int(tries.read() or b"0")
        tries.seek(0)
        tries.write(b"%d" % max(0, left - 1))
    if left:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def family(template: int) -> set[int]:
    """The children of a template."""
    with open(f"/proc/{template}/task/{template}/children", encoding="ascii") as told:  # noqa: PTH123  # the kernel's
        return set(map(int, told.read().split()))


@pytest.mark.thorough
async def test_template_when_its_successors_die_too_then_a_later_one_serves(
    module: Path, tmp_path: Path
) -> None:
    tries = tmp_path / "tries"
    tries.write_text("0")
    rewrite(module, textwrap.dedent(DYING.format(path=str(tries))))
    async with quiet(preload=[module.stem]) as runtime:
        lasting = Serial.options(max_restarts=1, num_gpus=1).remote()
        home = await lasting.household.remote()
        tries.write_text("3")  # so many die before they greet
        os.kill(home["template"], signal.SIGKILL)
        async with asyncio.timeout(PROMPTLY):
            new = Serial.remote()
            assert await new.echo.remote(1) == 1
            again = await (await lasting).household.remote()
        assert again["template"] != home["template"]
        info = next(i for i in runtime.snapshot().actors if i.resources.get("GPU"))
        assert (info.state, info.restarts) == ("alive", 0)


@both_methods
@pytest.mark.thorough
async def test_actors_when_the_template_dies_while_they_start_are_made_anew(
    method: str,
) -> None:
    async with quiet(start_method=method) as runtime:
        before = Serial.remote()
        for allowed in (0, 3):
            kind = Serial.options(max_restarts=allowed, max_task_retries=allowed)
            home = await before.household.remote()
            actors = [kind.remote() for _ in range(20 if method == "template" else 6)]
            # Now some have been ready, some have been forked, and one is not asked for.
            await actors[0]
            actors.append(kind.remote())
            os.kill(home["template"], signal.SIGKILL)
            async with asyncio.timeout(2 * PROMPTLY):
                answers = await asyncio.gather(
                    *[actor.echo.remote(1) for actor in actors], return_exceptions=True
                )
            for answer in answers:
                # Only who was ready may be gone, and only if it may not be restarted.
                assert answer == 1 or (
                    not allowed
                    and isinstance(answer, ActorDiedError)
                    and answer.exit.cause == "lost"
                )
            assert answers[-1] == 1
            assert not any(info.restarts for info in runtime.snapshot().actors)
            await asyncio.gather(*map(actorlib.kill, actors))
            before = Serial.remote()


@pytest.mark.slow
async def test_template_when_it_is_stopped_then_actors_go_on_and_others_wait(
    own_runtime: Runtime,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    limit = "actorlib._processes.forkserver_launcher._ANSWER_LIMIT"
    monkeypatch.setattr(limit, 0.05)
    kept, killed = Serial.remote(), Serial.options(num_gpus=1).remote()
    home, pid = await kept.household.remote(), await killed.pid.remote()
    logged = asyncio.Semaphore(0)
    caplog.handler.addFilter(lambda _: logged.release() or True)
    with Watched([pid]) as watched:
        os.kill(home["template"], signal.SIGSTOP)
        try:
            starting = Serial.remote()
            end = asyncio.ensure_future(actorlib.kill(killed))
            assert await left(watched) == []
            await logged.acquire()
            await logged.acquire()
            delay = own_runtime.explain(starting)
            assert not end.done()
            assert await kept.echo.remote(2) == 2
            await actorlib.kill(starting)
        finally:
            os.kill(home["template"], signal.SIGCONT)
    await end
    stopped = f"the template process (pid {home['template']}) is stopped"
    assert stopped in delay
    assert caplog.text.count(stopped) == 2
    assert own_runtime.available_resources()["GPU"] == 1.0
    assert await Serial.options(num_gpus=1).remote().echo.remote(1) == 1


async def test_kill_while_the_template_is_replaced_then_the_end_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looking, may_go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    name = "actorlib._processes.forkserver_launcher.kill_leftovers"
    kill_leftovers = pkgutil.resolve_name(name)

    def look(mark: str) -> None:
        loop.call_soon_threadsafe(looking.set)
        may_go_on.wait()
        kill_leftovers(mark)

    async with quiet() as runtime:
        actor = Serial.options(num_gpus=1, max_restarts=1).remote()
        home = await actor.household.remote()
        monkeypatch.setattr(name, look)
        os.kill(home["template"], signal.SIGKILL)
        try:
            await looking.wait()
            end = asyncio.ensure_future(actorlib.kill(actor))
        finally:
            may_go_on.set()
        async with asyncio.timeout(PROMPTLY):
            await end
        assert (await death_of(actor.echo.remote(1))).cause == "asked"
        assert runtime.available_resources()["GPU"] == 1.0


async def test_spare_when_it_is_stopped_or_killed_then_the_next_actor_has_another(
    own_runtime: Runtime,
) -> None:
    kept = Serial.remote()
    home = await kept.household.remote()
    del own_runtime
    # Whatever the template forks besides its workers, now or until the actors are made.
    for number in [signal.SIGSTOP, signal.SIGKILL] * 3:
        for pid in family(home["template"]) - {home["worker"]}:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        async with asyncio.timeout(PROMPTLY):
            assert await Serial.remote().echo.remote(1) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "No module named 'actors_of_a_test'"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("import os; os._exit(3)", "actors_of_a_test"),
        *rarely(
            ("raise OSError('no driver')", "no driver"),
            ("import os; os.kill(os.getpid(), 11)", "actors_of_a_test"),
        ),
    ],
    ids=["missing", "sys.exit", "os._exit", "raises", "segfault"],
)
async def test_preload_when_it_cannot_be_imported_is_named_and_nothing_is_left(
    module: Path, text: str | None, expected: str
) -> None:
    before = open_files()
    rewrite(module, text)
    with pytest.raises(TemplateError, match=expected) as caught:
        async with asyncio.timeout(PROMPTLY):
            await quiet(preload=["json", module.stem])
    assert module.stem in str(caught.value)
    assert not actorlib.is_initialized()
    assert open_files() == before


# kill().

STUBBORN = [
    *("count", "count_in_c", "wait", "ignore_signals", "stop_itself"),
    *("on a loop", "in the constructor"),
]


@pytest.mark.parametrize(
    ("each_runtime", "deed"),
    [*itertools.product(["template"], STUBBORN), ("spawn", "count_in_c")],
    indirect=["each_runtime"],
)
async def test_kill_when_a_method_runs_interrupts_it(
    each_runtime: Runtime, deed: str, bell: Bell
) -> None:
    if deed == "on a loop":
        actor: Any = Looped.options(num_gpus=1).remote()
        running = actor.do.remote("count_in_c", bell.path)
    elif deed == "in the constructor":
        kind = Serial.options(num_gpus=1)
        actor = kind.remote(bell.path, "count_in_c", bell.path)
        running = actor.__ray_ready__.remote()
    else:
        actor = Serial.options(num_gpus=1).remote()
        running = getattr(actor, deed).remote(bell.path)
    queued = actor.echo.remote()
    with Watched([await rung(bell)]) as watched:
        async with asyncio.timeout(PROMPTLY):
            await actorlib.kill(actor)
        assert watched.alive() == []
    assert each_runtime.available_resources()["GPU"] == 1.0
    for ref in (running, queued, actor.echo.remote()):
        told = await death_of(ref)
        assert (told.cause, told.signal) == ("asked", signal.SIGKILL)


MARKED = [kind for kind in DESCENDANTS if kind != "an unmarked session"]


@pytest.mark.parametrize(
    ("each_runtime", "end"),
    [
        *itertools.product(["template"], ["kill", "leave", "exit_at_once"]),
        ("spawn", "kill"),
    ],
    indirect=["each_runtime"],
)
async def test_actor_when_it_ends_then_its_descendants_do_and_no_others(
    each_runtime: Runtime, end: str
) -> None:
    del each_runtime
    actor, other = Serial.remote(), Serial.remote()
    home = await actor.household.remote(*MARKED)
    others = await other.household.remote("a child", "a session", "a daemon")
    del home["template"], others["template"]
    with Watched(home.values()) as watched, Watched(others.values()) as spared:
        if end == "kill":
            await actorlib.kill(actor)
        else:
            await death_of(getattr(actor, end).remote(9))
        assert await asyncio.to_thread(watched.left_of, home) == []
        assert spared.alive() == sorted(others.values())


@pytest.mark.parametrize("actor_class", CLASSES)
async def test_kill_when_a_large_argument_is_on_its_way_fails_its_call(
    runtime: Runtime, bell: Bell, actor_class: str
) -> None:
    actor = CLASSES[actor_class].options(num_gpus=1).remote()
    busy = actor.count_in_c.remote(bell.path)
    await rung(bell)
    large = actor.echo.remote(b"x" * 20_000_000)
    behind = actor.echo.remote("behind")
    async with asyncio.timeout(PROMPTLY):
        await actorlib.kill(actor)
    for ref in (busy, large, behind):
        assert (await death_of(ref)).cause == "asked"
    assert runtime.available_resources()["GPU"] == 1.0
    assert await Serial.remote().echo.remote("unharmed") == "unharmed"


@pytest.mark.parametrize("actor_class", CLASSES)
async def test_kill_when_a_large_result_is_on_its_way_fails_its_call(
    runtime: Runtime, actor_class: str
) -> None:
    actor = CLASSES[actor_class].options(num_gpus=1).remote()
    await actor
    large = b"x" * 20_000_000
    refs = [actor.echo.remote(large) for _ in range(4)]
    assert await refs[0] == large
    async with asyncio.timeout(PROMPTLY):
        await actorlib.kill(actor)
        results = await asyncio.gather(*refs, return_exceptions=True)
    for result in results:
        assert isinstance(result, ActorDiedError) or result == large
    assert (await death_of(actor.echo.remote())).cause == "asked"
    assert runtime.available_resources()["GPU"] == 1.0


async def test_kill_when_many_actors_are_being_started_ends_them_all(
    each_runtime: Runtime,
) -> None:
    actors = [Serial.options(num_gpus=0.01).remote() for _ in range(40)]
    await asyncio.sleep(0)  # their lives begin: some are asked for, some wait
    async with asyncio.timeout(PROMPTLY):
        await asyncio.gather(*map(actorlib.kill, actors))
    ends = [await death_of(actor.echo.remote()) for actor in actors]
    assert [end.cause for end in ends] == ["asked"] * 40
    assert each_runtime.available_resources()["GPU"] == 1.0
