"""What ``actorlib stack`` shows of threads: stuck, stopped, blocked, and the user's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from helpers.owners import Bell, Owner

from actorlib._cli.stack import text_of
from actorlib._features.stacks.runtime import (
    frames_in,
    tasks_in,
    worker_tasks,
    worker_threads,
)
from actorlib._queries.processes import usage
from actorlib._queries.rows import Frame, Stacks, Task, Thread
from actorlib._rows.rows import decode_row
from actorlib.exceptions import RuntimeUnreachableError

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.goldens import Golden
    from helpers.listings import Command

on_linux = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
]

STUCK = """
import asyncio, os, sys, threading, time
import actorlib
from helpers.owners import listen, tell

METHOD, PATH = sys.argv[1:]

@actorlib.remote
class Model:
    def pid(self):
        return os.getpid()

    def predict(self):
        self.bell = os.open(PATH, os.O_WRONLY)
        threading.Thread(target=self.help_out, daemon=True).start()
        self.stand_in_c()

    # Rung in C and in the frame that stays: whoever hears it sees no other.
    def stand_in_c(self):
        os.write(self.bell, b"0\\n")
        time.sleep(1000)

    def help_out(self):
        os.write(self.bell, b"0\\n")
        time.sleep(1000)

def block():
    tell("blocked")
    listen()

async def main():
    async with actorlib.init(num_cpus=4, grace=0, start_method=METHOD):
        model = Model.options(name="m1").remote()
        tell(await model.pid.remote())
        call = model.predict.remote()
        await asyncio.to_thread(listen)
        block()

asyncio.run(main())
"""


LOOPED = """
import asyncio, os, sys, threading
import actorlib
from helpers.owners import listen, tell

@actorlib.remote
class Model:
    def __init__(self, path):
        self.bell = os.open(path, os.O_WRONLY)

    def pid(self):
        return os.getpid()

    async def wait(self):
        self.child = asyncio.create_task(self.help_out(), name="helper")
        await asyncio.Event().wait()

    async def help_out(self):
        os.write(self.bell, b"0\\n")
        await asyncio.Event().wait()

    async def predict(self):
        self.stand_still()

    def stand_still(self):
        os.write(self.bell, b"0\\n")
        threading.Event().wait()

async def main():
    async with actorlib.init(num_cpus=4, grace=0):
        model = Model.options(name="m1").remote(sys.argv[1])
        tell(await model.pid.remote())
        waits = model.wait.remote()
        await asyncio.to_thread(listen)
        stands = model.predict.remote()
        await asyncio.to_thread(listen)

asyncio.run(main())
"""


def functions(row: Thread | Task) -> list[str]:
    """The user's functions of a thread, the outermost first."""
    return [frame.function for frame in row.frames if frame.is_users]


def stacks_in(document: str) -> Stacks:
    """What a command has written."""
    return decode_row(Stacks, json.loads(document))


