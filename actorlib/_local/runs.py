"""Frames of workers that are about functions: what they call, and how they fare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib._local.holders import OWNER
from actorlib._wire.frames import BLOCKED, PACE, RESUMED, TEACH

if TYPE_CHECKING:
    from actorlib._engine import LoanId
    from actorlib._local.dispatch import Asker
    from actorlib._local.pool import Pool
    from actorlib._local.session import Session
    from actorlib._wire.frames import Payload

OF_FUNCTIONS = frozenset({TEACH, PACE, BLOCKED, RESUMED})
"""The kinds of frames that are served here."""


def serve(pool: Pool, session: Session, kind: int, *fields: Any) -> None:
    """Serves a frame that has no answer."""
    if kind == TEACH:
        pool.plans.teach(session.number, *fields)
        return
    hand = pool.hands.get(session.actor)
    if hand is None:
        return
    if kind == PACE:
        pool.paced(hand, *fields)
    elif kind == BLOCKED:
        hand.crew.blocked(hand)
    else:
        hand.crew.resumed(hand)


def ask(
    pool: Pool,
    session: Session,
    asker: Asker,
    number: int,
    face: bytes,
    loans: tuple[LoanId, ...] | None,
    payload: Payload,
) -> int:
    """Takes a call that a worker makes; gives its number."""
    plan = pool.plans.asked(session.number, number, face)
    if loans:
        # The worker still holds them; this process does too, until it is answered.
        pool.loans.arrived(loans, OWNER)
    return pool.post(asker, plan, loans, payload)
