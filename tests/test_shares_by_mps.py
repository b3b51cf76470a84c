"""Actors that share a GPU under MPS, with a control program and a driver that are fake.

Everything else is real: processes, sockets, folders, and who outlives whom.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from helpers import mps
from helpers.machines import looking
from helpers.mps import ask
from helpers.owners import PATHS, Watched

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorUnschedulableError,
    SuspendError,
    WorkerCrashedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from helpers.machines import Pretend

pytestmark = pytest.mark.process

UUID = "GPU-10cc0000-1111-2222-3333-444455556666"
FAULTY = 719
THREADS = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"


class Make(Protocol):
    """Makes the machine; see ``make_machine``."""

    def __call__(self, **moods: object) -> Path:
        """Gives its folder."""
        ...


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, pretend: Pretend) -> Iterator[Make]:
    """What makes a machine; nothing of its daemons may be left of it."""
    folder = Path(tempfile.mkdtemp(prefix="m", dir="/tmp"))

    def make(**moods: object) -> Path:
        mps.make_machine(folder, monkeypatch, pretend, **moods)
        return folder

    yield make
    left = [path.name for path in folder.glob("actorlib-mps-*")]
    shutil.rmtree(folder)
    assert not left


def sharing(**options: Any) -> Any:
    """The handle of an actor with half of the first GPU under MPS."""
    return looking(
        **{"num_gpus": 0.5, "enforcement": "mps", "device": "0", **options}
    ).remote()


def parent_of(pid: int) -> int:
    """The process id of a process's parent."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


async def test_shares_when_held_then_each_is_a_client_with_its_own_limit(
    machine: Make,
) -> None:
    folder = machine(late=3, busy=2)

    @actorlib.remote(num_gpus=0.5, enforcement="mps", mps_thread_percentage=25)
    def limited() -> tuple[str, int]:
        return os.environ[THREADS], ask("idle")

    half = {"runtime_env": {"env_vars": {THREADS: "50"}}}
    async with actorlib.init():
        # A whole GPU needs no daemon.
        whole = await looking(num_gpus=1, enforcement="mps").remote()
        assert "CUDA_MPS_PIPE_DIRECTORY" not in await whole.environ.remote()
        assert not list(folder.glob("actorlib-mps-*"))
        await actorlib.kill(whole)

        actor, other = sharing(), sharing(device="1")
        user = sharing(num_gpus=0.25, **half)
        both = sharing(num_gpus=0.25, **half, mps_thread_percentage=25)
        environ, *others = await asyncio.gather(
            *(one.environ.remote() for one in (actor, user, both, other))
        )

        assert environ["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"{UUID}=8080M"
        assert environ["CUDA_VISIBLE_DEVICES"] == UUID
        assert await actor.run.remote(ask, "idle") == 0
        assert actor.share.enforced_by == "mps"
        assert "each process of the actor separately" in (
            actor.share.not_stronger_because
        )
        with pytest.raises(SuspendError, match="under MPS the server of all clients"):
            actor.suspend()

        # Neighbours on a GPU share its daemon, whose folder is the user's alone.
        pipes = [each["CUDA_MPS_PIPE_DIRECTORY"] for each in (environ, *others)]
        assert pipes[0] == pipes[1] == pipes[2] != pipes[3]
        pipe = Path(pipes[0])
        modes = [path.stat().st_mode & 0o777 for path in (pipe, pipe.parent)]
        assert modes == [0o700, 0o700]

        assert [each[THREADS] for each in others[:2]] == ["50", "25"]
        assert "to 25 % of the multiprocessors" in both.share.not_stronger_because
        assert await limited.remote() == ("25", 0)


async def test_limit_when_it_is_not_in_force_then_the_actor_is_not_made(
    machine: Make,
) -> None:
    machine()

    @actorlib.remote(num_gpus=0.5, enforcement="mps")
    def limited() -> None: ...

    deaf = {"runtime_env": {"env_vars": {"FAKE_CUDA_DEAF": "1"}}}
    smaller = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"{UUID}=1M,GPU-none=1M"}
    all_sms = {"FAKE_CUDA_ALL_SMS": "1"}
    async with actorlib.init():
        with pytest.raises(ActorDiedError, match="runs without MPS"):
            await sharing(**deaf, max_restarts=3)
        with pytest.raises(ActorDiedError, match="limit of memory is not in force"):
            await sharing(runtime_env={"env_vars": smaller})
        with pytest.raises(ActorDiedError, match=f"{THREADS}=50 is not in force"):
            await sharing(runtime_env={"env_vars": all_sms}, mps_thread_percentage=50)
        with pytest.raises(WorkerCrashedError, match="without MPS"):
            await limited.options(**deaf).remote()


async def test_daemon_when_it_dies_at_once_then_the_error_has_its_log(
    machine: Make,
) -> None:
    machine(dies=True)
    async with actorlib.init():
        with pytest.raises(ActorDiedError, match="no MPS on this machine, says the"):
            await sharing(max_restarts=2)


async def test_control_program_when_there_is_none_then_the_actor_is_refused(
    pretend: Pretend,
) -> None:
    pretend("nvidia_v100x2")
    async with actorlib.init():
        with pytest.raises(ActorUnschedulableError, match="nvidia-cuda-mps-control"):
            await sharing()


# Endings.


