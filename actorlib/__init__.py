"""An asyncio actor runtime: each actor a subprocess on its share of an accelerator.

Importing it loads neither msgpack nor a vendor's SDK; ``init()`` does.
"""

from actorlib import exceptions
from actorlib._engine import RuntimeContext
from actorlib._function import RemoteFunction
from actorlib._handle import ActorHandle, ActorMethod
from actorlib._lookup import get_actor, list_actors, list_named_actors
from actorlib._method import TypedMethod, method, typed
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
)
from actorlib._snapshot import ActorInfo, Snapshot

__version__ = "0.1.0"

__all__ = [
    "ActorClass",
    "ActorHandle",
    "ActorInfo",
    "ActorMethod",
    "ObjectRef",
    "RemoteFunction",
    "Runtime",
    "RuntimeContext",
    "Snapshot",
    "TypedMethod",
    "__version__",
    "cancel",
    "exceptions",
    "exit_actor",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "list_actors",
    "list_named_actors",
    "method",
    "put",
    "remote",
    "run",
    "typed",
]
