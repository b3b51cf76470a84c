"""Actors are held to the host's memory and CPUs that they asked for, by cgroup."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import LIMIT
from helpers.cgroups import OWNER, Group, Kernel, KernelFiles
from helpers.owners import PATHS, Watched
from helpers.scripted import be_busy, scripted

import actorlib
from actorlib._features.cgroup import host_cgroups
from actorlib._features.cgroup.delegation import Delegation
from actorlib._features.cgroup.host_cgroups import HostCgroups, Leaf
from actorlib._owner import machine
from actorlib._processes.launcher import ProcessExit
from actorlib.accelerators import Host
from actorlib.exceptions import (
    ActorDiedError,
    ActorUnschedulableError,
    EnforcementRefused,
    WorkerCrashedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

in_memory = pytest.mark.memory
KILLED = ProcessExit(signal=9)


@actorlib.remote
class Model:
    def work(self) -> None: ...


@actorlib.remote
def compute() -> None: ...


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """The machine of the runtime, which limits by cgroup."""
    return _on(monkeypatch, Kernel())


def _on(monkeypatch: pytest.MonkeyPatch, kernel: Kernel) -> Kernel:
    monkeypatch.setattr(machine, "Host", lambda: kernel)
    monkeypatch.setattr(host_cgroups, "CgroupFiles", lambda: KernelFiles(kernel))
    return kernel


def _joined(kernel: Kernel, worker: Any) -> Group:
    """Does what a worker does before the user's code is imported; gives its leaf."""
    files: dict[str, str] = worker.config.features["cgroup"]
    acts = KernelFiles(kernel)
    leaf = next(iter(files)).rpartition("/")[0]
    acts.make(leaf)
    kernel.parents[worker.pid] = OWNER
    for path, text in files.items():
        acts.write(path, str(worker.pid) if path.endswith("cgroup.procs") else text)
    return kernel.groups[leaf]


def _leaves(kernel: Kernel) -> list[str]:
    return [path for path in kernel.groups if "/actorlib-" in path]


@in_memory
async def test_actor_or_function_when_it_asks_by_name_then_its_leaf_has_its_limits(
    kernel: Kernel,
) -> None:
    async with scripted({}, num_cpus=4) as launcher:
        model = Model.options(num_cpus=0.5, memory="2GiB", enforcement="cgroup")
        actor = await model.remote()
        leaf = _joined(kernel, launcher.workers[-1])
        assert leaf.values["memory.max"] == str(2 << 30)
        assert leaf.values["cpu.max"] == "50000 100000"
        actorlib.kill(actor)

        await compute.options(enforcement="cgroup", memory="1GiB").remote()
        leaf = _joined(kernel, launcher.workers[-1])
        assert leaf.values["memory.max"] == str(1 << 30)
        assert leaf.values["cpu.max"] == "100000 100000"
    assert [path.rpartition("-")[2] for path in _leaves(kernel)] == ["owner"]


@in_memory
@pytest.mark.usefixtures("kernel")
async def test_actor_when_the_runtime_says_it_then_it_has_a_leaf_too() -> None:
    async with scripted({}, num_cpus=4, enforcement="cgroup") as launcher:
        _held = [await Model.options(num_cpus=1).remote()]
        assert launcher.workers[-1].config.features["cgroup"]
        _held.append(await Model.options(num_cpus=1, enforcement="auto").remote())
        assert launcher.workers[-1].config.features.keys() == {"logs"}
        _held.append(await Model.remote())  # it asks for nothing of the host
        assert launcher.workers[-1].config.features.keys() == {"logs"}


@in_memory
async def test_function_when_the_kernel_killed_in_the_leaf_then_its_call_says_so(
    kernel: Kernel,
) -> None:
    called = asyncio.Event()
    async with scripted({"function": be_busy(called)}, num_cpus=4) as launcher:
        asking = compute.options(enforcement="cgroup", memory="1GiB", max_retries=0)
        call = asking.remote()
        await called.wait()
        _joined(kernel, launcher.workers[-1]).oom_kills = 1
        launcher.workers[-1].leave(KILLED)
        with pytest.raises(WorkerCrashedError, match="more than its memory='1 GiB'"):
            await asyncio.wait_for(call, LIMIT)


@in_memory
async def test_actor_when_nobody_asks_then_nothing_is_moved(kernel: Kernel) -> None:
    async with scripted({}, num_cpus=4) as launcher:
        await Model.options(num_cpus=1, memory="1GiB").remote()
        assert launcher.workers[-1].config.features.keys() == {"logs"}
    assert kernel.groups[kernel.base].procs == [OWNER]
    assert not _leaves(kernel)


