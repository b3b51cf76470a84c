"""Links between workers that call one another often: a socket pair.

The owner creates the pair, passes an end to each worker, and does not see their calls
from then on. It relays the frames that keep the order of calls on both routes,
cancellations of the calls of a busy worker, and the end of a worker.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from actorlib._base.ids import LINKED
from actorlib._owner.actors.actor_record import ActorState
from actorlib._owner.actors.worker_session import Phase
from actorlib._owner.calls.mailbox import retries_of
from actorlib._owner.requests.worker_calls import WorkerCall, WorkerCalls
from actorlib._wire.messages import (
    CANCEL_CHILDREN,
    LINK_BEGIN,
    LINK_CALL_SENT,
    LINK_CANCEL,
    LINK_CLOSED,
    LINK_FENCE,
    LINK_OPEN,
    LINK_OPENED,
    Frame,
)
from actorlib._wire.peer_socket import socket_pair
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._base.ids import ActorId, CountedId
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.actors.worker_session import WorkerSession

_TO = 64
"""The maximum of links from one worker: each is a descriptor at both ends."""
_FROM = 256
"""The maximum of links to one worker."""
_NOT_NOW = 0
_NEVER = -1
_SESSIONS = 1 << 23
"""Sessions below this number may have links: a frame can carry their call numbers."""


class LinkBroker:
    """Creates the links of one runtime, and relays the frames about them.

    Attributes:
        handlers: The handlers of the frames that workers send about links.
    """

    def __init__(
        self,
        calls: WorkerCalls,
        find: Callable[[ActorId], ActorSupervisor | None],
        cancel_children: Callable[[int, int], None],
    ) -> None:
        self._calls = calls
        self._find = find
        self._cancel_children = cancel_children
        self._linked: dict[int, WorkerSession] = {}
        self._from: dict[int, dict[CountedId, WorkerSession]] = {}
        self.handlers: Mapping[int, Callable[..., None]] = {
            LINK_OPEN: self._open,
            LINK_BEGIN: partial(self._forward, LINK_BEGIN),
            LINK_FENCE: partial(self._forward, LINK_FENCE),
            LINK_CANCEL: self._cancel,
            LINK_CALL_SENT: self._note_sent,
            LINK_CLOSED: self._close,
        }

    def on_worker_gone(self, session: WorkerSession) -> None:
        self._linked.pop(session.number, None)
        self._from.pop(session.number, None)

    def returned(self, session: WorkerSession, actor: CountedId) -> None:
        """Forgets a link: its worker has no handle of the actor left."""
        linked = self._from.get(session.number)
        if linked:
            linked.pop(actor, None)

    def callers(self) -> list[WorkerSession]:
        """Lists the workers that have a link to another."""
        return [
            self._linked[number]
            for number, linked in self._from.items()
            if linked and number in self._linked
        ]

    def cancel_children(self, session: int, parent_call: int) -> None:
        """Cancels the calls that a call has made over links.

        The frame goes to both ends, as either may be busy and not read.

        Args:
            session: The number of the session that ran the call.
            parent_call: Its number there.
        """
        linked = self._from.get(session)
        if not linked:
            return
        self._send(session, (CANCEL_CHILDREN, 0, parent_call))
        for there in linked.values():
            there.channel.send((CANCEL_CHILDREN, session, parent_call))

    def _open(self, session: WorkerSession, actor: ActorId) -> None:
        session.channel.send((LINK_OPENED, actor, self._connect(session, actor)))

    def _forward(self, kind: int, session: WorkerSession, number: int) -> None:
        if self._has_link(session, number):
            self._send(number, (kind, session.number))

    def _close(self, session: WorkerSession, _: int) -> None:
        supervisor = self._find(session.actor)
        if supervisor is not None:
            supervisor.router.callers.parted()

    def _connect(self, session: WorkerSession, actor: ActorId) -> int:
        """Creates a link to an actor; returns its session number, or a refusal."""
        supervisor = self._find(actor)
        if (
            supervisor is None
            or actor == session.actor
            or session.number >= _SESSIONS
            or retries_of(supervisor.record.options) is not None
        ):
            return _NEVER
        there = supervisor.session
        linked = _open_ones(self._from.get(session.number, {}))
        if (
            there is None
            or supervisor.record.state is not ActorState.ALIVE
            or supervisor.router.is_closed
            or len(linked) >= _TO
            or sum(actor in others for others in self._from.values()) >= _FROM
            or not _is_connected(session, there)
        ):
            return _NOT_NOW
        self._from[session.number] = {**linked, actor: there}
        for end in (session, there):
            self._linked[end.number] = end
            end.cleanup.add(Phase.ROUTES, self.on_worker_gone)
        supervisor.router.callers.add(session, there.number)
        return there.number

    def _cancel(
        self,
        session: WorkerSession,
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
            self._send(number, (LINK_CANCEL, call))
        self._cancel_children(number, call)

    def _has_link(self, session: WorkerSession, number: int) -> bool:
        linked = self._from.get(session.number, {}).values()
        return any(there.number == number for there in linked)

    def _send(self, number: int, frame: Frame) -> None:
        session = self._linked.get(number)
        if session is not None:
            session.channel.send(frame)

    def _note_sent(
        self,
        session: WorkerSession,
        call: int,
        parent_call: int,
        actor: ActorId,
        method: str,
    ) -> None:
        supervisor = self._find(actor)
        sent = WorkerCall(self._calls, session, call, supervisor, method, parent_call)
        sent.number = session.number * LINKED + call
        self._calls.put(sent)
        session.cleanup.add(Phase.ANSWERS, self._calls.on_worker_gone)


def _open_ones(
    linked: dict[CountedId, WorkerSession],
) -> dict[CountedId, WorkerSession]:
    return {actor: there for actor, there in linked.items() if there.channel.is_open}


def _is_connected(caller: WorkerSession, callee: WorkerSession) -> bool:
    """Passes each of two workers its end of a new link; False if that fails."""
    try:
        ours, theirs = socket_pair()
    except (AttributeError, OSError):  # another system, or no more files
        return False
    with ours, theirs:
        # The caller's end has a negative name: there may be a reverse link, too.
        for one, name, end in (
            (callee, caller.number, theirs),
            (caller, -callee.number, ours),
        ):
            frame = one.sharing.hand_over_link(name, end.fileno())
            if frame is None:
                return False
            one.channel.send(frame)
    callee.channel.send((LINK_OPEN, caller.number))
    return True
