"""Connects to a runtime by its name; blocks, with a limit for each step."""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import NamedTuple

from actorlib._base.named_sockets import named_sockets, peer_pid, peer_uid
from actorlib._base.validation import closest_names
from actorlib._queries.addresses import RUNTIMES
from actorlib._queries.attach_server import ATTACH, LONGEST_PROGRAM, python_version
from actorlib._queries.client import named_process
from actorlib._queries.protocol import (
    MOST_ASKED,
    OTHER_VERSION,
    REFUSED,
    Answer,
    FrameReader,
    question_frame,
    read_answer,
    version,
)
from actorlib._shm.memory import SharedMemory
from actorlib._wire.blocking_channel import BlockingChannel
from actorlib._wire.fd_passing import SegmentSharing
from actorlib._worker.startup import Start, read_start
from actorlib.exceptions import (
    ProtocolError,
    RuntimeNotFoundError,
    RuntimeUnreachableError,
)

PATIENCE = 10.0
"""Seconds that a runtime may take to answer: its loop may be busy."""


class Connection(NamedTuple):
    """The connection to a runtime that has admitted this process.

    Attributes:
        pid: The process id of the runtime; 0 if the system does not report it.
    """

    pipe: BlockingChannel
    start: Start
    pid: int

    def close(self) -> None:
        """Closes the connection: the runtime notices that this process is gone."""
        self.pipe.close_in_fork()
        self.pipe.memory.close()


def connect(name: str, patience: float = PATIENCE) -> Connection:
    """Connects to the runtime with a name.

    Raises:
        RuntimeNotFoundError: This user has no runtime with that name.
        RuntimeUnreachableError: It does not answer, or does not admit this process.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        return _admitted(sock, name, time.monotonic() + patience)
    except (TimeoutError, BlockingIOError):
        sock.close()
        raise RuntimeUnreachableError(
            f"the runtime {name!r} has not answered within {patience:g} s: its event "
            "loop is blocked, or it is stopped; actorlib ps shows where it stands"
        ) from None
    except (EOFError, ConnectionError, ProtocolError) as error:
        sock.close()
        raise RuntimeUnreachableError(
            f"the runtime {name!r} has not let this process in: it has just ended, or "
            f"too many came at once ({error or 'it has closed the connection'})"
        ) from error
    except BaseException:
        sock.close()
        raise


def _admitted(sock: socket.socket, name: str, end: float) -> Connection:
    sockets = named_sockets(RUNTIMES)
    sock.settimeout(max(0.001, end - time.monotonic()))
    try:
        sock.connect(sockets.place(name))
    except (ConnectionRefusedError, FileNotFoundError):
        raise RuntimeNotFoundError(_none_of(name, sockets.names())) from None
    pid = peer_pid(sock)
    if peer_uid(sock) not in (None, os.geteuid()):
        raise RuntimeUnreachableError(
            f"the socket of the runtime {name!r} belongs to a process of another user; "
            "nothing was sent to it"
        )
    program = " ".join(sys.orig_argv)[:LONGEST_PROGRAM]
    identity = {"version": version(), "python": python_version(), "program": program}
    sock.sendall(question_frame(ATTACH, identity))
    _check(_answer(sock, end), name, pid)
    memory = SharedMemory()
    sharing = SegmentSharing(memory)
    pipe = BlockingChannel(sock, sharing)
    try:
        pipe.set_read_timeout(max(0.001, end - time.monotonic()))
        start = read_start(pipe.receive_first()[0])
        pipe.set_read_timeout(0)
    except BaseException:
        sharing.close()
        memory.close()
        raise
    return Connection(pipe, start, pid)


def _answer(sock: socket.socket, end: float) -> Answer:
    reader = FrameReader(MOST_ASKED)
    while True:
        seconds = end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        sock.settimeout(seconds)
        piece = sock.recv(reader.missing)  # no byte of later frames
        if not piece:
            raise EOFError
        content = reader.take(piece)
        if content is not None:
            return read_answer(content)


def _check(answer: Answer, name: str, pid: int) -> None:
    if answer.outcome == OTHER_VERSION:
        raise RuntimeUnreachableError(
            f"the runtime {name!r} ({named_process(pid)}) runs actorlib "
            f"{answer.value}, and this process has actorlib {version()}: both have to "
            "be the same, so run both in one environment"
        )
    if answer.outcome == REFUSED:
        raise RuntimeUnreachableError(str(answer.value))


def _none_of(name: str, names: list[str]) -> str:
    message = f"this user has no runtime of the name {name!r}: "
    if not names:
        return message + (
            "no runtime has a name. A program names its runtime by "
            f"actorlib.init(name={name!r})"
        )
    close = closest_names(name, names)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(map(repr, names[:10]))
    return f"{message}there {'is' if len(names) == 1 else 'are'} {listed}.{hint}"
