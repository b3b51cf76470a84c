"""The actors that this worker calls over links, and what they have not answered.

Which way a call goes: by way of the owner, or straight over a link.

Two ways could let a later call come first. So whoever changes ways says so: before a
PAUSE on the link nothing behind it is read until the BEGIN has come by way of the
owner, and before what follows a FENCE the link is read up to where it was then. Neither
waits for an answer, so a call always leaves when it is made.

What is no plain call goes by way of the owner. After one the next few go there too: who
mixes both would pay for the change each time.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from actorlib._wire.messages import (
    CALL_ACTOR,
    CALL_ACTOR_WITH,
    CANCEL,
    CANCEL_MADE,
    CANCELLED,
    DIED,
    FAILURE,
    LINK_BEGIN,
    LINK_CALL,
    LINK_CALL_SENT,
    LINK_CANCEL,
    LINK_FENCE,
    LINK_OPEN,
    LINK_OPENED,
    LINK_PAUSE,
    LINKED,
    RESULT,
    Frame,
)
from actorlib._wire.peer_socket import PeerSocket
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._core.ids import ActorId, LoanId
    from actorlib._shm.memory import Payload
    from actorlib._wire.fd_passing import SegmentSharing
    from actorlib._worker.incoming_links import LinkEngine, LinkHost


CALLS = 4
"""So many plain calls go by way of the owner before it is asked for a link."""
FALLBACK_CALLS = 8
"""So many plain calls in a row bring a caller back to its link."""
_MOST = 1024
"""Of either, where the owner says no or the link is full again and again."""


class Route(Enum):
    """What is done for one call."""

    OWNER = auto()
    """It goes by way of the owner."""
    ASK_FOR_LINK = auto()
    """Likewise, and the owner is asked for a link."""
    START_LINK = auto()
    """It goes over the link, between a PAUSE there and a BEGIN to the owner."""
    LINK = auto()
    """It goes over the link."""
    FENCE = auto()
    """It goes by way of the owner, behind a LINK_FENCE."""


class RoutePolicy:
    """The way of one caller's calls to one actor.

    Attributes:
        is_straight: Whether plain calls go over the link now.
        has_link: Whether there is one.
    """

    __slots__ = ("_calls", "_may_ask", "_wanted", "has_link", "uses_link")

    def __init__(self) -> None:
        self.uses_link = False
        self.has_link = False
        self._may_ask = True
        self._calls = 0
        self._wanted = CALLS

    def __repr__(self) -> str:
        link = "a link" if self.has_link else "no link"
        state = "straight" if self.uses_link else "by the owner"
        return f"<Way {state}, {link}, {self._calls} of {self._wanted} calls>"

    def route_plain(self) -> Route:
        """A plain call is made."""
        if self.uses_link:
            return Route.LINK
        self._calls += 1
        if self._calls <= self._wanted:
            return Route.OWNER
        if self.has_link:
            self._calls, self._wanted = 0, max(self._wanted, FALLBACK_CALLS)
            self.uses_link = True
            return Route.START_LINK
        if self._may_ask:
            self._may_ask = False
            return Route.ASK_FOR_LINK
        return Route.OWNER

    def route_other(self) -> Route:
        """Something else is sent."""
        if not self.has_link:
            return Route.OWNER
        self._calls = 0
        if not self.uses_link:
            return Route.OWNER
        self.uses_link = False
        return Route.FENCE

    def link_full(self, step: Route) -> Route:
        """The link had no room for a call; says what is done instead.

        Args:
            step: What was to be done: BEGIN or STRAIGHT.
        """
        self.uses_link = False
        self._put_off()
        return Route.FENCE if step is Route.LINK else Route.OWNER

    def link_opened(self) -> None:
        """There is a link now."""
        self.has_link = True
        self._calls = self._wanted = 0

    def link_refused(self, *, for_ever: bool) -> None:
        """There is no link, now or for ever."""
        self._may_ask = not for_ever
        self._put_off()

    def _put_off(self) -> None:
        self._calls = 0
        self._wanted = min(2 * max(self._wanted, FALLBACK_CALLS), _MOST)


_LINK_HEADERS = frozenset({"group", "name", "variables"})
"""What may be said of a call that goes over a link; all else the owner has to know."""
_LARGEST = 60_000
_READS = 64


class OutgoingLink:
    """One actor that this worker calls.

    Attributes:
        actor: Its id.
        session: That of the worker at the other end of the link; 0 without one.
        link: The link, if there is one.
        way: Which way calls go.
        gathers: Whether calls leave together, at the end of this turn of the loop.
    """

    __slots__ = ("_lost", "actor", "gathers", "link", "policy", "session")

    def __init__(self, actor: ActorId, lost: Callable[[OutgoingLink], None]) -> None:
        self.actor = actor
        self.session = 0
        self.link: PeerSocket | None = None
        self.policy = RoutePolicy()
        self.gathers = False
        self._lost = lost

    def fileno(self) -> int:
        """The descriptor of the link."""
        return -1 if self.link is None else self.link.fileno()

    def read(self) -> list[Frame]:
        """The answers that have come."""
        found: list[Frame] = []
        link = self.link  # another thread may close it
        try:
            for _ in range(_READS):
                frames = link.receive() if link is not None else []
                if not frames:
                    break
                if frames[0][0] == LINK_OPENED:
                    self.policy.link_opened()
                    continue
                for frame in frames:
                    # The callee is another worker, whose nonsense must not end this
                    # one: the link is closed instead.
                    is_result = frame[0] == RESULT
                    if (
                        len(frame) != (4 if is_result else 8)
                        or not (is_result or frame[0] == FAILURE)
                        or type(frame[1]) is not int
                    ):
                        self._lost(self)
                        return found
                    found.append(frame)
        except (EOFError, ProtocolError):
            self._lost(self)
        return found


LinkCall: TypeAlias = tuple[OutgoingLink, int, str]
"""A call that went over a link: whom to, which call has made it or 0, and its method.

