"""Getting onto a cluster and off it: by argument, by environment, or not at all."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers.actors import Counter, Gate
from helpers.calls import raised
from helpers.on_ray import NEEDS_CLIENT, NEEDS_RAY

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ClusterError,
    UnsupportedOptionError,
)

pytestmark = [pytest.mark.process, pytest.mark.ray, NEEDS_RAY]


# The end.


async def test_shutdown_when_calls_are_on_their_way_then_they_are_told(
    ray_cluster: str,
) -> None:
    gate: Any = None
    async with actorlib.init(
        engine="ray", address=ray_cluster, grace=0.1, log_to_driver=False
    ) as runtime:
        gate = Gate.remote()
        ref = gate.wait.remote("a")
        await gate.reached.remote("a")

    assert isinstance(await raised(ref), ActorDiedError)
    with pytest.raises(RuntimeError, match="not running"):
        runtime.snapshot()
    with pytest.raises(ValueError, match="shut down"):
        gate.reached.remote()


# Choosing by configuration, and bad addresses.


PROGRAM = """
import asyncio, actorlib
from helpers.actors import Echo

async def main():
    async with actorlib.init(num_cpus=1, log_to_driver=False):
        print(await Echo.remote().echo.remote("here"))

actorlib.run(main())
"""


async def test_program_when_the_environment_says_so_then_it_runs_on_the_cluster(
    ray_cluster: str,
) -> None:
    root = Path(__file__).parents[1]
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        env={
            **os.environ,
            "ACTORLIB_ENGINE": "ray",
            "ACTORLIB_ADDRESS": ray_cluster,
            "PYTHONPATH": f"{root}:{root / 'tests'}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await program.communicate()

    assert out == b"here\n", err
    assert b"num_cpus=" in err  # what the cluster has is what it says itself


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("127.0.0.1:1", "ray start --head"),
        ("nowhere", "10.0.0.5:6379"),
        ("ray://127.0.0.1:1", "--ray-client-server-port"),
        ("ray://nowhere", "ray://10.0.0.5:10001"),
    ],
)
async def test_address_when_nobody_answers_then_the_error_says_what_to_write(
    address: str, says: str
) -> None:
    with pytest.raises(ClusterError, match=re.escape(says)):
        await actorlib.init(engine="ray", address=address)


async def test_start_when_shares_are_to_hold_then_it_is_refused() -> None:
    with pytest.raises(UnsupportedOptionError, match=r"enforcement='mps'.*not enforce"):
        await actorlib.init(engine="ray", enforcement="mps")


@NEEDS_CLIENT
@pytest.mark.filterwarnings("ignore:Ray Client connection timed out")
async def test_address_when_of_no_client_server_then_the_error_comes_in_time(
    ray_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("INITIAL_TIMEOUT_SEC", "MAX_TIMEOUT_SEC"):  # 30 s in all otherwise
        monkeypatch.setattr(f"ray.util.client.worker.{name}", 0.1)

    with pytest.raises(ClusterError, match="no client server answers"):
        await actorlib.init(engine="ray", address=f"ray://{ray_cluster}")
    assert not actorlib.is_initialized()


@pytest.mark.parametrize(
    "way", ["ray_cluster", pytest.param("ray_client", marks=NEEDS_CLIENT)]
)
async def test_cluster_when_of_another_ray_then_the_error_says_what_to_install(
    way: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    there = ray.__version__
    monkeypatch.setattr(ray, "__version__", "1.0.0")

    with pytest.raises(ClusterError, match=re.escape(f"ray=={there}")):
        await actorlib.init(engine="ray", address=request.getfixturevalue(way))
    assert not actorlib.is_initialized()


@NEEDS_CLIENT
async def test_client_server_when_it_is_gone_then_everything_says_so(
    ray_cluster: str, ray_client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_CLIENT_RECONNECT_GRACE_PERIOD", "1")  # 30 s otherwise
    async with actorlib.init(engine="ray", address=ray_client, log_to_driver=False):
        gate = Gate.remote()
        ref = gate.wait.remote("a")
        await gate.reached.remote("a")
        for server in client_servers(ray_cluster):
            os.kill(server, signal.SIGKILL)

        assert isinstance(await raised(ref), ClusterError)
        for ask in (gate.reached.remote, actorlib.put, Counter.remote):
            with pytest.raises(ClusterError, match="lost"):
                ask("a")


def client_servers(cluster: str) -> list[int]:
    """The servers of single clients, each a process of its own."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            words = (process / "cmdline").read_text().split("\0")
            if {f"--address={cluster}", "--mode=specific-server"} <= set(words):
                found.append(int(process.name))
    return found
