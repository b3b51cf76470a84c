"""Configures a worker for its actor, before anything else reaches it.

It crosses the pipe in the START frame as a dict of its fields: ``vars(config)`` on one
side, ``ActorConfig(**values)`` on the other. A tuple would be shorter, and be taken for
loans: those are the tuples of a frame (``fd_passing``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from actorlib._base.value import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib._base.ids import ActorId
    from actorlib._wire.messages import Frame


@final
@dataclass(frozen=True, kw_only=True)  # no slots: vars() is what crosses
class ActorConfig:
    """Says how a worker is set up, and what its actor may ask about itself.

    Attributes:
        actor_id: The actor that the worker is for.
        class_name: The name of the actor's class.
        name: The actor's own name, or None.
        namespace: Where names are looked up by default.
        prefix: The first eight bytes of the ids of what it makes.
        node_id: The machine, in hex.
        runs_functions: Whether it runs functions, and is no actor's.
        is_inline: Whether it lives in its owner's process.
        is_async: Whether the actor needs an event loop.
        limits: How many calls run at once, by group; empty for the default.
        groups: The methods that are in a concurrency group, each with its name.
        max_unread: How many items of all its streams may be unread, or -1.
        grace: Seconds that what runs is given when the actor leaves.
        environment: Variables to set, or with None to remove.
        path: ``sys.path``.
        directory: Where the actor works, or None for where the template is.
        threads: CPU threads for libraries that are imported already, or None.
        features: What features of the worker get before any of the user's code is
            imported, by their keys (``_worker/features.py``), in order.
        runtime_env: The runtime environment that was asked for, with what it inherited.
        resources: What it holds, by resource name, as it was written.
        accelerator_ids: Ids of the devices it was given, by kind.
        was_reconstructed: Whether the actor was restarted after a death.
        placement_group: The group that the actor is in, pickled, or None.
        captures_children: Whether actors that it makes go into that group by default.
        attached: The frames that attach features to the worker; see its ``features``.
    """

    actor_id: ActorId
    class_name: str
    name: str | None = None
    namespace: str = "default"
    prefix: bytes
    node_id: str = ""
    runs_functions: bool = False
    is_inline: bool = False
    is_async: bool = False
    limits: Mapping[str, int]
    groups: Mapping[str, str]
    max_unread: int = -1
    grace: float = 0.0
    environment: Mapping[str, str | None]
    path: Sequence[str]
    directory: str | None = None
    threads: int | None = None
    features: Mapping[str, Any]
    runtime_env: Mapping[str, Any]
    resources: Mapping[str, float]
    accelerator_ids: Mapping[str, Sequence[int | str]]
    was_reconstructed: bool = False
    placement_group: bytes | None = None
    captures_children: bool = False
    attached: Sequence[Frame] = ()
