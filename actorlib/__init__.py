"""An asyncio actor runtime: each actor a subprocess on its share of an accelerator.

Importing it loads neither msgpack nor a vendor's SDK; ``init()`` does. A name is loaded
when it is first used: the template imports this package too, seldom needs a name, and
has to fork the first worker soon. The types of values that functions return, and of
options, are in ``actorlib.types``.
"""

import importlib as _importlib
import typing as _typing

from actorlib import types  # loaded, so that pickles refer to its classes by name

if _typing.TYPE_CHECKING:
    from actorlib import exceptions
    from actorlib._api.actor_handle import ActorHandle
    from actorlib._api.actor_lookup import get_actor, list_actors, list_named_actors
    from actorlib._api.actor_pool import ActorPool
    from actorlib._api.as_completed import as_completed
    from actorlib._api.batching import batch
    from actorlib._api.decorators import remote
    from actorlib._api.inspection import inspect_serializability
    from actorlib._api.pipeline import map_unordered
    from actorlib._api.placement_group import (
        PlacementGroup,
        get_current_placement_group,
        get_placement_group,
        placement_group,
        placement_group_table,
        remove_placement_group,
    )
    from actorlib._api.queue import Queue
    from actorlib._api.replicas import Replicas
    from actorlib._api.results import Results
    from actorlib._api.typed_methods import method, typed
    from actorlib._api.waiting import wait
    from actorlib._core.propagation import propagate
    from actorlib._core.serializers import deregister_serializer, register_serializer
    from actorlib._executor import Executor
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._futures.stream_reader import ObjectRefGenerator
    from actorlib._options.hooks import close, setup
    from actorlib._runtime import (
        Runtime,
        attach,
        cancel,
        exit_actor,
        get,
        get_gpu_ids,
        get_runtime_context,
        init,
        is_initialized,
        kill,
        put,
        run,
        shutdown,
    )

_LATE = {
    "ActorHandle": "_api.actor_handle",
    "ActorPool": "_api.actor_pool",
    "Executor": "_executor",
    "ObjectRef": "_futures.object_ref",
    "ObjectRefGenerator": "_futures.stream_reader",
    "PlacementGroup": "_api.placement_group",
    "Queue": "_api.queue",
    "Replicas": "_api.replicas",
    "Results": "_api.results",
    "Runtime": "_runtime",
    "as_completed": "_api.as_completed",
    "attach": "_runtime",
    "batch": "_api.batching",
    "cancel": "_runtime",
    "close": "_options.hooks",
    "deregister_serializer": "_core.serializers",
    "exit_actor": "_runtime",
    "get": "_runtime",
    "get_actor": "_api.actor_lookup",
    "get_current_placement_group": "_api.placement_group",
    "get_gpu_ids": "_runtime",
    "get_placement_group": "_api.placement_group",
    "get_runtime_context": "_runtime",
    "init": "_runtime",
    "inspect_serializability": "_api.inspection",
    "is_initialized": "_runtime",
    "kill": "_runtime",
    "list_actors": "_api.actor_lookup",
    "list_named_actors": "_api.actor_lookup",
    "map_unordered": "_api.pipeline",
    "method": "_api.typed_methods",
    "placement_group": "_api.placement_group",
    "placement_group_table": "_api.placement_group",
    "propagate": "_core.propagation",
    "put": "_runtime",
    "register_serializer": "_core.serializers",
    "remote": "_api.decorators",
    "remove_placement_group": "_api.placement_group",
    "run": "_runtime",
    "setup": "_options.hooks",
    "shutdown": "_runtime",
    "typed": "_api.typed_methods",
    "wait": "_api.waiting",
}
"""The module of each name, which is loaded at its first use."""

__version__ = "0.2.0"

__all__ = [
    "ActorHandle",
    "ActorPool",
    "Executor",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroup",
    "Queue",
    "Replicas",
    "Results",
    "Runtime",
    "__version__",
    "as_completed",
    "attach",
    "batch",
    "cancel",
    "close",
    "deregister_serializer",
    "exceptions",
    "exit_actor",
    "get",
    "get_actor",
    "get_current_placement_group",
    "get_gpu_ids",
    "get_placement_group",
    "get_runtime_context",
    "init",
    "inspect_serializability",
    "is_initialized",
    "kill",
    "list_actors",
    "list_named_actors",
    "map_unordered",
    "method",
    "placement_group",
    "placement_group_table",
    "propagate",
    "put",
    "register_serializer",
    "remote",
    "remove_placement_group",
    "run",
    "setup",
    "shutdown",
    "typed",
    "types",
    "wait",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    if name == "exceptions":
        return _importlib.import_module("actorlib.exceptions")
    if name not in _LATE:
        return _moved(name)
    value: object = getattr(_importlib.import_module(f"actorlib.{_LATE[name]}"), name)
    globals()[name] = value
    return value


def _moved(name: str) -> object:
    """Returns a type by its name before 0.3, and warns; AttributeError for others."""
    new_name = "MapResult" if name == "Batch" else name
    if not name[:1].isupper() or new_name not in types.__all__:
        raise AttributeError(f"module 'actorlib' has no attribute {name!r}")
    _importlib.import_module("actorlib._base.stack_frames").warn_old_name(
        f"actorlib.{name}", f"actorlib.types.{new_name}"
    )
    return getattr(types, new_name)
