"""Workers that call one another often are introduced: they get a link of their own.

The owner makes it, hands an end to each, and does not see their calls from then on. It
passes on what keeps the order of calls that go either way, and what nobody else knows:
a cancellation of what a busy worker has called, and that a worker has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actorlib._owner.actor_record import ActorState
from actorlib._owner.restart_policy import retries_of
from actorlib._owner.worker_calls import Answered, WorkerCall
from actorlib._wire.messages import (
    CANCEL_MADE,
    LINK_BEGIN,
    LINK_CALL_SENT,
    LINK_CANCEL,
    LINK_CLOSED,
    LINK_FENCE,
    LINK_OPEN,
    LINK_OPENED,
    LINKED,
    Frame,
)
from actorlib._wire.peer_socket import pair
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._core.ids import ActorId, LoanId
    from actorlib._owner.supervisor import ActorSupervisor
    from actorlib._owner.worker_session import Session

OF_LINKS = frozenset(
    {LINK_OPEN, LINK_BEGIN, LINK_FENCE, LINK_CANCEL, LINK_CALL_SENT, LINK_CLOSED}
)
"""The frames that rise about links."""
_TO = 64
"""Links from one worker at the most: each is a descriptor at both ends."""
_FROM = 256
"""Links to one worker at the most."""
_NOT_NOW = 0
_NEVER = -1
_SESSIONS = 1 << 23
"""Sessions whose calls over links have numbers that a frame can carry."""


class Calls(Answered, Protocol):
    """Which calls of workers the owner knows of; see Relay."""

    def note(self, session: Session, call: int, asker: WorkerCall) -> None:
        """A call has no answer, and somebody waits for it."""
        ...

    def cancel_made(self, session: int, asking: int) -> None:
        """Cancels the calls that a call has made, and theirs."""
        ...


class LinkBroker:
    """The links of one runtime.

    Args:
        calls: Which calls of workers the owner knows of.
        find: The life of an actor, or None.
    """

    def __init__(
        self, calls: Calls, find: Callable[[ActorId], ActorSupervisor | None]
    ) -> None:
        self._calls = calls
        self._find = find
        self._here: dict[ActorId, Session] = {}
        self._numbered: dict[int, Session] = {}
        self._from: dict[int, dict[LoanId, Session]] = {}

    def enter(self, session: Session) -> None:
        """A worker is there."""
        self._here[session.actor] = self._numbered[session.number] = session

    def on_worker_gone(self, session: Session) -> None:
        """Forgets a worker and its links."""
        self._here.pop(session.actor, None)
        self._numbered.pop(session.number, None)
        self._from.pop(session.number, None)

    def returned(self, session: Session, actor: LoanId) -> None:
        """A worker has no handle of an actor any more, and no link to it."""
        linked = self._from.get(session.number)
        if linked:
            linked.pop(actor, None)

    def serve(self, session: Session, frame: Frame) -> None:
        """Serves one of the frames OF_LINKS."""
        kind = frame[0]
        if kind == LINK_OPEN:
            self._meet(session, frame[1])
        elif kind in (LINK_BEGIN, LINK_FENCE):
            _, number, *rest = frame
            if self._has_link(session, number):
                self._tell(number, (kind, session.number, *rest))
        elif kind == LINK_CANCEL:
            self._drop(session, *frame[1:])
        elif kind == LINK_CALL_SENT:
            self._went(session, *frame[1:])
        elif (life := self._find(session.actor)) is not None:
            life.dispatch.callers.parted()

    def cancel_made(self, session: int, asking: int) -> None:
        """Tells those who know which calls a call has made over links.

        Both ends, as either may be busy and read nothing.

        Args:
            session: The number of the session of the actor that ran it.
            asking: Its number there.
        """
        linked = self._from.get(session)
        if not linked:
            return
        self._tell(session, (CANCEL_MADE, 0, asking))
        for there in linked.values():
            there.channel.send((CANCEL_MADE, session, asking))

    def _meet(self, session: Session, actor: ActorId) -> None:
        session.channel.send((LINK_OPENED, actor, self._introduced(session, actor)))

    def _introduced(self, session: Session, actor: ActorId) -> int:
        """Makes a link to an actor; gives the session it goes to, or why none."""
        life, there = self._find(actor), self._here.get(actor)
        if (
            life is None
            or actor == session.actor
            or session.number >= _SESSIONS
            or retries_of(life.record.options) is not None
        ):
            return _NEVER
        linked = _living(self._from.get(session.number, {}))
        if (
            there is None
            or life.record.state is not ActorState.ALIVE
            or life.dispatch.is_closed
            or len(linked) >= _TO
            or sum(actor in others for others in self._from.values()) >= _FROM
            or not _connected(session, there)
        ):
            return _NOT_NOW
        self._from[session.number] = {**linked, actor: there}
        life.dispatch.callers.add(session, there.number)
        return there.number

    def _drop(
        self,
        session: Session,
        number: int,
        call: int,
        is_unread: bool,  # noqa: FBT001  # a field of the frame
    ) -> None:
        is_own = number == session.number or call // LINKED == session.number
        if not is_own:
            raise ProtocolError(f"it drops call {call} of session {number}")
        if number != session.number and not self._has_link(session, number):
            return
        if is_unread:
            self._tell(number, (LINK_CANCEL, call))
        self._calls.cancel_made(number, call)

    def _has_link(self, session: Session, number: int) -> bool:
        """Whether a worker calls another over a link; else nobody is told anything."""
        linked = self._from.get(session.number, {}).values()
        return any(there.number == number for there in linked)

    def _tell(self, number: int, frame: Frame) -> None:
        session = self._numbered.get(number)
        if session is not None:
            session.channel.send(frame)

    def _went(
        self, session: Session, call: int, asking: int, actor: ActorId, method: str
    ) -> None:
        life = self._find(actor)
        asker = WorkerCall(self._calls, session, call, life, method)
        asker.asking = asking
        asker.number = session.number * LINKED + call
        self._calls.note(session, call, asker)


def _living(linked: dict[LoanId, Session]) -> dict[LoanId, Session]:
    return {actor: there for actor, there in linked.items() if there.channel.is_open}


def _connected(caller: Session, callee: Session) -> bool:
    """Gives each of two workers its end of a new link; False if there can be none."""
    try:
        ours, theirs = pair()
    except (AttributeError, OSError):  # another system, or no more files
        return False
    with ours, theirs:
        # The caller's end has a negative name: there may be a link the other way too.
        for one, name, end in (
            (callee, caller.number, theirs),
            (caller, -callee.number, ours),
        ):
            told = one.showing.hand(name, end.fileno())
            if told is None:
                return False
            one.channel.send(told)
    callee.channel.send((LINK_OPEN, caller.number))
    return True
