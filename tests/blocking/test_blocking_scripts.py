"""What must be true of the operating system: how scripts begin, and how they end."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from helpers.owners import PATHS, Owner, Watched

import actorlib.blocking

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.process, pytest.mark.slow]

BEGINS = """
    import os, sys, threading
    import actorlib.blocking as ray
    from helpers.owners import listen, tell

    @ray.remote
    class Worker:
        def home(self):
            return os.getpid(), os.getppid()

        def wait(self):
            threading.Event().wait()

    worker = Worker.remote()
    tell(ray.get(worker.home.remote()))
    waiting = worker.wait.remote()
    listen()
"""

USUAL = ("the last line", "kill -9")
ENDS = {
    "the last line": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "an error": ("raise ValueError('its own')", 1),
    "os._exit": ("os._exit(4)", 4),
    "kill -9": ("os.kill(os.getpid(), 9)", -9),
    "a thread that waits": (
        "threading.Thread(target=ray.get, args=[waiting], daemon=True).start()",
        0,
    ),
    "a thread that goes on": (
        "threading.Thread(target=lambda: print(ray.get(ray.put(5)))).start()",
        0,
    ),
}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(end, marks=[] if end in USUAL else pytest.mark.thorough)
        for end in ENDS
    ],
)
def test_script_when_it_ends_then_nothing_is_left(tmp_path: Path, end: str) -> None:
    text, code = ENDS[end]
    with Owner(textwrap.dedent(BEGINS) + text, folder=tmp_path) as owner:
        with Watched(owner.told()) as home:
            owner.go_on()
            assert owner.end() == code
            assert home.left() == []
        assert ("ValueError: its own" in owner.err) == (end == "an error")
        assert "Exception ignored" not in owner.err
        assert ("5" in owner.out) == (end == "a thread that goes on")
        assert owner.leftovers() == []


INTERRUPTED = """
    for wait in (
        lambda: ray.get(waiting),
        lambda: ray.get([waiting, worker.wait.remote()]),
        lambda: ray.wait([waiting]),
    ):
        threading.Timer(0.1, tell, ["here"]).start()
        try:
            wait()
        except KeyboardInterrupt:
            tell("interrupted")
    tell(ray.get(ray.put("goes on")))
    ray.get(waiting)
