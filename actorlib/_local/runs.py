"""Calls of functions on their way into the pool: the owner's own, and those of workers.

Also what workers say of the functions that they run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib._arguments import Arguments, when_done
from actorlib._local.holders import OWNER
from actorlib._wire.frames import BLOCKED, PACE, RESUMED, TEACH

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._engine import LoanId
    from actorlib._local.birth import Sealed
    from actorlib._local.pool import Pool
    from actorlib._local.reply import Asker
    from actorlib._local.session import Session
    from actorlib._local.tasks import Plan
    from actorlib._ref import ObjectRef
    from actorlib._wire.frames import Payload

OF_FUNCTIONS = frozenset({TEACH, PACE, BLOCKED, RESUMED})
"""The kinds of frames that are served here."""


def post_when_ready(
    pool: Pool,
    ref: ObjectRef[Any],
    plan: Plan,
    arguments: Arguments,
    complete: Callable[[Arguments], Sealed | BaseException],
) -> None:
    """Posts a call of the owner's when the refs among its arguments are done.

    Args:
        pool: Where it goes.
        ref: Gets the answer.
        plan: What it is a call of.
        arguments: What it waits for; this process holds what is in them.
        complete: Gives their payload, or why there is none.
    """
    number = pool.hold_back(ref)
    ref.bind(pool, number)
    del ref  # from here on it may be abandoned

    def go() -> None:
        waiting = pool.let_go(number)
        completed = complete(arguments)
        if isinstance(completed, BaseException):
            if waiting is not None:
                waiting.set_exception(completed)
        elif waiting is None:  # cancelled while it waited
            pool.loans.returned(completed.loans or (), OWNER)
        else:
            posted = pool.post(waiting, plan, completed.loans, completed.payload)
            waiting.bind(pool, posted)

    when_done(arguments.refs, go)


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
