"""Accepts clients of a runtime that has a name, on the owner's loop.

A client sends its versions of actorlib and Python in one frame of ``protocol``. Later
frames contain pickles, so the versions and the user have to be the same on both sides.
A connection without a valid question is closed after a while, and there are few such
connections at once.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast, final

from actorlib._base.log import warn
from actorlib._base.named_sockets import (
    NO_SIGNAL,
    close_listener,
    named_sockets,
    peer_pid,
    peer_uid,
)
from actorlib._loops.fork_copies import close_in_forks
from actorlib._queries.addresses import RUNTIMES
from actorlib._queries.client import named_process, user_name
from actorlib._queries.protocol import (
    MOST_ASKED,
    OK,
    OTHER_VERSION,
    REFUSED,
    FrameReader,
    OtherVersionError,
    answer_frame,
    read_question,
    version,
)
from actorlib.exceptions import ProtocolError, RuntimeAlreadyExistsError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable

ATTACH = "attach"
"""The verb with which a client attaches."""
LONGEST_PROGRAM = 200
"""Characters of a client's command line that are kept: at most 800 bytes."""
_LONGEST_REFUSAL = 1000
"""Characters of a refusal: a client reads at least as many bytes."""
_QUESTION_TIME = 5.0
"""Seconds in which the question has to arrive."""
_MOST = 64
"""The most connections without a complete question."""
_AT_ONCE = 16
"""The most connections in one turn of the loop: every user may connect."""
_PAUSE = 0.1
"""Seconds without accepting after descriptors have run out."""


class Caller(NamedTuple):
    """A process that attaches, as numbered here, and its connection.

    ``program`` is its own description of its program, in one line.
    """

    sock: socket.socket
    pid: int
    program: str


