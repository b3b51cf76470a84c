"""Calls actors over links, and decides for each call whether it takes the link.

A call takes one of two routes: through the owner, or over a link. A later call on one
route could overtake an earlier one on the other, so a caller announces each change. To
use the link, it sends a LINK_BEGIN through the owner; the callee reads the link only
from then on. To leave the link, it sends a LINK_PAUSE over the link and a LINK_FENCE
through the owner; the callee reads the link up to the pause before it handles frames
behind the fence, and reads on only after the next LINK_BEGIN. If the link has no room
for the pause, it is closed for sending, and the callee reads it to its end.

No change waits for an answer, so a call always leaves when it is made. An answer may
depend on a call that is made later.

Calls with references, large arguments or most headers go through the owner. The next
few calls follow them: a caller that mixes both kinds would pay for each change.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from actorlib._base.ids import LINKED
from actorlib._wire.messages import (
    CALL_ACTOR,
    CALL_ACTOR_WITH,
    CANCEL,
    CANCEL_CHILDREN,
    CANCELLED,
    DIED,
    FAILURE,
    LINK_BEGIN,
    LINK_CALL,
    LINK_CALL_SENT,
    LINK_CALLS,
    LINK_CANCEL,
    LINK_FENCE,
    LINK_OPEN,
    LINK_OPENED,
    LINK_PAUSE,
    RESULT,
    Frame,
)
from actorlib._wire.peer_socket import PeerSocket
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._base.ids import ActorId, CountedId
    from actorlib._shm.memory import Payload
    from actorlib._wire.fd_passing import SegmentSharing
    from actorlib._worker.requests.engine import WorkerEngine
    from actorlib._worker.requests.inbox import Inbox


CALLS = 4
"""Plain calls through the owner before a link is requested."""
FALLBACK_CALLS = 8
"""Consecutive plain calls before a caller returns to its link."""
_MOST = 1024
"""The limit of both numbers after repeated refusals of a link."""


class Route(Enum):
    """The route of one call."""

    OWNER = auto()
    """Through the owner."""
    ASK_FOR_LINK = auto()
    """Through the owner, with a request for a link."""
    START_LINK = auto()
    """Over the link, after a LINK_BEGIN to the owner."""
    LINK = auto()
    """Over the link."""
    FENCE = auto()
    """Through the owner, after a LINK_PAUSE and a LINK_FENCE."""


class RoutePolicy:
    """Chooses the route of each call of one caller to one actor.

    Attributes:
        uses_link: Whether plain calls go over the link now.
        has_link: Whether there is a link.
    """

    __slots__ = ("_calls", "_may_ask", "_threshold", "has_link", "uses_link")

    def __init__(self) -> None:
        self.uses_link = False
        self.has_link = False
        self._may_ask = True
        self._calls = 0
        self._threshold = CALLS

    def __repr__(self) -> str:
        link = "a link" if self.has_link else "no link"
        route = "over the link" if self.uses_link else "by the owner"
        return f"<Route {route}, {link}, {self._calls} of {self._threshold} calls>"

    def route_plain(self) -> Route:
        if self.uses_link:
            return Route.LINK
        self._calls += 1
        if self._calls <= self._threshold:
            return Route.OWNER
        if self.has_link:
            self._calls, self._threshold = 0, max(self._threshold, FALLBACK_CALLS)
            self.uses_link = True
            return Route.START_LINK
        if self._may_ask:
            self._may_ask = False
            return Route.ASK_FOR_LINK
        return Route.OWNER

    def route_other(self) -> Route:
        if not self.has_link:
            return Route.OWNER
        self._calls = 0
        if not self.uses_link:
            return Route.OWNER
        self.uses_link = False
        return Route.FENCE

    def link_opened(self) -> None:
        self.has_link = True
        self._calls = self._threshold = 0

    def link_refused(self, *, forever: bool) -> None:
        """Records that a link was refused, for now or forever."""
        self._may_ask = not forever
        self._calls = 0
        self._threshold = min(2 * max(self._threshold, FALLBACK_CALLS), _MOST)


_LINK_HEADERS = frozenset({"group", "name", "observed", "variables"})
"""The headers of calls that may go over a link; the owner needs all others."""
_LARGEST = 60_000
_READS = 64


class OutgoingLink:
    """The calls to one actor, over a link if there is one.

    Attributes:
        session: The session of the worker at the other end of the link; 0 without one.
        socket: This worker's end of the link, if there is one.
        gathers: Whether calls leave together, at the end of this turn of the loop.
        is_asked_for: Whether a link was requested and the owner has not answered.
        is_unused: Whether the link is closed as soon as it opens, because no handle of
            the actor is left.
    """

    __slots__ = (
        "_lost",
        "actor",
        "gathers",
        "is_asked_for",
        "is_unused",
        "policy",
        "session",
        "socket",
    )

    def __init__(self, actor: ActorId, lost: Callable[[OutgoingLink], None]) -> None:
        self.actor = actor
        self.session = 0
        self.socket: PeerSocket | None = None
        self.policy = RoutePolicy()
        self.gathers = False
        self.is_asked_for = False
        self.is_unused = False
        self._lost = lost

    def fileno(self) -> int:
        return -1 if self.socket is None else self.socket.fileno()

    @property
    def has_more(self) -> bool:
        return self.socket is not None and self.socket.has_more

    def read(self, *, is_next: bool = False) -> list[Frame]:
        answers: list[Frame] = []
        socket = self.socket  # another thread may close it
        try:
            for _ in range(_READS):
                frames = socket.receive() if socket is not None else []
                if not frames:
                    break
                if frames[0][0] == LINK_OPENED:
                    self.policy.link_opened()
                    continue
                for frame in frames:
                    # The callee is another worker, whose errors must not end this one:
                    # the link is closed instead.
                    is_result = frame[0] == RESULT
                    if (
                        len(frame) != (4 if is_result else 8)
                        or not (is_result or frame[0] == FAILURE)
                        or type(frame[1]) is not int
                        or frame[-2] is not None  # the owner counts references
                        or type(frame[-1]) is not bytes
                    ):
                        self._lost(self)
                        return answers
                    answers.append(frame)
                if is_next and socket is not None and not socket.expects_more():
                    break
        except (EOFError, ProtocolError):
            self._lost(self)
        return answers


def call_by_owner(
    target: tuple[int, int, ActorId, str, list[CountedId] | None],
    headers: Mapping[str, Any] | None,
    payload: Payload,
) -> Frame:
    """Creates the frame of a call that goes through the owner."""
    if headers:
        return (CALL_ACTOR_WITH, *target, headers, payload)
    return (CALL_ACTOR, *target, payload)


LinkCall: TypeAlias = tuple[OutgoingLink, int, str]
"""A call over a link: the link, the number of the calling call or 0, and its method.

