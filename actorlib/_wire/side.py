"""The way that descriptors take between two processes: a socket beside their pipe.

A read that may bring descriptors costs a small call a twentieth of its time, and most
calls have none. So those go by a socket of their own, each with one byte, before what
tells of it goes by the pipe: whoever reads that finds the descriptor there, and never
waits for one.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket

from actorlib.exceptions import ProtocolError

_int = array.array("i").itemsize
_ROOM = socket.CMSG_SPACE(_int)
_CUT_SHORT = int(socket.MSG_CTRUNC)  # a plain number: flags that know words are slow
_PEEK = int(socket.MSG_PEEK)
_CLOSED_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
"""Has the kernel keep what comes from programs that are started here."""


class Side:
    """One end of that socket.

    Args:
        sock: The end of a socket pair; closed by ``close``.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)  # noqa: FBT003  # the socket API
        self._sock = sock

    def put(self, fd: int) -> bool:
        """Sends a descriptor now; False if there is no room, or nobody to take it."""
        try:
            return put(self._sock, b"\0", fd) == 1
        except OSError:
            return False

    def take(self) -> int | None:
        """The descriptor that came next; whoever takes it closes it.

        Returns:
            None if this process may open no more of them. It is there still: see
            ``skip``, and Spare.

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


def put(sock: socket.socket, data: bytes, fd: int) -> int:
    """Sends bytes with a descriptor beside the first of them; says how many went.

    Raises:
        OSError: As ``socket.send`` does.
    """
    rights = array.array("i", [fd])
    return sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def first(sock: socket.socket, nbytes: int) -> tuple[bytes, Side | None]:
    """Reads the first bytes of a pipe, and the side socket that may come with them.

    Raises:
        OSError: As ``socket.recv`` does.
        ProtocolError: There were more descriptors than that.
    """
    data, fds, _ = _received(sock, nbytes)
    if not fds:
        return data, None
    return data, Side(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fds[0]))


def _received(
    sock: socket.socket, nbytes: int, how: int = 0
) -> tuple[bytes, list[int], bool]:
    """What came, the descriptor beside it, and whether one could not be opened."""
    data, ancillary, flags, _ = sock.recvmsg(nbytes, _ROOM, _CLOSED_ON_EXEC | how)
    fds: list[int] = []
    for level, kind, beside in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds += array.array("i", beside[: len(beside) - len(beside) % _int])
    if not _CLOSED_ON_EXEC:
        for fd in fds:
            os.set_inheritable(fd, False)  # noqa: FBT003  # the os API
    if len(fds) > 1 or (fds and flags & _CUT_SHORT):
        for fd in fds:
            os.close(fd)
        raise ProtocolError("more than one descriptor came at once")
    return data, fds, bool(flags & _CUT_SHORT)
