"""Asks runtimes at their servers, from another process."""

from __future__ import annotations

import os
import pwd
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from actorlib._queries import processes
from actorlib._queries.addresses import Address, find_servers, peer_pid, peer_uid
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
"""Seconds beyond the patience with the loop in which the server has to answer."""
_PAUSE = 0.05
_BUSY = 2.0
"""Seconds in which a server that sends us away is tried again."""
_PIECE = 256 * 1024
_NO_DESCRIPTOR = (
    "it has as many files and sockets open as it may (ulimit -n), and none is left for "
    "an answer"
)


def find_runtimes(pid: int | None = None) -> list[Address]:
    """Lists the runtimes that this user may ask.

    Args:
        pid: The process of the one that is meant; None for all of this user's own.

    Raises:
        RuntimeNotFoundError: There is none.
        RuntimeUnreachableError: It is another user's.
    """
    found, me = find_servers(), os.geteuid()
    if pid is None:
        mine = [address for address in found if address.uid == me]
        if not mine:
            raise RuntimeNotFoundError(_none_is_mine(found, me))
        return mine
    meant = [address for address in found if address.pid == pid]
    allowed = [address for address in meant if me in (0, address.uid)]
    if allowed:
        return allowed
    if meant:
        owner = user_name(meant[0].uid)
        raise RuntimeUnreachableError(
            f"the runtime of pid {pid} is one of the user {owner}: nobody but {owner} "
            "and root may look into it"
        )
    if not processes.exists(pid):
        raise RuntimeNotFoundError(f"there is no process {pid}")
    raise RuntimeNotFoundError(
        f"process {pid} has no runtime that can be asked: it has none, or its engine "
        "is inline or Ray's, or it was started with control=False or "
        "ACTORLIB_CONTROL=0, or in a network of its own, as containers have"
    )


def the_runtime(pid: int | None) -> Address:
    """Finds the one runtime that is meant.

    Args:
        pid: Its process, or None if there is but one.

    Raises:
        RuntimeNotFoundError: There is none, or there are several.
        RuntimeUnreachableError: It is another user's.
    """
    found = find_runtimes(pid)
    if len(found) > 1:
        # Anybody may take a name, and containers that share a network count alike.
        found = [address for address in found if _is_itself(address)] or found
    if len(found) == 1:
        return found[0]
    named = ", ".join(named_process(address.pid) for address in found)
    raise RuntimeNotFoundError(
        f"{len(found)} runtimes could be meant: {named}. Say which one by --pid"
    )


def _is_itself(address: Address) -> bool:
    """Whether it is not another process that listens where a runtime would."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)  # noqa: FBT003  # the socket API
        try:
            sock.connect(address.place)
        except BlockingIOError:  # so many knock that it has no room
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
    """Asks a runtime.

    Args:
        address: Where its server is.
        verb: What is asked for.
        patience: Seconds that its loop may take; afterwards the server answers for it.
        grace: Seconds beyond these in which the server itself has to answer.
        **options: How.

    Returns:
        The answer, whose outcome is ``OK`` or ``BLOCKED``.

    Raises:
        RuntimeUnreachableError: It has ended, is stopped, is somebody else, or speaks
            another version.
        ValueError: It refuses, and says why.
    """
    who = named_process(address.pid)
    end = time.monotonic() + patience + grace
    last_try = min(end, time.monotonic() + _BUSY)
    question = question_frame(verb, {**options, "patience": patience})
    while True:
        try:
            answer = read_answer(_asked(address, question, end), verb)
            break
        except TimeoutError:
            raise RuntimeUnreachableError(_why_silent(address.pid, who)) from None
        except (EOFError, OSError) as error:
            if time.monotonic() > last_try or not processes.exists(address.pid):
                raise RuntimeUnreachableError(_why_gone(address.pid, who)) from error
            time.sleep(_PAUSE)  # it has sent somebody away, and lets nobody in now
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
    """Asks a runtime what its loop alone can answer; gives the value.

    Args:
        address: Where its server is.
        verb: What is asked for.
        patience: Seconds that its loop may take.
        **options: How.

    Raises:
        RuntimeUnreachableError: It does not answer, or its loop does not.
        ValueError: It refuses, and says why.
    """
    answer = ask(address, verb, patience=patience, **options)
    if answer.outcome != BLOCKED:
        return answer.value
    who = named_process(address.pid)
    standstill: Standstill = answer.value
    if not standstill.is_running:
        raise RuntimeUnreachableError(f"the event loop of {who} is not running")
    bound = "for" if standstill.is_exact else "for at least"
    raise RuntimeUnreachableError(
        f"the event loop of {who} has been blocked {bound} {standstill.seconds:.1f} s: "
        f"actorlib ps --pid {address.pid} shows where"
    )


def named_process(pid: int) -> str:
    """Names a process: ``pid 812 ('python train.py')``."""
    words = processes.program(pid)
    return f"pid {pid} ({words!r})" if words else f"pid {pid}"


def user_name(uid: int) -> str:
    """Names a user, by the number if there is no other name."""
    with suppress(KeyError, OverflowError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)


def _asked(address: Address, question: bytes, end: float) -> bytes:
    """Asks once; gives the content of the frame that comes back.

    Raises:
        EOFError: There is no answer.
        OSError: Likewise.
        ProtocolError: It is too long.
        RuntimeUnreachableError: Somebody else is there, or the process is stopped.
        TimeoutError: There is none in time.
    """
    found = processes.usage(address.pid)
    if found is not None and found.state in "tT":
        raise TimeoutError
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        _connect(sock, address, end)
        sock.sendall(question)
        return _receive(sock, end)


def _connect(sock: socket.socket, address: Address, end: float) -> None:
    """Connects to a server, and makes sure whose it is.

    Raises:
        OSError: Nobody is there.
        RuntimeUnreachableError: Somebody else is.
        TimeoutError: So many knock that there is no room.
    """
    while True:
        sock.settimeout(_left(end))
        try:
            sock.connect(address.place)
        except BlockingIOError:
            time.sleep(min(_PAUSE, _left(end)))
        else:
            break
    if peer_uid(sock) not in (None, address.uid):
        raise RuntimeUnreachableError(
            f"who listens where the runtime of pid {address.pid} would is not a "
            f"process of the user {user_name(address.uid)}, and was asked nothing"
        )


def _receive(sock: socket.socket, end: float) -> bytes:
    """Receives the content of an answer.

    Raises:
        EOFError: There is none.
        OSError: Likewise.
        ProtocolError: It is too long.
    """
    reader = FrameReader(MOST_ANSWERED)
    while True:
        sock.settimeout(_left(end))
        piece = sock.recv(min(reader.missing, _PIECE))
        if not piece:
            raise EOFError
        content = reader.take(piece)
        if content is not None:
            return content


def _left(end: float) -> float:
    """Seconds until the end.

    Raises:
        TimeoutError: It has come.
    """
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _why_silent(pid: int, who: str) -> str:
    found = processes.usage(pid)
    if found is not None and found.state in "tT":
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
            f"{who} did not answer: its runtime has just ended, or too many ask at once"
        )
    return f"{who} has ended while it was asked"


def _none_is_mine(found: Sequence[Address], me: int) -> str:
    if not found:
        return f"no runtime of the user {user_name(me)} is running here"
    named = ", ".join(
        f"pid {address.pid} ({user_name(address.uid)})" for address in found
    )
    return (
        f"no runtime of the user {user_name(me)} is running here, but of others: "
        f"{named}; they and root may ask those, by --pid"
    )
