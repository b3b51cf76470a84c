"""Passes descriptors between processes, and shares segments of memory by them.

A read that may receive descriptors costs a small call a twentieth of its time, and most
calls have none. So each descriptor is sent through a side socket, with one byte, before
the frame that names it is sent through the pipe. The reader of the frame finds the
descriptor there, and never waits for one. The side socket itself comes with the first
bytes of a worker's pipe.

To share a segment, its descriptor is sent through the side socket, then a table with
its name through the pipe, then the first frame that needs it. Both channels keep their
order, so the n-th table belongs to the n-th descriptor. The budget of shared memory and
the ends of links are sent in the same way.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any, cast

from actorlib._base.ids import BLOCK_KIND, kind_of
from actorlib._base.named_sockets import NO_SIGNAL
from actorlib._shm.layout import SEGMENT_NAME_SIZE
from actorlib._shm.memory import SharedPayload, SharingOptions
from actorlib._shm.segments import MemoryBudget, read_only_fd
from actorlib._wire.codec import borrowed_of, encode, encode_with_borrowed
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from actorlib._shm.layout import Buffer
    from actorlib._shm.memory import SharedMemory
    from actorlib._wire.messages import Frame


FD_SIZE = array.array("i").itemsize
_ROOM = socket.CMSG_SPACE(FD_SIZE)
_CUT_SHORT = int(socket.MSG_CTRUNC)  # a plain number: the enum's operations are slow
_PEEK = int(socket.MSG_PEEK)
_CLOSED_ON_EXEC = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0))
"""Hides received descriptors from programs that are started here."""


class FdSocket:
    """Sends and receives descriptors: one end of a side socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)  # noqa: FBT003  # the socket API
        self._sock = sock

    def send(self, fd: int) -> bool:
        """Sends a descriptor now; False without room, or if the other end is closed."""
        try:
            return send_fd(self._sock, b"\0", fd) == 1
        except OSError:
            return False

    def receive(self) -> int | None:
        """Receives the next descriptor; the caller closes it.

        Returns:
            None if this process may open no more descriptors. It is still there: see
            ``skip`` and ``FdReserve``.

        Raises:
            ProtocolError: There is none, or something else came.
        """
        try:
            # Peeks first: a read would lose a descriptor that cannot be opened here.
            data, fds, is_cut = _receive(self._sock, 1, _PEEK)
        except OSError as error:
            raise ProtocolError(f"no descriptor on the side socket: {error}") from error
        if not fds:
            if data and is_cut:
                return None
            raise ProtocolError("no descriptor on the side socket: none was sent")
        self.skip()
        return fds[0]

    def skip(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.recv(1)

    def close(self) -> None:
        """Closes this end, with the descriptors that were not received."""
        self._sock.close()


def send_fd(sock: socket.socket, data: bytes, fd: int) -> int:
    """Sends bytes with a descriptor at the first one; returns how many were sent."""
    rights = socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd])
    return sock.sendmsg([data], [rights], NO_SIGNAL)