A plain tuple, as it is made for each call.
"""


class OutgoingLinks:
    """All of them.

    Args:
        engine: That of this worker.
        host: Reads the links.
        session: The number of this worker's session.
        sharing: Where the ends of links come; None for no links at all.
    """

    def __init__(
        self,
        engine: LinkEngine,
        host: LinkHost,
        session: int,
        sharing: SegmentSharing | None,
    ) -> None:
        self._engine = engine
        self._post = engine.post
        self._host = host
        self._base = session * LINKED
        self._sharing = sharing
        self._peers: dict[LoanId, OutgoingLink] = {}
        self._open: dict[int, LinkCall] = {}
        engine.loans.owes = self.owes

    # Calls on their way out, in order.

    def send(
        self,
        call: int,
        asking: int,
        actor: ActorId,
        method: str,
        told: Mapping[str, Any] | None,
        payload: Payload,
    ) -> bool:
        """Sends a call without loans; False if the owner has to get it, next."""
        if self._sharing is None:
            return False
        peer = self._peers.get(actor)
        if peer is None:
            peer = self._peers[actor] = OutgoingLink(actor, self._lost)
        if (
            type(payload) is not bytes
            or len(payload) > _LARGEST
            or (told is not None and not _LINK_HEADERS.issuperset(told))
        ):
            self._follow(peer, peer.policy.route_other())
            return False
        step = peer.policy.route_plain()
        if peer.link is None or step in _BY_THE_OWNER:
            self._follow(peer, step)
            return False
        frame = (LINK_CALL, self._base + call, asking, method, told, payload)
        self._open[call] = peer, asking, method
        if step is Route.LINK:
            left = self._put(peer, peer.link, frame)
        elif peer.link.send((LINK_PAUSE, 0), frame):
            self._post((LINK_BEGIN, peer.session))
            return True
        else:
            left = [frame]
        if left:
            self._no_room(peer, step, left)
        return True

    def _put(self, peer: OutgoingLink, link: PeerSocket, frame: Frame) -> list[Frame]:
        """Sends a call; gives what has no room."""
        if peer.gathers:
            return link.gather(frame)
        if not link.send(frame):
            return [frame]
        peer.gathers = self._host.soon(partial(self._end_turn, peer))
        return []

    def _end_turn(self, peer: OutgoingLink) -> None:
        with self._engine.outbox.ordering:
            peer.gathers = False
            self._flush(peer)

    def flush(self) -> None:
        """Sends the calls that wait for the end of this turn of the loop."""
        for peer in [*self._peers.values()]:
            if peer.gathers:
                self._end_turn(peer)

    def _flush(self, peer: OutgoingLink) -> None:
        left = peer.link.flush() if peer.link is not None else []
        if left:
            self._no_room(peer, Route.LINK, left)

    def fence(self, actor: ActorId) -> None:
        """The owner gets next what has to be behind the calls to an actor."""
        peer = self._peers.get(actor)
        if peer is not None:
            self._follow(peer, peer.policy.route_other())

    def _follow(self, peer: OutgoingLink, step: Route) -> None:
        if step is Route.ASK_FOR_LINK:
            self._post((LINK_OPEN, peer.actor))
        elif step is Route.FENCE:
            self._put_fence(peer)

    def _put_fence(self, peer: OutgoingLink) -> None:
        self._flush(peer)
        if peer.link is not None:
            self._post((LINK_FENCE, peer.session, peer.link.sent))

    def _no_room(self, peer: OutgoingLink, step: Route, calls: list[Frame]) -> None:
        """Sends by way of the owner what the link does not take."""
        if peer.link is not None and peer.link.is_open:
            self._follow(peer, peer.policy.link_full(step))
        else:
            # Its answers are still read; what comes next begins anew.
            self._peers.pop(peer.actor, None)
        for _, number, asking, method, told, payload in calls:
            call = number - self._base
            if self._open.pop(call, None) is None:
                continue  # cancelled meanwhile
            asked = (call, asking, peer.actor, method, None)
            if told is None:
                self._post((CALL_ACTOR, *asked, payload))
            else:
                self._post((CALL_ACTOR_WITH, *asked, told, payload))

    # Answers, and calls that nobody wants.

    def __contains__(self, call: object) -> bool:
        """Whether a call went over a link and has no answer."""
        return call in self._open

    def answered(self, frame: Frame) -> Frame:
        """An answer that came over a link, or for a call that went over one.

        Returns:
            It with this worker's own number of the call.
        """
        call = frame[1] - self._base
        if self._over(call) is None:
            call = 0  # nobody waits for it, or not over a link: it is no answer
        return (frame[0], call, *frame[2:])

    def cancel(self, call: int, *, recursive: bool) -> bool:
        """Nobody wants the answer of a call; False if it went over no link."""
        straight = self._over(call)
        if straight is None:
            return False
        self._cancel(call, straight[0], recursive=recursive)
        return True

    def stop(self, call: int, *, recursive: bool) -> bool:
        """Cancels a call that will be answered; False if it went over no link."""
        straight = self._open.get(call)
        if straight is None:
            return False
        with self._engine.outbox.ordering:
            self._flush(straight[0])
            if call not in self._open:  # it had no room, and has gone to the owner
                return False
            self._cancel(call, straight[0], recursive=recursive)
        return True

    def _cancel(self, call: int, peer: OutgoingLink, *, recursive: bool) -> None:
        number = self._base + call
        with self._engine.outbox.ordering:
            self._flush(peer)
            went = peer.link is not None and peer.link.send((CANCEL, number))
            if not went:
                self._put_fence(peer)
            if recursive or not went:
                self._post((LINK_CANCEL, peer.session, number, not went))

    def waited(self, call: int) -> Frame | None:
        """What the owner has to know of a call before it hears who waits for it."""
        straight = self._open.get(call)
        if straight is None:
            return None
        peer, asking, method = straight
        return (LINK_CALL_SENT, call, asking, peer.actor, method)

    def owes(self, actor: LoanId) -> bool:
        """Whether an actor has to answer a call that went over a link."""
        return any(peer.actor == actor for peer, *_ in [*self._open.values()])

    def _over(self, call: int) -> LinkCall | None:
        straight = self._open.pop(call, None)
        loans = self._engine.loans
        if straight is not None and loans.owed and loans.paid(straight[0].actor):
            self._engine.return_loans_soon()
        return straight

    # What the owner says.

    def take(self, frame: Frame) -> list[Frame]:
        """Heeds a frame about links; gives what follows from it, to be received."""
        if frame[0] == LINK_OPENED:
            self._link_opened(*frame[1:])
        elif frame[0] == CANCEL_MADE:
            return self._cancel_made(frame[2])
        else:
            return self._link_lost(*frame[1:])
        return []

    def _link_opened(self, actor: ActorId, session: int) -> None:
        peer = self._peers.get(actor)
        fd = self._sharing.links.pop(-session, None) if self._sharing else None
        if fd is None:
            if peer is not None:
                peer.policy.link_refused(for_ever=session < 0)
            return
        link = PeerSocket(fd)
        if peer is None or peer.link is not None:
            link.close()
            return
        peer.link, peer.session = link, session
        self._host.watch(peer)

    def _cancel_made(self, asking: int) -> list[Frame]:
        """Cancels what a call of this worker's has made."""
        opened = [*self._open.items()]
        made = [(call, peer) for call, (peer, by, _) in opened if by == asking]
        for call, peer in made:
            self._cancel(call, peer, recursive=True)
        return [
            (FAILURE, self._base + call, CANCELLED, "", "", "", None, b"")
            for call, _ in made
        ]

    def _link_lost(self, session: int, text: str, error: bytes) -> list[Frame]:
        """A worker has ended: what it has not answered gets no answer."""
        found: list[Frame] = []
        with self._engine.outbox.ordering:
            calling = [peer for peer, *_ in [*self._open.values()]]
            for peer in {*self._peers.values(), *calling}:
                if peer.session == session:
                    while frames := peer.read():
                        found += frames
                    self._lose(peer)
            # Behind the answers that it gave: a call that has one gets no other.
            return found + [
                (FAILURE, self._base + call, DIED, text, "", "", None, error)
                for call, (peer, *_) in [*self._open.items()]
                if peer.session == session
            ]

    def close_in_fork(self) -> None:
        """In a fork: closes its copies of the links."""
        calling = [peer for peer, *_ in self._open.values()]
        for peer in {*self._peers.values(), *calling}:
            if peer.link is not None:
                peer.link.close()
                peer.link = None

    def forget(self, actor: LoanId) -> None:
        """This worker has no handle of an actor any more."""
        peer = self._peers.get(actor)
        if peer is not None:
            self._lose(peer)

    def _lost(self, peer: OutgoingLink) -> None:
        """An actor has closed its end of a link, or never had it."""
        with self._engine.outbox.ordering:
            self._flush(peer)
            if peer.policy.has_link:
                self._lose(peer)
            else:
                self._close(peer)
                peer.policy.link_refused(for_ever=False)

    def _lose(self, peer: OutgoingLink) -> None:
        """There is no link to an actor any more: what comes next begins anew."""
        if self._peers.get(peer.actor) is peer:
            del self._peers[peer.actor]
        self._close(peer)

    def _close(self, peer: OutgoingLink) -> None:
        if peer.link is not None:
            self._host.unwatch(peer)
            peer.link.close()
            peer.link = None


_BY_THE_OWNER = frozenset({Route.OWNER, Route.ASK_FOR_LINK})
