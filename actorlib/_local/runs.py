"""Calls of functions on their way into the pool: the owner's own, and those of workers.

Also what workers say of the functions that they run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from actorlib._arguments import when_done
from actorlib._local.holders import OWNER
from actorlib._propagation import MARKED
from actorlib._telling import tell
from actorlib._wire.frames import BLOCKED, PACE, RESUMED, TEACH
from actorlib._wire.payload import encode_plain_call
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._arguments import Arguments
    from actorlib._function_options import FunctionSpec
    from actorlib._ids import LoanId
    from actorlib._local.pool import Pool
    from actorlib._local.sending import Sending
    from actorlib._local.session import Session
    from actorlib._local.streams import Reader
    from actorlib._local.tasks import Hand, Plan
    from actorlib._local.waiting import Waiting
    from actorlib._reading import Reading
    from actorlib._ref import ObjectRef
    from actorlib._values import Sharing
    from actorlib._wire.shared import Payload

    Answered: TypeAlias = ObjectRef[Any] | Reading

OF_FUNCTIONS = frozenset({TEACH, PACE, BLOCKED, RESUMED})
"""The kinds of frames that are served here."""


class Runs:
    """The owner's own calls of functions.

    Args:
        pool: Where they go.
        engine: Whose they are.
        sending: How their arguments are sent.
    """

    def __init__(self, pool: Pool, engine: Sharing, sending: Sending) -> None:
        self._pool = pool
        self._engine = engine
        self._sending = sending

    def run(
        self,
        ref: Answered,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> None:
        """Makes a call.

        Args:
            ref: Gets the answer.
            spec: The function.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Raises:
            SerializationError: The function or an argument cannot be sent.
        """
        pool = self._pool
        plan = pool.plans.of(self._engine, spec)
        told = spec.told
        if told is not None or MARKED:
            told = tell(spec)
        payload = None if kwargs else encode_plain_call(args)
        if payload is not None:  # the usual case: everything else is the long way
            ref.bind(pool, pool.post(ref, plan, None, payload, told))
            return
        arguments = self._sending.arguments(spec.label, args, kwargs)
        self._post_when_ready(ref, plan, arguments, told)

    def _post_when_ready(
        self,
        ref: Answered,
        plan: Plan,
        arguments: Arguments,
        told: Mapping[str, object] | None,
    ) -> None:
        """Posts a call when the refs among its arguments are done."""
        pool = self._pool
        number = pool.hold_back(ref, plan, told)
        ref.bind(pool, number)
        del ref  # from here on it may be abandoned

        def go() -> None:
            waiting = pool.let_go(number)
            completed = self._sending.completed(arguments)
            if isinstance(completed, BaseException):
                if waiting is not None:
                    waiting.set_exception(completed)
            elif waiting is None:  # cancelled while it waited
                pool.loans.returned(completed.loans or (), OWNER)
            else:
                posted = pool.post(
                    waiting, plan, completed.loans, completed.payload, told
                )
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
        if not hand.tasks:
            raise ProtocolError("no call runs there that could wait")
        number, calls, count = fields
        session.when_answered = _until_answered(hand, set(calls), count)
        hand.crew.blocked(hand, number)
    else:
        session.when_answered = None
        hand.crew.resumed(hand)


def _until_answered(
    hand: Hand, calls: set[int], count: int
) -> Callable[[int], None] | None:
    """Lets a function go on when so many of some calls are answered.

    Its worker says so as well. But by then the CPU of who gave the answer would be with
    somebody who has not begun, and more and more would have begun and wait.
    """
    if not calls:
        return None
    left = count

    def answered(call: int) -> None:
        nonlocal left
        if call in calls:
            calls.discard(call)
            left -= 1
            if not left:
                hand.crew.resumed(hand)

    return answered


def ask(
    pool: Pool,
    session: int,
    asker: Waiting,
    read: Callable[..., Reader],
    number: int,
    face: bytes,
    told: dict[str, Any] | None,
    loans: tuple[LoanId, ...] | None,
    payload: Payload,
) -> int:
    """Takes a call that a worker makes; gives its number.

    Args:
        pool: Where it goes.
        session: The number of the worker's session.
        asker: Gets the answer.
        read: Makes whoever gets the items instead, if it yields; is told whether the
            call is detached.
        number: The function's number there.
        face: What is known of it; see Plans.
        told: What the caller says of this call alone.
        loans: What is in the arguments and counted.
        payload: The arguments.
    """
    plan = pool.plans.asked(session, number, face)
    asker.method = plan.label
    asker.has_end = told is not None and "deadline" in told
    if loans:
        # The worker still holds them; this process does too, until it is answered.
        pool.loans.arrived(loans, OWNER)
    reply: Waiting | Reader = asker
    if plan.is_stream:
        reply = read(is_detached=bool(told and "detach" in told))
    return pool.post(reply, plan, loans, payload, told, is_nested=True)
