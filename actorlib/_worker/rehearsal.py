"""The life of an actor in small, which a spare lives before its own.

Most of the time from a worker's first frame to its first answer goes into copying the
pages that this writes to and its parent has. A spare has time for that: it serves an
actor of its own, born, called and stopped, and does so over a pipe to nobody. What is
left of it is the garbage of one actor, in this process alone.
"""

from __future__ import annotations

import socket
import sys
from functools import partial
from typing import cast

from actorlib._engine import set_engine
from actorlib._wire.codec import encode
from actorlib._wire.frames import CALL, START, STOP, Frame
from actorlib._wire.payload import dump, encode_call
from actorlib._worker.__main__ import Cradle, serve

_PREFIX = b"\0" * 8
_NAME = "actorlib"


def script() -> list[bytes]:
    """What the owner of such an actor would send; made once, and not in a spare."""

    class Rehearsed:  # a local class travels by value, as those of a script do
        def __init__(self, value: object) -> None:
            self.value = value

        def method(self, value: object) -> object:
            return value

    arguments = encode_call((1,), {})
    setup: dict[str, object] = {
        "actor": _PREFIX * 2,
        "name": _NAME,
        "prefix": _PREFIX,
        "looped": False,
        "limits": {},
        "groups": {},
        "unread": -1,
        "environment": {},
        "path": sys.path,
        "directory": None,
        "threads": None,
        "named": None,
        "namespace": "",
        "node": "",
        "env": {},
        "grace": 0.0,
        "ids": {},
        "resources": {},
        "reconstructed": False,
        "shared": False,
        "functions": False,
    }
    frames: list[Frame] = [
        (START, setup, dump(Rehearsed), None, arguments),
        (CALL, 1, "method", None, arguments),
        (STOP,),
    ]
    return [cast("bytes", encode(frame)) for frame in frames]


def rehearse(frames: list[bytes]) -> list[bytes]:
    """Lives that life; gives what the actor has sent.

    Args:
        frames: What ``script`` gave.
    """
    # In packets, as the frames of an owner come one after the other too.
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        for frame in frames:
            far.send(frame)
        try:
            serve(near, Cradle())
        finally:
            set_engine(None)
        near.close()
        return list(iter(partial(far.recv, 4096), b""))
