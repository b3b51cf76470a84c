"""Opens a runtime's server, and sleeps behind it until a client connects.

It is served by a thread, so that it answers while the owner's loop is blocked, which is
when somebody asks. Until then the thread sleeps in ``accept``: nothing is looked at,
nothing counted, nothing imported that serving needs, and no call knows of it.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from _thread import start_new_thread
from contextlib import suppress
from typing import TYPE_CHECKING, final

from actorlib._base.log import warn
from actorlib._base.named_sockets import named_sockets
from actorlib._loops.fork_copies import close_in_forks
from actorlib._queries.addresses import QUERY_SOCKETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._core.engine import RuntimeEngine
    from actorlib._queries.queries import FindQuery
    from actorlib._queries.service import Service

_PATIENCE = 2.0
"""Seconds that the end of a runtime waits for who serves; it sleeps, or is about to."""
_PAUSE = 0.05


def open_server(
    engine: RuntimeEngine, find_query: FindQuery
) -> Callable[[], None] | None:
    """Opens the server of a runtime; called by the thread of its loop.

    Args:
        engine: The runtime.
        find_query: Finds what answers a question.

    Returns:
        Closes it; None if it cannot be opened, of which the log tells: the runtime
        works without.
    """
    try:
        server = QueryServer(engine, find_query)
    except (OSError, RuntimeError) as error:  # RuntimeError: no thread can be started
        warn("nobody can look into this runtime from outside: %s", error)
        return None
    return server.close


@final
class QueryServer:
    """The server of one runtime.

    Args:
        engine: The runtime.
        find_query: Finds what answers a question.

    Raises:
        OSError: There can be no socket.
        RuntimeError: There can be no thread.
    """

    def __init__(self, engine: RuntimeEngine, find_query: FindQuery) -> None:
        self._engine = engine
        self._find_query = find_query
        self._loop_thread = threading.get_ident()
        self._is_closed = False
        self._service: Service | None = None
        # Containers may share a network and count their processes alike.
        name = f"{os.getpid()}-{os.urandom(4).hex()}"
        sockets = named_sockets(QUERY_SOCKETS)
        self._listener, self._forget = sockets.listen(name)
        close_in_forks(self._listener, socket.socket.close)
        self._place = sockets.place(name)
        self._works = threading.Lock()
        self._works.acquire()
        try:
            # threading.Thread waits until the thread runs, which may take milliseconds
            # where many processes do.
            start_new_thread(self._wait, ())
        except BaseException:
            self._listener.close()
            self._forget()
            raise

    def close(self) -> None:
        """Closes it; whoever is being served is let go."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(OSError):  # on Linux that wakes who sleeps in accept
            self._listener.shutdown(socket.SHUT_RDWR)
        self._knock()
        self._works.acquire(timeout=_PATIENCE)  # the thread's last act is to release it
        self._listener.close()
        self._forget()

    def _wait(self) -> None:
        """Sleeps until somebody connects, and serves; runs in the server's thread."""
        try:
            while not self._is_closed:
                self._let_in()
        finally:
            self._works.release()

    def _let_in(self) -> None:
        try:
            knocking, _ = self._listener.accept()
        except OSError:  # it is being closed, or descriptors are short
            if not self._is_closed:
                time.sleep(_PAUSE)
            return
        try:
            if not self._is_closed:
                self._serve(knocking)
        except (OSError, ImportError):
            # Descriptors are short, also for what serving imports; the next one may
            # have more luck.
            time.sleep(_PAUSE)
        finally:
            knocking.close()

    def _serve(self, knocking: socket.socket) -> None:
        if self._service is None:
            from actorlib._queries.service import Service  # noqa: PLC0415  # few are asked

            self._service = Service(
                self._engine,
                self._find_query,
                self._listener,
                self._loop_thread,
                wake=self._knock,
                is_over=lambda: self._is_closed,
            )
        self._service.serve(knocking)

    def _knock(self) -> None:
        """Wakes the thread, as anybody does who connects; from any thread."""
        with (
            suppress(OSError),  # so many are knocking that it is awake
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock,
        ):
            sock.setblocking(False)  # noqa: FBT003  # the socket API
            sock.connect(self._place)
