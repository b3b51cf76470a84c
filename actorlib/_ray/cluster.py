"""Finding a cluster, or starting one on this machine; and saying why there is none."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import re
import sys
from typing import TYPE_CHECKING, Any

from actorlib._ray.client import PREFIX, Asking
from actorlib._ray.library import connect_client, job_config, ray
from actorlib._ray.refusal import is_passing, refusal
from actorlib._resources import MEMORY
from actorlib.exceptions import ClusterError

if TYPE_CHECKING:
    from actorlib._runtime_options import RuntimeOptions

_log = logging.getLogger("actorlib")
_PATIENCE = 5.0
"""Seconds that a machine is given to answer at all."""
_TRIES = 5
_HOST = re.compile(r"(?P<host>\[.*\]|[^:/]+):(?P<port>\d+)")
_HERE = "local"
"""What Ray calls a cluster that is to be started on this machine."""
_DECLARED = ("num_cpus", "num_gpus", "memory", "resources", "object_store_memory")


async def connect(options: RuntimeOptions, address: str | None) -> None:
    """Connects this process to a cluster.

    Args:
        options: What was said of the runtime.
        address: Where the cluster is; None starts one on this machine.

    Raises:
        ClusterError: There is none, it does not let us in, or it is another Ray's.
        RuntimeError: This process is connected by Ray itself.
    """
    if ray.is_initialized():
        raise RuntimeError(
            "this process is connected to a cluster by ray.init() already: leave that "
            "out, or call ray.shutdown() before actorlib.init(engine='ray')"
        )
    if address is not None and address != _HERE:
        await _check_answer(address)
        declared = [n for n in _DECLARED if getattr(options, n) is not None]
        if declared:
            _log.warning(
                "the cluster at %r says itself what its machines have: init(%s) is not "
                "looked at",
                address,
                ", ".join(f"{name}=" for name in declared),
            )
    connecting = asyncio.ensure_future(asyncio.to_thread(_init, options, address))
    try:
        await asyncio.shield(connecting)
    except BaseException as error:
        await asyncio.wait([connecting])  # a thread cannot be called back
        await disconnect()  # it may be half connected
        if isinstance(error, Exception) and not isinstance(error, ClusterError):
            raise _refusal(address, error) from error
        raise


async def disconnect() -> None:
    """Leaves the cluster, or ends it if it was started by ``connect``."""
    await asyncio.to_thread(ray.shutdown)


async def _check_answer(address: str) -> None:
    """Looks whether anybody listens there: Ray itself would try for a long time."""
    if address == "auto":
        return
    found = _HOST.fullmatch(address.removeprefix(PREFIX))
    if found is None:
        raise ClusterError(
            f"address={address!r} is none: write 'auto' for the cluster of this "
            "machine, a host and a port ('10.0.0.5:6379'), or from a machine that is "
            "none of the cluster those of a client server ('ray://10.0.0.5:10001')"
        )
    host, port = found["host"].strip("[]"), int(found["port"])
    try:
        async with asyncio.timeout(_PATIENCE):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        why = str(error) or f"nobody answered within {_PATIENCE:g} s"
        raise _refusal(address, ConnectionError(why)) from error
    writer.close()
    await writer.wait_closed()


def _refusal(address: str | None, error: Exception) -> ClusterError:
    return refusal(address, str(error), ray.__version__, platform.python_version())


def _init(options: RuntimeOptions, address: str | None) -> None:
    theirs = logging.getLogger("ray")
    level = theirs.level
    theirs.setLevel(logging.ERROR)  # it warns of the thread that it is called from
    try:
        if address is not None and address.startswith(PREFIX):
            _init_client(options, address)
        else:
            _init_driver(options, address)
    finally:
        theirs.setLevel(level)


def _init_client(options: RuntimeOptions, address: str) -> None:
    for left in reversed(range(_TRIES)):
        try:
            connect_client(
                address,
                job_config(own_path()),
                options.namespace,
                {"log_to_driver": options.log_to_driver},
            )
            break
        except Exception as error:
            if not left or not is_passing(error):
                raise
            ray.shutdown()  # it may be half connected
    # Whether the cluster has actorlib is not seen before somebody there needs it.
    Asking(is_far=True)(os.getpid)


def _init_driver(options: RuntimeOptions, address: str | None) -> None:
    keywords: dict[str, Any] = {
        "namespace": options.namespace,
        "log_to_driver": options.log_to_driver,
        "configure_logging": False,
        "job_config": job_config(own_path()),
    }
    if address is None or address == _HERE:
        keywords |= {
            "address": _HERE,
            "num_cpus": options.num_cpus,
            "num_gpus": options.num_gpus,
            "resources": dict(options.resources or {}) or None,
            "include_dashboard": False,
            "object_store_memory": _whole(options.object_store_memory),
            f"_{MEMORY}": _whole(options.memory),
        }
    else:
        keywords["address"] = address
    ray.init(**keywords)


def own_path() -> list[str]:
    """Where this program's modules are found, besides Python's own places.

    Workers look there too, as far as their machines have it.
    """
    installed = (sys.prefix, sys.base_prefix, sys.exec_prefix)
    return [path for path in sys.path if path and not path.startswith(installed)]


def _whole(nbytes: float | None) -> int | None:
    return None if nbytes is None else int(nbytes)
