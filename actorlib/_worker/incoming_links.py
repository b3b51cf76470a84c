"""The callers of this actor that have a link to it, and what they are not answered.

What links need of the worker that they end in: who reads them, and its engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from actorlib._wire.messages import (
    CALL,
    CALL_WITH,
    CANCEL,
    CANCEL_MADE,
    LINK_BEGIN,
    LINK_CALL,
    LINK_CANCEL,
    LINK_CLOSE,
    LINK_CLOSED,
    LINK_FENCE,
    LINK_OPEN,
    LINK_OPENED,
    LINK_PAUSE,
    LINKED,
    Frame,
)
from actorlib._wire.peer_socket import PeerSocket, method_number
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.fd_passing import SegmentSharing
    from actorlib._worker.pending import OrderedSender
    from actorlib._worker.refcount import LocalRefCount


_READS = 64
_ALWAYS = 1 << 62


class IncomingLink:
    """One caller.

    Attributes:
        link: The link from it.
        session: The number of its session.
        begins: How often it has come to its link.
        pauses: How many of the PAUSE frames for that were read.
        parked: What was read behind a PAUSE whose BEGIN is on its way.
    """

    __slots__ = ("_read", "begins", "link", "parked", "pauses", "session")

    def __init__(
        self,
        link: PeerSocket,
        session: int,
        read: Callable[[IncomingLink], list[Frame]],
    ) -> None:
        self.link = link
        self.session = session
        self.begins = 0
        self.pauses = 0
        self.parked: list[Frame] = []
        self._read = read

    @property
    def may_be_read(self) -> bool:
        """Whether everything has come that was sent before what is on the link."""
        return self.begins >= max(self.pauses, 1)

    def fileno(self) -> int:
        """The descriptor of the link."""
        return self.link.fileno()

    def read(self) -> list[Frame]:
        """The calls and cancellations that have come."""
        return self._read(self)


class IncomingLinks:
    """All of them.

    Args:
        engine: That of this worker.
        host: Reads the links.
        session: The number of this worker's session.
        sharing: Where the ends of links come; None for no links at all.

    Attributes:
        gathered: The links with answers that wait for ``flush``.
        runs_one: Whether this actor runs one call at a time, and says which.
    """

    def __init__(
        self,
        engine: LinkEngine,
        host: LinkHost,
        session: int,
        sharing: SegmentSharing | None,
    ) -> None:
        self.runs_one = False
        self._post = engine.post
        self._host = host
        self._session = session
        self._sharing = sharing
        self._marker: memoryview | list[int] = [0]
        self._guests: dict[int, IncomingLink] = {}
        self._open: dict[int, tuple[int, str]] = {}
        self._running = 0
        self.gathered: set[PeerSocket] = set()
        self._parts = False
        self._gathers = False
        self._marks: dict[str, int] = {}

    # Calls.

    def _receive(self, guest: IncomingLink) -> list[Frame]:
        found: list[Frame] = []
        try:
            for _ in range(_READS):
                if not guest.may_be_read:
                    break
                frames = guest.link.receive()
                if not frames:
                    break
                self._check_frames(guest, frames, found)
        except (EOFError, ProtocolError):  # what it sent by then is served still
            self._lose(guest)
        return found

    def _check_frames(
        self, guest: IncomingLink, frames: list[Frame], found: list[Frame]
    ) -> None:
        """Sorts what came over a link, which is closed where it makes no sense.

        The caller is another worker, whose nonsense must not end this one.
        """
        for place, frame in enumerate(frames):
            kind = frame[0]
            if kind == LINK_CALL and len(frame) == 6:
                _, number, asking, method, told, payload = frame
                if (
                    type(method) is not str
                    or type(payload) is not bytes
                    or not (type(number) is type(asking) is int)
                    or number // LINKED != guest.session
                    or not (told is None or _are_headers(told))
                ):
                    self._lose(guest)
                    return
                self._open[number] = asking, method
                if told is None:
                    found.append((CALL, number, method, None, payload))
                else:
                    found.append((CALL_WITH, number, method, None, told, payload))
            elif kind == CANCEL and len(frame) == 2 and type(frame[1]) is int:
                if frame[1] in self._open:
                    found.append((CANCEL, frame[1]))
            elif kind != LINK_PAUSE:
                self._lose(guest)
                return
            else:
                guest.pauses += 1
                if not guest.may_be_read:
                    guest.parked = frames[place + 1 :]
                    self._host.unwatch(guest)
                    return

    # Answers.

    def answer(self, frame: Frame) -> None:
        """Sends an answer; the second of a turn of the loop waits for its end."""
        if self._gathers:
            self.gather(frame)
            return
        guest = self._guest_of(frame)
        if guest is None or not guest.link.send(frame):
            self._post(frame)
        self._gathers = self._host.soon(self._end_turn)
        self.over(frame[1])

    def _end_turn(self) -> None:
        self._gathers = False
        self.flush()

    def gather(self, frame: Frame) -> None:
        """Keeps an answer to leave with the next ``flush``."""
        guest = self._guest_of(frame)
        if guest is None:
            self._post(frame)
        else:
            for left in guest.link.gather(frame):
                self._post(left)
            self.gathered.add(guest.link)
        self.over(frame[1])

    def flush(self) -> None:
        """Sends what was gathered."""
        while self.gathered:
            for frame in self.gathered.pop().flush():
                self._post(frame)

    def over(self, number: int) -> None:
        """A call was answered, or will not be."""
        self._open.pop(number, None)
        if number == self._running:
            self._running = self._marker[0] = 0
            if self._open and not self.runs_one:
                for older, (_, method) in [*self._open.items()][:1]:
                    self.began(older, method)
        if self._parts and not self._open:
            self._close_answered()

    def began(self, number: int, method: str) -> None:
        """A call runs; said where it can be read when this process is gone."""
        self._running = number
        mark = self._marks.get(method)
        if mark is None:
            mark = self._marks[method] = method_number(method)
        self._marker[0] = mark

    def _guest_of(self, frame: Frame) -> IncomingLink | None:
        # What has loans goes by way of the owner, who counts them.
        if frame[-2] is not None:
            return None
        return self._guests.get(frame[1] // LINKED)

    # What the owner says.

    def take(self, frame: Frame) -> list[Frame]:
        """Heeds a frame about links; gives what follows from it, to be received."""
        kind = frame[0]
        if kind == LINK_OPEN:
            self._take_link(frame[1])
            return []
        if kind == LINK_BEGIN:
            return self._begin(frame[1])
        if kind == LINK_FENCE:
            return self._read_up_to(self._guests.get(frame[1]), frame[2])
        if kind == LINK_CANCEL:
            return [(CANCEL, frame[1])] if frame[1] in self._open else []
        if kind == CANCEL_MADE:
            return self._cancel_made(*frame[1:])
        assert kind == LINK_CLOSE
        found = self.close_links()
        self._parts = True
        if not (self._open or found):
            self._close_answered()
        return found

    def _begin(self, session: int) -> list[Frame]:
        guest = self._guests.get(session)
        if guest is None:
            return []
        found: list[Frame] = []
        guest.begins += 1
        parked, guest.parked = guest.parked, []
        self._check_frames(guest, parked, found)
        if guest.begins == max(guest.pauses, 1):
            self._host.watch(guest)
        return found

    def _take_link(self, session: int) -> None:
        """Takes the end of a link, and says over it that it is there."""
        fd = self._sharing.links.pop(session, None) if self._sharing else None
        if fd is None or self._sharing is None:  # this process may open no more files
            return
        if isinstance(self._marker, list):
            self._marker = self._sharing.memory.running_call_cell()
        former = self._guests.get(session)
        if former is not None:  # its other end is closed, or nobody speaks there
            self._lose(former)
        guest = self._guests[session] = IncomingLink(
            PeerSocket(fd), session, self._receive
        )
        guest.link.send((LINK_OPENED, 0))

    def _read_up_to(self, guest: IncomingLink | None, messages: int) -> list[Frame]:
        found: list[Frame] = []
        before = -1
        while guest is not None and before < guest.link.received < messages:
            before = guest.link.received
            found += self._receive(guest)
        return found

    def _cancel_made(self, session: int, asking: int) -> list[Frame]:
        """Cancels what a call of a caller's has made here, and what those have."""
        made = [
            number
            for number, (asker, _) in [*self._open.items()]
            if asker == asking and number // LINKED == session
        ]
        for number in made:
            self._post((LINK_CANCEL, self._session, number, False))
        return [(CANCEL, number) for number in made]

    def close_links(self) -> list[Frame]:
        """Takes nothing more; gives everything that was sent by now."""
        found: list[Frame] = []
        for guest in [*self._guests.values()]:
            guest.link.shut_reading()
            guest.begins = _ALWAYS
            parked, guest.parked = guest.parked, []
            self._check_frames(guest, parked, found)
            found += self._read_up_to(guest, _ALWAYS)
        return found

    def close_in_fork(self) -> None:
        """In a fork: closes its copies of the links, and answers nobody."""
        self.gathered.clear()
        for guest in self._guests.values():
            guest.link.close()
        self._guests.clear()

    def _close_answered(self) -> None:
        self._parts = False
        self.flush()
        for guest in [*self._guests.values()]:
            self._lose(guest)
        self._post((LINK_CLOSED, 0))

    def _lose(self, guest: IncomingLink) -> None:
        for session, other in [*self._guests.items()]:
            if other is guest:
                del self._guests[session]
        self._host.unwatch(guest)
        guest.link.close()


def _are_headers(told: object) -> bool:
    kinds = {"group": str, "name": str, "variables": dict}
    return type(told) is dict and all(
        type(said) is kinds.get(name)
        for name, said in cast("dict[Any, object]", told).items()
    )


class LinkSource(Protocol):
    """A link that is read."""

    def fileno(self) -> int:
        """Its descriptor."""
        ...

    def read(self) -> list[Frame]:
        """What has come, as frames of a pipe; does not wait."""
        ...


class LinkHost(Protocol):
    """Whoever reads what comes to this worker."""

    def watch(self, source: LinkSource) -> None:
        """Reads a link from now on."""
        ...

    def unwatch(self, source: LinkSource) -> None:
        """Reads it no more."""
        ...

    def soon(self, callback: Callable[[], None]) -> bool:
        """Calls back at the end of this turn of the loop; False if there is no loop.

        What is sent until then may leave together.
        """
        ...


class LinkEngine(Protocol):
    """That of a worker."""

    loans: LocalRefCount
    outbox: OrderedSender

    def post(self, frame: Frame) -> None:
        """Sends a frame to the owner."""
        ...

    def return_loans_soon(self) -> None:
        """Gives back what can be given back."""
        ...
