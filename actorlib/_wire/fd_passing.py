"""Passes descriptors between processes, and by them shares segments of memory.

A read that may bring descriptors costs a small call a twentieth of its time, and most
calls have none. So descriptors go by a side socket, each with one byte, before the
frame that names it goes by the pipe: its reader finds the descriptor there, and never
waits for one. The side socket itself comes with the first bytes of a worker's pipe.

To share a segment, its descriptor goes by the side socket, then a table with its name
by the pipe, then the first frame that needs it. Both ways keep their order, so the n-th
table stands for the n-th descriptor. The budget of shared memory and the ends of links
travel in the same way.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any, cast

from actorlib._base.ids import BLOCK_KIND, kind_of
from actorlib._shm.layout import SEGMENT_NAME_SIZE
from actorlib._shm.memory import SharedPayload, SharingOptions
from actorlib._shm.segments import MemoryBudget, read_only_fd
from actorlib._wire.codec import encode, encode_with_loans, loans_of
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from actorlib._shm.layout import Buffer
    from actorlib._shm.memory import SharedMemory
    from actorlib._wire.messages import Frame


_int = array.array("i").itemsize
_ROOM = socket.CMSG_SPACE(_int)
_CUT_SHORT = int(socket.MSG_CTRUNC)  # a plain number: flags that know words are slow
_PEEK = int(socket.MSG_PEEK)
_CLOSED_ON_EXEC = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0))
"""Has the kernel keep what comes from programs that are started here."""


class FdSocket:
    """Carries descriptors: one end of a side socket.

    Args:
        sock: The end of a socket pair; closed by ``close``.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)  # noqa: FBT003  # the socket API
        self._sock = sock

    def send(self, fd: int) -> bool:
        """Sends a descriptor now; False if there is no room, or nobody to take it."""
        try:
            return send_fd(self._sock, b"\0", fd) == 1
        except OSError:
            return False

    def receive(self) -> int | None:
        """Receives the next descriptor; whoever takes it closes it.

        Returns:
            None if this process may open no more of them. It is there still: see
            ``skip``, and ``FdReserve``.

        Raises:
            ProtocolError: None is there, or something else is.
        """
        try:
            # Looked at first: what cannot be opened here would be lost by being read.
            data, fds, is_cut = _received(self._sock, 1, _PEEK)
        except OSError as error:
            raise ProtocolError(f"no descriptor came by the side: {error}") from error
        if not fds:
            if data and is_cut:
                return None
            raise ProtocolError("no descriptor came by the side: none was sent")
        self.skip()
        return fds[0]

    def skip(self) -> None:
        """Lets the descriptor go that came next."""
        with contextlib.suppress(OSError):
            self._sock.recv(1)

    def close(self) -> None:
        """Closes this end, and what has come and was not taken."""
        self._sock.close()


def send_fd(sock: socket.socket, data: bytes, fd: int) -> int:
    """Sends bytes with a descriptor beside the first of them; says how many went.

    Raises:
        OSError: As ``socket.send`` does.
    """
    rights = array.array("i", [fd])
    return sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def receive_first(sock: socket.socket, nbytes: int) -> tuple[bytes, FdSocket | None]:
    """Reads the first bytes of a pipe, and the side socket that may come with them.

    Raises:
        OSError: As ``socket.recv`` does.
        ProtocolError: There were more descriptors than that.
    """
    data, fds, _ = _received(sock, nbytes)
    if not fds:
        return data, None
    return data, FdSocket(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fds[0]))


def _received(
    sock: socket.socket, nbytes: int, flags: int = 0
) -> tuple[bytes, list[int], bool]:
    """Reads bytes, the descriptor beside them, and whether one could not be opened."""
    data, ancillary, arrived, _ = sock.recvmsg(nbytes, _ROOM, _CLOSED_ON_EXEC | flags)
    fds: list[int] = []
    for level, kind, beside in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds += array.array("i", beside[: len(beside) - len(beside) % _int])
    if not _CLOSED_ON_EXEC:
        for fd in fds:
            os.set_inheritable(fd, False)  # noqa: FBT003  # the os API
    if len(fds) > 1 or (fds and arrived & _CUT_SHORT):
        for fd in fds:
            os.close(fd)
        raise ProtocolError("more than one descriptor came at once")
    return data, fds, bool(arrived & _CUT_SHORT)


