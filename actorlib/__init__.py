"""An asyncio actor runtime: each actor a subprocess on its share of an accelerator.

Importing it loads neither msgpack nor a vendor's SDK; ``init()`` does. A name is loaded
when it is first used: the template imports this package too, seldom needs a name, and
has to fork the first worker soon.
"""

import importlib as _importlib
import typing as _typing

from actorlib import exceptions

if _typing.TYPE_CHECKING:
    from actorlib._api.actor_handle import ActorHandle, ActorMethod
    from actorlib._api.actor_lookup import get_actor, list_actors, list_named_actors
    from actorlib._api.actor_pool import ActorPool
    from actorlib._api.as_completed import as_completed
    from actorlib._api.batching import batch
    from actorlib._api.call_batch import Batch
    from actorlib._api.decorators import ActorClass, remote
    from actorlib._api.group_options import PlacementGroupSchedulingStrategy
    from actorlib._api.inspection import Failure, inspect_serializability
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
    from actorlib._api.remote_function import GeneratorFunction, RemoteFunction
    from actorlib._api.replicas import ReplicaInfo, Replicas
    from actorlib._api.results import Results
    from actorlib._api.typed_methods import TypedGenerator, TypedMethod, method, typed
    from actorlib._api.waiting import Waiting, wait
    from actorlib._core.propagation import propagate
    from actorlib._core.runtime_context import RuntimeContext
    from actorlib._core.serializers import deregister_serializer, register_serializer
    from actorlib._executor import Executor
    from actorlib._features.recording.runtime_trace import Trace
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._futures.stream_reader import ObjectRefGenerator
    from actorlib._options.actor_options import (
        ActorKeywords,
        ActorOptions,
        CommonKeywords,
    )
    from actorlib._options.call_options import CallKeywords, CallOptions, MethodKeywords
    from actorlib._options.function_options import (
        CallingKeywords,
        FunctionKeywords,
        FunctionOptions,
    )
    from actorlib._options.group_spec import GroupId
    from actorlib._options.hooks import close, setup
    from actorlib._options.runtime_env import RuntimeEnv
    from actorlib._options.runtime_options import RuntimeKeywords, RuntimeOptions
    from actorlib._options.shares import ActorShare, DeviceShare
    from actorlib._rows.snapshot import (
        ActorInfo,
        AllCalls,
        BundleInfo,
        CallInfo,
        CallState,
        ClientInfo,
        DemandInfo,
        DeviceInfo,
        Filter,
        GroupInfo,
        LogLine,
        ObjectInfo,
        ObjectOrder,
        ObjectStoreInfo,
        Snapshot,
        WorkerGroupInfo,
    )
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
    "ActorClass": "_api.decorators",
    "ActorHandle": "_api.actor_handle",
    "ActorInfo": "_rows.snapshot",
    "ActorKeywords": "_options.actor_options",
    "ActorMethod": "_api.actor_handle",
    "ActorOptions": "_options.actor_options",
    "ActorPool": "_api.actor_pool",
    "ActorShare": "_options.shares",
    "AllCalls": "_rows.snapshot",
    "Batch": "_api.call_batch",
    "BundleInfo": "_rows.snapshot",
    "CallInfo": "_rows.snapshot",
    "CallKeywords": "_options.call_options",
    "CallOptions": "_options.call_options",
    "CallState": "_rows.snapshot",
    "CallingKeywords": "_options.function_options",
    "ClientInfo": "_rows.snapshot",
    "CommonKeywords": "_options.actor_options",
    "DemandInfo": "_rows.snapshot",
    "DeviceInfo": "_rows.snapshot",
    "DeviceShare": "_options.shares",
    "Executor": "_executor",
    "Failure": "_api.inspection",
    "Filter": "_rows.snapshot",
    "FunctionKeywords": "_options.function_options",
    "FunctionOptions": "_options.function_options",
    "GeneratorFunction": "_api.remote_function",
    "GroupId": "_options.group_spec",
    "GroupInfo": "_rows.snapshot",
    "MethodKeywords": "_options.call_options",
    "ObjectRef": "_futures.object_ref",
    "ObjectRefGenerator": "_futures.stream_reader",
    "LogLine": "_rows.snapshot",
    "ObjectInfo": "_rows.snapshot",
    "ObjectOrder": "_rows.snapshot",
    "ObjectStoreInfo": "_rows.snapshot",
    "PlacementGroup": "_api.placement_group",
    "PlacementGroupSchedulingStrategy": "_api.group_options",
    "Queue": "_api.queue",
    "RemoteFunction": "_api.remote_function",
    "ReplicaInfo": "_api.replicas",
    "Replicas": "_api.replicas",
    "Results": "_api.results",
    "Runtime": "_runtime",
    "RuntimeContext": "_core.runtime_context",
    "RuntimeEnv": "_options.runtime_env",
    "RuntimeKeywords": "_options.runtime_options",
    "RuntimeOptions": "_options.runtime_options",
    "Snapshot": "_rows.snapshot",
    "Trace": "_features.recording.runtime_trace",
    "TypedGenerator": "_api.typed_methods",
    "TypedMethod": "_api.typed_methods",
    "Waiting": "_api.waiting",
    "WorkerGroupInfo": "_rows.snapshot",
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
    "ActorClass",
    "ActorHandle",
    "ActorInfo",
    "ActorKeywords",
    "ActorMethod",
    "ActorOptions",
    "ActorPool",
    "ActorShare",
    "AllCalls",
    "Batch",
    "BundleInfo",
    "CallInfo",
    "CallKeywords",
    "CallOptions",
    "CallState",
    "CallingKeywords",
    "ClientInfo",
    "CommonKeywords",
    "DemandInfo",
    "DeviceInfo",
    "DeviceShare",
    "Executor",
    "Failure",
    "Filter",
    "FunctionKeywords",
    "FunctionOptions",
    "GeneratorFunction",
    "GroupId",
    "GroupInfo",
    "LogLine",
    "MethodKeywords",
    "ObjectInfo",
    "ObjectOrder",
    "ObjectRef",
    "ObjectRefGenerator",
    "ObjectStoreInfo",
    "PlacementGroup",
    "PlacementGroupSchedulingStrategy",
    "Queue",
    "RemoteFunction",
    "ReplicaInfo",
    "Replicas",
    "Results",
    "Runtime",
    "RuntimeContext",
    "RuntimeEnv",
    "RuntimeKeywords",
    "RuntimeOptions",
    "Snapshot",
    "Trace",
    "TypedGenerator",
    "TypedMethod",
    "Waiting",
    "WorkerGroupInfo",
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
    "wait",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module 'actorlib' has no attribute {name!r}")
    value: object = getattr(_importlib.import_module(f"actorlib.{_LATE[name]}"), name)
    globals()[name] = value
    return value
