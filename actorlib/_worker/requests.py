"""What the owner asks of the template, as it comes."""

from __future__ import annotations

import socket
from typing import NamedTuple

from actorlib._wire.control import REQUEST

_DESCRIPTORS = 8


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
        record, descriptors, _, _ = socket.recv_fds(
            control, REQUEST.size, _DESCRIPTORS, socket.MSG_DONTWAIT
        )
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