A plain tuple, because one is created per call.
"""


class OutgoingLinks:
    """The links to other actors, and the unanswered calls over them.

    Args:
        session: The number of this worker's session.
        sharing: Receives the ends of links; None if there can be no links.
    """

    def __init__(
        self,
        engine: WorkerEngine,
        reader: Inbox,
        session: int,
        sharing: SegmentSharing | None,
    ) -> None:
        self._engine = engine
        self._post = engine.post
        self._reader = reader
        self._base = session * LINKED
        self._sharing = sharing
        self._links: dict[CountedId, OutgoingLink] = {}
        self._unanswered: dict[int, LinkCall] = {}
        self._reports_answered = False
        engine.refcount.awaits_answer = self.awaits_answer

    def send(
        self,
        call: int,
        parent: int,
        actor: ActorId,
        method: str,
        headers: Mapping[str, Any] | None,
        payload: Payload,
    ) -> bool:
        """Sends a call without references; False if it has to go through the owner."""
        if self._sharing is None:
            return False
        link = self._links.get(actor)
        if link is None:
            link = self._links[actor] = OutgoingLink(actor, self._lost)
        link.is_unused = False
        if (
            type(payload) is not bytes
            or len(payload) > _LARGEST
            or (headers is not None and not _LINK_HEADERS.issuperset(headers))
        ):
            self._act_on(link, link.policy.route_other())
            return False
        route, socket = link.policy.route_plain(), link.socket
        # Not a set of routes: the hash of an enum member is Python code.
        is_over_link = route is Route.LINK or route is Route.START_LINK
        if socket is None or not is_over_link:
            self._act_on(link, route)
            return False
        frame = (LINK_CALL, self._base + call, parent, method, headers, payload)
        self._unanswered[call] = link, parent, method
        events = self._engine.events
        if events is not None:
            events.sent(self._base + call, parent)
        if route is Route.START_LINK:
            self._post((LINK_BEGIN, link.session))
        unsent = self._put(link, socket, frame)
        if unsent:
            self._leave_full(link, unsent)
        return True

    def _put(self, link: OutgoingLink, socket: PeerSocket, frame: Frame) -> list[Frame]:
        """Sends or gathers a call; returns the calls that have no room."""
        if link.gathers:
            return socket.gather(frame)
        if not socket.send(frame):
            return [frame]
        link.gathers = self._reader.at_end_of_turn(partial(self._end_turn, link))
        return []

    def _end_turn(self, link: OutgoingLink) -> None:
        with self._engine.sender.lock:
            link.gathers = False
            self._flush(link)

    def flush(self) -> None:
        """Sends the calls that wait for the end of this turn of the loop."""
        for link in [*self._links.values()]:
            if link.gathers:
                self._end_turn(link)

    def _flush(self, link: OutgoingLink) -> None:
        unsent = link.socket.flush() if link.socket is not None else []
        if unsent:
            self._leave_full(link, unsent)

    def fence(self, actor: ActorId) -> None:
        """Keeps the next frame to the owner behind the calls over an actor's link."""
        link = self._links.get(actor)
        if link is not None:
            self._act_on(link, link.policy.route_other())

    def _act_on(self, link: OutgoingLink, route: Route) -> None:
        if route is Route.ASK_FOR_LINK:
            link.is_asked_for = True
            self._post((LINK_OPEN, link.actor))
        elif route is Route.FENCE:
            self._put_fence(link)

    def _put_fence(self, link: OutgoingLink) -> None:
        socket = link.socket
        if socket is None:
            return
        unsent = socket.flush()
        if not socket.send((LINK_PAUSE, 0)):
            # Its answers are still read. The next call begins with a new link.
            socket.shut_writing()
            if self._links.get(link.actor) is link:
                del self._links[link.actor]
        self._post((LINK_FENCE, link.session))
        self._send_by_owner(link, unsent)

    def _leave_full(self, link: OutgoingLink, unsent: list[Frame]) -> None:
        """Leaves a link that has no room; sends the unsent calls through the owner."""
        self._act_on(link, link.policy.route_other())
        self._send_by_owner(link, unsent)

    def _send_by_owner(self, link: OutgoingLink, calls: list[Frame]) -> None:
        for _, number, parent, method, headers, payload in calls:
            call = number - self._base
            if self._unanswered.pop(call, None) is None:
                continue  # it was cancelled
            target = (call, parent, link.actor, method, None)
            self._post(call_by_owner(target, headers, payload))
        if self._reports_answered:
            self.report_answered()

    def answered(self, frame: Frame) -> Frame:
        """Records an answer over a link, or to a call that went over one.

        Returns the answer with this worker's own number of the call.
        """
        call = frame[1] - self._base
        if self._over(call) is None:
            call = 0  # no call over a link waits for it
        return (frame[0], call, *frame[2:])

    def cancel(self, call: int, *, recursive: bool) -> bool:
        """Cancels a call without a waiting caller; False if it went over no link."""
        sent_call = self._over(call)
        if sent_call is None:
            return False
        self._cancel(call, sent_call[0], recursive=recursive)
        return True

    def stop(self, call: int, *, recursive: bool) -> bool:
        """Cancels a call that will be answered; False if it went over no link."""
        sent_call = self._unanswered.get(call)
        if sent_call is None:
            return False
        with self._engine.sender.lock:
            self._flush(sent_call[0])
            if call not in self._unanswered:  # without room, it went to the owner
                return False
            self._cancel(call, sent_call[0], recursive=recursive)
        return True

    def _cancel(self, call: int, link: OutgoingLink, *, recursive: bool) -> None:
        number = self._base + call
        with self._engine.sender.lock:
            self._flush(link)
            was_sent = (
                link.policy.uses_link
                and link.socket is not None
                and link.socket.send((CANCEL, number))
            )
            if not was_sent:
                self._act_on(link, link.policy.route_other())
            if recursive or not was_sent:
                self._post((LINK_CANCEL, link.session, number, not was_sent))

    def call_sent(self, call: int) -> Frame | None:
        """Creates the frame that reports a call over a link, before a wait for it."""
        sent_call = self._unanswered.get(call)
        if sent_call is None:
            return None
        link, parent, method = sent_call
        return (LINK_CALL_SENT, call, parent, link.actor, method)

    def unanswered(self) -> tuple[tuple[int, int, ActorId, str], ...]:
        """Lists the unanswered calls over links, for people.

        Each with its number, the number of the calling call, the actor and the method.
        """
        return tuple(
            (call, parent, link.actor, method)
            for call, (link, parent, method) in [*self._unanswered.items()]
        )

    def awaits_answer(self, actor: CountedId) -> bool:
        """Whether an actor has to answer a call that went over a link."""
        return any(link.actor == actor for link, *_ in [*self._unanswered.values()])

    def _over(self, call: int) -> LinkCall | None:
        sent_call = self._unanswered.pop(call, None)
        refcount = self._engine.refcount
        if (
            sent_call is not None
            and refcount.awaited
            and refcount.was_answered(sent_call[0].actor)
        ):
            self._engine.return_borrowed_soon()
        if self._reports_answered:
            self.report_answered()
        return sent_call

    def report_answered(self) -> None:
        """Reports, now or later, that every call over a link has an answer."""
        self._reports_answered = bool(self._unanswered)
        if not self._reports_answered:
            self._post((LINK_CALLS, (), 0, 1))

    # Frames of the owner about links.

    def take(self, frame: Frame) -> list[Frame]:
        """Handles a frame about links; returns the frames that follow from it."""
        if frame[0] == LINK_OPENED:
            self._link_opened(*frame[1:])
        elif frame[0] == CANCEL_CHILDREN:
            return self._cancel_children(frame[2])
        else:
            return self._link_lost(*frame[1:])
        return []

    def _link_opened(self, actor: ActorId, session: int) -> None:
        fd = self._sharing.links.pop(-session, None) if self._sharing else None
        socket = None if fd is None else PeerSocket(fd)
        with self._engine.sender.lock:
            link = self._links.get(actor)
            if link is not None and link.is_unused:
                del self._links[actor]
                link = None
            if link is not None:
                link.is_asked_for = False
            if socket is None:
                if link is not None:
                    link.policy.link_refused(forever=session < 0)
            elif link is None or link.socket is not None:
                socket.close()
            else:
                link.socket, link.session = socket, session
                self._reader.watch(link)

    def _cancel_children(self, parent: int) -> list[Frame]:
        """Cancels the calls that a call of this worker has made."""
        unanswered = [*self._unanswered.items()]
        children = [(call, link) for call, (link, by, _) in unanswered if by == parent]
        for call, link in children:
            self._cancel(call, link, recursive=True)
        return [
            (FAILURE, self._base + call, CANCELLED, "", "", "", None, b"")
            for call, _ in children
        ]

    def _link_lost(self, session: int, text: str, error: bytes) -> list[Frame]:
        """Fails the unanswered calls to a worker that has ended."""
        answers: list[Frame] = []
        with self._engine.sender.lock:
            for link in self._read_links():
                if link.session == session:
                    while frames := link.read():
                        answers += frames
                    self._discard(link)
            # Behind the answers that have arrived: a call with an answer gets no other.
            return answers + [
                (FAILURE, self._base + call, DIED, text, "", "", None, error)
                for call, (link, *_) in [*self._unanswered.items()]
                if link.session == session
            ]

    def _read_links(self) -> set[OutgoingLink]:
        """Returns the links of later calls, and those with unanswered calls."""
        unanswered = [link for link, *_ in [*self._unanswered.values()]]
        return {*self._links.values(), *unanswered}

    def close(self) -> None:
        with self._engine.sender.lock:
            for link in self._read_links():
                self._discard(link)

    def close_in_fork(self) -> None:
        for link in self._read_links():
            if link.socket is not None:
                link.socket.close()
                link.socket = None

    def forget(self, actor: CountedId) -> None:
        """Closes the link to an actor that has no handle here.

        Another thread may have received a handle since, and called the actor. A link
        that was requested stays until it opens, or a second one would replace it.
        """
        with self._engine.sender.lock:
            link = self._links.get(actor)
            if link is None or self.awaits_answer(actor):
                return
            if link.is_asked_for:
                link.is_unused = True
            else:
                self._discard(link)

    def leave(self, actor: CountedId) -> None:
        """Closes the link to an actor: later calls go through the owner."""
        with self._engine.sender.lock:
            link = self._links.get(actor)
            if link is not None:
                self._discard(link)

    def _lost(self, link: OutgoingLink) -> None:
        """Closes a link whose other end is closed, or has never opened."""
        with self._engine.sender.lock:
            self._flush(link)
            if link.policy.has_link:
                self._discard(link)
            else:
                self._close(link)
                link.policy.link_refused(forever=False)

    def _discard(self, link: OutgoingLink) -> None:
        """Closes the link to an actor: the next call starts without a link."""
        if self._links.get(link.actor) is link:
            del self._links[link.actor]
        self._close(link)

    def _close(self, link: OutgoingLink) -> None:
        if link.socket is not None:
            self._reader.unwatch(link)
            link.socket.close()
            link.socket = None
