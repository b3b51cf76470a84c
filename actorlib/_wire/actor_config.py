"""Configures a worker for its actor, before anything else reaches it.

It is sent in the START frame as a dict of its fields: ``vars(config)`` on one side,
``ActorConfig(**values)`` on the other. A tuple would be shorter, but a tuple in a frame
is a list of borrowed references (``fd_passing``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from actorlib._base.value import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib._base.ids import ActorId
    from actorlib._wire.messages import Frame


@final
@dataclass(frozen=True, kw_only=True)  # no slots: vars() is sent
class ActorConfig:
    """The configuration of a worker, and facts about itself that its actor may read.

    Attributes:
        actor_id: The actor of the worker.
        class_name: The name of the actor's class; empty for an attached program.
        name: The actor's name, or None.
        slot: Its number among replicas, or None.
        namespace: The default namespace for names.
        prefix: The first eight bytes of the ids that it makes.
        node_id: The machine, in hex.
        runs_functions: Whether it runs functions instead of an actor.
        is_inline: Whether it is a thread of its owner's process.
        is_async: Whether the actor needs an event loop.
        limits: How many calls run at once, by group; empty for the default.
        groups: The group of each method that is in a concurrency group.
        max_unread: The maximum number of unread items of all its streams, or -1.
        grace: Seconds that running calls have when the actor leaves.
        environment: Variables to set, or with None to remove.
        path: ``sys.path``.
        directory: The working directory, or None for that of the template.
        threads: CPU threads for libraries that are imported already, or None.
        features: The entries for features of the worker before any of the user's code
            is imported, by their names (``_worker/features.py``), in order.
        runtime_env: The requested runtime environment, including inherited settings.
        resources: The resources that it holds, by name, as requested.
        accelerator_ids: Ids of its devices, by kind.
        was_reconstructed: Whether the actor was restarted after a death.
        placement_group: The group of the actor, pickled, or None.
        captures_children: Whether actors that it creates join that group by default.
        attached: The frames that attach features to the worker; see its ``features``.
    """

    actor_id: ActorId
    class_name: str
    name: str | None = None
    slot: int | None = None
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
