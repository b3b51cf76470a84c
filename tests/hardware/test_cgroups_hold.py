"""On a machine with a delegated cgroup v2 tree: memory and CPUs of the host hold.

For example ``systemd-run --user --scope -p Delegate=yes -- python -m pytest -m
accelerator tests/hardware/test_cgroups_hold.py``.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import actorlib
from actorlib._features.cgroup.delegation import find_delegation
from actorlib.accelerators import Host
from actorlib.exceptions import ActorDiedError

pytestmark = [pytest.mark.accelerator, pytest.mark.process]

MIB = 2**20


@actorlib.remote
class Eater:
    """Takes what it is told to."""

    def memory(self, nbytes: int) -> int:
        return len(b"x" * nbytes)  # each page is written to

    def cpu(self, seconds: float) -> int:
        """Works for so long; gives how often the kernel had it wait."""
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass
        line = Path("/proc/self/cgroup").read_text(encoding="utf-8").split("0::")[1]
        own = Path(f"/sys/fs/cgroup{line.split()[0]}", "cpu.stat")
        words = own.read_text(encoding="utf-8").split()
        return int(words[words.index("nr_throttled") + 1])


@pytest.fixture(autouse=True)
def _delegated() -> None:
    """Skips where the kernel cannot be asked."""
    fault = next(filter(None, find_delegation(Host()).faults.values()), "")
    if fault:
        pytest.skip(fault)


async def test_memory_when_it_is_exceeded_then_the_kernel_ends_that_actor_alone() -> (
    None
):
    async with actorlib.init(num_cpus=4, enforcement="cgroup"):
        greedy = await Eater.options(memory="256MiB").remote()
        modest = await Eater.options(memory="256MiB").remote()
        with pytest.raises(ActorDiedError, match="memory='256 MiB'") as caught:
            await greedy.memory.remote(1024 * MIB)
        assert caught.value.exit.cause == "out of memory"
        assert await modest.memory.remote(64 * MIB) == 64 * MIB


async def test_control_when_nothing_holds_then_an_actor_takes_more() -> None:
    async with actorlib.init(num_cpus=4):
        greedy = await Eater.options(memory="256MiB").remote()
        assert await greedy.memory.remote(1024 * MIB) == 1024 * MIB


async def test_cpus_when_a_part_is_held_then_the_kernel_has_it_wait() -> None:
    async with actorlib.init(num_cpus=4, enforcement="cgroup"):
        half = await Eater.options(num_cpus=0.5).remote()
        assert await half.cpu.remote(0.5) > 0


async def test_control_when_a_whole_cpu_is_held_then_one_thread_never_waits() -> None:
    async with actorlib.init(num_cpus=4, enforcement="cgroup"):
        two = await Eater.options(num_cpus=2).remote()
        assert await two.cpu.remote(0.5) == 0