@pytest.mark.parametrize(
    ("moods", "code"),
    [
        ({}, 0),
        # It is killed, as it cannot be terminated: then the neighbour is harmed.
        pytest.param({"refuses": True}, FAULTY, marks=pytest.mark.thorough),
    ],
)
async def test_kill_when_work_is_on_the_gpu_then_the_neighbour_works_on(
    machine: Make, moods: dict[str, bool], code: int
) -> None:
    machine(**moods)
    async with actorlib.init():
        victim, neighbour = sharing(), sharing()
        assert await victim.run.remote(ask, "work") == 0
        assert await neighbour.run.remote(ask, "idle") == 0

        await actorlib.kill(victim)
        with pytest.raises(ActorError):
            await victim

        assert await neighbour.run.remote(ask, "idle") == code


@pytest.mark.thorough
async def test_kill_when_the_control_program_hangs_then_it_ends_all_the_same(
    machine: Make,
) -> None:
    folder = machine()
    async with actorlib.init():
        victim = await sharing()
        (folder / "hangs").touch()

        await actorlib.kill(victim)
        with pytest.raises(ActorError):
            await victim


# Shared fate.


@pytest.mark.thorough
async def test_fault_when_the_log_names_one_then_all_restart_and_it_counts_for_one(
    machine: Make,
) -> None:
    machine()
    async with actorlib.init() as runtime:
        culprit, neighbour = (
            sharing(max_restarts=1, max_task_retries=5),
            sharing(max_restarts=1, max_task_retries=5),
        )
        before = await neighbour.environ.remote()
        pid = await neighbour.run.remote(os.getpid)
        assert await culprit.run.remote(ask, "fault") == FAULTY

        with Watched([pid]) as watched:
            assert not await asyncio.to_thread(watched.left)
        after = await neighbour.environ.remote()

        assert before["CUDA_MPS_PIPE_DIRECTORY"] != after["CUDA_MPS_PIPE_DIRECTORY"]
        assert await neighbour.run.remote(ask, "idle") == 0
        assert await culprit.run.remote(ask, "idle") == 0
        infos = runtime.snapshot().actors
        deaths = [info.earlier_deaths for info in infos]
        assert len(deaths) == 2
        assert all("had a fatal fault under MPS" in death for (death,) in deaths)
        assert sorted(info.restarts for info in infos) == [0, 1]


@pytest.mark.parametrize(
    "moods", [{}, pytest.param({"exits": True}, marks=pytest.mark.thorough)]
)
@pytest.mark.thorough
async def test_fault_when_nobody_is_named_then_it_counts_for_nobody(
    machine: Make, moods: dict[str, bool]
) -> None:
    machine(**moods)
    async with actorlib.init() as runtime:
        actors = [sharing(max_restarts=1, max_task_retries=5) for _ in range(2)]
        for actor in actors:
            await actor
        assert await actors[0].run.remote(ask, "fault-of-nobody") == FAULTY
        pids = [info.pid for info in runtime.snapshot().actors]
        with Watched(pids) as watched:
            assert not await asyncio.to_thread(watched.left)

        for actor in actors:
            assert await actor.run.remote(ask, "idle") == 0
        assert [info.restarts for info in runtime.snapshot().actors] == [0, 0]


@pytest.mark.parametrize(
    "moods", [{}, pytest.param({"old": True}, marks=pytest.mark.thorough)]
)
async def test_crash_when_no_fault_is_known_then_it_is_the_actors_own(
    machine: Make, moods: dict[str, bool]
) -> None:
    machine(**moods)
    async with actorlib.init():
        actor, neighbour = sharing(), await sharing()
        pid = await neighbour.run.remote(os.getpid)

        with pytest.raises(ActorError, match="SIGKILL"):
            await actor.run.remote(os.kill, await actor.run.remote(os.getpid), 9)

        assert await neighbour.run.remote(os.getpid) == pid


@pytest.mark.thorough
async def test_daemon_when_it_or_its_keeper_is_killed_then_another_is_started(
    machine: Make,
) -> None:
    folder = machine()
    async with actorlib.init():
        actor = sharing(max_restarts=2, max_task_retries=5)
        for of in (lambda daemon: daemon, parent_of):
            pid = await actor.run.remote(os.getpid)
            daemon = int((folder / "daemon").read_text())
            with Watched([pid, daemon]) as watched:
                os.kill(of(daemon), signal.SIGKILL)
                assert not await asyncio.to_thread(watched.left)

            assert await actor.run.remote(ask, "idle") == 0


OWNER = """
import asyncio, os, sys
import actorlib, actorlib._owner.machine as machine
from helpers.machines import looking
from helpers.nvml import nvidia_machine

host = nvidia_machine("nvidia_v100x2", environ={"TMPDIR": sys.argv[1]})
host.programs = {"nvidia-cuda-mps-control": sys.argv[1] + "/nvidia-cuda-mps-control"}
machine.Host = lambda: host

async def main():
    async with actorlib.init():
        actor = looking(num_gpus=0.5, enforcement="mps").remote()
        print(await actor.run.remote(os.getpid), flush=True)
        if os.fork() == 0:
            print(os.getpid(), flush=True)
        __import__("time").sleep(600)

asyncio.run(main())
"""


def test_owner_when_it_is_killed_then_no_daemon_and_no_folder_is_left(
    machine: Make,
) -> None:
    """A fork of the owner lives on meanwhile."""
    folder = machine()
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PATHS},
    ) as owner:
        assert owner.stdout is not None
        worker, fork = (int(owner.stdout.readline()) for _ in range(2))
        daemon = int((folder / "daemon").read_text())
        assert len(list(folder.glob("actorlib-mps-*"))) == 1
        processes = [worker, daemon, parent_of(daemon)]
        with Watched([fork]), Watched(processes) as watched:
            owner.kill()

            assert not watched.left()
    assert not list(folder.glob("actorlib-mps-*"))
