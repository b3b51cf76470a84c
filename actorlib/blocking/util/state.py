"""The state of the runtime."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import actorlib
from actorlib._rows.rows import extend_row
from actorlib._rows.snapshot import ActorInfo, checked_filters, matching
from actorlib._script_runtime import SCRIPT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actorlib import ActorHandle, PlacementGroup
    from actorlib._core.runtime_context import RuntimeContext
    from actorlib._rows.snapshot import CallInfo, Filter
    from actorlib.types import ActorClass, RemoteFunction, Snapshot

__all__ = [
    "ActorState",
    "TaskState",
    "explain",
    "get_actor",
    "list_actors",
    "list_named_actors",
    "list_tasks",
    "snapshot",
]


class _Columns:
    """A row that can be read by the names of its columns, as in Ray."""

    __slots__ = ()

    def __getitem__(self, column: str) -> Any:
        try:
            return getattr(self, column)
        except AttributeError:
            raise KeyError(column) from None

    def get(self, column: str, default: object = None) -> Any:
        """Returns the value of a column, or a default if there is no such column."""
        return getattr(self, column, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorState(_Columns, ActorInfo):
    """The state of one actor, by Ray's names: ``row["state"] == "ALIVE"``.

    Attributes:
        state: ``DEPENDENCIES_UNREADY``, ``PENDING_CREATION``, ``ALIVE`` (even while it
            finishes its last calls, and while it is suspended), ``RESTARTING`` or
            ``DEAD``.
        job_id: The runtime, in hex.
        node_id: The machine.
        ray_namespace: The namespace of its name.
        required_resources: The requested resources.
        num_restarts: The number of restarts.
        placement_group_id: The id in hex of its placement group, or None.
        death_cause: None while it lives; then ``{"actor_died_error_context":
            {"error_message": ..., "pid": ..., "actor_id": ..., "class_name": ...}}``.
    """

    job_id: str
    node_id: str
    ray_namespace: str
    required_resources: dict[str, float]
    num_restarts: int
    placement_group_id: str | None
    death_cause: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState(_Columns):
    """The state of an unanswered call, by Ray's names.

    Attributes:
        actor_id: The id in hex of the actor; empty for a function.
        class_name: The name of that actor's class; empty for a function.
        method: The name of the method, or of the function.
        state: ``PENDING_ARGS_AVAIL``, ``PENDING_NODE_ASSIGNMENT``,
            ``PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY`` or ``RUNNING``.
        task_id: The result of ``get_task_id()`` in the call, in hex; empty until it was
            sent.
        name: Its name: from ``options(name=...)``, or class and method.
        func_or_class_name: The class and the method, or the function.
        type: ``ACTOR_TASK``, or ``NORMAL_TASK`` for a function.
        age: Seconds since it was made, to about a tenth; None if unknown.
        caller: The call that made it; empty if the script made it.
        job_id: The runtime, in hex.
        node_id: The machine.
    """

    actor_id: str
    class_name: str
    method: str
    state: str
    task_id: str
    name: str
    func_or_class_name: str
    type: str
    age: float | None
    caller: str
    job_id: str
    node_id: str


_RAYS_ACTOR_STATES = {
    "starting": "PENDING_CREATION",
    "suspended": "ALIVE",
    "draining": "ALIVE",
}
_ACTOR_STATES = (
    "dependencies_unready",
    "pending_creation",
    "alive",
    "restarting",
    "dead",
)
_RAYS_CALL_STATES = {
    "pending_arguments": "PENDING_ARGS_AVAIL",
    "pending_actor": "PENDING_NODE_ASSIGNMENT",
    "pending_resources": "PENDING_NODE_ASSIGNMENT",
    "sent": "SUBMITTED_TO_WORKER",
    "queued": "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY",
}
_CALL_STATES = (
    "pending_args_avail",
    "pending_node_assignment",
    "submitted_to_worker",
    "pending_actor_task_ordering_or_concurrency",
    "running",
    "finished",
    "failed",
)
"""Filters may name the last two, though finished calls have no rows."""


def list_actors(
    *,
    filters: Iterable[Filter] | None = None,
    limit: int | None = None,
    detail: bool = False,
) -> list[ActorState]:
    """Lists the living actors, and the dead ones with handles.

    Args:
        filters: Conditions, each ``(column of ActorState, "=" or "!=", value)``.
        limit: The largest number of rows, or None for all.
        detail: Has no effect: rows have all columns.

    Returns:
        Rows that can be read by attribute, or as ``row["state"]``.

    Raises:
        TypeError: A filter or the limit has the wrong type.
        ValueError: A filter has an unknown column or state, or the limit is below 1.
    """
    del detail
    context = SCRIPT.engine().context
    conditions = checked_filters(filters, limit, ActorState, _ACTOR_STATES)
    rows = [_actor_state(actor, context) for actor in actorlib.list_actors()]
    return matching(rows, conditions)[:limit]


def get_actor(id: str) -> ActorState | None:  # noqa: A002  # as Ray's users write it
    """Returns the row of ``list_actors`` of one actor.

    Args:
        id: The id of the actor, in hex.

    Returns:
        None if no actor has it.
    """
    return next(iter(list_actors(filters=[("actor_id", "=", id)])), None)


def _actor_state(actor: ActorInfo, context: RuntimeContext) -> ActorState:
    state = _RAYS_ACTOR_STATES.get(actor.state, actor.state.upper())
    if actor.state == "pending":
        waits = actor.awaits_arguments
        state = "DEPENDENCIES_UNREADY" if waits else "PENDING_CREATION"
    context_of_death = {
        "error_message": actor.death,
        "pid": actor.pid,
        "actor_id": actor.actor_id,
        "class_name": actor.class_name,
    }
    return extend_row(
        ActorState,
        replace(actor, state=state),
        job_id=context.job_id,
        node_id=context.node_id,
        ray_namespace=actor.namespace,
        required_resources=actor.resources,
        num_restarts=actor.restarts,
        placement_group_id=actor.placement_group,
        death_cause=(
            {"actor_died_error_context": context_of_death} if actor.death else None
        ),
    )


def list_named_actors(
    all_namespaces: bool = False,  # noqa: FBT001, FBT002  # as Ray's users write it
) -> list[Any]:
    """Lists the names of living actors; see ``actorlib.list_named_actors``."""
    SCRIPT.engine()
    return actorlib.list_named_actors(all_namespaces)


def list_tasks(
    *,
    filters: Iterable[Filter] | None = None,
    limit: int | None = None,
    detail: bool = False,
) -> list[TaskState]:
    """Lists the unanswered calls; answered ones are not kept.

    Args:
        filters: Conditions, each ``(column of TaskState, "=" or "!=", value)``.
        limit: The largest number of rows, or None for all.
        detail: Has no effect: rows have all columns.

    Returns:
        Rows that can be read by attribute, or as ``row["state"]``.

    Raises:
        RuntimeNotStartedError: No runtime is running, or this is code of an actor.
        TypeError: A filter or the limit has the wrong type.
        ValueError: A filter has an unknown column or state, or the limit is below 1.
    """
    del detail
    conditions = checked_filters(filters, limit, TaskState, _CALL_STATES)
    calls = SCRIPT.read(lambda runtime: runtime.calls())
    context = SCRIPT.engine().context
    rows = [_task_state(call, context) for call in calls]
    return matching(rows, conditions)[:limit]


def _task_state(call: CallInfo, context: RuntimeContext) -> TaskState:
    name = f"{call.class_name}.{call.method}" if call.actor_id else call.method
    return TaskState(
        actor_id=call.actor_id,
        class_name=call.class_name,
        method=call.method,
        state=_RAYS_CALL_STATES.get(call.state, call.state.upper()),
        task_id=call.task_id,
        name=call.name or name,
        func_or_class_name=name,
        type="ACTOR_TASK" if call.actor_id else "NORMAL_TASK",
        age=call.age,
        caller=call.caller,
        job_id=context.job_id,
        node_id=context.node_id,
    )


def snapshot() -> Snapshot:
    """Returns the state of the runtime: its resources, waiting requests and actors.

    Raises:
        RuntimeNotStartedError: No runtime is running, or this is code of an actor.
    """
    return SCRIPT.read(lambda runtime: runtime.snapshot())


def explain(
    actor: (
        ActorHandle[Any]
        | ActorClass[..., Any]
        | type[object]
        | RemoteFunction[..., Any]
        | PlacementGroup
    ),
) -> str:
    """Explains why an actor is not placed yet, or its placement; see ``Runtime``.

    Args:
        actor: A handle, an actor class, a remote function, or a placement group.

    Raises:
        RuntimeNotStartedError: No runtime is running, or this is code of an actor.
        TypeError: It is not one of these.
    """
    return SCRIPT.read(lambda runtime: runtime.explain(actor))
