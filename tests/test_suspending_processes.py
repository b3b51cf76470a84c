"""Processes that are suspended by the program that asks the driver, which is a fake."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from helpers.actors import LIMIT
from helpers.calls import raised
from helpers.gpus import Model
from helpers.mps import make_driver

import actorlib
from actorlib.exceptions import ActorDiedError, SuspendError

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.machines import Pretend

pytestmark = pytest.mark.process

ASKING = """
import asyncio, os
from actorlib._enforcement.checkpoints import Checkpoints
asyncio.run(Checkpoints(os.environ).save(os.getpid(), None))
"""
CHECKPOINTED, RUNNING, FAILED = "2", "0", "3"


@pytest.fixture
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pretend: Pretend) -> Path:
    """Where the driver of a machine with two GPUs keeps the states of processes."""
    make_driver(tmp_path, monkeypatch)
    pretend(
        "nvidia_v100x2",
        LD_LIBRARY_PATH=os.environ["LD_LIBRARY_PATH"],
        FAKE_CUDA_CHECKPOINTS=str(tmp_path),
    )
    return tmp_path


async def test_suspend_when_the_driver_does_it_or_loses_it_then_the_process_does_so(
    states: Path,
) -> None:
    async with actorlib.init() as runtime:
        model = await Model.options(num_gpus=1, device="0").remote()
        pid = await model.pid.remote()
        other = Model.options(num_gpus=2).remote()

        await model.suspend()

        assert (states / str(pid)).read_text() == CHECKPOINTED
        await other
        held = model.pid.remote()
        resumed = model.resume()
        assert f"Model (pid {pid}) is suspended, and waits" in runtime.explain(model)
        await actorlib.kill(other)
        await resumed
        assert (states / str(pid)).read_text() == RUNNING
        assert await held == pid
        assert [share.device for share in model.share.devices] == ["0"]

        (states / str(pid)).write_text(FAILED)
        error = await raised(model.suspend())

        assert isinstance(error, ActorDiedError)
        assert "CUDA calls the process failed" in str(error)
        await Model.options(num_gpus=2).remote()
        assert runtime.available_resources().get("GPU", 0) == 0


async def test_suspend_when_the_driver_does_not_know_it_then_the_actor_goes_on(
    states: Path, monkeypatch: pytest.MonkeyPatch, pretend: Pretend
) -> None:
    del states
    monkeypatch.delenv("FAKE_CUDA_CHECKPOINTS", raising=False)
    pretend("nvidia_v100x2", LD_LIBRARY_PATH=os.environ["LD_LIBRARY_PATH"])
    async with actorlib.init():
        model = await Model.options(num_gpus=1).remote()

        error = await raised(model.suspend())

        assert isinstance(error, SuspendError)
        assert "error 801 (operation not supported)" in str(error)
        assert await model.pid.remote() > 0


def test_owner_when_it_is_killed_then_who_asks_the_driver_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_driver(tmp_path, monkeypatch)
    os.mkfifo(tmp_path / "hangs")
    monkeypatch.setenv("FAKE_CUDA_HANGS", str(tmp_path / "hangs"))
    with subprocess.Popen([sys.executable, "-c", ASKING]) as owner:
        asking = os.pidfd_open(int((tmp_path / "hangs").read_text()))
        owner.kill()
    try:
        assert select.select([asking], [], [], LIMIT)[0] == [asking]
    finally:
        os.close(asking)
