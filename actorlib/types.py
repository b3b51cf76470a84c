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

_NAMES = {
    "_api.actor_handle": "ActorMethod",
    "_api.call_batch": "MapResult",
    "_api.decorators": "ActorClass",
    "_api.group_options": "PlacementGroupSchedulingStrategy",
    "_api.inspection": "Failure",
    "_api.remote_function": "GeneratorFunction RemoteFunction",
    "_api.replicas": "ReplicaInfo",
    "_api.typed_methods": "TypedGenerator TypedMethod",
    "_api.waiting": "Waiting",
    "_core.runtime_context": "RuntimeContext",
    "_features.recording.runtime_trace": "Trace",
    "_futures.stream_reader": "StreamValues",
    "_options.actor_options": "ActorKeywords ActorOptions CommonKeywords",
    "_options.call_options": "CallKeywords CallOptions MethodKeywords",
    "_options.function_options": "CallingKeywords FunctionKeywords FunctionOptions",
    "_options.group_spec": "GroupId",
    "_options.runtime_env": "RuntimeEnv",
    "_options.runtime_options": "RuntimeKeywords RuntimeOptions",
    "_options.shares": "ActorShare DeviceShare",
    "_rows.snapshot": (
        "ActorInfo AllCalls BundleInfo CallInfo CallState ClientInfo DemandInfo "
        "DeviceInfo Filter GroupInfo LogLine ObjectInfo ObjectOrder ObjectStoreInfo "
        "Snapshot WorkerGroupInfo"
    ),
}
"""The names of each module, which is loaded when one of them is first used."""

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
    return load_name(globals(), _NAMES, name)


def load_name(home: dict[str, object], names: dict[str, str], name: str) -> object:
    """Loads a name of a public module, whose globals are ``home``, at its first use."""
    for module, listed in names.items():
        if name in listed.split():
            loaded = _importlib.import_module(f"actorlib.{module}")
            value: object = getattr(loaded, name)
            home[name] = value
            return value
    raise AttributeError(f"module {home['__name__']!r} has no attribute {name!r}")
