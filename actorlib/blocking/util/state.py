"""What there is, to be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import actorlib
from actorlib.blocking._session import SESSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actorlib import (
        ActorClass,
        ActorHandle,
        PlacementGroup,
        RemoteFunction,
        Snapshot,
    )
    from actorlib._snapshot import ActorInfo, CallInfo, Filter

__all__ = ["explain", "list_actors", "list_named_actors", "list_tasks", "snapshot"]


def list_actors(
    *,
    filters: Iterable[Filter] | None = None,
    limit: int | None = None,
    detail: bool = False,
) -> list[ActorInfo]:
    """What is known of the actors that live, or that somebody still holds.

    Args:
        filters: Conditions, each ``(field of ActorInfo, "=" or "!=", value)``.
        limit: The most actors to be told of, or None for all.
        detail: Taken so that scripts may say so: all that is known is told.
    """
    del detail
    SESSION.engine()
    return actorlib.list_actors(filters=filters, limit=limit)


def list_named_actors(
    all_namespaces: bool = False,  # noqa: FBT001, FBT002  # as Ray's users write it
) -> list[Any]:
    """The names of the living actors that have one; see ``actorlib``'s."""
    SESSION.engine()
    return actorlib.list_named_actors(all_namespaces)


def list_tasks() -> list[CallInfo]:
    """The calls that have no answer yet; what was answered is not kept.

    Raises:
        RuntimeNotStartedError: No runtime is running, or this is an actor's code.
    """
    return SESSION.read(lambda runtime: runtime.calls())


def snapshot() -> Snapshot:
    """The state of the runtime now: what there is, who waits, who lives.

    Raises:
        RuntimeNotStartedError: No runtime is running, or this is an actor's code.
    """
    return SESSION.read(lambda runtime: runtime.snapshot())


def explain(
    actor: (
        ActorHandle[Any]
        | ActorClass[..., Any]
        | RemoteFunction[..., Any]
        | PlacementGroup
    ),
) -> str:
    """Why an actor is not placed yet, or where it is; see ``actorlib.Runtime``.

    Args:
        actor: A handle, an actor class, a remote function, or a placement group.

    Raises:
        RuntimeNotStartedError: No runtime is running, or this is an actor's code.
        ValueError: It is none of these.
    """
    return SESSION.read(lambda runtime: runtime.explain(actor))
