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

_NAMES = {
    "_api.actor_handle": "ActorHandle",
    "_api.actor_lookup": "get_actor list_actors list_named_actors",
    "_api.actor_pool": "ActorPool",
    "_api.as_completed": "as_completed",
    "_api.batching": "batch",
    "_api.decorators": "remote",
    "_api.inspection": "inspect_serializability",
    "_api.pipeline": "map_unordered",
    "_api.placement_group": (
        "PlacementGroup get_current_placement_group get_placement_group "
        "placement_group placement_group_table remove_placement_group"
    ),
    "_api.queue": "Queue",
    "_api.replicas": "Replicas",
    "_api.results": "Results",
    "_api.typed_methods": "method typed",
    "_api.waiting": "wait",
    "_core.propagation": "propagate",
    "_core.serializers": "deregister_serializer register_serializer",
    "_executor": "Executor",
    "_futures.object_ref": "ObjectRef",
    "_futures.stream_reader": "ObjectRefGenerator",
    "_options.hooks": "close setup",
    "_runtime": (
        "Runtime attach cancel exit_actor get get_gpu_ids get_runtime_context init "
        "is_initialized kill put run shutdown"
    ),
}
"""The names of each module, which is loaded when one of them is first used."""

__version__ = "0.3.1"

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
    # A type by its name before 0.3.
    new_name = "MapResult" if name == "Batch" else name
    if not name[:1].isupper() or new_name not in types.__all__:
        return types.load_name(globals(), _NAMES, name)
    _importlib.import_module("actorlib._base.stack_frames").warn_old_name(
        f"actorlib.{name}", f"actorlib.types.{new_name}"
    )
    return getattr(types, new_name)
