"""Forks a worker before somebody asks for one, and warms it up.

A fork and what it copies first are half of the time until an actor answers. So after
the template has forked and nothing more was asked for a moment, it forks one more: a
process of its own in every respect, but without a number, a pipe, or a line of the
user's code. It blocks until it is assigned a worker's number, and ends when nobody can
assign one any more. A runtime that places nothing has none, and none has two.

Most of the time from a worker's first frame to its first answer goes into copying the
pages that it writes to and shares with its parent. A preforked child has time for that:
it serves a small actor of its own, made, called and stopped, over a pipe to nobody.
What is left of it is the garbage of one actor, in this process alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import sys
from functools import partial
from typing import cast

from actorlib._core.engine import set_engine
from actorlib._core.ids import ActorId
from actorlib._wire.actor_config import ActorConfig
from actorlib._wire.codec import encode
from actorlib._wire.messages import CALL, CALL_SCALARS, START, STOP, Frame
from actorlib._wire.serialization import dump, encode_call
from actorlib._worker.__main__ import WarmWorker, serve
from actorlib._worker.os_process import is_stopped

_NUMBER = struct.Struct("<Q")
_DESCRIPTORS = 3


class PreforkedChild:
    """Is the template's end of the pair of sockets with a preforked child.

    Args:
        pid: Its process id.
        sock: The template's end of a socket pair; closed by ``close``.

    Attributes:
        pid: Its process id.
    """

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid = pid
        self._sock = sock

    def assign(self, worker: int, descriptors: list[int]) -> bool:
        """Makes it a worker; False if it cannot become one.

        Args:
            worker: The worker's number.
            descriptors: The worker's pipe and output.
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

    def missed_assignment(self) -> bool:
        """Whether one that has ended had not read what it was assigned."""
        try:
            self._sock.recv(1)
        except OSError:
            return True  # what was sent was lost with its end of the pair
        return False

    def close(self) -> None:
        """Lets it end, or forgets it in a process that is not the template."""
        self._sock.close()


def wait_for_work(sock: socket.socket) -> tuple[list[int], int]:
    """Blocks in a preforked child until it is assigned descriptors and a number.

    Ends the process if it never will be.

    Args:
        sock: The child's end of the socket pair; closed by then.
    """
    try:
        record, descriptors, _, _ = socket.recv_fds(sock, _NUMBER.size, _DESCRIPTORS)
    except OSError:
        record, descriptors = b"", []
    if len(record) < _NUMBER.size or len(descriptors) < _DESCRIPTORS:
        os._exit(0)
    sock.close()
    return descriptors, _NUMBER.unpack(record)[0]


_PREFIX = b"\0" * 8
_NAME = "actorlib"


def warm_up_frames() -> list[bytes]:
    """Makes what the owner of a small actor would send; once, and in the template."""

    class WarmUp:  # a local class travels by value, as those of a script do
        def __init__(self, value: object) -> None:
            self.value = value

        def method(self, value: object) -> object:
            return value

    arguments = encode_call((1,), {})
    config = ActorConfig(
        actor_id=ActorId(_PREFIX * 2),
        class_name=_NAME,
        prefix=_PREFIX,
        limits={},
        groups={},
        environment={},
        path=sys.path,
        runtime_env={},
        resources={},
        accelerator_ids={},
    )
    frames: list[Frame] = [
        (START, vars(config), dump(WarmUp), None, arguments),
        (CALL_SCALARS, 1, "method", 1),
        (CALL, 2, "method", None, encode_call((b"",), {})),
        (STOP,),
    ]
    return [cast("bytes", encode(frame)) for frame in frames]


def run_warm_up(frames: list[bytes]) -> list[bytes]:
    """Serves the actor of these frames; gives what it has sent.

    Args:
        frames: What ``warm_up_frames`` gave.
    """
    # In packets, as the frames of an owner come one after the other too.
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        for frame in frames:
            far.send(frame)
        try:
            serve(near, WarmWorker())
        finally:
            set_engine(None)
        near.close()
        return list(iter(partial(far.recv, 4096), b""))