@in_memory
@pytest.mark.parametrize(
    ("oom_kills", "cause", "words"),
    [
        (1, "out of memory", "used more than its memory='2 GiB'"),
        (0, "crashed", ""),  # somebody else has killed it
    ],
)
async def test_death_when_the_kernel_killed_in_the_leaf_then_it_is_told_exactly(
    kernel: Kernel, oom_kills: int, cause: str, words: str
) -> None:
    async with scripted({}, num_cpus=4) as launcher:
        model = await Model.options(memory="2GiB", enforcement="cgroup").remote()
        _joined(kernel, launcher.workers[-1]).oom_kills = oom_kills
        launcher.workers[-1].leave(KILLED)
        with pytest.raises(ActorDiedError) as caught:
            await asyncio.wait_for(model.work.remote(), LIMIT)
    assert caught.value.exit.cause == cause
    assert words in caught.value.exit.reason


@in_memory
async def test_restart_when_the_kernel_killed_then_the_next_has_a_leaf_of_its_own(
    kernel: Kernel,
) -> None:
    async with scripted({}, num_cpus=4) as launcher:
        model = await Model.options(
            memory="2GiB", enforcement="cgroup", max_restarts=1, max_task_retries=1
        ).remote()
        first = launcher.workers[-1]
        _joined(kernel, first).oom_kills = 1
        first.leave(KILLED)
        await asyncio.wait_for(model.work.remote(), LIMIT)
        second = launcher.workers[-1]
        leaves = [{*worker.config.features["cgroup"]} for worker in (first, second)]
        assert all(leaves)
        assert set.isdisjoint(*leaves)


@in_memory
async def test_init_when_nothing_was_delegated_then_it_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _on(monkeypatch, Kernel(base=Group(procs=[OWNER], closed={"cgroup.procs"})))
    with pytest.raises(EnforcementRefused, match=r"host's memory .*not be written"):
        async with scripted({}, num_cpus=4, enforcement="cgroup"):
            pass


@in_memory
async def test_actor_when_nothing_was_delegated_then_it_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _on(monkeypatch, Kernel(base=Group(("memory",), procs=[OWNER])))
    async with scripted({}, num_cpus=4):
        model = Model.options(num_cpus=1, memory="1GiB", enforcement="cgroup")
        with pytest.raises(ActorUnschedulableError, match="cpu controller was not"):
            await model.remote()
        await Model.options(memory="1GiB", enforcement="cgroup").remote()


@in_memory
async def test_actor_when_the_kernel_refuses_then_it_says_so(
    monkeypatch: pytest.MonkeyPatch, kernel: Kernel
) -> None:
    def refuse(self: object, path: str) -> None:
        del self
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(KernelFiles, "make", refuse)
    async with scripted({}, num_cpus=4):
        model = Model.options(memory="1GiB", enforcement="cgroup")
        with pytest.raises(ActorUnschedulableError, match="the kernel refuses cgroups"):
            await model.remote()
    assert kernel.groups[kernel.base].procs == [OWNER]


async def test_inline_when_it_is_asked_then_it_is_refused() -> None:
    with pytest.raises(EnforcementRefused, match="threads of this process"):
        async with actorlib.init(engine="inline", enforcement="cgroup"):
            pass
    async with actorlib.init(engine="inline"):
        with pytest.raises(ActorUnschedulableError, match="threads of this process"):
            await Model.options(memory=1, enforcement="cgroup").remote()


# On this machine, where it has cgroups of version 2 that may be made.


@pytest.fixture
def folder() -> Iterator[Path]:
    """A real cgroup, without limits, as other programs may have all controllers."""
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    found = [words[1] for line in mounts if (words := line.split())[2] == "cgroup2"]
    if not found:
        pytest.skip("no cgroup v2 is mounted here")
    path = Path(found[0], f"actorlib-test-{os.getpid()}")
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    yield path
    for child in path.glob("*/cgroup.procs"):
        child.parent.rmdir()
    if path.exists():
        path.rmdir()


