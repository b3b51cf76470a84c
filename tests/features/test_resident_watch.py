"""Actors that say ``memory=`` are looked at, and told of if they have more."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.scripted import be_busy, scripted
from helpers.threads import refuse_once

import actorlib
from actorlib._core.engine import find_engine
from actorlib._enforcement.host_memory import resident_sizes
from actorlib._features.watchdog.resident_watch import PERIOD
from actorlib._owner import machine
from actorlib.accelerators import Host

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.scripted import ScriptedLauncher

    from actorlib._owner.engine import LocalEngine

pytestmark = [
    pytest.mark.memory,
    pytest.mark.skipif(sys.platform != "linux", reason="nothing is seen elsewhere"),
]

MIB = 1 << 20
LOOK = PERIOD * 1.01


class Kernel(Host):
    """A machine whose processes have what they are told to.

    Attributes:
        resident: Bytes by process id; each leads a session of its own.
        children: Bytes of a child of each of these.
        shared: Bytes of each of them that are others', too.
        looks: How often all were looked at.
    """

    def __init__(self) -> None:
        self.resident: dict[int, int] = {}
        self.children: dict[int, int] = {}
        self.shared: dict[int, int] = {}
        self.looks = 0

    def glob(self, pattern: str) -> list[str]:
        if pattern != "/proc/[0-9]*/stat":
            return super().glob(pattern)
        self.looks += 1
        every = [*self.resident, *(pid + 100_000 for pid in self.children)]
        return [f"/proc/{pid}/stat" for pid in every]

    def read_text(self, path: str) -> str | None:
        match path.split("/"):
            case ["", "proc", pid, "stat"] if pid.isdecimal():
                return self._stat(int(pid))
            case ["", "proc", pid, "smaps_rollup"] if pid.isdecimal():
                nbytes = self.resident.get(int(pid), 0) - self.shared.get(int(pid), 0)
                return f"Pss: {nbytes // 1024} kB\n"
            case _:
                return super().read_text(path)

    def _stat(self, pid: int) -> str | None:
        child = pid - 100_000
        if child in self.children:
            session, parent, nbytes = child, child, self.children[child]
        elif pid in self.resident:
            session, parent, nbytes = pid, 1, self.resident[pid]
        else:
            return None
        pages = nbytes // self.page_size
        return f"{pid} (x) S {parent} {session} {session} {'0 ' * 17}{pages} 0"


@actorlib.remote
class Model:
    def work(self) -> None: ...


@actorlib.remote
def compute() -> None: ...


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(machine, "Host", lambda: kernel)
    return kernel


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "actorlib")
    return lambda: [
        record.getMessage()
        for record in caplog.records
        if "host's memory" in record.getMessage()
    ]


async def _looks(number: int) -> None:
    """Lets so many looks pass; the clock jumps."""
    for _ in range(number):
        await asyncio.sleep(LOOK)


def _used() -> list[int | None]:
    """What the only actor has, as the snapshot says."""
    return [info.host_memory for info in cast("LocalEngine", find_engine()).actors()]


async def _started(launcher: ScriptedLauncher, actor: Any) -> int:
    await actor
    return launcher.workers[-1].pid


async def test_memory_when_it_was_asked_for_then_the_snapshot_shows_what_is_used(
    kernel: Kernel,
) -> None:
    async with scripted({}, num_cpus=2) as launcher:
        model = Model.options(memory="10MiB").remote()
        pid = await _started(launcher, model)
        assert _used() == [None]
        kernel.resident[pid], kernel.children[pid] = 3 * MIB, 4 * MIB
        await _looks(1)
        assert _used() == [7 * MIB]
        actorlib.kill(model)


@pytest.mark.parametrize("options", [{}, {"memory": "1MiB", "enforcement": "off"}])
async def test_memory_when_nobody_asked_or_it_is_off_then_nothing_is_read(
    kernel: Kernel, options: dict[str, Any]
) -> None:
    async with scripted({}, num_cpus=2) as launcher:
        model = Model.options(**options).remote()
        kernel.resident[await _started(launcher, model)] = 3 * MIB
        await compute.options(**options).remote()
        kernel.resident[launcher.workers[-1].pid] = 3 * MIB
        await _looks(3)
        assert _used() == [None]
        assert kernel.looks == 0


async def test_memory_when_the_actor_is_gone_then_nothing_is_read_any_more(
    kernel: Kernel,
) -> None:
    async with scripted({}, num_cpus=2) as launcher:
        model = Model.options(memory="1MiB").remote()
        await _started(launcher, model)
        await _looks(2)
        actorlib.kill(model)
        await _looks(1)
        before = kernel.looks
        await _looks(3)
        assert kernel.looks == before > 0


async def test_memory_when_no_thread_can_be_started_for_a_moment_then_it_goes_on(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = refuse_once(monkeypatch, resident_sizes)
    async with scripted({}, num_cpus=2) as launcher:
        model = Model.options(memory="10MiB").remote()
        kernel.resident[await _started(launcher, model)] = 3 * MIB
        await _looks(2)
        assert errors == []
        assert _used() == [3 * MIB]
        actorlib.kill(model)


async def test_memory_when_it_is_over_twice_then_the_log_says_so_once(
    kernel: Kernel, told: Callable[[], list[str]]
) -> None:
    async with scripted({}, num_cpus=2) as launcher:
        model = Model.options(memory="2MiB").remote()
        pid = await _started(launcher, model)
        kernel.resident[pid] = 3 * MIB
        await _looks(1)
        assert told() == []
        await _looks(3)
        assert len(told()) == 1
        for words in (f"pid {pid}", "3 MiB", "memory='2 MiB'", "Model"):
            assert words in told()[0]


async def test_memory_when_it_is_shared_with_others_then_nobody_is_told(
    kernel: Kernel, told: Callable[[], list[str]]
) -> None:
    async with scripted({}, num_cpus=2) as launcher:
        model = Model.options(memory="2MiB").remote()
        pid = await _started(launcher, model)
        kernel.resident[pid], kernel.shared[pid] = 3 * MIB, 2 * MIB
        await _looks(4)
        assert told() == []
        kernel.resident[pid] = 5 * MIB  # 3 of its own
        await _looks(3)
        assert len(told()) == 1


async def test_memory_when_it_is_over_now_and_then_nobody_is_told(
    kernel: Kernel, told: Callable[[], list[str]]
) -> None:
    async with scripted({}, num_cpus=2) as launcher:
        model = Model.options(memory="2MiB").remote()
        pid = await _started(launcher, model)
        for _ in range(3):
            kernel.resident[pid] = 3 * MIB
            await _looks(1)
            kernel.resident[pid] = MIB
            await _looks(1)
        assert told() == []


async def test_memory_of_a_function_when_over_twice_then_as_an_actor(
    kernel: Kernel, told: Callable[[], list[str]]
) -> None:
    called = asyncio.Event()
    async with scripted({"function": be_busy(called)}, num_cpus=2) as launcher:
        engine = cast("LocalEngine", find_engine())
        call = compute.options(memory="2MiB").remote()
        await called.wait()
        pid = launcher.workers[-1].pid
        kernel.resident[pid] = 3 * MIB
        await _looks(3)

        [group] = engine.snapshot().worker_groups
        assert group.host_memory == (3 * MIB,)
        [line] = told()
        for words in (f"compute (pid {pid})", "3 MiB", "memory='2 MiB'"):
            assert words in line
        call.cancel()


async def test_memory_of_a_function_when_it_is_idle_then_the_worker_is_told_of(
    kernel: Kernel, told: Callable[[], list[str]]
) -> None:
    async with scripted({}, num_cpus=2) as launcher:
        await compute.options(memory="2MiB").remote()
        kernel.resident[launcher.workers[-1].pid] = 3 * MIB
        await _looks(2)
        assert "an idle worker of functions (pid" in told()[0]
