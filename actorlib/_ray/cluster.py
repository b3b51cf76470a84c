"""Connects to a cluster or starts one here, and makes the owner's engine."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import re
import sys
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, NoReturn, final

from actorlib._core.engine import FeatureT, Refusal, RuntimeEngine, override
from actorlib._futures.runtime_portal import RuntimePortal, on_loop
from actorlib._options.function_options import FunctionOptions
from actorlib._options.resources import MEMORY, bytes_of
from actorlib._options.runtime_env import InheritedEnv
from actorlib._ray.client_mode import PREFIX, ClusterQuery
from actorlib._ray.engine import RayEngine
from actorlib._ray.errors import connection_error, is_transient
from actorlib._ray.messages import RuntimeConfig
from actorlib._ray.process import ProcessState
from actorlib._ray.ray_api import (
    connect_client,
    install_serializers,
    is_client,
    job_config,
    ray,
)
from actorlib._ray.state import Explainer, pending_calls
from actorlib._ray.worker import ENTRY_POINTS, context_here
from actorlib._rows.snapshot import AllCalls, ObjectStoreInfo, Snapshot
from actorlib.exceptions import ClusterError, UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._base.ids import ActorId
    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.group_spec import GroupId
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._rows.snapshot import CallInfo


_log = logging.getLogger("actorlib")
_PATIENCE = 5.0
"""Seconds in which a machine has to accept a connection."""
_TRIES = 5
_HOST = re.compile(r"(?P<host>\[.*\]|[^:/]+):(?P<port>\d+)")
_HERE = "local"
"""Ray's address for a new cluster on this machine."""
_DECLARED = ("num_cpus", "num_gpus", "memory", "resources", "object_store_memory")


@final
class ClusterConnection:
    """Connects this process to a cluster and disconnects it, on one thread.

    The thread lives in between, even while the interpreter ends: Linux kills the
    processes of a cluster that Ray has started here when the thread ends that has
    started them. The threads of an executor end before the handlers of ``atexit`` run,
    and Ray's handler then waited 15 s and more for dead processes.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Future[None], Callable[[], None]]] = SimpleQueue()
        self._thread = Thread(target=self._run, name="actorlib-ray", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        work = None
        while work is not _leave:
            done, work = self._jobs.get()
            try:
                work()
            except BaseException as error:  # noqa: BLE001  # raised in the waiting thread
                done.set_exception(error)
            else:
                done.set_result(None)

    def do(self, work: Callable[[], None]) -> Future[None]:
        """Runs a function on the thread; it cannot be cancelled."""
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()
        self._jobs.put((done, work))
        return done

    def close(self) -> Future[None]:
        """Leaves the cluster, or ends it if it was started here."""
        if self._thread.is_alive():
            return self.do(_leave)
        done: Future[None] = Future()  # a fork without the thread, or a second call
        _leave()
        done.set_result(None)
        return done


def _leave() -> None:
    ray.shutdown()


async def connect(options: RuntimeOptions, address: str | None) -> ClusterConnection:
    """Connects this process to a cluster.

    Without an address, a cluster is started on this machine.

    Returns:
        The connection, to be closed.

    Raises:
        ClusterError: There is no cluster, it refuses the connection, or it has another
            version of Ray.
        RuntimeError: This process is connected by ``ray.init()`` already.
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
                "the cluster at %r has its own resources: init(%s) has no effect",
                address,
                ", ".join(f"{name}=" for name in declared),
            )
    connection = ClusterConnection()
    connecting = asyncio.wrap_future(connection.do(partial(_init, options, address)))
    try:
        await asyncio.shield(connecting)
    except BaseException as error:
        await asyncio.wait([connecting])  # a thread cannot be cancelled
        await asyncio.wrap_future(connection.close())  # it may be partly connected
        if isinstance(error, Exception) and not isinstance(error, ClusterError):
            raise _connection_error(address, error) from error
        raise
    return connection


async def _check_answer(address: str) -> None:
    """Connects to the address once: Ray itself would try for a long time."""
    if address == "auto":
        return
    match = _HOST.fullmatch(address.removeprefix(PREFIX))
    if match is None:
        raise ClusterError(
            f"address={address!r} is not an address: write 'auto' for the cluster of "
            "this machine, a host and a port ('10.0.0.5:6379'), or outside of the "
            "cluster those of a client server ('ray://10.0.0.5:10001')"
        )
    host, port = match["host"].strip("[]"), int(match["port"])
    try:
        async with asyncio.timeout(_PATIENCE):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        why = str(error) or f"no answer within {_PATIENCE:g} s"
        raise _connection_error(address, ConnectionError(why)) from error
    writer.close()
    await writer.wait_closed()


def _connection_error(address: str | None, error: Exception) -> ClusterError:
    version, python = ray.__version__, platform.python_version()
    return connection_error(address, str(error), version, python)


def _init(options: RuntimeOptions, address: str | None) -> None:
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it warns of calls outside of the main thread
    try:
        if address is not None and address.startswith(PREFIX):
            _init_client(options, address)
        else:
            _init_driver(options, address)
    finally:
        logger.setLevel(level)


