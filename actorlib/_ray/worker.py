"""Makes the engine of a worker when it is first needed.

That is when Ray first sends a host, a handle or a ref to the process. The owner's
engine is started by ``init()``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from actorlib._api.actor_handle import ActorHandle
from actorlib._core.engine import HandlePin, find_engine, set_engine
from actorlib._core.runtime_context import RuntimeContext
from actorlib._options.interface import class_of
from actorlib._ray.engine import RayEngine
from actorlib._ray.messages import RuntimeConfig
from actorlib._ray.pickled import unpickle_value
from actorlib._ray.process import EntryPoints, ProcessState
from actorlib._ray.ray_api import (
    hidden_devices_variables,
    install_serializers,
    is_client,
    is_worker,
    ray,
)

if TYPE_CHECKING:
    from actorlib._base.ids import ActorId
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._ray.actors import ActorTraits
    from actorlib._ray.messages import HostConfig


def receive_actor(handle: Any, traits: ActorTraits) -> ActorId:
    """Returns the id of an actor whose handle was sent to this process."""
    return engine_here().key_of(handle, traits)


def receive_ref(ray_ref: Any) -> ObjectRef[Any]:
    """Returns the ref of a Ray ref that was sent to this process."""
    return engine_here().ref_of(ray_ref)


def engine_here() -> RayEngine:
    """Returns the engine of this process; makes it in a worker.

    Raises:
        RuntimeError: This is the user's program, and no runtime runs on Ray.
    """
    engine = find_engine()
    if engine is None and is_worker():
        engine = RayEngine(
            ProcessState(ENTRY_POINTS, None), context_here(), RuntimeConfig()
        )
        install_serializers()
        set_engine(engine)
    if not isinstance(engine, RayEngine):
        raise RuntimeError(  # noqa: TRY004  # the time is wrong, not an argument
            "this came from an actor on Ray, and no runtime is running on Ray here: "
            "write 'async with actorlib.init(engine=\"ray\"):' around the code that "
            "uses it"
        )
    return engine


def context_here(namespace: str = "default") -> RuntimeContext:
    """Makes the runtime context of this process from that of Ray."""
    context = ray.get_runtime_context()
    ids: dict[str, list[Any]] = {} if is_client() else context.get_accelerator_ids()
    return RuntimeContext(
        namespace=namespace,
        job_id=context.get_job_id(),
        node_id=context.get_node_id(),
        worker_id=context.get_worker_id(),
        accelerator_ids={
            kind: [int(i) if str(i).isdigit() else i for i in ids_of_kind]
            for kind, ids_of_kind in ids.items()
        },
    )


def begin_host(config: HostConfig, host: Any) -> tuple[type, ProcessState]:
    """Prepares this process for an actor, before the user's code is imported.

    Returns:
        The user's class, and the state of this process.
    """
    engine = engine_here()
    loop = asyncio._get_running_loop()  # noqa: SLF001  # None, and no error, if there is none
    if loop is not None:
        engine.process.host(loop)
    if config.hides:
        ids = ray.get_runtime_context().get_accelerator_ids()
        os.environ.update(dict.fromkeys(hidden_devices_variables(ids), ""))
    directory = config.runtime_env.get("working_dir")
    if directory is not None:
        _work_in(directory)
    engine.runtime = config.runtime
    engine.context = _context_of(config, host)
    engine.own_interface, engine.traits = host.interface, host.traits
    return class_of(unpickle_value(config.source)), engine.process


def begin_function(runtime: RuntimeConfig) -> None:
    """Prepares this process for a call of a function of a runtime."""
    engine = engine_here()
    if engine.runtime is not runtime:
        engine.runtime = runtime
        engine.context = context_here(runtime.namespace)


ENTRY_POINTS = EntryPoints(receive_actor, receive_ref, begin_host, begin_function)


def _context_of(config: HostConfig, host: Any) -> RuntimeContext:
    context = ray.get_runtime_context()
    return replace(
        context_here(config.runtime.namespace),
        actor_id=context.get_actor_id(),
        actor_name=context.get_actor_name() or None,
        runtime_env=config.runtime_env,
        class_name=config.label,
        own=_own,
        process=host,
        resources=config.resources,
        was_current_actor_reconstructed=context.was_current_actor_reconstructed,
        group=config.group,
        captures=config.captures,
    )


def _own() -> ActorHandle[Any]:
    """Makes a handle of this actor."""
    engine = engine_here()
    handle = ray.get_runtime_context().current_actor
    key = engine.key_of(handle, cast("ActorTraits", engine.traits))
    return ActorHandle(HandlePin(engine, key, engine.interface()))


def _work_in(directory: str) -> None:
    if not Path(directory).is_dir():
        raise NotADirectoryError(
            f"working_dir={directory!r} is not a directory of the machine "
            f"{ray.util.get_node_ip_address()}: put it on storage that every machine "
            "of the cluster has, or install the code on them"
        )
    os.chdir(directory)
    sys.path.insert(0, directory)
