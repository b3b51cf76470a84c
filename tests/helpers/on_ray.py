"""A real cluster of two machines, all of it on this one, and a runtime on it."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import socket
import warnings
from contextlib import (
    asynccontextmanager,
    contextmanager,
    suppress,
)
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

import actorlib
from actorlib._core.engine import find_engine, set_engine
from actorlib.exceptions import ActorNotFoundError
from helpers.actors import LENT, limited
from helpers.reused import REUSED, ReusedActors

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from actorlib import Runtime
    from actorlib._ray.cluster import OwnerEngine
    from helpers.actors import Lend

NEEDS_RAY = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed: pip install -e '.[test,ray]'",
)
NEEDS_CLIENT = pytest.mark.skipif(
    None in map(importlib.util.find_spec, ("ray", "grpc")),
    reason="Ray's client is not installed: pip install -e '.[test,ray]'",
)
ON_RAY = pytest.param("ray_cluster", id="ray", marks=[pytest.mark.ray, NEEDS_RAY])
FROM_AFAR = pytest.param(
    "ray_client", id="client", marks=[pytest.mark.ray, NEEDS_CLIENT]
)
"""The ways that an actor's runtime is on Ray: the fixture with the address."""
PATIENCE = 60.0
"""Seconds after which a test is taken to hang: each actor is an interpreter."""
STORE = 100 * 1024 * 1024
"""Bytes of shared memory on each machine."""


class Addresses(NamedTuple):
    """Where a cluster is.

    Attributes:
        cluster: For its own machines.
        client: For others: that of its client server.
    """

    cluster: str
    client: str


@contextmanager
def cluster() -> Generator[Addresses]:
    """A cluster of two machines, of which the second has no GPU but is ``far``.

    Yields:
        Its addresses.
    """
    # No token is written to the home directory of whoever runs the tests.
    quiet = {
        "RAY_AUTH_MODE": "disabled",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        # Ray makes calls again at these times, by default once a second.
        "RAY_core_worker_internal_heartbeat_ms": "50",
        # With it, one in four of the processes that a client server forks dies at once.
        "GRPC_ENABLE_FORK_SUPPORT": "false",
    }
    # Sockets lie in the folder, whose name may not be long.
    with (
        pytest.MonkeyPatch.context() as patch,
        TemporaryDirectory(prefix="r") as folder,
    ):
        for name, value in quiet.items():
            patch.setenv(name, value)
        patch.setenv("RAY_DEDUP_LOGS", "0")
        cluster_utils: Any = importlib.import_module("ray.cluster_utils")
        made = cluster_utils.Cluster()
        try:
            common: dict[str, Any] = {"num_cpus": 8, "object_store_memory": STORE}
            head: dict[str, Any] = {"include_dashboard": False, "temp_dir": folder}
            with socket.create_server(("", 0)) as server:
                port: int = server.getsockname()[1]
            head["ray_client_server_port"] = port
            with warnings.catch_warnings():
                # Ray leaves the files of its client server to the garbage collector.
                warnings.simplefilter("ignore", ResourceWarning)
                made.add_node(num_gpus=2, **head, **common)
                gc.collect()
            made.add_node(num_gpus=0, resources={"far": 4}, **common)
            host = made.address.rpartition(":")[0]
            yield Addresses(made.address, f"ray://{host}:{port}")
        finally:
            made.shutdown()


@asynccontextmanager
async def shared_on_ray(
    address: str,
) -> AsyncGenerator[Lend]:
    """A runtime on a cluster for many tests, lent to one after the other.

    Between them it is hidden, as if none was running, and has only reused actors.

    Args:
        address: The cluster's.

    Yields:
        What lends the runtime to one test.
    """
    options: Any = {"engine": "ray", "address": address, "log_to_driver": False}
    async with actorlib.init(**options) as runtime:
        engine = cast("OwnerEngine", find_engine())
        set_engine(None)
        LENT.append(cast("Any", engine))
        reused = ReusedActors()

        @asynccontextmanager
        async def lend() -> AsyncGenerator[Runtime]:
            set_engine(cast("Any", engine))
            REUSED.append(reused)
            with limited(PATIENCE):
                try:
                    yield runtime
                finally:
                    await _end_all(engine, await reused.give_back())
                    REUSED.remove(reused)
                    set_engine(None)

        try:
            yield lend
        finally:
            LENT.remove(cast("Any", engine))


async def _end_all(engine: OwnerEngine, kept: set[Any]) -> None:
    ending = [actor for actor in engine.living() if actor not in kept]
    for space, name in engine.names():
        with suppress(ActorNotFoundError):  # it has ended meanwhile
            ending.append(engine.find(name, space).actor_id)
    await asyncio.gather(*map(engine.kill, ending))
    gc.collect()  # a caught error keeps handles in a cycle
