"""The owner's side of an MPS daemon: starts its keeper, sends requests, gets faults.

Starting takes as long as a fork. A client of the daemon waits itself until the daemon
is ready, so the owner does not.
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

from actorlib._base.import_path import import_path
from actorlib._base.named_sockets import NO_SIGNAL
from actorlib._loops.fork_copies import close_in_forks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from actorlib._features.mps.keeper import main; main()"
)
_LONGEST = 36
"""The longest name of a folder for sockets: their paths may have 107 characters, and
NVIDIA's names are two levels below."""
_PATIENCE = 5.0
"""Seconds to wait for an answer."""
_LEAVE = 20.0
_REMOVED = ("CUDA_", "ACTORLIB_WORKER")
"""The prefixes of variables that a daemon would apply to itself, or that mark a
process of a worker: the keeper, not the worker's owner, ends the daemon."""


@final
class MpsDaemon:
    """Runs a control daemon for one GPU, from its start to its end.

    Args:
        on_event: Called with ``"failed"`` and why the daemon never answered; with
            ``"gone"`` and why it has ended; or with ``"fault"`` and the numbers in its
            log. Once, and not after ``aclose``.

    Attributes:
        folder: The folder of its files.

    Raises:
        OSError: No process can be started.
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
                        json.dumps(import_path()),
                        str(theirs.fileno()),
                        str(os.getpid()),
                        self.folder,
                        program,
                        device,
                    ],
                    pass_fds=[theirs.fileno()],
                    env={
                        k: v for k, v in environ.items() if not k.startswith(_REMOVED)
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

    async def ask(self, request: str, pid: int) -> None:
        """Sends the request ``"end"`` or ``"check"`` for a worker to the keeper.

        Waits for the answer within a limit; see ``keeper``.
        """
        try:
            self._sock.sendall(f"{request} {pid}\n".encode(), NO_SIGNAL)
        except OSError:  # it has ended, or its buffer is full
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
            self._close()
            self._on_event("gone", "the keeper of the MPS daemon has ended")
            return
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            kind, _, rest = line.decode(errors="replace").partition(" ")
            if kind in ("ended", "checked"):
                for waiting in self._waiting.pop(rest, ()):
                    if not waiting.done():
                        waiting.set_result(None)
            elif kind != "ready":
                self._on_event(kind, rest)

    def _close(self) -> None:
        """Closes the socket: the keeper ends, and all requests are answered."""
        if self._sock.fileno() < 0:
            return
        self._loop.remove_reader(self._sock.fileno())
        self.abandon()
        for waiting in (one for listed in self._waiting.values() for one in listed):
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    def abandon(self) -> None:
        """Ends the keeper, because the loop is closed."""
        with suppress(OSError):  # a fork may have a copy of it
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def close_in_fork(self) -> None:
        """Closes the fork's copy of the parent's socket."""
        self._sock.close()
        self._process.returncode = 0  # it is not a child of this process

    def wait(self) -> None:
        """Blocks until the keeper and the daemon have ended; removes their files."""
        try:
            self._process.wait(_LEAVE)
        except subprocess.TimeoutExpired:
            self._process.kill()  # the kernel ends the daemon
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def aclose(self) -> None:
        self._close()
        await asyncio.to_thread(self.wait)