def received_fds(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """Returns the descriptors in what ``recvmsg`` has received beside its bytes."""
    fds: list[int] = []
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds += array.array("i", data[: len(data) - len(data) % FD_SIZE])
    return fds


def _receive(
    sock: socket.socket, nbytes: int, flags: int = 0
) -> tuple[bytes, list[int], bool]:
    """Reads bytes, their descriptor, and whether one could not be opened."""
    data, ancillary, arrived, _ = sock.recvmsg(nbytes, _ROOM, _CLOSED_ON_EXEC | flags)
    fds = received_fds(ancillary)
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
        prefix: The prefix of the names of the other side's segments, if it is a worker:
            it may share no others. None for the owner, who may send every table.

    Attributes:
        known_segments: The names of segments that the other side has.
        links: Ends of links from the owner that were not taken yet: a callee's by the
            session of the caller, a caller's by the negative session of the callee.
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
        is sent, and large values are sent through the pipe.
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
                    # An empty pipe accepts it whole.
                    send_fd(sock, data, theirs.fileno())
                else:
                    self.close()
        except OSError:  # it is gone, or too many descriptors are in transit
            self.close()

    def read_first(self, sock: socket.socket, nbytes: int) -> bytes:
        """Reads the first bytes of a pipe, and the side socket that comes with them."""
        data, fds, _ = _receive(sock, nbytes)
        if fds:
            side = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fds[0])
            self._fd_socket = FdSocket(side)
        return data

    def encode(self, frame: Frame) -> bytes | list[Buffer]:
        """Encodes a frame, after the tables that share the segments that it needs.

        Descriptors are sent first. If one cannot be sent, a payload in its segment is
        sent through the pipe; its block stays a borrowed reference, and is returned
        when the payload was read.
        """
        payload = frame[-1]
        if type(payload) is SharedPayload and payload.segment in self.known_segments:
            borrowed = borrowed_of(frame)
            if borrowed and len(borrowed) == 1 and borrowed[0] == payload.block:
                return encode(frame)  # no other part can be unknown or too long
        unknown = self._unknown_segments(frame)
        data = encode_with_borrowed(frame)
        if not unknown:
            return data
        tables = [
            table
            for name in unknown
            if (table := self._share_segment(name)) is not None
        ]
        if len(tables) < len(unknown) and isinstance(frame[-1], SharedPayload):
            data = encode_with_borrowed((*frame[:-1], list(frame[-1].buffers())))
        if isinstance(data, bytes):
            return b"".join((*tables, data))
        return [*tables, *data]

    def _unknown_segments(self, frame: Frame) -> list[bytes]:
        """Lists the segments of its borrowed blocks that the other side lacks."""
        shared = self.known_segments
        unknown: list[bytes] = []
        for field in frame[1:-1]:
            if type(field) is not list and type(field) is not tuple:
                continue
            for reference in cast("list[object]", field):
                if (
                    type(reference) is bytes
                    and (name := reference[:SEGMENT_NAME_SIZE]) not in shared
                    and kind_of(reference) == BLOCK_KIND
                    and name not in unknown
                ):
                    unknown.append(name)
        return unknown

    def _share_segment(self, name: bytes) -> bytes | None:
        """Sends the descriptor of a segment; returns its table, or None."""
        try:
            segment = self.memory.segment(name)
        except ProtocolError:
            # Its maker could not share it, or invented the name. A payload in it came
            # through the pipe, and is sent on so. The receiver is not at fault.
            return None
        table = encode(({"share": name, "size": segment.size},))
        # Added first: if this is interrupted, frames that need the segment fail.
        self.known_segments.add(name)
        if self._send_to_reader(segment.fd):
            return cast("bytes", table)
        self.known_segments.discard(name)
        return None

    def _send_to_reader(self, fd: int) -> bool:
        """Sends a read-only descriptor, even if the process may open no more."""
        if self._fd_socket is None:
            return False
        with contextlib.suppress(OSError):
            return _send_read_only(self._fd_socket, fd)
        with self.memory.fd_reserve.freed(), contextlib.suppress(OSError):
            return _send_read_only(self._fd_socket, fd)
        return False

    def hand_over_link(self, name: int, fd: int) -> Frame | None:
        """Sends a worker its end of a link, by its key in ``links``.

        The caller still closes the end here. Returns the frame to send next on the
        pipe; None if the end was not sent.
        """
        if self._fd_socket is None or not self._fd_socket.send(fd):
            return None
        return ({"link": name},)

    def payload_at(self, location: dict[Any, Any]) -> SharedPayload:
        """Returns the payload at the location in a table."""
        for block in location:
            if block[:SEGMENT_NAME_SIZE] not in self.known_segments:
                raise ProtocolError(
                    f"a payload in a segment that was not shared: {location!r}"
                )
        return self.memory.payload_at(location)

    def take_table(self, table: dict[str, Any]) -> None:
        """Processes a table about the memory; ProtocolError if it is not allowed."""
        match table:
            case {"free": bytes(block)} if self._prefix is None:  # the usual case
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
                raise ProtocolError(f"an invalid table: {table!r}")

    def _may_share(self, name: bytes) -> bool:
        return (
            len(name) == SEGMENT_NAME_SIZE
            and kind_of(name) == BLOCK_KIND
            and name.startswith(self._prefix or b"")
        )

    def close(self) -> None:
        """Closes the side socket; from here on no more segments are shared."""
        for link in list(self.links):
            self._drop_link(link)
        side, self._fd_socket = self._fd_socket, None
        if side is not None:
            side.close()

    def _drop_link(self, link: int) -> None:
        """Closes an end that was not taken."""
        fd = self.links.pop(link, None)
        if fd is not None:
            os.close(fd)

    def _take_segment(self, name: bytes, size: int) -> None:
        """Receives a segment, even if no more descriptors can stay open."""
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
        """Receives the next descriptor; None if it cannot be opened here."""
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
    """Sends a read-only descriptor of the same file; False without room in transit."""
    readable = read_only_fd(fd)
    try:
        return side.send(readable)
    finally:
        os.close(readable)
