"""The end of a runtime that has calls of functions."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from helpers.actors import gone, running
from helpers.functions import pid

import actorlib
from actorlib.exceptions import WorkerCrashedError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.process

PROGRAM = """
import asyncio, os, time
import actorlib

@actorlib.remote
def wait(path):
    open(path, "w").write(str(os.getpid()))
    time.sleep(1000)

async def main(path):
    async with actorlib.init(num_cpus=1, num_gpus=0):
        refs = [wait.remote(path) for _ in range(100)]
        while not (os.path.exists(path) and open(path).read()):
            await asyncio.sleep(0.01)
        print("ready", flush=True)
        await asyncio.gather(*refs)

import sys
asyncio.run(main(sys.argv[1]))
"""


@actorlib.remote
def rest() -> None:
    time.sleep(1_000)


async def test_shutdown_when_very_many_calls_wait_then_all_fail() -> None:
    async with running(num_cpus=2, grace=0.1):
        first = await pid.remote()
        refs = [rest.remote() for _ in range(10_000)]
    answers = await asyncio.gather(*refs, return_exceptions=True)
    assert {type(answer) for answer in answers} == {WorkerCrashedError}
    assert "the runtime was shut down" in str(answers[-1])
    await gone(first)


async def test_call_when_the_runtime_is_over_then_it_is_refused() -> None:
    async with running(num_cpus=1):
        await pid.remote()
    with pytest.raises(RuntimeError, match="no runtime"):
        pid.remote()


async def test_workers_when_killed_in_the_middle_then_every_call_is_answered() -> None:
    async with running(num_cpus=2) as runtime:
        refs = [pid.options(max_retries=-1).remote() for _ in range(3_000)]
        for place in (500, 1_500, 2_500):
            await refs[place]
            (group,) = runtime.snapshot().worker_groups
            for number in group.pids:
                if number:
                    # It may be gone since the last time, and not be told yet.
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(number, signal.SIGKILL)
        assert len(await asyncio.gather(*refs)) == 3_000
        assert runtime.available_resources()["CPU"] == 2


async def test_loans_when_calls_are_over_then_nothing_is_counted_any_more() -> None:
    async with running(num_cpus=2):
        engine = actorlib._core.engine.find_engine()
        give = actorlib.remote(lambda value: value)
        ref = actorlib.put(b"x" * 1_000_000)
        for _ in range(20):
            await give.remote([ref])
        pool = engine.actor_table.pool  # type: ignore[union-attr]
        assert len(pool.calls) == 0
        del ref


def test_ctrl_c_when_functions_run_then_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        worker = int(path.read_text())
        program.send_signal(signal.SIGINT)
        assert program.wait(20) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


async def test_nested_calls_when_one_cpu_then_none_hangs() -> None:
    inner = actorlib.remote(lambda n: n + 1)

    @actorlib.remote
    def outer(number: int) -> int:
        refs = [inner.remote(number) for _ in range(5)]
        return sum(actorlib.get(refs))

    async with running(num_cpus=1):
        refs = [outer.remote(number) for number in range(10)]
        assert await asyncio.gather(*refs) == [5 * (n + 1) for n in range(10)]


async def test_device_function_when_it_waits_then_its_cpu_is_lent() -> None:
    inner = actorlib.remote(lambda: 1)
    outer = actorlib.remote(num_gpus=1)(lambda: actorlib.get(inner.remote()))

    async with running(num_cpus=1, num_gpus=1):
        assert await outer.remote() == 1
        assert await outer.remote() == 1