class SegmentSharing:
    """Shares segments with the process at the other end of one pipe.

    Args:
        memory: That of this process.
        prefix: How the names of the other side's segments begin, if it is a worker:
            it may share no others. None for the owner, who may send every table.

    Attributes:
        known_segments: The names of segments that the other side has.
        links: Ends of links that the owner has handed over and nobody has taken yet: a
            callee's by the session of the caller, a caller's by that of the callee,
            negative.
    """

    def __init__(self, memory: SharedMemory, prefix: bytes | None = None) -> None:
        self.memory = memory
        self.known_segments: set[bytes] = set()
        self.links: dict[int, int] = {}
        self._prefix = prefix
        self._fd_socket: FdSocket | None = None

    def send_setup(self, sock: socket.socket, slot: int) -> None:
        """Sends a worker its share of the budget, and its side socket.

        These are the first bytes of its pipe. If there can be no side socket, nothing
        is sent, and large values go through the pipe.

        Args:
            sock: The owner's end of the pipe.
            slot: The worker's slot of the budget.
        """
        budget, settings = self.memory.budget, self.memory.settings
        if budget is None:
            return
        try:
            ours, theirs = socket.socketpair()
        except OSError:  # no more files
            return
        self._fd_socket = FdSocket(ours)
        table = {"slot": slot, "limit": budget.limit, "settings": tuple(settings)}
        data = cast("bytes", encode((table,)))
        try:
            with theirs:
                if self._fd_socket.send(budget.fd):
                    send_fd(sock, data, theirs.fileno())  # an empty pipe takes it whole
                else:
                    self.close()
        except OSError:  # it is gone, or too many descriptors are on their way
            self.close()

    def read_first(self, sock: socket.socket, nbytes: int) -> bytes:
        """Reads the first bytes of a pipe, and the side socket that comes with them.

        Raises:
            OSError: As ``socket.recv`` does.
            ProtocolError: They came with something else.
        """
        data, side = receive_first(sock, nbytes)
        if side is not None:
            self._fd_socket = side
        return data

    def encode(self, frame: Frame) -> bytes | list[Buffer]:
        """Encodes a frame, behind the tables that share the segments it needs.

        Descriptors go first. If one cannot, a payload that lies there goes through the
        pipe; its block stays among the loans, and is given back when it was read.

        Raises:
            TypeError: A field of the frame is none that msgpack carries.
        """
        payload = frame[-1]
        if type(payload) is SharedPayload and payload.segment in self.known_segments:
            loans = loans_of(frame)
            if loans and len(loans) == 1 and loans[0] == payload.block:
                return encode(frame)  # nothing else in it can be unknown, or too long
        unknown = self._unknown_segments(frame)
        data = encode_with_loans(frame)
        if not unknown:
            return data
        tables = [
            table
            for name in unknown
            if (table := self._share_segment(name)) is not None
        ]
        if len(tables) < len(unknown) and isinstance(frame[-1], SharedPayload):
            data = encode_with_loans((*frame[:-1], list(frame[-1].buffers())))
        if isinstance(data, bytes):
            return b"".join((*tables, data))
        return [*tables, *data]

    def _unknown_segments(self, frame: Frame) -> list[bytes]:
        """Lists the segments of blocks among its loans that the other side lacks."""
        known = self.known_segments
        unknown: list[bytes] = []
        for field in frame[1:-1]:
            if type(field) is not list and type(field) is not tuple:
                continue
            for loan in cast("list[object]", field):
                if (
                    type(loan) is bytes
                    and (name := loan[:SEGMENT_NAME_SIZE]) not in known
                    and kind_of(loan) == BLOCK_KIND
                    and name not in unknown
                ):
                    unknown.append(name)
        return unknown

    def _share_segment(self, name: bytes) -> bytes | None:
        """Sends the descriptor of a segment; gives its table, or None if it cannot."""
        try:
            segment = self.memory.segment(name)
        except ProtocolError:
            # Its maker could not share it, or made the name up. What lies in it came
            # through the pipe, and goes on so: whoever gets it is not to blame.
            return None
        table = encode(({"share": name, "size": segment.size},))
        # Known first: if this is interrupted, what follows fails for lack of it.
        self.known_segments.add(name)
        if self._send_to_reader(segment.fd):
            return cast("bytes", table)
        self.known_segments.discard(name)
        return None

    def _send_to_reader(self, fd: int) -> bool:
        """Sends a descriptor for reading, also where that is one more than may be."""
        if self._fd_socket is None:
            return False
        with contextlib.suppress(OSError):
            return _send_read_only(self._fd_socket, fd)
        with self.memory.fd_reserve.freed(), contextlib.suppress(OSError):
            return _send_read_only(self._fd_socket, fd)
        return False

    def hand_over_link(self, name: int, fd: int) -> Frame | None:
        """Sends a worker its end of a link.

        Args:
            name: Its key in ``links`` of the worker.
            fd: The end; the caller still closes it here.

        Returns:
            The frame that has to be sent next on the pipe; None if it could not go.
        """
        if self._fd_socket is None or not self._fd_socket.send(fd):
            return None
        return ({"link": name},)

    def payload_at(self, location: dict[Any, Any]) -> SharedPayload:
        """The payload at the location that a table gives.

        Raises:
            ProtocolError: It is nowhere.
        """
        for block in location:
            if block[:SEGMENT_NAME_SIZE] not in self.known_segments:
                raise ProtocolError(
                    f"a payload in a segment that was not shared: {location!r}"
                )
        return self.memory.payload_at(location)

    def take_table(self, table: dict[str, Any]) -> None:
        """Takes a table about the memory itself.

        Raises:
            ProtocolError: It makes no sense.
        """
        match table:
            case {"free": bytes(block)} if self._prefix is None:  # the usual one
                self.memory.free(block)
            case {"share": bytes(name), "size": int(size)} if self._may_share(name):
                self._take_segment(name, size)
                self.known_segments.add(name)
            case {"gone": bytes(name)} if self._prefix is None:
                self.known_segments.discard(name)
                self.memory.forget_segment(name)
            case {"sweep": True} if self._prefix is None:
                self.memory.sweep()
            case {"link": int(link)} if self._prefix is None:
                self._drop_link(link)
                fd = self._receive_fd()
                if fd is not None:  # else there is no link
                    self.links[link] = fd
            case {"slot": slot, "limit": limit, "settings": settings} if (
                self._prefix is None
            ):
                self.memory.settings = SharingOptions(*settings)
                fd = self._receive_fd()
                if fd is not None:  # else it shares nothing
                    self.memory.budget = MemoryBudget(limit, slot, fd)
            case _:
                raise ProtocolError(f"a table that makes no sense: {table!r}")

    def _may_share(self, name: bytes) -> bool:
        return (
            len(name) == SEGMENT_NAME_SIZE
            and kind_of(name) == BLOCK_KIND
            and name.startswith(self._prefix or b"")
        )

    def close(self) -> None:
        """Closes the side socket; from here on nothing more is shared."""
        for link in list(self.links):
            self._drop_link(link)
        side, self._fd_socket = self._fd_socket, None
        if side is not None:
            side.close()

    def _drop_link(self, link: int) -> None:
        """Closes an end that nobody has taken."""
        fd = self.links.pop(link, None)
        if fd is not None:
            os.close(fd)

    def _take_segment(self, name: bytes, size: int) -> None:
        """Takes a segment, also where no more descriptors can be kept open."""
        side, memory = self._require_fd_socket(), self.memory
        fd = side.receive()
        if fd is not None:
            memory.add_segment(name, fd, size)
            return
        with memory.fd_reserve.freed():
            fd = side.receive()
            if fd is not None:
                memory.add_segment(name, fd, size, keeps_fd=False)
                return
        side.skip()
        memory.add_missing_segment(name, size)

    def _receive_fd(self) -> int | None:
        """Receives the descriptor that came next; None if it cannot be opened here."""
        side = self._require_fd_socket()
        fd = side.receive()
        if fd is None:
            side.skip()
        return fd

    def _require_fd_socket(self) -> FdSocket:
        if self._fd_socket is None:
            raise ProtocolError("a descriptor was announced without a side socket")
        return self._fd_socket


def _send_read_only(side: FdSocket, fd: int) -> bool:
    """Sends a descriptor of the same file that can only read it.

    Returns:
        False if there is no room for it on its way.

    Raises:
        OSError: This process may not open any more files.
    """
    readable = read_only_fd(fd)
    try:
        return side.send(readable)
    finally:
        os.close(readable)
