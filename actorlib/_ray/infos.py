"""What the cluster tells of its actors, as anybody sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib._ray.library import actor_table
from actorlib._snapshot import ActorInfo

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

_STATES = {
    "DEPENDENCIES_UNREADY": "pending",
    "PENDING_CREATION": "starting",
    "ALIVE": "alive",
    "RESTARTING": "restarting",
    "DEAD": "dead",
}


def infos_of(job: str, held: Container[str]) -> list[ActorInfo]:
    """Every actor of a job that lives, or that somebody here still holds.

    Args:
        job: Its id in hex.
        held: The ids in hex of those that are held here.
    """
    return [
        info_of(actor, row)
        for actor, row in actor_table().items()
        if row["JobID"] == job and (row["State"] != "DEAD" or actor in held)
    ]


def state_of(row: Mapping[str, Any]) -> str:
    """What we call the state of an actor.

    Args:
        row: What Ray tells of it.
    """
    return _STATES.get(row["State"], "pending")


def info_of(actor: str, row: Mapping[str, Any]) -> ActorInfo:
    """One of them.

    Args:
        actor: Its id in hex.
        row: What Ray tells of it.
    """
    cause: Any = row.get("DeathCause")
    return ActorInfo(
        actor_id=actor,
        class_name=row["ActorClassName"],
        state=state_of(row),
        pid=int(row.get("Pid") or 0),
        resources={},
        devices={},
        mask=None,
        restarts=int(row.get("NumRestarts") or 0),
        pending_calls=0,
        death=str(cause or "") if row["State"] == "DEAD" else "",
        name=row.get("Name") or None,
        namespace=row.get("Namespace", ""),
        is_detached=bool(row.get("IsDetached")),
        awaits_arguments=row["State"] == "DEPENDENCIES_UNREADY",
        started_at=_moment(row.get("StartTime")),
        ended_at=_moment(row.get("EndTime")),
    )


def _moment(milliseconds: Any) -> float | None:
    return int(milliseconds) / 1000 if milliseconds else None
