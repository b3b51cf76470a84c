"""The names of ``ray.util``.

In the order in which to read it:

* ``placement_group``, ``scheduling_strategies``: bundles that are reserved together.
* ``actor_pool``, ``queue``: a pool of actors, and a queue.
* ``iteration``: results in the order in which they are ready.
* ``state``: the state of the runtime.
* ``multiprocessing``, ``joblib``: their pools, with actors and remote functions.
* ``accelerators``: the names of models of devices.
"""

import importlib
from typing import TYPE_CHECKING

from actorlib._core.serializers import deregister_serializer, register_serializer
from actorlib.blocking._verbs import NODE_ADDRESS
from actorlib.blocking.util import queue, scheduling_strategies
from actorlib.blocking.util.actor_pool import ActorPool
from actorlib.blocking.util.iteration import as_completed, map_unordered
from actorlib.blocking.util.placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

if TYPE_CHECKING:
    from actorlib._api.inspection import inspect_serializability
    from actorlib.blocking.util import accelerators, joblib, multiprocessing, state
    from actorlib.blocking.util.state import list_named_actors

__all__ = [
    "ActorPool",
    "accelerators",
    "as_completed",
    "deregister_serializer",
    "get_current_placement_group",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "joblib",
    "list_named_actors",
    "map_unordered",
    "multiprocessing",
    "placement_group",
    "placement_group_table",
    "queue",
    "register_serializer",
    "remove_placement_group",
    "scheduling_strategies",
    "state",
]


def get_node_ip_address() -> str:
    """Returns the address of this machine for its own processes, as in ``nodes()``.

    There is one machine, so the ports that its processes open for one another (for
    example the rendezvous of ``torch.distributed``) need not be reachable from others.
    """
    return NODE_ADDRESS


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    # Each of these imports much that few scripts need.
    if name in ("accelerators", "joblib", "multiprocessing", "state"):
        return importlib.import_module(f"{__name__}.{name}")
    if name == "list_named_actors":
        return importlib.import_module(f"{__name__}.state").list_named_actors
    if name == "inspect_serializability":  # it imports the serialization
        return importlib.import_module(
            "actorlib._api.inspection"
        ).inspect_serializability
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