def _init_client(options: RuntimeOptions, address: str) -> None:
    for tries_left in reversed(range(_TRIES)):
        try:
            connect_client(
                address,
                job_config(own_path()),
                options.namespace,
                {"log_to_driver": options.log_to_driver},
            )
            break
        except Exception as error:
            if not tries_left or not is_transient(error):
                raise
            ray.shutdown()  # it may be partly connected
    # Fails if actorlib is not installed on the cluster.
    ClusterQuery(is_client=True)(os.getpid)


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
            "object_store_memory": _nbytes(options.object_store_memory),
            f"_{MEMORY}": _nbytes(options.memory),
        }
    else:
        keywords["address"] = address
    ray.init(**keywords)


def own_path() -> list[str]:
    """Lists the import paths of this program without those of Python itself.

    Workers import from them, too, if their machines have them.
    """
    installed = (sys.prefix, sys.base_prefix, sys.exec_prefix)
    return [path for path in sys.path if path and not path.startswith(installed)]


def _nbytes(size: float | str | None) -> int | None:
    return None if size is None else bytes_of(MEMORY, size)


class OwnerEngine(RayEngine, RuntimeEngine):
    """The engine of the process that has started the runtime; see RuntimeEngine.

    The connection is closed at its end.
    """

    refusals: Mapping[str, Refusal] = {
        **RayEngine.refusals,
        "drain": Refusal(
            "runtime.drain(): the Ray engine cannot refuse calls; await those that you "
            "have made, and shut the runtime down. The local engine can"
        ),
        "objects": Refusal(
            "runtime.objects(): objects are in Ray's own store, of which it tells "
            "itself: by the commands 'ray memory' and 'ray list objects'"
        ),
    }

    def __init__(self, options: RuntimeOptions, connection: ClusterConnection) -> None:
        self._connection = connection
        self.loop = loop = asyncio.get_running_loop()
        process = ProcessState(
            ENTRY_POINTS, loop, owner=RuntimePortal(loop), is_client=is_client()
        )
        runtime = RuntimeConfig(options.namespace, options.infeasible == "wait")
        super().__init__(process, context_here(options.namespace), runtime)
        env = options.runtime_env
        if env:
            self.heritage = InheritedEnv(env)
            self.context = replace(self.context, runtime_env=env)
        self._grace = options.grace
        self._explainer = Explainer(self.query, self.nodes)

    @override
    def attached(self, feature: type[FeatureT], api_name: str) -> NoReturn:
        raise UnsupportedOptionError(f"{api_name}: {feature.on_ray}")

    def abandon(self) -> Callable[[], None]:
        """Leaves the cluster after the loop was closed, which ends its actors."""
        self.close()
        return lambda: self._connection.close().result()

    async def aclose(self) -> None:
        """Ends all actors of this program, busy ones after the grace."""
        try:
            living = [] if self.process.is_lost else self.living()
            ending = [self.end(key) for key in living]
            if ending:
                await asyncio.wait(ending, timeout=self._grace)
        except ConnectionError as error:  # the actors ended with the client server
            _log.warning("the runtime ends without its cluster: %s", error)
        finally:
            self.close()
            await asyncio.wrap_future(self._connection.close())

    @on_loop
    def snapshot(self) -> Snapshot:
        """Returns the resources and actors of the cluster; see RuntimeEngine.

        Waiting requests are missing: only ``ray status`` lists them.
        """
        return Snapshot(
            total=self.total(),
            available=self.available(),
            waiting=(),
            actors=tuple(self.actors()),
            object_store=ObjectStoreInfo(),
            groups=tuple(self.groups.infos()),
        )

    @on_loop
    def calls(self) -> list[CallInfo]:
        """Returns the unanswered calls of actors by this program; see RuntimeEngine.

        ``ray list tasks`` lists those by actors, if the cluster has its dashboard.
        """
        return list(pending_calls(self.process.pending))

    async def all_calls(
        self,
        patience: float,
        most: int | None = None,
        actor: ActorId | None = None,
    ) -> tuple[AllCalls, int]:
        """Returns the same: Ray's actors are not queried; see RuntimeEngine."""
        del patience
        calls = [
            call
            for call in self.calls()
            if actor is None or call.actor_id == actor.hex()
        ]
        listed = calls[:most]
        return AllCalls(listed), len(calls) - len(listed)

    @on_loop
    def explain(self, actor: ActorId) -> str:
        self.process.check()
        return self._explainer.actor(self.actor(actor))

    @on_loop
    def survey(self, label: str, options: ActorOptions | FunctionOptions) -> str:
        self.process.check()
        if isinstance(options, FunctionOptions):
            options = options.worker
        return self._explainer.survey(label, options)

    @on_loop
    def explain_group(self, group: GroupId) -> str:
        self.process.check()
        return self._explainer.group(group.hex())


async def start(options: RuntimeOptions, address: str | None) -> OwnerEngine:
    """Connects to a cluster, or starts one, and makes the engine of this process.

    Raises:
        ClusterError: There is no cluster at the address.
        UnsupportedOptionError: Enforcement is requested, which Ray does not have.
    """
    if options.enforcement not in ("auto", "off"):
        raise UnsupportedOptionError(
            f"init(enforcement={options.enforcement!r}): Ray counts shares and does "
            "not enforce them. Leave it out, or use the local engine"
        )
    connection = await connect(options, address)
    install_serializers()
    return OwnerEngine(options, connection)
