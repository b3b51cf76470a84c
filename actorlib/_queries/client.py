"""Sends queries to the servers of runtimes, from another process."""

from __future__ import annotations

import os
import pwd
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from actorlib._base.named_sockets import peer_pid, peer_uid
from actorlib._queries import processes
from actorlib._queries.addresses import Address, find_servers
from actorlib._queries.protocol import (
    BLOCKED,
    MOST_ANSWERED,
    OTHER_VERSION,
    REFUSED,
    VERSION,
    FrameReader,
    question_frame,
    read_answer,
)
from actorlib.exceptions import (
    ProtocolError,
    RuntimeNotFoundError,
    RuntimeUnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._queries.protocol import Answer
    from actorlib._queries.rows import Standstill

_GRACE = 4.0
"""Seconds in which the server has to answer beyond the patience with the loop."""
_PAUSE = 0.05
_BUSY = 2.0
"""Seconds for which a server that closes the connection is tried again."""
_PIECE = 256 * 1024
_NO_DESCRIPTOR = (
    "it has as many files and sockets open as it may (ulimit -n), and none is left for "
    "an answer"
)


def find_runtimes(pid: int | None = None) -> list[Address]:
    """Lists the runtimes that this user may query, or those of one process.

    Raises:
        RuntimeNotFoundError: There is no such runtime.
        RuntimeUnreachableError: It belongs to another user.
    """
    servers, me = find_servers(), os.geteuid()
    if pid is None:
        mine = [address for address in servers if address.uid == me]
        if not mine:
            raise RuntimeNotFoundError(_none_is_mine(servers, me))
        return mine
    of_process = [address for address in servers if address.pid == pid]
    allowed = [address for address in of_process if me in (0, address.uid)]
    if allowed:
        return allowed
    if of_process:
        owner = user_name(of_process[0].uid)
        raise RuntimeUnreachableError(
            f"the runtime of pid {pid} belongs to the user {owner}: only {owner} and "
            "root may query it"
        )
    if not processes.exists(pid):
        raise RuntimeNotFoundError(f"there is no process {pid}")
    raise RuntimeNotFoundError(
        f"process {pid} has no runtime that answers: it has none, or its engine "
        "is inline or Ray's, or it was started with control=False or "
        "ACTORLIB_CONTROL=0, or in a network of its own, as containers have"
    )


def the_runtime(pid: int | None) -> Address:
    """Returns the address of the runtime of a process, or of the only one.

    Raises:
        RuntimeNotFoundError: There is no such runtime, or there are several.
        RuntimeUnreachableError: It belongs to another user.
    """
    runtimes = find_runtimes(pid)
    if len(runtimes) > 1:
        # All users may take a name, and containers that share a network number their
        # processes alike.
        runtimes = [one for one in runtimes if _is_itself(one)] or runtimes
    if len(runtimes) == 1:
        return runtimes[0]
    names = ", ".join(named_process(address.pid) for address in runtimes)
    raise RuntimeNotFoundError(
        f"there are {len(runtimes)} runtimes: {names}. Choose one with --pid"
    )


def _is_itself(address: Address) -> bool:
    """Whether the process at an address is the one in the name of the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)  # noqa: FBT003  # the socket API
        try:
            sock.connect(address.place)
        except BlockingIOError:  # its queue of connections is full
            return True
        except OSError:
            return False
        uid = peer_uid(sock)
        return uid is None or (uid, peer_pid(sock)) == (address.uid, address.pid)


def ask(
    address: Address,
    verb: str,
    *,
    patience: float = 1.0,
    grace: float = _GRACE,
    **options: Any,
) -> Answer:
    """Sends a query to a runtime.

    Args:
        address: The address of its server.
        verb: The name of the query.
        patience: Seconds that its loop may take; then the server itself answers.
        grace: Further seconds in which the server has to answer.
        **options: The parameters of the query.

    Returns:
        The answer, whose outcome is ``OK`` or ``BLOCKED``.

    Raises:
        RuntimeUnreachableError: It has ended, is stopped, is another process, or has
            another version.
        ValueError: It refuses the query; the message has the reason.
    """
    who = named_process(address.pid)
    end = time.monotonic() + patience + grace
    last_try = min(end, time.monotonic() + _BUSY)
    question = question_frame(verb, {**options, "patience": patience})
    while True:
        try:
            answer = read_answer(_send_once(address, question, end), verb)
            break
        except TimeoutError:
            raise RuntimeUnreachableError(_why_silent(address.pid, who)) from None
        except (EOFError, OSError) as error:
            if time.monotonic() > last_try or not processes.exists(address.pid):
                raise RuntimeUnreachableError(_why_gone(address.pid, who)) from error
            time.sleep(_PAUSE)  # it accepts no connections for a moment
        except ProtocolError as error:
            raise RuntimeUnreachableError(f"the answer of {who}: {error}") from error
    if answer.version != VERSION or answer.outcome == OTHER_VERSION:
        raise RuntimeUnreachableError(
            f"{who} runs actorlib {answer.value}, which this command, of another "
            "version, does not understand: use the one of its environment, "
            "python -m actorlib"
        )
    if answer.outcome == REFUSED:
        raise ValueError(str(answer.value))
    return answer


def ask_loop(
    address: Address, verb: str, *, patience: float = 5.0, **options: Any
) -> Any:
    """Sends a query that only the loop of a runtime can answer; returns the value.

    Raises:
        RuntimeUnreachableError: The runtime or its loop does not answer.
        ValueError: It refuses the query; the message has the reason.
    """
    answer = ask(address, verb, patience=patience, **options)
    if answer.outcome != BLOCKED:
        return answer.value
    who = named_process(address.pid)
    standstill: Standstill = answer.value
    if not standstill.is_running:
        raise RuntimeUnreachableError(f"the event loop of {who} is not running")
    raise RuntimeUnreachableError(
        f"the event loop of {who} has been blocked {standstill.duration}: "
        f"actorlib ps --pid {address.pid} shows where"
    )


def named_process(pid: int) -> str:
    """Describes a process: ``pid 812 ('python train.py')``."""
    words = processes.program(pid)
    return f"pid {pid} ({words!r})" if words else f"pid {pid}"


def user_name(uid: int) -> str:
    """Returns the name of a user, or the number if there is no name."""
    with suppress(KeyError, OverflowError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)


def _send_once(address: Address, question: bytes, end: float) -> bytes:
    """Sends a question once; returns the content of the answer.

    Raises:
        EOFError: There is no answer.
        OSError: There is no answer.
        ProtocolError: The answer is too long.
        RuntimeUnreachableError: Another user's process listens there.
        TimeoutError: The answer does not come in time, or the process is stopped.
    """
    if processes.is_stopped(address.pid):
        raise TimeoutError
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        _connect(sock, address, end)
        sock.sendall(question)
        return _receive(sock, end)


def _connect(sock: socket.socket, address: Address, end: float) -> None:
    """Connects to a server, and checks its user.

    Raises:
        OSError: No process listens there.
        RuntimeUnreachableError: Another user's process listens there.
        TimeoutError: Its queue of connections is full.
    """
    while True:
        sock.settimeout(_seconds_until(end))
        try:
            sock.connect(address.place)
        except BlockingIOError:
            time.sleep(min(_PAUSE, _seconds_until(end)))
        else:
            break
    if peer_uid(sock) not in (None, address.uid):
        raise RuntimeUnreachableError(
            f"the process at the address of the runtime of pid {address.pid} does not "
            f"belong to the user {user_name(address.uid)}, so nothing was sent to it"
        )


def _receive(sock: socket.socket, end: float) -> bytes:
    reader = FrameReader(MOST_ANSWERED)
    while True:
        sock.settimeout(_seconds_until(end))
        piece = sock.recv(min(reader.missing, _PIECE))
        if not piece:
            raise EOFError
        content = reader.take(piece)
        if content is not None:
            return content


def _seconds_until(end: float) -> float:
    """Returns the seconds until the end; raises TimeoutError if there are none."""
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _why_silent(pid: int, who: str) -> str:
    if processes.is_stopped(pid):
        return (
            f"{who} is stopped (SIGSTOP, or a debugger): kill -CONT {pid} lets it go on"
        )
    if processes.is_out_of_descriptors(pid):
        return f"{who} does not answer: {_NO_DESCRIPTOR}"
    return (
        f"{who} does not answer: something in it, a call of a library written in C for "
        "example, lets no other thread run Python"
    )


def _why_gone(pid: int, who: str) -> str:
    if processes.is_out_of_descriptors(pid):
        return f"{who} did not answer: {_NO_DESCRIPTOR}"
    if processes.exists(pid):
        return (
            f"{who} did not answer: its runtime has just ended, or it has too many "
            "clients at once"
        )
    return f"{who} ended before it answered"


def _none_is_mine(servers: Sequence[Address], me: int) -> str:
    if not servers:
        return f"no runtime of the user {user_name(me)} is running here"
    names = ", ".join(
        f"pid {address.pid} ({user_name(address.uid)})" for address in servers
    )
    return (
        f"no runtime of the user {user_name(me)} is running here, but there are those "
        f"of others: {names}; they and root may query these, with --pid"
    )
