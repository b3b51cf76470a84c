"""A worker that is forked before somebody asks for one.

A fork and what it copies first are half of the time until an actor answers. So after
the template has forked and nothing more was asked for a moment, it forks one more: a
process of its own in every respect, but without a number, a pipe, or a line of the
user's code. It blocks until it is told whose it is, and ends when nobody can tell it
any more. A runtime that places nothing has none, and none has two.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct

from actorlib._worker.processes import is_stopped

_NUMBER = struct.Struct("<Q")
_DESCRIPTORS = 3


class Spare:
    """The template's end of one.

    Args:
        pid: Its process id.
        sock: The template's end of a socket pair; closed by ``close``.

    Attributes:
        pid: Its process id.
    """

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid = pid
        self._sock = sock

    def becomes(self, worker: int, descriptors: list[int]) -> bool:
        """Tells it whose it is, so it is no spare any more; False if it cannot be.

        Args:
            worker: Its number.
            descriptors: Its pipe and its output.
        """
        if is_stopped(self.pid):  # by a signal: nobody knows for how long
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            return False
        try:
            socket.send_fds(self._sock, [_NUMBER.pack(worker)], descriptors)
        except OSError:
            return False
        return True

    def has_missed(self) -> bool:
        """Whether one that has ended had not read whose it was."""
        try:
            self._sock.recv(1)
        except OSError:
            return True  # what was sent was lost with its end of the pair
        return False

    def close(self) -> None:
        """Lets it end, or forgets it in a process that is not the template."""
        self._sock.close()


def wait_for_work(sock: socket.socket) -> tuple[list[int], int]:
    """Blocks in a spare until it is told its descriptors and its number.

    Ends the process if it never will be.

    Args:
        sock: The spare's end of the socket pair; closed by then.
    """
    try:
        record, descriptors, _, _ = socket.recv_fds(sock, _NUMBER.size, _DESCRIPTORS)
    except OSError:
        record, descriptors = b"", []
    if len(record) < _NUMBER.size or len(descriptors) < _DESCRIPTORS:
        os._exit(0)
    sock.close()
    return descriptors, _NUMBER.unpack(record)[0]
