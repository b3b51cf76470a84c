"""A worker is ended before the machine runs out of memory."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from helpers.actors import running
from helpers.host import RecordedHost
from helpers.threads import refuse_once
from hypothesis import given
from hypothesis import strategies as st

import actorlib
from actorlib._enforcement.host_memory import MemoryUsage, memory_usage
from actorlib._features.memory_monitor import runtime as monitor
from actorlib._features.memory_monitor.policy import (
    Candidate,
    choose,
    largest,
    pause_before_next_check,
)
from actorlib.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    Exit,
    OutOfMemoryError,
    WorkerCrashedError,
)

GIB = 1 << 30
FULL = MemoryUsage(96 * GIB, 100 * GIB)
FREE = MemoryUsage(1, 100)
"""So small that it could be full at any moment: the monitor looks again soon."""


def candidate(
    pid: int,
    gib: int,
    *,
    started: float = 0.0,
    retriable: bool = False,
    actor: bool = True,
) -> Candidate:
    return Candidate(pid, f"W{pid}", gib * GIB, started, retriable, actor)


# Which worker.


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        pytest.param([candidate(1, 60), candidate(2, 1)], 1, id="not a small one"),
        pytest.param(
            [candidate(1, 30), candidate(2, 30, retriable=True)], 2, id="retriable"
        ),
        pytest.param(
            [candidate(1, 30), candidate(2, 30, actor=False)], 2, id="a function"
        ),
        pytest.param(
            [candidate(1, 30, started=5.0), candidate(2, 40, started=4.0)],
            1,
            id="the newest",
        ),
        pytest.param(
            [
                candidate(1, 40, actor=False),
                candidate(2, 40, retriable=True),
                candidate(3, 1, retriable=True, actor=False, started=9.0),
            ],
            2,
            id="retriable before function before newest",
        ),
        pytest.param([candidate(1, 47)], None, id="others hold most"),
        pytest.param([], None, id="no worker"),
    ],
)
def test_choice_when_memory_is_short_then_it_follows_the_order(
    candidates: list[Candidate], expected: int | None
) -> None:
    chosen = choose(candidates, FULL)

    assert (None if chosen is None else chosen.pid) == expected


@given(st.lists(st.integers(0, 50), min_size=1), st.integers(0, 100))
def test_choice_whatever_the_sizes_then_it_is_at_least_as_large_as_half_of_them(
    sizes: list[int], used: int
) -> None:
    candidates = [candidate(pid, gib) for pid, gib in enumerate(sizes)]

    chosen = choose(candidates, MemoryUsage(used * GIB, 100 * GIB))

    assert (chosen is None) == (2 * sum(sizes) < used)
    if chosen is not None:
        smaller = sum(one.nbytes <= chosen.nbytes for one in candidates)
        assert 2 * smaller >= len(candidates)


def test_largest_when_there_are_many_then_five_are_listed_in_order() -> None:
    listed = largest([candidate(pid, pid) for pid in range(1, 9)])

    assert listed == tuple((f"W{pid}", pid * GIB) for pid in (8, 7, 6, 5, 4))


def test_pause_when_usage_comes_closer_then_it_is_shorter() -> None:
    pauses = [
        pause_before_next_check(MemoryUsage(used * GIB, 100 * GIB), 0.95)
        for used in (10, 93, 94, 95, 99)
    ]

    assert pauses == [1.0, 0.5, 0.25, 0.05, 0.05]


# How much is in use.

MEMINFO = "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 40 kB\n"
CGROUPS = {
    "version 2": {
        "/proc/self/cgroup": "0::/job\n",
        "/sys/fs/cgroup/job/memory.max": "50000\n",
        "/sys/fs/cgroup/job/memory.current": "49000\n",
        "/sys/fs/cgroup/job/memory.stat": (
            "anon 30000\nfile 9000\ninactive_file 3000\nactive_file 1000\n"
            "slab_reclaimable 500\nshmem 2000\n"
        ),
    },
    "version 1": {
        "/proc/self/cgroup": "4:memory:/job\n0::/\n",
        "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "50000\n",
        "/sys/fs/cgroup/memory/job/memory.usage_in_bytes": "49000\n",
        "/sys/fs/cgroup/memory/job/memory.stat": (
            "inactive_file 1\nactive_file 1\ntotal_inactive_file 3500\n"
            "total_active_file 1000\n"
        ),
    },
}


def recorded(files: dict[str, str]) -> RecordedHost:
    return RecordedHost(files={"/proc/meminfo": MEMINFO} | files, memory=102_400)


def test_usage_when_there_is_no_limit_then_the_machine_counts() -> None:
    assert memory_usage(recorded({})) == MemoryUsage(60 * 1024, 100 * 1024)


@pytest.mark.parametrize("files", CGROUPS.values(), ids=CGROUPS)
def test_usage_when_a_cgroup_is_fuller_then_it_counts_without_page_cache(
    files: dict[str, str],
) -> None:
    assert memory_usage(recorded(files)) == MemoryUsage(44_500, 50_000)


def test_usage_when_the_system_says_nothing_then_it_is_unknown() -> None:
    assert memory_usage(RecordedHost()) is None


# In a runtime.


@actorlib.remote
class Model:
    def ping(self) -> int:
        return os.getpid()

    def wait(self) -> None:
        threading.Event().wait()


@actorlib.remote(max_retries=1)
def run(full: str, tried: str) -> None:
    """Fills the memory, unless it has been tried before."""
    if Path(tried).exists():
        return
    Path(tried).touch()
    Path(full).touch()
    threading.Event().wait()


class Machine:
    """A machine on which memory is short when a file exists, until a worker ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self._path = path
        monkeypatch.setattr(monitor, "memory_usage", self._usage)
        monkeypatch.setattr(monitor, "private_sizes", self._sizes)

    def _usage(self, _: object) -> MemoryUsage:
        return FULL if self._path.exists() else FREE

    def _sizes(self, _: object, workers: Any) -> dict[int, int]:
        self._path.unlink()
        return dict.fromkeys(workers, 90 * GIB // len(workers))


@pytest.mark.process
async def test_worker_when_memory_is_short_then_it_is_ended_and_its_calls_say_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    full = tmp_path / "full"
    Machine(monkeypatch, full)
    async with running(memory_threshold=0.9, preload=[__name__]):
        # A function without a retry: the error names the largest.
        with pytest.raises(OutOfMemoryError) as caught:
            await run.options(max_retries=0).remote(str(full), str(tmp_path / "once"))
        error = caught.value
        assert isinstance(error, WorkerCrashedError)
        assert error.exit.cause == "out of memory"
        assert error.threshold == 0.9
        ((title, nbytes),) = error.workers
        assert title.startswith("run (pid ")
        assert nbytes == 90 * GIB
        assert "96% of the memory was in use (96 GiB of 100 GiB" in str(error)
        assert f"the largest workers were {title}: 90 GiB" in str(error)

        # An actor: its calls get the error.
        model = Model.remote()
        await model
        full.touch()
        with pytest.raises(OutOfMemoryError) as caught:
            await model.wait.remote()
        assert isinstance(caught.value, ActorDiedError)

        # One that may restart does.
        model = Model.options(max_restarts=1).remote()
        before = await model.ping.remote()
        full.touch()
        with pytest.raises(ActorUnavailableError) as unavailable:
            await model.wait.remote()
        assert unavailable.value.exit.cause == "out of memory"
        await model
        after = await model.ping.remote()
        assert after != before

        # A function with a retry runs again, and the actor beside it goes on.
        await run.remote(str(full), str(tmp_path / "twice"))
        assert await model.ping.remote() == after


@pytest.mark.process
async def test_monitor_when_a_check_fails_for_a_moment_then_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    full = tmp_path / "full"
    Machine(monkeypatch, full)
    read = monitor.memory_usage
    earlier = iter([None])  # as while too many files are open
    errors = refuse_once(monkeypatch, monitor.private_sizes)
    monkeypatch.setattr(monitor, "_UNREADABLE", 0.0)
    monkeypatch.setattr(monitor, "memory_usage", lambda host: next(earlier, read(host)))
    async with running(memory_threshold=0.9, preload=[__name__]):
        model = Model.remote()
        await model
        full.touch()
        async with asyncio.timeout(60):
            with pytest.raises(OutOfMemoryError):
                await model.wait.remote()
    assert errors == []


@pytest.mark.memory
async def test_monitor_when_the_threshold_is_one_then_no_worker_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "full"
    path.touch()
    Machine(monkeypatch, path)
    async with running(memory_threshold=1) as runtime:
        _held = await Model.remote()
        await asyncio.sleep(10)
        assert path.exists()  # nobody has looked
        assert runtime.snapshot().actors[0].state == "alive"


def test_error_when_it_travels_then_it_keeps_what_it_says() -> None:
    how = Exit(cause="out of memory")
    error = OutOfMemoryError(
        "m", exit=how, actor_id="a", workers=(("W", 1),), threshold=0.5
    )

    copy = pickle.loads(pickle.dumps(error))

    assert vars(copy) == vars(error)
    assert str(copy) == "m"


PROGRAM = """
import asyncio
import os
import time

import actorlib
from actorlib.exceptions import OutOfMemoryError


@actorlib.remote(max_retries=0)
def grow():
    blocks = []
    while True:  # 400 MB/s at most: 0.8 s from the threshold to the limit
        blocks.append(bytearray(os.urandom(4096) * 2048))
        time.sleep(0.02)


async def main():
    async with actorlib.init(num_cpus=2, memory_threshold=0.6):
        try:
            await grow.remote()
        except OutOfMemoryError as error:
            print(len(error.workers), error.threshold)


asyncio.run(main())
"""


@pytest.fixture
def small_cgroup() -> Any:
    """A cgroup of 800 MiB for a program that starts in it."""
    parent = Path("/sys/fs/cgroup/memory")
    limit = "memory.limit_in_bytes"
    if not parent.exists():
        parent, limit = Path("/sys/fs/cgroup"), "memory.max"
    folder = parent / f"actorlib-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a cgroup: {error}")
    try:
        try:
            (folder / limit).write_text(str(800 << 20))
        except OSError as error:
            pytest.skip(f"cannot limit the memory of a cgroup: {error}")
        yield folder
    finally:
        folder.rmdir()


@pytest.mark.process
@pytest.mark.thorough
def test_function_when_it_fills_its_cgroup_then_it_alone_is_ended(
    small_cgroup: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(dedent(PROGRAM))
    enter = f"echo $$ > {small_cgroup}/cgroup.procs && exec {sys.executable} {program}"

    ran = subprocess.run(
        ["sh", "-c", enter], capture_output=True, text=True, timeout=60, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "1 0.6\n"