class TestWorker:
    pytestmark = on_linux

    @pytest.mark.parametrize("method", ["template", "spawn"])
    @pytest.mark.thorough
    def test_stack_when_threads_are_stuck_in_c_then_where_each_of_them_is(
        self, tmp_path: Path, bell: Bell, method: str, command: Command
    ) -> None:
        with Owner(STUCK, method, bell.path, folder=tmp_path) as owner:
            pid = owner.told()
            bell.heard()
            bell.heard()
            of = ("--pid", str(owner.pid))

            told = command("stack", "m1", "--json", *of)
            page = command("stack", "m1", *of)
            alive = worker_threads(pid, "it")
            owner.go_on()
            assert owner.told() == "blocked"
            blocked = command("stack", str(pid), "--json", *of)
            named = command("stack", "m1", *of)
            own = command("stack", "owner", "--json", *of)
            owner.go_on()
            assert owner.end() == 0

        assert (told.code, told.err) == (0, "")
        found = stacks_in(told.out)
        assert found.pid == pid
        main, helper = found.threads
        assert functions(main) == ["predict", "stand_in_c"]
        assert functions(helper) == ["help_out"]
        assert main.number == pid
        assert "in stand_in_c" in page.out
        assert "frames of actorlib and Python" in page.out
        assert [functions(thread) for thread in alive] == [
            ["predict", "stand_in_c"],
            ["help_out"],
        ]
        # Its program does not answer: the pid of the actor will do.
        assert functions(stacks_in(blocked.out).threads[0]) == [
            "predict",
            "stand_in_c",
        ]
        assert named.code == 4
        assert "has been blocked for" in named.err
        threads = {row.name: row for row in stacks_in(own.out).threads}
        assert functions(threads["MainThread"])[-2:] == ["block", "listen"]
        tasks = stacks_in(own.out).tasks
        assert functions(tasks[0]) == ["main"]

    def test_stack_when_an_actor_has_a_loop_then_its_tasks_though_it_is_blocked(
        self, tmp_path: Path, bell: Bell, command: Command
    ) -> None:
        with Owner(LOOPED, bell.path, folder=tmp_path) as owner:
            pid = owner.told()
            bell.heard()

            os.kill(pid, signal.SIGSTOP)
            while usage(pid).state != "T":  # the kernel stops it in its own time
                os.sched_yield()
            with pytest.raises(RuntimeUnreachableError, match="it is stopped"):
                worker_threads(pid, "it")
            os.kill(pid, signal.SIGCONT)
            idle, missing = worker_tasks(pid, "it", worker_threads(pid, "it"))
            owner.go_on()
            bell.heard()
            threads = worker_threads(pid, "it")
            blocked, still_missing = worker_tasks(pid, "it", threads)
            page = command("stack", "m1", "--pid", str(owner.pid))
            owner.go_on()
            assert owner.end() == 0

        assert (missing, still_missing) == ("", "")
        by_name = {task.name: task for task in idle}
        helper = by_name.pop("helper")
        (wait,) = by_name.values()
        assert functions(helper) == ["help_out"]
        assert (wait.method, functions(wait)) == ("wait", ["wait"])
        assert len(wait.call) == 32
        (runs,) = [task for task in blocked if task.is_running]
        assert (runs.method, functions(runs)) == (
            "predict",
            ["predict", "stand_still"],
        )
        assert len(blocked) == 3
        assert functions(threads[0]) == ["predict", "stand_still"]
        assert f"call {runs.call} of predict, which runs now" in page.out

    def test_stack_when_a_process_has_no_such_file_then_it_gets_no_signal(self) -> None:
        with subprocess.Popen(["sleep", "100"]) as other:
            with pytest.raises(RuntimeUnreachableError, match="it shows no stacks"):
                worker_threads(other.pid, "it")
            assert other.poll() is None
            other.kill()
        with pytest.raises(RuntimeUnreachableError, match="it has ended"):
            worker_threads(other.pid, "it")


# Values.


def test_text_when_a_thread_has_written_it_then_its_frames_outermost_first() -> None:
    text = (
        "Stack (most recent call first):\n"
        '  File "/u/model.py", line 7 in predict\n'
        '  File "/u/a, line 3 in b.py", line ??? in <module>\n'
    )

    assert [(f.file, f.line, f.function) for f in frames_in(text)] == [
        ("/u/a, line 3 in b.py", 0, "<module>"),
        ("/u/model.py", 7, "predict"),
    ]
    assert frames_in("") == ()


def frame(function: str, *, is_users: bool) -> Frame:
    return Frame(file="f.py", line=1, function=function, code="", is_users=is_users)


def test_tasks_when_a_worker_has_written_then_its_own_and_users_first() -> None:
    task = {
        "name": "a",
        "coroutine": "f",
        "is_running": False,
        "frames": [[os.__file__, 3, "inner"]],
        "method": "",
        "call": "",
    }
    ours = {**task, "name": "b", "frames": [[__file__, 1, "ours"]]}
    line = json.dumps({"pid": 7, "tasks": [task], "left_out": 0}).encode() + b"\n"
    own = json.dumps({"pid": 8, "tasks": [task, ours], "left_out": 2}).encode() + b"\n"

    assert tasks_in(b"", 8) is None
    assert tasks_in(line + own[:-1], 8) is None
    told = tasks_in(b"Stack (most recent call first):\n" + line + own, 8)

    assert told is not None
    rows, missing = told
    assert [row.frames[0].function for row in rows] == ["ours", "inner"]
    assert missing == "2 more are not shown"


def test_page_of_stacks(golden: Golden) -> None:
    def task(name: str, coroutine: str, method: str, *, is_running: bool) -> Task:
        return Task(
            name=name,
            coroutine=coroutine,
            is_running=is_running,
            method=method,
            call="0a1b" if method else "",
            frames=(frame("f", is_users=True),),
        )

    functions = ("run", "serve", "predict", "wait", "acquire")
    frames = tuple(frame(name, is_users=name == "predict") for name in functions)
    found = Stacks(
        pid=1,
        title="Model (pid 1)",
        threads=(Thread(name="main thread", number=1, frames=frames),),
        tasks=(
            task("T1", "Coroutines._run_async", "predict", is_running=True),
            task("T2", "Model.child", "predict", is_running=False),
            task("T3", "Model.other", "", is_running=False),
        ),
        tasks_missing="it is stuck",
    )

    page = text_of(found)

    assert "  ... 2 frames of actorlib and Python\n  f.py:1 in predict" in page
    assert text_of(found, has_all=True).count("f.py:1 in ") == 8
    golden.check("stack.txt", page)
