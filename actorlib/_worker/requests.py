"""What the owner asks of the template, as it comes."""

from __future__ import annotations

import array
import socket
from typing import NamedTuple

from actorlib._wire.control import REQUEST

_int = array.array("i").itemsize
_ROOM = socket.CMSG_SPACE(8 * _int)
_NO_WAIT = int(socket.MSG_DONTWAIT)


class Request(NamedTuple):
    """One request.

    Attributes:
        kind: FORK or KILL.
        number: The signal.
        worker: Whom it is about.
        descriptors: What a worker begins with; whoever takes them closes them.
    """

    kind: int
    number: int
    worker: int
    descriptors: list[int]


def next_request(control: socket.socket) -> Request | None:
    """What was asked next; None if the owner is gone.

    Raises:
        BlockingIOError: Nothing more was asked by now.
    """
    try:
        # socket.recv_fds takes flags and forgets them (CPython 3.11 to 3.13).
        record, beside, _, _ = control.recvmsg(REQUEST.size, _ROOM, _NO_WAIT)
        descriptors = _descriptors(beside)
        while record and len(record) < REQUEST.size:
            more = control.recv(REQUEST.size - len(record))
            record = record + more if more else b""
    except BlockingIOError:
        raise
    except OSError:
        record, descriptors = b"", []
    if not record:
        return None
    kind, number, worker = REQUEST.unpack(record)
    return Request(kind, number, worker, descriptors)


def _descriptors(beside: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in beside:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % _int])
    return list(found)
