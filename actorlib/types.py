"""The types of options, and of the values that actorlib returns.

Use them in annotations and in ``isinstance``; nothing here has to be made by hand but
``PlacementGroupSchedulingStrategy``.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from actorlib._api.actor_handle import ActorMethod
    from actorlib._api.call_batch import MapResult
    from actorlib._api.decorators import ActorClass
    from actorlib._api.group_options import PlacementGroupSchedulingStrategy
    from actorlib._api.inspection import Failure
    from actorlib._api.remote_function import GeneratorFunction, RemoteFunction
    from actorlib._api.replicas import ReplicaInfo
    from actorlib._api.typed_methods import TypedGenerator, TypedMethod
    from actorlib._api.waiting import Waiting
    from actorlib._core.runtime_context import RuntimeContext
    from actorlib._features.recording.runtime_trace import Trace
    from actorlib._futures.stream_reader import StreamValues
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

_LATE = {
    "ActorClass": "_api.decorators",
    "ActorInfo": "_rows.snapshot",
    "ActorKeywords": "_options.actor_options",
    "ActorMethod": "_api.actor_handle",
    "ActorOptions": "_options.actor_options",
    "ActorShare": "_options.shares",
    "AllCalls": "_rows.snapshot",
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
    "Failure": "_api.inspection",
    "Filter": "_rows.snapshot",
    "FunctionKeywords": "_options.function_options",
    "FunctionOptions": "_options.function_options",
    "GeneratorFunction": "_api.remote_function",
    "GroupId": "_options.group_spec",
    "GroupInfo": "_rows.snapshot",
    "LogLine": "_rows.snapshot",
    "MapResult": "_api.call_batch",
    "MethodKeywords": "_options.call_options",
    "ObjectInfo": "_rows.snapshot",
    "ObjectOrder": "_rows.snapshot",
    "ObjectStoreInfo": "_rows.snapshot",
    "PlacementGroupSchedulingStrategy": "_api.group_options",
    "RemoteFunction": "_api.remote_function",
    "ReplicaInfo": "_api.replicas",
    "RuntimeContext": "_core.runtime_context",
    "RuntimeEnv": "_options.runtime_env",
    "RuntimeKeywords": "_options.runtime_options",
    "RuntimeOptions": "_options.runtime_options",
    "Snapshot": "_rows.snapshot",
    "StreamValues": "_futures.stream_reader",
    "Trace": "_features.recording.runtime_trace",
    "TypedGenerator": "_api.typed_methods",
    "TypedMethod": "_api.typed_methods",
    "Waiting": "_api.waiting",
    "WorkerGroupInfo": "_rows.snapshot",
}
"""The module of each name, which is loaded at its first use."""

__all__ = [
    "ActorClass",
    "ActorInfo",
    "ActorKeywords",
    "ActorMethod",
    "ActorOptions",
    "ActorShare",
    "AllCalls",
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
    "Failure",
    "Filter",
    "FunctionKeywords",
    "FunctionOptions",
    "GeneratorFunction",
    "GroupId",
    "GroupInfo",
    "LogLine",
    "MapResult",
    "MethodKeywords",
    "ObjectInfo",
    "ObjectOrder",
    "ObjectStoreInfo",
    "PlacementGroupSchedulingStrategy",
    "RemoteFunction",
    "ReplicaInfo",
    "RuntimeContext",
    "RuntimeEnv",
    "RuntimeKeywords",
    "RuntimeOptions",
    "Snapshot",
    "StreamValues",
    "Trace",
    "TypedGenerator",
    "TypedMethod",
    "Waiting",
    "WorkerGroupInfo",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module 'actorlib.types' has no attribute {name!r}")
    value: object = getattr(_importlib.import_module(f"actorlib.{_LATE[name]}"), name)
    globals()[name] = value
    return value
