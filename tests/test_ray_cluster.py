"""Getting onto a cluster and off it: by argument, by environment, or not at all."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.actors import Gate
from helpers.calls import raised
from helpers.on_ray import NEEDS_RAY

import actorlib
from actorlib.exceptions import ActorDiedError, ClusterError, UnsupportedOptionError

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
    ],
)
async def test_address_when_nobody_answers_then_the_error_says_what_to_write(
    address: str, says: str
) -> None:
    with pytest.raises(ClusterError, match=re.escape(says)):
        await actorlib.init(engine="ray", address=address)


async def test_address_when_of_a_client_server_then_it_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedOptionError, match="ray job submit"):
        await actorlib.init(engine="ray", address="ray://127.0.0.1:10001")


async def test_cluster_when_of_another_ray_then_the_error_says_what_to_install(
    ray_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    there = ray.__version__
    monkeypatch.setattr(ray, "__version__", "1.0.0")

    with pytest.raises(ClusterError, match=re.escape(f"ray=={there}")):
        await actorlib.init(engine="ray", address=ray_cluster)
    assert not actorlib.is_initialized()