_SCRIPT = """
import subprocess, sys
from actorlib._features.cgroup.worker import prepare
prepare({sys.argv[1] + "/cgroup.procs": "0"})
below = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(below.pid, flush=True)
below.wait()
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="cgroups are Linux's")
def test_leaf_when_its_worker_has_children_then_the_kernel_ends_all(
    folder: Path,
) -> None:
    leaf = folder / "leaf"
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(leaf)], stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        below = int(worker.stdout.readline())
        inside = set(map(int, (leaf / "cgroup.procs").read_text().split()))
        can_kill = (leaf / "cgroup.kill").exists()  # Linux 5.14
        if not can_kill:
            worker.kill()
            os.kill(below, 9)
        asyncio.run(_leave(leaf))
        assert worker.wait() == -9
    assert inside == {worker.pid, below}
    assert not leaf.exists()
    assert not Path(f"/proc/{below}").exists() or _is_zombie(below)


async def _leave(leaf: Path) -> None:
    cgroups = HostCgroups(Host())
    cgroups._leaves[1] = Leaf(str(leaf))
    cgroups.remove(1)
    await cgroups.aclose()


@actorlib.remote
class Where:
    def cgroup(self) -> str:
        return Path("/proc/self/cgroup").read_text(encoding="utf-8")


@actorlib.remote
def where() -> str:
    return Path("/proc/self/cgroup").read_text(encoding="utf-8")


def _inside(folder: Path) -> list[str]:
    """Lists the cgroups in a cgroup."""
    return sorted(path.parent.name for path in folder.glob("*/cgroup.procs"))


@pytest.fixture
def delegated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That cgroup, as if controllers were there: its limit is one that always is."""
    there = Delegation(str(folder), {"memory": "", "cpu": ""}, is_root=True)
    monkeypatch.setattr(host_cgroups, "find_delegation", lambda _: there)
    monkeypatch.setattr(HostCgroups, "_enable", lambda *_: None)
    limits = {"cgroup.max.depth": "3"}
    monkeypatch.setattr(
        host_cgroups, "limits_of", lambda amounts: limits if amounts else {}
    )
    return folder


@pytest.mark.process
@pytest.mark.parametrize("method", ["template", "spawn"])
async def test_worker_when_it_begins_then_it_is_in_its_leaf_until_it_ends(
    delegated: Path, method: Any
) -> None:
    async with actorlib.init(num_cpus=4, start_method=method):
        holding = Where.options(num_cpus=1, enforcement="cgroup")
        first, second = await holding.remote(), await holding.remote()
        lines = [await actor.cgroup.remote() for actor in (first, second)]
        lines.append(await where.options(enforcement="cgroup").remote())
        found = sorted(line.split("0::")[1].split()[0][1:] for line in lines)
        assert found == [f"{delegated.name}/{leaf}" for leaf in _inside(delegated)]
        assert len({*found}) == 3
        await actorlib.kill(first)
        plain = await Where.remote()
        assert delegated.name not in await plain.cgroup.remote()
    assert not _inside(delegated)


@pytest.mark.process
async def test_worker_when_the_kernel_refuses_its_limit_then_it_says_which(
    delegated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_cgroups, "limits_of", lambda _: {"memory.max": "1"})
    async with actorlib.init(num_cpus=4):
        with pytest.raises(ActorDiedError, match=r"memory\.max cannot be written"):
            await Where.options(num_cpus=1, enforcement="cgroup").remote()
    assert not _inside(delegated)


_OWNER = """
import asyncio, os, sys
from pathlib import Path
import actorlib
from actorlib._features.cgroup import host_cgroups
from actorlib._features.cgroup.delegation import Delegation, own_origin
from actorlib._features.cgroup.host_cgroups import HostCgroups
from actorlib.accelerators import Host

base = Path(sys.argv[1])
there = Delegation(str(base), {"memory": "", "cpu": ""}, is_root=True)
host_cgroups.find_delegation = lambda _: there
host_cgroups.limits_of = lambda _: {"cgroup.max.depth": "3"}
HostCgroups._enable = lambda *_: None
pid, began = own_origin(Host())
own = base / f"actorlib-{pid}-{began}-owner"  # where room was made
own.mkdir()
(own / "cgroup.procs").write_text("0")

@actorlib.remote(num_cpus=1, enforcement="cgroup")
class Actor: ...

async def begin():
    await actorlib.init(num_cpus=2).__aenter__()
    global actor
    actor = await Actor.remote()

def inside():
    return sum(1 for _ in base.glob("*/cgroup.procs"))

loop = asyncio.new_event_loop()
loop.run_until_complete(begin())
loop.close()  # and nobody has ended the runtime
print(inside(), flush=True)
asyncio.run(actorlib.shutdown())
print(inside(), flush=True)
asyncio.new_event_loop().run_until_complete(begin())
print(inside(), flush=True)
os.kill(pid, 9)
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="cgroups are Linux's")
def test_leaf_when_its_owner_is_left_or_killed_then_it_is_removed(folder: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _OWNER, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PATHS},
        check=False,
    )
    assert ended.stdout.split() == ["2", "1", "2"]
    assert ended.returncode == -9
    [own] = folder.glob("actorlib-*-owner")
    template = list(map(int, (own / "cgroup.procs").read_text().split()))
    with Watched(pid for pid in template if Path(f"/proc/{pid}").exists()) as left:
        assert left.left() == []
    assert _inside(folder) == [own.name]


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended, and nobody has taken note yet."""
    stat = Host().read_text(f"/proc/{pid}/stat") or ") Z"
    return stat.rpartition(")")[2].split()[0] == "Z"
