"""Serves the links over which other workers call this actor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from actorlib._base.ids import LINKED
from actorlib._shm.running_calls import MARK
from actorlib._wire.messages import (
    CALL,
    CALL_WITH,
    CANCEL,
    CANCEL_CHILDREN,
    LINK_BEGIN,
    LINK_CALL,
    LINK_CANCEL,
    LINK_CLOSE,
    LINK_CLOSED,
    LINK_FENCE,
    LINK_OPEN,
    LINK_OPENED,
    LINK_PAUSE,
    Frame,
)
from actorlib._wire.peer_socket import PeerSocket, method_number
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.fd_passing import SegmentSharing
    from actorlib._worker.requests.engine import WorkerEngine
    from actorlib._worker.requests.inbox import Inbox


_READS = 64


class IncomingLink:
    """The link of one caller.

    Attributes:
        socket: This actor's end of the link.
        session: The number of the caller's session.
        is_paused: Whether the next frames on the link were sent behind a LINK_BEGIN
            that the owner has not delivered yet.
    """

    __slots__ = ("_read", "is_paused", "session", "socket")

    def __init__(
        self,
        socket: PeerSocket,
        session: int,
        read: Callable[..., list[Frame]],
    ) -> None:
        self.socket = socket
        self.session = session
        self.is_paused = True
        self._read = read

    def fileno(self) -> int:
        return self.socket.fileno()

    @property
    def has_more(self) -> bool:
        return self.socket.has_more and not self.is_paused

    def read(self, *, is_next: bool = False) -> list[Frame]:
        return self._read(self, is_next=is_next)


class IncomingLinks:
    """The links of all callers, and the unanswered calls over them.

    Args:
        session: The number of this worker's session.
        sharing: Receives the ends of links; None if there can be no links.

    Attributes:
        gathered: The sockets of links with answers that wait for ``flush``.
        runs_one: Whether this actor runs one call at a time, and reports which.
    """

    def __init__(
        self,
        engine: WorkerEngine,
        reader: Inbox,
        session: int,
        sharing: SegmentSharing | None,
    ) -> None:
        self.runs_one = False
        self._post = engine.post
        self._reader = reader
        self._session = session
        self._sharing = sharing
        self._cells: memoryview | list[int] = [0]
        self._links: dict[int, IncomingLink] = {}
        self._unanswered: dict[int, tuple[int, str]] = {}
        self._running = 0
        self.gathered: set[PeerSocket] = set()
        self._is_closing = False
        self._gathers = False
        self._method_numbers: dict[str, int] = {}

    def _receive(self, link: IncomingLink, *, is_next: bool = False) -> list[Frame]:
        received: list[Frame] = []
        try:
            for _ in range(_READS):
                frames = [] if link.is_paused else link.socket.receive()
                if not frames:
                    break
                self._check_frames(link, frames, received)
                if is_next and not link.socket.expects_more():
                    break
        except (EOFError, ProtocolError):  # earlier frames are still served
            self._close(link)
        return received

    def _check_frames(
        self, link: IncomingLink, frames: list[Frame], received: list[Frame]
    ) -> None:
        """Sorts the frames of a link, which is closed if a frame is invalid.

        The caller is another worker, whose errors must not end this one.
        """
        for frame in frames:
            kind = frame[0]
            if kind == LINK_CALL and len(frame) == 6:
                _, number, parent, method, headers, payload = frame
                if (
                    type(method) is not str
                    or type(payload) is not bytes
                    or not (type(number) is type(parent) is int)
                    or number // LINKED != link.session
                    or not (headers is None or _are_headers(headers))
                ):
                    self._close(link)
                    return
                self._unanswered[number] = parent, method
                if headers is None:
                    received.append((CALL, number, method, None, payload))
                else:
                    received.append((CALL_WITH, number, method, None, headers, payload))
            elif kind == CANCEL and len(frame) == 2 and type(frame[1]) is int:
                if frame[1] in self._unanswered:
                    received.append((CANCEL, frame[1]))
            elif kind == LINK_PAUSE and len(frames) == 1:
                link.is_paused = True
                self._reader.unwatch(link)
            else:
                self._close(link)
                return

    def answer(self, frame: Frame) -> None:
        """Sends an answer; all but the first of a turn of the loop leave together."""
        if self._gathers:
            self.gather(frame)
            return
        link = self._link_of(frame)
        if link is None or not link.socket.send(frame):
            self._post(frame)
        self._gathers = self._reader.at_end_of_turn(self._end_turn)
        self.call_over(frame[1])

    def _end_turn(self) -> None:
        self._gathers = False
        self.flush()

    def gather(self, frame: Frame) -> None:
        """Keeps an answer, which leaves with the next ``flush``."""
        link = self._link_of(frame)
        if link is None:
            self._post(frame)
        else:
            for unsent in link.socket.gather(frame):
                self._post(unsent)
            self.gathered.add(link.socket)
        self.call_over(frame[1])

    def flush(self) -> None:
        while self.gathered:
            for frame in self.gathered.pop().flush():
                self._post(frame)

    def call_over(self, number: int) -> None:
        """Forgets a call that was answered, or will not be."""
        self._unanswered.pop(number, None)
        if number == self._running:
            self._running = self._cells[MARK] = 0
            if self._unanswered and not self.runs_one:
                for older, (_, method) in [*self._unanswered.items()][:1]:
                    self.call_began(older, method)
        if self._is_closing and not self._unanswered:
            self._close_answered()

    def call_began(self, number: int, method: str) -> None:
        """Writes which call runs to memory that outlives this process."""
        self._running = number
        marker = self._method_numbers.get(method)
        if marker is None:
            marker = self._method_numbers[method] = method_number(method)
        self._cells[MARK] = marker

    def _link_of(self, frame: Frame) -> IncomingLink | None:
        # Answers with references go through the owner, which counts them.
        if frame[-2] is not None:
            return None
        return self._links.get(frame[1] // LINKED)

    # Frames of the owner about links.

    def take(self, frame: Frame) -> list[Frame]:
        """Handles a frame about links; returns the frames that follow from it."""
        kind = frame[0]
        if kind in (LINK_OPEN, LINK_BEGIN):
            (self._take_link if kind == LINK_OPEN else self._begin)(frame[1])
            return []
        if kind == LINK_FENCE:
            return self._read_to_pause(self._links.get(frame[1]))
        if kind == LINK_CANCEL:
            return [(CANCEL, frame[1])] if frame[1] in self._unanswered else []
        if kind == CANCEL_CHILDREN:
            return self._cancel_children(*frame[1:])
        assert kind == LINK_CLOSE
        frames = self.close_links()
        self._is_closing = True
        if not (self._unanswered or frames):
            self._close_answered()
        return frames

    def _take_link(self, session: int) -> None:
        """Receives this actor's end of a link, and reports over it that it is open."""
        fd = self._sharing.links.pop(session, None) if self._sharing else None
        if fd is None or self._sharing is None:  # this process may open no more files
            return
        if isinstance(self._cells, list):
            self._cells = self._sharing.memory.call_cells() or [0]
        previous = self._links.get(session)
        if previous is not None:  # its other end is closed or not used
            self._close(previous)
        link = self._links[session] = IncomingLink(
            PeerSocket(fd), session, self._receive
        )
        link.socket.send((LINK_OPENED, 0))

    def _begin(self, session: int) -> None:
        link = self._links.get(session)
        if link is not None:
            link.is_paused = False
            self._reader.watch(link)

    def _read_to_pause(self, link: IncomingLink | None) -> list[Frame]:
        if link is None:  # it is read to its end
            return []
        frames = self._receive(link)
        while link.has_more:
            frames += self._receive(link)
        return frames

    def _cancel_children(self, session: int, parent: int) -> list[Frame]:
        """Cancels the calls here that a call of a caller has made."""
        children = [
            number
            for number, (by, _) in [*self._unanswered.items()]
            if by == parent and number // LINKED == session
        ]
        for number in children:
            self._post((LINK_CANCEL, self._session, number, False))
        return [(CANCEL, number) for number in children]

    def close_links(self) -> list[Frame]:
        """Accepts no further calls; returns the frames that were sent before."""
        frames: list[Frame] = []
        for link in [*self._links.values()]:
            link.socket.shut_reading()
            is_read = False
            while not is_read:
                link.is_paused = False
                frames += self._read_to_pause(link)
                is_read = not link.is_paused
        return frames

    def close_in_fork(self) -> None:
        """Closes a fork's copies of the links, and answers no calls there."""
        self.gathered.clear()
        for link in self._links.values():
            link.socket.close()
        self._links.clear()

    def _close_answered(self) -> None:
        self._is_closing = False
        self.flush()
        for link in [*self._links.values()]:
            self._close(link)
        self._post((LINK_CLOSED, 0))

    def _close(self, link: IncomingLink) -> None:
        for session, other in [*self._links.items()]:
            if other is link:
                del self._links[session]
        self._reader.unwatch(link)
        link.socket.close()


def _are_headers(headers: object) -> bool:
    kinds = {"group": str, "name": str, "observed": tuple, "variables": dict}
    return type(headers) is dict and all(
        type(value) is kinds.get(name)
        for name, value in cast("dict[Any, object]", headers).items()
    )
