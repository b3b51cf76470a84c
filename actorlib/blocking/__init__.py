"""The blocking API for scripts: ``import actorlib.blocking as ray``.

Everything has Ray's name, blocks until it is done, and may be called from any thread.
The runtime starts at first use, in a thread with an event loop, and ends with the
script. In an actor, all of this uses the actor's own engine. Handles, refs and classes
are the same as those of ``actorlib``.

In the order in which to read it:

* ``_options``, ``_init``: checks options, starts and ends the runtime.
* ``_verbs``: ``get``, ``put``, ``wait`` and the other functions.
* ``util``, ``actor``, ``exceptions``, ``runtime_env``, ``runtime_context``,
  ``job_config``, ``cloudpickle``: Ray's modules with the other names.
"""

import importlib
from typing import TYPE_CHECKING

from actorlib import __version__
from actorlib._api.typed_methods import method
from actorlib._core.runtime_context import RuntimeContext
from actorlib._futures.object_ref import ObjectRef
from actorlib._futures.stream_reader import ObjectRefGenerator
from actorlib.blocking import actor, exceptions, runtime_context, runtime_env, util
from actorlib.blocking._init import Context, init, is_initialized, shutdown
from actorlib.blocking._verbs import (
    available_resources,
    cancel,
    cluster_resources,
    get,
    get_actor,
    get_gpu_ids,
    get_runtime_context,
    kill,
    nodes,
    put,
    remote,
    timeline,
    wait,
)

if TYPE_CHECKING:
    from actorlib.blocking import cloudpickle, job_config

ObjectID = ObjectRef

__all__ = [
    "Context",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "RuntimeContext",
    "__version__",
    "actor",
    "available_resources",
    "cancel",
    "cloudpickle",
    "cluster_resources",
    "exceptions",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "job_config",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "runtime_context",
    "runtime_env",
    "shutdown",
    "timeline",
    "util",
    "wait",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    # Few scripts need these, and cloudpickle takes long to load.
    if name in ("cloudpickle", "job_config"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
