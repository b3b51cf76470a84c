"""Connects to a cluster, or starts one on this machine, and runs the engine on it.

The engine is that of the user's program, from the connection to the cluster to its end.
"""

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
from actorlib._ray.connection_errors import connection_error, is_transient
from actorlib._ray.engine import RayEngine
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
"""Seconds that a machine is given to answer at all."""
_TRIES = 5
_HOST = re.compile(r"(?P<host>\[.*\]|[^:/]+):(?P<port>\d+)")
_HERE = "local"
"""What Ray calls a cluster that is to be started on this machine."""
_DECLARED = ("num_cpus", "num_gpus", "memory", "resources", "object_store_memory")


@final
class ClusterConnection:
    """Connects this process to a cluster and disconnects it, on one thread.

    The thread lives in between, also while the interpreter goes down. Linux kills the
    processes of a cluster that Ray has started here as soon as the thread ends that has
    started them. The threads of an executor end before the handlers of ``atexit`` run:
    Ray's own handler then waited 15 s and more for processes that were dead.
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
            except BaseException as error:  # noqa: BLE001  # raised where it is waited for
                done.set_exception(error)
            else:
                done.set_result(None)

    def do(self, work: Callable[[], None]) -> Future[None]:
        """Does something on the thread; it cannot be cancelled."""
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()
        self._jobs.put((done, work))
        return done

    def close(self) -> Future[None]:
        """Leaves the cluster, or ends it if it was started here."""
        if self._thread.is_alive():
            return self.do(_leave)
        done: Future[None] = Future()  # a fork, which has no such thread, or the second
        _leave()
        done.set_result(None)
        return done


def _leave() -> None:
    ray.shutdown()


async def connect(options: RuntimeOptions, address: str | None) -> ClusterConnection:
    """Connects this process to a cluster.

    Args:
        options: What was said of the runtime.
        address: Where the cluster is; None starts one on this machine.

    Returns:
        The connection, to be closed.

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
    connection = ClusterConnection()
    connecting = asyncio.wrap_future(connection.do(partial(_init, options, address)))
    try:
        await asyncio.shield(connecting)
    except BaseException as error:
        await asyncio.wait([connecting])  # a thread cannot be called back
        await asyncio.wrap_future(connection.close())  # it may be half connected
        if isinstance(error, Exception) and not isinstance(error, ClusterError):
            raise _translated(address, error) from error
        raise
    return connection


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
        raise _translated(address, ConnectionError(why)) from error
    writer.close()
    await writer.wait_closed()


def _translated(address: str | None, error: Exception) -> ClusterError:
    version, python = ray.__version__, platform.python_version()
    return connection_error(address, str(error), version, python)


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
            if not left or not is_transient(error):
                raise
            ray.shutdown()  # it may be half connected
    # Whether the cluster has actorlib is not seen before somebody there needs it.
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
    """Lists where this program's modules are, besides Python's own places.

    Workers look there too, as far as their machines have it.
    """
    installed = (sys.prefix, sys.base_prefix, sys.exec_prefix)
    return [path for path in sys.path if path and not path.startswith(installed)]


def _nbytes(said: float | str | None) -> int | None:
    return None if said is None else bytes_of(MEMORY, said)


class OwnerEngine(RayEngine, RuntimeEngine):
    """The engine of the process that has started the runtime; see RuntimeEngine.

    Args:
        options: What was said of the runtime.
        connection: The connection to the cluster; closed at the end.
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
        """Leaves the cluster, where the loop is closed; its actors end with that."""
        self.close()
        return lambda: self._connection.close().result()

    async def aclose(self) -> None:
        """Ends every actor of this program, the busy ones after a grace."""
        try:
            living = [] if self.process.is_lost else self.living()
            ending = [self.end(key) for key in living]
            if ending:
                await asyncio.wait(ending, timeout=self._grace)
        except ConnectionError as error:  # its server's end is that of its actors
            _log.warning("the runtime ends without its cluster: %s", error)
        finally:
            self.close()
            await asyncio.wrap_future(self._connection.close())

    @on_loop
    def snapshot(self) -> Snapshot:
        """What the cluster has and what lives in it; see RuntimeEngine.

        Ray does not tell who waits, and for what: ``ray status`` does.
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
        """The calls of actors that this program waits for; see RuntimeEngine.

        Of those that actors have made, ``ray list tasks`` tells, where the cluster has
        its dashboard.
        """
        return list(pending_calls(self.process.pending))

    async def all_calls(
        self,
        patience: float,
        most: int | None = None,
        actor: ActorId | None = None,
    ) -> tuple[AllCalls, int]:
        """The same: Ray's actors are asked nothing; see RuntimeEngine."""
        del patience
        found = [
            call
            for call in self.calls()
            if actor is None or call.actor_id == actor.hex()
        ]
        listed = found[:most]
        return AllCalls(listed), len(found) - len(listed)

    @on_loop
    def explain(self, actor: ActorId) -> str:
        """Where an actor is, or what it asks; see RuntimeEngine."""
        self.process.check()
        return self._explainer.actor(self.actor(actor))

    @on_loop
    def survey(self, label: str, options: ActorOptions | FunctionOptions) -> str:
        """Which machines an actor, or a call, could go to now; see RuntimeEngine."""
        self.process.check()
        asked = options.worker if isinstance(options, FunctionOptions) else options
        return self._explainer.survey(label, asked)

    @on_loop
    def explain_group(self, group: GroupId) -> str:
        """Where the bundles of a group are, or what it asks; see RuntimeEngine."""
        self.process.check()
        return self._explainer.group(group.hex())


async def start(options: RuntimeOptions, address: str | None) -> OwnerEngine:
    """Connects to a cluster, or starts one, and makes the engine of this process.

    Raises:
        ClusterError: There is no cluster there.
        UnsupportedOptionError: It is to make shares hold, which Ray does not.
    """
    if options.enforcement not in ("auto", "off"):
        raise UnsupportedOptionError(
            f"init(enforcement={options.enforcement!r}): Ray keeps books of shares and "
            "makes none hold. Leave it out, or use the local engine"
        )
    connection = await connect(options, address)
    install_serializers()
    return OwnerEngine(options, connection)
