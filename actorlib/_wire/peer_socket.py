"""Sends and receives frames between two workers over a link, a socket pair.

The owner creates the pair and sends an end to each worker, so it has no name, no other
process can connect to it, and it leaves nothing behind. It transports messages of one
or more whole frames, and never waits: frames without room are sent through the owner
instead. So no worker has to continue a write while its thread runs the user's code, two
workers that send to each other cannot wait for each other, and each end knows exactly
which frames the other has.
"""

from __future__ import annotations

import contextlib
import socket
import zlib
from typing import TYPE_CHECKING

from actorlib._wire.codec import decode_message, encode

if TYPE_CHECKING:
    from actorlib._wire.messages import Frame

_MAX_MESSAGE = 64 * 1024
"""Bytes of one message: a larger frame is sent through the owner's pipe."""
_SEND_BUFFER = 1 << 20
"""Bytes that may be in transit, including the kernel's overhead; it may allow less."""
_BURST = 8 * 1024
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_SINGLE_READS = 8
"""The number of messages without a further read, after one read in vain."""


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Creates both ends of a link; raises OSError if the system cannot."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    return ends


def method_number(method: str) -> int:
    """Returns a number for a method, where there is no room for its name."""
    return zlib.crc32(method.encode()) + 1


class PeerSocket:
    """Sends and receives frames: one end of a link between two workers.

    One thread at a time reads and gathers; any thread sends.

    Attributes:
        has_more: Whether another message may follow the last one.
    """

    __slots__ = (
        "_gathered",
        "_run",
        "_single_reads",
        "_size",
        "_sock",
        "has_more",
    )

    def __init__(self, fd: int) -> None:
        self._sock = socket.socket(fileno=fd)
        self._sock.setblocking(False)  # noqa: FBT003  # the socket API
        self._gathered: list[tuple[Frame, bytes]] = []
        self._size = 0
        self.has_more = False
        # How many messages came one after another, and how many further ones are read
        # alone; see ``expects_more``.
        self._run = self._single_reads = 0

    def fileno(self) -> int:
        """Returns the descriptor of this end; -1 after ``close``."""
        return self._sock.fileno()

    def send(self, frame: Frame) -> bool:
        """Sends a frame; False without room, or without a reader."""
        data = encode(frame)
        return type(data) is bytes and self._send_message(data)

    def gather(self, frame: Frame) -> list[Frame]:
        """Keeps a frame for ``flush``, or flushes; returns frames without room."""
        data = encode(frame)
        if type(data) is not bytes or len(data) > _BURST:
            rest = self.flush()
            return [] if not rest and self.send(frame) else [*rest, frame]
        self._gathered.append((frame, data))
        self._size += len(data)
        return self.flush() if self._size >= _BURST else []

    def flush(self) -> list[Frame]:
        """Sends the gathered frames; returns those without room on this link."""
        gathered, self._gathered, self._size = self._gathered, [], 0
        if not gathered or self._send_message(b"".join([data for _, data in gathered])):
            return []
        return [frame for frame, _ in gathered]

    def receive(self) -> list[Frame]:
        """Receives the frames of the next message; none if there is no message.

        Raises:
            EOFError: The other side is gone, and everything that it sent was received.
            ProtocolError: It sent bytes that are not a frame.
        """
        while True:
            try:
                data = self._sock.recv(_MAX_MESSAGE)
            except BlockingIOError:
                if self._run == 1:
                    self._single_reads = _SINGLE_READS
                self._run = 0
                self.has_more = False
                return []
            except ConnectionError:  # it has left unread bytes; raised once
                continue
            except OSError:  # closed here
                data = b""
            if not data:
                self.has_more = False
                raise EOFError
            self._run += 1
            self.has_more = True
            return decode_message(data)

    def expects_more(self) -> bool:
        """Whether another message is likely to follow the last one.

        A read in vain costs as much as a message. It is always in vain if calls are
        made one at a time, so then only every few messages are followed by one. It
        rarely is in vain if many calls are made, so then it continues.
        """
        if self._single_reads:
            self._single_reads -= 1
            self._run = 0
            return False
        return True

    def shut_reading(self) -> None:
        """Stops the other side from sending; what it has sent can be received."""
        with contextlib.suppress(OSError):  # it is gone
            self._sock.shutdown(socket.SHUT_RD)

    def shut_writing(self) -> None:
        """Sends no more; the other side can receive what was sent, to its end."""
        with contextlib.suppress(OSError):  # it is gone
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._sock.close()

    def _send_message(self, message: bytes) -> bool:
        if len(message) > _MAX_MESSAGE:
            return False
        try:
            self._sock.send(message, _NO_SIGNAL)
        except OSError:
            return False
        return True
