"""An asyncio actor runtime: each actor a subprocess on its share of an accelerator.

Importing it loads neither msgpack nor a vendor's SDK; ``init()`` does.
"""

import importlib
import typing

from actorlib import exceptions
from actorlib._actor_method import ActorMethod
from actorlib._batch import Batch
from actorlib._context import RuntimeContext
from actorlib._function import GeneratorFunction, RemoteFunction
from actorlib._generator import ObjectRefGenerator
from actorlib._handle import ActorHandle
from actorlib._lookup import get_actor, list_actors, list_named_actors
from actorlib._method import TypedGenerator, TypedMethod, method, typed
from actorlib._placement_group import (
    PlacementGroup,
    PlacementGroupSchedulingStrategy,
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from actorlib._propagation import propagate
from actorlib._ref import ObjectRef
from actorlib._remote import ActorClass, remote
from actorlib._runtime import (
    Runtime,
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
from actorlib._serializers import deregister_serializer, register_serializer
from actorlib._waiting import wait

if typing.TYPE_CHECKING:
    from actorlib._flow import map_unordered
    from actorlib._inspection import inspect_serializability
    from actorlib._pool import ActorPool
    from actorlib._queue import Queue
    from actorlib._results import as_completed
    from actorlib._snapshot import (
        ActorInfo,
        BundleInfo,
        CallInfo,
        DemandInfo,
        GroupInfo,
        ObjectStoreInfo,
        Snapshot,
    )

_LATE = {
    "ActorInfo": "_snapshot",
    "ActorPool": "_pool",
    "BundleInfo": "_snapshot",
    "CallInfo": "_snapshot",
    "DemandInfo": "_snapshot",
    "GroupInfo": "_snapshot",
    "ObjectStoreInfo": "_snapshot",
    "Queue": "_queue",
    "Snapshot": "_snapshot",
    "as_completed": "_results",
    "inspect_serializability": "_inspection",
    "map_unordered": "_flow",
}
"""What is loaded when somebody asks for it."""

__version__ = "0.1.0"

__all__ = [
    "ActorClass",
    "ActorHandle",
    "ActorInfo",
    "ActorMethod",
    "ActorPool",
    "Batch",
    "BundleInfo",
    "CallInfo",
    "DemandInfo",
    "GeneratorFunction",
    "GroupInfo",
    "ObjectRef",
    "ObjectRefGenerator",
    "ObjectStoreInfo",
    "PlacementGroup",
    "PlacementGroupSchedulingStrategy",
    "Queue",
    "RemoteFunction",
    "Runtime",
    "RuntimeContext",
    "Snapshot",
    "TypedGenerator",
    "TypedMethod",
    "__version__",
    "as_completed",
    "cancel",
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
    "shutdown",
    "typed",
    "wait",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module 'actorlib' has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f"actorlib.{_LATE[name]}"), name)
    globals()[name] = found
    return found
