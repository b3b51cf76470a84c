"""Where an actor is, or what it waits for, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._local.registry import ActorState
from actorlib._resources import format_amount

if TYPE_CHECKING:
    from actorlib._local.demands import Demands
    from actorlib._local.supervisor import Life

_BEFORE = "Why it was restarted before, oldest first:"


def explain(life: Life, demands: Demands, now: float) -> str:
    """Why an actor is not placed yet, or where it is.

    Args:
        life: The actor.
        demands: What it and the others ask for.
        now: The time by the owner's loop.
    """
    record = life.record
    if life.waits_for_arguments:
        return f"{record.label} waits for a ref among its constructor's arguments"
    if life.place.waits_for_neighbours:
        return (
            f"{record.label} waits for a place for the actors that it is to be "
            "near to, or apart from"
        )
    state = f"{record.called.at(life.pid)} is {record.state.value}"
    if record.state is ActorState.RESTARTING:
        state = f"{state}, {life.restarts.told(now)}"
    is_pending = record.state is ActorState.PENDING
    if is_pending or (life.place.promise is not None and life.is_placeless):
        told = demands.explain(life)
        return told if is_pending else f"{state}: {told}"
    if record.exit is not None:
        dead = f"{record.title} is dead: {record.exit}"
        earlier = life.restarts.earlier_deaths
        return "\n  - ".join((f"{dead}\n{_BEFORE}", *earlier)) if earlier else dead
    if record.state is ActorState.RESTARTING:
        return state
    held = ", ".join(
        f"{format_amount(share.device.kind, share.units)} of "
        f"{share.device.kind} {share.device.id}"
        for share in (record.lease.shares if record.lease else ())
    )
    return f"{state} on {held or 'no device'}"