"""


def test_script_when_interrupted_then_at_once_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    program = textwrap.dedent(BEGINS) + textwrap.dedent(INTERRUPTED)
    with Owner(program, folder=tmp_path) as owner:
        with Watched(owner.told()) as home:
            owner.go_on()
            for _ in range(3):
                assert owner.told() == "here"
                owner.signal(signal.SIGINT, group=True)
                assert owner.told() == "interrupted"
            assert owner.told() == "goes on"
            owner.signal(signal.SIGINT, group=True)
            assert owner.end() == -signal.SIGINT
            assert home.left() == []
        assert "KeyboardInterrupt" in owner.err
        assert owner.leftovers() == []


def run(program: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that comes through a pipe, as a session of a person's does."""
    return subprocess.run(
        [sys.executable, *flags],
        input=textwrap.dedent(program),
        env={"PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def run_file(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that is in a file, which multiprocessing may import."""
    script = folder / "script.py"
    script.write_text(program, encoding="utf-8")
    return run("", str(script))


REPL = """\
import actorlib.blocking as ray
from helpers.actors import Counter
@ray.remote
class Adder:
    def add(self, number):
        print("adding")
        return number + 1

adder = Adder.remote()
ray.get(adder.add.remote(41))
counter = Counter.remote()
first, kept = counter.add.remote(), ray.put([7])
@ray.remote
def function():
    return ray.get([counter.add.remote(), first, kept])

@ray.remote
class Plain:
    def go(self):
        return ray.get([counter.add.remote(), first, kept])
    def nest(self):
        return ray.get([function.remote(), Async.remote().go.remote()])

@ray.remote
class Async:
    async def go(self):
        return [await counter.add.remote(), await first, await kept]

ray.get(function.remote())
ray.get(Plain.remote().go.remote())
ray.get(Async.remote().go.remote())
sorted(ray.get(Plain.remote().nest.remote()))
"""


def test_repl_when_lines_mention_what_others_made_then_they_run() -> None:
    done = run(REPL, "-i", "-q")

    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    printed = [line for line in done.stdout.splitlines() if "adding" not in line]
    assert "adding" in done.stdout
    assert printed == [
        "42",
        "[2, 1, [7]]",
        "[3, 1, [7]]",
        "[4, 1, [7]]",
        "[[5, 1, [7]], [6, 1, [7]]]",
    ]


STARTS_ITSELF = """
    import os
    import actorlib.blocking as ray
    from helpers.actors import Echo

    @ray.remote
    def given():
        return os.environ.get("GIVEN")

    print(ray.is_initialized())
    os.environ["ACTORLIB_ENGINE"] = "inline"  # which starts at once
    for needs in (
        lambda: ray.get([]),
        lambda: ray.put(1),
        lambda: ray.wait([]),
        lambda: ray.get_gpu_ids(),
        lambda: ray.get_runtime_context().get_node_id(),
        lambda: given.remote(),
    ):
        needs()
        print(ray.is_initialized(), end=" ")
        ray.shutdown()
        ray.shutdown()
    del os.environ["ACTORLIB_ENGINE"]
    print(ray.is_initialized())
    for needs in (ray.nodes, ray.cluster_resources, ray.available_resources):
        try:
            needs()
        except RuntimeError as error:
            print(error)
    with ray.init(num_cpus=3, runtime_env={"env_vars": {"GIVEN": "yes"}}):
        handle = Echo.remote()
        ref = handle.echo.remote(1)
        print(ray.cluster_resources()["CPU"], ray.get(ref))
        look = lambda echo: os.environ["GIVEN"]
        print(ray.get([given.remote(), handle.__ray_call__.remote(look)]))
    try:
        handle.echo.remote(2)
    except ValueError as error:
        print(type(error).__name__)
    print(ray.get(ref), ray.get(Echo.remote().echo.remote(3)))
"""


def test_script_when_it_ends_before_parts_of_results_then_it_reports_none() -> None:
    text = """
import time
import actorlib.blocking as ray

@ray.remote(num_returns=2)
def pair():
    time.sleep(60)
    return 1, 2

@ray.remote(num_returns=2)
def items():
    yield 1
    time.sleep(60)
    yield 2

ray.init(num_cpus=2)
kept = [pair.remote(), items.remote()]
print(ray.get(kept[1][0]))
"""
    done = run(text)
    assert (done.stdout, done.stderr, done.returncode) == ("1\n", "", 0)


def test_script_when_it_does_not_start_a_runtime_then_it_starts_by_itself() -> None:
    done = run(STARTS_ITSELF)
    needs_init = "no runtime is running in this process: call init() first\n"
    assert done.stdout == (
        f"False\n{'True ' * 6}False\n{needs_init * 3}3.0 1\n['yes', 'yes']\n"
        "ActorHandleNotFoundError\n1 3\n"
    ), done.stderr


def test_script_when_told_to_start_nothing_then_it_says_what_to_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACTORLIB_AUTO_INIT", "0")
    with pytest.raises(
        RuntimeError, match=r"ACTORLIB_AUTO_INIT=0.*call init\(\) first"
    ):
        actorlib.blocking.put(1)


FORKS = """
    import multiprocessing, os
    import actorlib.blocking as ray
    from helpers.actors import Echo, Gate

    if __name__ == "__main__":
        ray.init()
        echo = Echo.remote()
        gate = Gate.remote()
        ref = gate.wait.remote()

    def child():
        for use in (lambda: ray.put(1), lambda: echo.echo.remote(1), lambda: ref.get()):
            try:
                use()
            except Exception as error:
                print(type(error).__name__, "fork" in str(error), flush=True)

    def spawned():
        try:
            ray.put(1)
        except RuntimeError as error:
            print(error, flush=True)
        with ray.init(num_cpus=1):
            print(ray.get(ray.put(2)), flush=True)

    if __name__ == "__main__":
        pid = os.fork()
        if not pid:
            child()
            os._exit(0)
        os.waitpid(pid, 0)
        for kind in ("fork", "spawn"):
            process = multiprocessing.get_context(kind).Process(target=spawned)
            process.start()
            process.join()
            print(kind, process.exitcode, flush=True)
        print(ray.get(echo.echo.remote(2)))
"""


@pytest.mark.thorough
def test_child_when_it_is_no_actor_then_it_is_told_what_to_do(tmp_path: Path) -> None:
    done = run_file(tmp_path, textwrap.dedent(FORKS))
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "RuntimeNotStartedError True",
        "ActorHandleNotFoundError True",
        "RuntimeError True",
    ], done.stderr
    assert "this process is a fork" in lines[3]
    assert lines[4:6] == ["2", "fork 0"]
    assert "started by multiprocessing" in lines[6]
    assert lines[7:] == ["2", "spawn 0", "2"]


SPAWNS = """
import multiprocessing
import actorlib.blocking as ray
ray.init(engine="inline")
child = multiprocessing.get_context('spawn').Process(target=print)
child.start(); child.join(); print(child.exitcode)
"""


def test_script_when_multiprocessing_imports_it_then_it_does_not_run_again(
    tmp_path: Path,
) -> None:
    done = run_file(tmp_path, SPAWNS)
    assert done.stdout == "1\n"
    assert "if __name__ == '__main__':" in done.stderr
