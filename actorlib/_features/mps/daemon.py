"""Holds the owner's side of an MPS daemon: starts its keeper, asks it, hears of faults.

Starting takes as long as a fork. A client of the daemon waits itself until that is
ready, so nobody here does.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, final

from actorlib._loops.fork_copies import close_in_forks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from actorlib._features.mps.keeper import main; main()"
)
_LONGEST = 36
"""Letters of a folder in which sockets still have short enough names: they may have 107
in all, and NVIDIA's names lie two levels below."""
_PATIENCE = 5.0
"""Seconds after which nobody waits for an answer any more."""
_LEAVE = 20.0
_NOT_THEIRS = ("CUDA_", "ACTORLIB_WORKER")
"""How variables begin that a daemon would take for its own, or that say whose worker a
process is: the daemon of a runtime in a worker is ended by its keeper."""


@final
class MpsDaemon:
    """Runs a control daemon for one GPU, from its start to its end.

    Args:
        loop: The owner's loop.
        program: The control program.
        device: The UUID of the GPU.
        environ: The owner's variables.
        on_event: Called with ``"failed"`` and why the daemon never answered; with
            ``"gone"`` and why it is no more; or with ``"fault"`` and numbers that its
            log names. Once, and not after ``aclose``.

    Attributes:
        folder: Where it has its files.

    Raises:
        OSError: There can be no process.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        program: str,
        device: str,
        environ: Mapping[str, str],
        on_event: Callable[[str, str], None],
    ) -> None:
        self._loop = loop
        self._on_event = on_event
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._unread = b""
        place = environ.get("TMPDIR") or "/tmp"
        if len(place.encode()) > _LONGEST or not place.startswith("/"):
            place = "/tmp"
        self.folder = f"{place.rstrip('/')}/actorlib-mps-{os.urandom(8).hex()}"
        self._sock, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-c",
                        _BOOTSTRAP,
                        json.dumps(sys.path),
                        str(theirs.fileno()),
                        str(os.getpid()),
                        self.folder,
                        program,
                        device,
                    ],
                    pass_fds=[theirs.fileno()],
                    env={
                        k: v
                        for k, v in environ.items()
                        if not k.startswith(_NOT_THEIRS)
                    },
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError:
                self._sock.close()
                raise
        self._sock.setblocking(False)  # noqa: FBT003  # the socket API
        loop.add_reader(self._sock.fileno(), self._read)
        close_in_forks(self, MpsDaemon.close_in_fork)

    async def ask(self, verb: str, pid: int) -> None:
        """Asks the keeper something, and waits for its answer, but not for long.

        Args:
            verb: ``"end"`` or ``"check"``; see ``keeper``.
            pid: Of the worker.
        """
        try:
            self._sock.sendall(f"{verb} {pid}\n".encode())
        except OSError:  # it is gone, or so far behind that its buffer is full
            return
        answered = self._loop.create_future()
        self._waiting.setdefault(str(pid), []).append(answered)
        await asyncio.wait({answered}, timeout=_PATIENCE)

    def _read(self) -> None:
        try:
            data = self._sock.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._let_go()
            self._on_event("gone", "what kept the MPS daemon has ended")
            return
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            verb, _, rest = line.decode(errors="replace").partition(" ")
            if verb in ("ended", "checked"):
                for waiting in self._waiting.pop(rest, ()):
                    if not waiting.done():
                        waiting.set_result(None)
            elif verb != "ready":
                self._on_event(verb, rest)

    def _let_go(self) -> None:
        """Closes the socket: the keeper ends, and nobody waits for it any more."""
        if self._sock.fileno() < 0:
            return
        self._loop.remove_reader(self._sock.fileno())
        self.abandon()
        for waiting in (one for listed in self._waiting.values() for one in listed):
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    def abandon(self) -> None:
        """Has the keeper end, where the loop is closed."""
        with suppress(OSError):  # a fork may have a copy of it
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def close_in_fork(self) -> None:
        """In a fork: closes its copy of the parent's socket."""
        self._sock.close()
        self._process.returncode = 0  # it is no child of this process

    def wait(self) -> None:
        """Blocks until the keeper and the daemon are gone, and no file is left."""
        try:
            self._process.wait(_LEAVE)
        except subprocess.TimeoutExpired:
            self._process.kill()  # the kernel ends the daemon
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def aclose(self) -> None:
        """Ends the daemon."""
        self._let_go()
        await asyncio.to_thread(self.wait)
