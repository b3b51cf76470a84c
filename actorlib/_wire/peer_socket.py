"""Carries frames between two workers that call one another often, over a socket pair.

The owner makes the pair and hands both ends over, so it has no name, no stranger can
connect to it, and nothing is left of it. It carries messages, each of one or more whole
frames, and never waits: what has no room goes by way of the owner instead. So nobody
has to write on while its thread runs the user's code, two workers that send to one
another cannot wait for one another, and either end knows exactly what the other has.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import zlib
from typing import TYPE_CHECKING

from actorlib._wire.codec import decode_message, encode

if TYPE_CHECKING:
    from actorlib._wire.messages import Frame

_MAX_MESSAGE = 64 * 1024
"""Bytes of one message: a larger frame goes over the owner's pipe."""
_SEND_BUFFER = 1 << 20
"""Bytes that may be on their way, with what the kernel adds; it may give less."""
_BURST = 8 * 1024
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_UNLOOKED = 8
"""So many messages are taken by themselves, once a look behind one was in vain."""
_NO_ROOM = frozenset({errno.EAGAIN, errno.EMSGSIZE, errno.ENOBUFS, errno.ENOMEM})


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Makes both ends of a link.

    Raises:
        OSError: There can be none: no more files, or a system without such sockets.
    """
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    return ends


def method_number(method: str) -> int:
    """Numbers a method, where there is room for nothing else."""
    return zlib.crc32(method.encode()) + 1


class PeerSocket:
    """Sends and receives frames: one end of a link between two workers.

    One thread at a time reads and gathers; any thread sends.

    Args:
        fd: The descriptor of the end; closed by ``close``.

    Attributes:
        is_open: Whether the other side may still be there.
        has_more: Whether nobody has looked for a message behind the last one.
    """

    __slots__ = (
        "_gathered",
        "_run",
        "_size",
        "_sock",
        "_unlooked",
        "has_more",
        "is_open",
    )

    def __init__(self, fd: int) -> None:
        self._sock = socket.socket(fileno=fd)
        self._sock.setblocking(False)  # noqa: FBT003  # the socket API
        self._gathered: list[tuple[Frame, bytes]] = []
        self._size = 0
        self.is_open = True
        self.has_more = False
        # How many messages came one behind another, and how many are taken by
        # themselves yet; see ``expects_more``.
        self._run = self._unlooked = 0

    def fileno(self) -> int:
        """The descriptor of this end; -1 after ``close``."""
        return self._sock.fileno()

    def send(self, frame: Frame) -> bool:
        """Sends a frame; False if it has no room, or nobody reads.

        Raises:
            TypeError: A field of the frame is none that msgpack carries.
        """
        data = encode(frame)
        return type(data) is bytes and self._send_message(data)

    def gather(self, frame: Frame) -> list[Frame]:
        """Keeps a frame to leave with the next ``flush``, or now if many wait.

        Returns:
            The frames that have no room on this link.
        """
        data = encode(frame)
        if type(data) is not bytes or len(data) > _BURST:
            left = self.flush()
            return [] if not left and self.send(frame) else [*left, frame]
        self._gathered.append((frame, data))
        self._size += len(data)
        return self.flush() if self._size >= _BURST else []

    def flush(self) -> list[Frame]:
        """Sends what was gathered; gives the frames that have no room on this link."""
        gathered, self._gathered, self._size = self._gathered, [], 0
        if not gathered or self._send_message(b"".join([data for _, data in gathered])):
            return []
        return [frame for frame, _ in gathered]

    def receive(self) -> list[Frame]:
        """Receives the frames of the next message; none if there is no message.

        Raises:
            EOFError: The other side is gone, and everything it sent was received.
            ProtocolError: It sent what is no frame.
        """
        while True:
            try:
                data = self._sock.recv(_MAX_MESSAGE)
            except BlockingIOError:
                if self._run == 1:
                    self._unlooked = _UNLOOKED
                self._run = 0
                self.has_more = False
                return []
            except ConnectionError:  # it left something unread; raised once
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
        """Whether another message is likely behind the one that has come.

        A look in vain costs as much as a message. It always is in vain where calls are
        made one at a time, so only every few are followed by one; and it seldom is
        where many are made, so there it goes on.
        """
        if self._unlooked:
            self._unlooked -= 1
            self._run = 0
            return False
        return True

    def shut_reading(self) -> None:
        """Has the other side send nothing more; what it has sent can be received."""
        with contextlib.suppress(OSError):  # it is gone
            self._sock.shutdown(socket.SHUT_RD)

    def shut_writing(self) -> None:
        """Sends nothing more; the other side can receive what was sent, to its end."""
        self.is_open = False
        with contextlib.suppress(OSError):  # it is gone
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Closes this end."""
        self.is_open = False
        self._sock.close()

    def _send_message(self, message: bytes) -> bool:
        if len(message) > _MAX_MESSAGE:
            return False
        try:
            self._sock.send(message, _NO_SIGNAL)
        except OSError as error:
            self.is_open = self.is_open and error.errno in _NO_ROOM
            return False
        return True
