"""Lets clients into a runtime that has a name, on the owner's loop.

Who connects says in one frame of the server's agreement which actorlib and which Python
it is. What it and the owner send one another from then on is pickled, in places, so
both have to be the same on both sides, and the user, too. Who says nothing, or
nonsense, is sent away after a while, and there are few such at once.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast, final

from actorlib._base.log import warn
from actorlib._base.named_sockets import close_listener, named_sockets
from actorlib._loops.fork_copies import close_in_forks
from actorlib._queries.addresses import RUNTIMES, peer_pid, peer_uid
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
"""The verb by which a client asks to be let in."""
LONGEST_PROGRAM = 200
"""Characters of a client's command line that are kept: 800 bytes at the most."""
_LONGEST_REFUSAL = 1000
"""Characters of a refusal: as bytes they are fewer than a client reads."""
_ASKING = 5.0
"""Seconds that the question may take to come."""
_MOST = 64
"""How many may be about to ask."""
_AT_ONCE = 16
"""How many are let in at one turn of the loop: anybody on the machine may come."""
_PAUSE = 0.1
"""Seconds after which it looks again where descriptors are short."""


class Caller(NamedTuple):
    """A process that asks to be a client.

    Attributes:
        sock: The connection to it.
        pid: The process, as this one counts it.
        program: What it says that it runs, in one line.
    """

    sock: socket.socket
    pid: int
    program: str


def python_version() -> str:
    """Says which Python this is, as far as it matters to what is pickled."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


@final
class AttachServer:
    """Lets clients into one runtime; used on its loop.

    From the beginning it has the name; who comes before ``begin`` waits.

    Args:
        name: The name of the runtime.

    Raises:
        RuntimeAlreadyExistsError: This user has a runtime of that name.
        OSError: There can be no socket.
    """

    _refusal: Callable[[], str]
    _admit: Callable[[Caller], None]

    def __init__(self, name: str) -> None:
        self._loop: AbstractEventLoop | None = None
        self._name = name
        self._is_closed = False
        self._callers: dict[_Asking, None] = {}
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
        """Lets clients in from now on.

        Args:
            loop: The owner's loop.
            refusal: Says why nobody is let in now; empty if somebody may be.
            admit: Gets each client, and its socket with it.
        """
        self._loop, self._refusal, self._admit = loop, refusal, admit
        loop.add_reader(self._listener.fileno(), self._let_in)

    def close(self) -> None:
        """Lets nobody in any more."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancel()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._listener.fileno())
        for asking in [*self._callers]:
            asking.end()
        close_listener(self._listener)
        self._forget()

    def _let_in(self) -> None:
        loop = cast("AbstractEventLoop", self._loop)
        for _ in range(_AT_ONCE):  # whoever is left is let in at the next turn
            try:
                caller, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # descriptors are short: it would not sleep
                warn("runtime %r lets nobody in for now: %s", self._name, error)
                loop.remove_reader(self._listener.fileno())
                self._retry = loop.call_later(_PAUSE, self._listen_again, loop)
                return
            close_in_forks(caller, socket.socket.close)
            is_ours = peer_uid(caller) in (None, os.geteuid())
            if not is_ours or len(self._callers) >= _MOST:
                caller.close()
                continue
            asking = _Asking(loop, caller, self._answer, self._forget_caller)
            self._callers[asking] = None

    def _listen_again(self, loop: AbstractEventLoop) -> None:
        self._retry = None
        loop.add_reader(self._listener.fileno(), self._let_in)
        self._let_in()

    def _forget_caller(self, asking: _Asking) -> None:
        self._callers.pop(asking, None)

    def _answer(self, sock: socket.socket, content: bytes) -> None:
        """Answers who has asked, and lets them in, or not."""
        try:
            question = read_question(content)
        except OtherVersionError:
            _send(sock, OTHER_VERSION, version())
            return
        except ProtocolError as error:
            _send(sock, REFUSED, str(error))
            return
        if question.verb != ATTACH:
            _send(sock, REFUSED, f"nobody is asked {question.verb!r} here")
            return
        said = question.options
        here = {"version": version(), "python": python_version()}
        if any(said.get(what) != value for what, value in here.items()):
            _send(sock, REFUSED, self._other_version(said))
        elif reason := self._refusal():
            _send(sock, REFUSED, f"runtime {self._name!r} lets nobody in: {reason}")
        elif _send(sock, OK, here):
            program = said.get("program")
            text = program[:LONGEST_PROGRAM] if isinstance(program, str) else ""
            self._admit(Caller(sock, peer_pid(sock), text))

    def _other_version(self, said: dict[str, object]) -> str:
        return (
            f"runtime {self._name!r} (pid {os.getpid()}) runs actorlib {version()} on "
            f"Python {python_version()}, and this client has actorlib "
            f"{_short(said.get('version'))} on Python {_short(said.get('python'))}: "
            "both have to be "
            "the same, so run both in one environment"
        )


@final
class _Asking:
    """Reads the question of one who has connected.

    Args:
        loop: The owner's loop.
        caller: The connection.
        answer: Gets it, and what was asked; it closes it, or keeps it.
        over: Told that nothing is read here any more.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        caller: socket.socket,
        answer: Callable[[socket.socket, bytes], None],
        over: Callable[[_Asking], None],
    ) -> None:
        caller.setblocking(False)  # noqa: FBT003  # the socket API
        self.caller = caller
        self._loop = loop
        self._answer = answer
        self._over = over
        self._reader = FrameReader(MOST_ASKED)
        self._timer = loop.call_later(_ASKING, self.end)
        loop.add_reader(caller.fileno(), self._read)

    def end(self) -> None:
        """Sends it away."""
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
    """Sends an answer, for which an empty socket has room; closes it if it is a no."""
    if outcome == REFUSED:
        value = str(value)[:_LONGEST_REFUSAL]
    with suppress(OSError):
        sock.send(answer_frame(outcome, value))
        if outcome == OK:
            return True
    sock.close()
    return False


def _short(value: object) -> str:
    """Shortens what a client says, so that a sentence about it has room."""
    return str(value)[:50]


def _who_has(name: str) -> str:
    """Says who has a name that is taken."""
    uid: int | None = None
    pid = 0
    with (
        suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock,
    ):
        sock.settimeout(_ASKING)
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
