"""Imports Ray, and wraps its private functions that are used here; no other file does.

Ray may not be installed where types are checked, so it is ``Any`` here, and the results
of these functions are typed.
"""

from __future__ import annotations

import importlib
from collections import ChainMap
from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

from actorlib._core.serializers import REDUCERS

try:
    import ray as _ray  # pyright: ignore[reportMissingImports, reportMissingTypeStubs]  # the extra may be missing
except ImportError as error:
    raise ImportError(
        "engine='ray' needs Ray, which is not installed here: "
        "pip install 'actorlib[ray]'"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._options.actor_options import CommonOptions

T = TypeVar("T")

ray: Any = _ray
_COUNTED = (ray.ObjectRef, ray.actor.ActorHandle)


def error_class() -> type[Exception]:
    return cast("type[Exception]", ray.exceptions.RayError)


def install_serializers() -> None:
    """Makes Ray use the serializers that users have registered with actorlib."""
    pickler = ray.cloudpickle.CloudPickler
    table = pickler.dispatch_table
    if REDUCERS not in getattr(table, "maps", ()):
        pickler.dispatch_table = ChainMap({}, REDUCERS, table)


def is_pickling_now() -> bool:
    """Whether Ray is pickling a value on this thread, and counts its refs."""
    context = _worker().get_serialization_context()
    return bool(context.is_in_band_serialization())


def outside_of_pickling(work: Callable[[], T]) -> T:
    """Runs a function that pickles with Ray, even while Ray pickles on this thread.

    For each thread Ray records whether it pickles, and the refs in the value. Pickling
    a value within another one would clear both, and Ray would not count the refs of the
    outer value.
    """
    if not is_pickling_now():
        return work()
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  # raised in the waiting thread
            done.set_exception(error)

    Thread(target=run, name="actorlib-ray-value", daemon=True).start()
    return done.result()


def class_of(handle: Any) -> Any:
    """Returns the class of an actor of another process, from the cluster."""
    manager = _worker().function_actor_manager
    return manager.load_actor_class(
        handle._ray_actor_id.job_id,  # noqa: SLF001  # there is no other way
        handle._ray_actor_creation_function_descriptor,  # noqa: SLF001  # as above
    )


def fetch(ray_ref: Any, then: Callable[[Any], None]) -> None:
    """Calls back with the value or the error of a ref, on a Ray thread."""
    ray_ref._on_completed(then)  # noqa: SLF001  # as Ray's own futures do


class Undelivered(ray.exceptions.RayError):  # type: ignore[misc]  # Ray is Any
    """A client server could not pass a result on."""


def undelivered(error: BaseException) -> BaseException:
    """Wraps an error that is not Ray's, to be passed on like one of Ray."""
    if isinstance(error, error_class()):
        return error
    return Undelivered(f"{type(error).__name__}: {error}")


def is_ray_object(value: object) -> bool:
    """Whether Ray counts a value: a ref, or a handle of an actor.

    A client's handle is recognized by its name, as its module would import gRPC.
    """
    return isinstance(value, _COUNTED) or type(value).__name__ == "ClientActorHandle"


def id_of(handle: Any) -> bytes:
    number: bytes = handle._actor_id.binary()  # noqa: SLF001  # its public form is hex
    return number


def peek_item(generator: Any) -> Any:
    """Returns the ref of the next item of a stream, which may not exist yet."""
    return _worker().core_worker.peek_object_ref_stream(generator.completed())[0]


def read_item(generator: Any) -> Any | None:
    """Returns the ref of the next item of a stream, which exists; None at the end."""
    try:
        return _worker().core_worker.try_read_next_object_ref_stream(
            generator.completed()
        )
    except ray.exceptions.ObjectRefStreamEndOfStreamError:
        return None


def is_cancelled() -> bool:
    """Whether the running call of an actor with a loop was cancelled.

    Ray's own query works for actors without a loop only. For others it cancels the
    future of the call at once, even while a plain method blocks the loop.
    """
    worker = _worker()
    running = worker.core_worker.get_future_for_running_task(worker.current_task_id)
    return running is not None and bool(running.cancelled())


def exit_worker(message: str, code: int) -> None:
    """Ends this worker after its answers, with a reason for Ray's messages.

    Raises:
        SystemExit: Always.
    """
    ray._raylet.raise_sys_exit_with_custom_error_message(message, exit_code=code)  # noqa: SLF001  # as exit_actor() does


def group_of(group: bytes) -> Any:
    number = ray.PlacementGroupID(group)
    return importlib.import_module("ray.util.placement_group").PlacementGroup(number)


def scheduling_strategy(options: CommonOptions) -> Any:
    """Returns Ray's strategy for an actor or a call: a bundle, a word, or None."""
    if options.group is None:
        strategy: Any = options.scheduling_strategy
        if not hasattr(strategy, "node_id"):
            return strategy
        return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            strategy.node_id, strategy.soft
        )
    return ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
        group_of(options.group.id),
        placement_group_bundle_index=options.placement_group_bundle_index,
        placement_group_capture_child_tasks=bool(
            options.placement_group_capture_child_tasks
        ),
    )


def actor_table() -> Mapping[str, Mapping[str, Any]]:
    """Returns the cluster's rows of all actors, by id in hex."""
    state: Any = ray._private.state.state  # noqa: SLF001  # the public one needs the dashboard
    table: Mapping[str, Mapping[str, Any]] = state.actor_table(None, None, None)
    return table


def free_by_node() -> Mapping[str, Mapping[str, float]]:
    """Returns the free resources of each machine, by its id, from its last report."""
    free: Mapping[str, Mapping[str, float]] = (
        ray._private.state.available_resources_per_node()  # noqa: SLF001  # there is no other way
    )
    return free


def job_config(path: list[str]) -> Any:
    """Makes the configuration of this program for workers: its import paths."""
    config = ray.job_config.JobConfig()
    # Each is inserted at the front, so the first one comes last.
    config._py_driver_sys_path.extend(reversed(path))  # noqa: SLF001  # its public form is for other languages
    return config


def connect_client(
    address: str, config: Any, namespace: str, keywords: dict[str, Any]
) -> None:
    """Connects this process to a client server.

    Args:
        address: The address of the server.
        config: The result of ``job_config``; ``ray.init`` does not take it here.
        namespace: The default namespace of names.
        keywords: Further keywords that the server passes to ``ray.init``.
    """
    builder = ray.client(
        address.removeprefix("ray://"), _deprecation_warn_enabled=False
    )
    builder._job_config = config  # noqa: SLF001  # as above
    builder._init_args(namespace=namespace, **keywords)  # noqa: SLF001  # as ray.init() does
    builder.connect()


def hidden_devices_variables(accelerator_ids: Mapping[str, list[str]]) -> list[str]:
    """Returns the visibility variables of accelerators that a process does not have."""
    managers: Any = ray._private.accelerators.get_all_accelerator_managers()  # noqa: SLF001  # there is no other list
    names = [
        manager.get_visible_accelerator_ids_env_var()
        for manager in managers
        if not accelerator_ids.get(manager.get_resource_name())
    ]
    return [name for name in names if name]


def is_client() -> bool:
    """Whether this process is connected through a client server."""
    return bool(ray.util.client.ray.is_connected())


def is_worker() -> bool:
    """Whether this process is a worker of the cluster."""
    return bool(_worker().mode == ray.WORKER_MODE)


def _worker() -> Any:
    return ray._private.worker.global_worker  # noqa: SLF001  # as Ray's own modules find it