def python_version() -> str:
    """Returns the version of Python, as far as pickles depend on it."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


@final
class AttachServer:
    """Accepts clients of one runtime; used on its loop.

    It holds the name from its construction; connections wait until ``begin``.

    Raises:
        RuntimeAlreadyExistsError: This user has a runtime of that name.
        OSError: The socket cannot be made.
    """

    _refusal: Callable[[], str]
    _admit: Callable[[Caller], None]

    def __init__(self, name: str) -> None:
        self._loop: AbstractEventLoop | None = None
        self._name = name
        self._is_closed = False
        self._questions: set[_Question] = set()
        self._retry: TimerHandle | None = None
        try:
            self._listener, self._forget = named_sockets(RUNTIMES).listen(name)
        except FileExistsError:
            raise RuntimeAlreadyExistsError(_who_has(name)) from None
        close_in_forks(self._listener, socket.socket.close)
        self._listener.setblocking(False)  # noqa: FBT003  # the socket API

    def begin(
        self,
        loop: AbstractEventLoop,
        refusal: Callable[[], str],
        admit: Callable[[Caller], None],
    ) -> None:
        """Accepts clients from now on.

        Args:
            loop: The owner's loop.
            refusal: Returns why no client is accepted now; empty if clients are.
            admit: Receives each client, and owns its socket.
        """
        self._loop, self._refusal, self._admit = loop, refusal, admit
        loop.add_reader(self._listener.fileno(), self._let_in)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancel()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._listener.fileno())
        for question in [*self._questions]:
            question.end()
        close_listener(self._listener)
        self._forget()

    def _let_in(self) -> None:
        loop = cast("AbstractEventLoop", self._loop)
        for _ in range(_AT_ONCE):  # the others are accepted in the next turn
            try:
                caller, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # no descriptors: the loop would spin
                warn("runtime %r accepts no clients for now: %s", self._name, error)
                loop.remove_reader(self._listener.fileno())
                self._retry = loop.call_later(_PAUSE, self._listen_again, loop)
                return
            close_in_forks(caller, socket.socket.close)
            is_ours = peer_uid(caller) in (None, os.geteuid())
            if not is_ours or len(self._questions) >= _MOST:
                caller.close()
                continue
            over = self._questions.discard
            self._questions.add(_Question(loop, caller, self._answer, over))

    def _listen_again(self, loop: AbstractEventLoop) -> None:
        self._retry = None
        loop.add_reader(self._listener.fileno(), self._let_in)
        self._let_in()

    def _answer(self, sock: socket.socket, content: bytes) -> None:
        try:
            question = read_question(content)
        except OtherVersionError:
            _send(sock, OTHER_VERSION, version())
            return
        except ProtocolError as error:
            _send(sock, REFUSED, str(error))
            return
        if question.verb != ATTACH:
            _send(sock, REFUSED, f"there is no query {question.verb!r} here")
            return
        options = question.options
        here = {"version": version(), "python": python_version()}
        if any(options.get(name) != value for name, value in here.items()):
            _send(sock, REFUSED, self._other_version(options))
        elif reason := self._refusal():
            _send(sock, REFUSED, f"runtime {self._name!r} accepts no clients: {reason}")
        elif _send(sock, OK, here):
            program = options.get("program")
            text = program[:LONGEST_PROGRAM] if isinstance(program, str) else ""
            self._admit(Caller(sock, peer_pid(sock), text))

    def _other_version(self, client: dict[str, object]) -> str:
        return (
            f"runtime {self._name!r} (pid {os.getpid()}) runs actorlib {version()} on "
            f"Python {python_version()}, and this client has actorlib "
            f"{_short(client.get('version'))} on Python "
            f"{_short(client.get('python'))}: both have to be the same, so run both in "
            "one environment"
        )


@final
class _Question:
    """Reads the question from one connection.

    ``answer`` gets the connection and the question, and owns the connection. ``over``
    is called when nothing more is read here.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        caller: socket.socket,
        answer: Callable[[socket.socket, bytes], None],
        over: Callable[[_Question], None],
    ) -> None:
        caller.setblocking(False)  # noqa: FBT003  # the socket API
        self.caller = caller
        self._loop = loop
        self._answer = answer
        self._over = over
        self._reader = FrameReader(MOST_ASKED)
        self._timer = loop.call_later(_QUESTION_TIME, self.end)
        loop.add_reader(caller.fileno(), self._read)

    def end(self) -> None:
        """Closes the connection."""
        self._stop()
        self.caller.close()

    def _stop(self) -> None:
        self._timer.cancel()
        if not self._loop.is_closed():
            self._loop.remove_reader(self.caller.fileno())
        self._over(self)

    def _read(self) -> None:
        try:
            piece = self.caller.recv(self._reader.missing)
            content = self._reader.take(piece) if piece else None
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.end()
            return
        except ProtocolError as error:
            self._stop()
            _send(self.caller, REFUSED, str(error))
            return
        if not piece:
            self.end()
        elif content is not None:
            self._stop()
            self._answer(self.caller, content)


def _send(sock: socket.socket, outcome: str, value: object) -> bool:
    """Sends an answer, which fits into an empty socket; closes it after a refusal."""
    if outcome == REFUSED:
        value = str(value)[:_LONGEST_REFUSAL]
    with suppress(OSError):
        sock.send(answer_frame(outcome, value), NO_SIGNAL)
        if outcome == OK:
            return True
    sock.close()
    return False


def _short(value: object) -> str:
    return str(value)[:50]


def _who_has(name: str) -> str:
    """Describes the holder of a name, for the error."""
    uid: int | None = None
    pid = 0
    with (
        suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock,
    ):
        sock.settimeout(_QUESTION_TIME)
        sock.connect(named_sockets(RUNTIMES).place(name))
        uid, pid = peer_uid(sock), peer_pid(sock)
    if uid not in (None, os.geteuid()):
        return (
            f"the name {name!r} for a runtime is taken by a process of the user "
            f"{user_name(uid)}, who should not have it: choose another one"
        )
    who = named_process(pid) if pid else "another process of this user"
    return (
        f"the name {name!r} is that of a runtime of {who}: be a client of it by "
        f"actorlib.attach({name!r}), or choose another name"
    )
