"""Opens the server of a runtime, and sleeps until a client connects.

A thread serves clients, so that it answers while the owner's loop is blocked, which is
when users ask. Until a client connects, the thread sleeps in ``accept``: it counts
nothing, imports nothing that serving needs, and costs calls nothing.
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
"""Seconds for which the end of a runtime waits for the thread."""
_PAUSE = 0.05


def open_server(
    engine: RuntimeEngine, find_query: FindQuery
) -> Callable[[], None] | None:
    """Opens the server of a runtime; called by the thread of its loop.

    Returns:
        A function that closes it. None if it cannot be opened: that is logged, and the
        runtime works without it.
    """
    try:
        server = QueryServer(engine, find_query)
    except (OSError, RuntimeError) as error:  # RuntimeError: no thread can be started
        warn("this runtime answers no queries from outside: %s", error)
        return None
    return server.close


@final
class QueryServer:
    """The server of one runtime.

    Raises:
        OSError: The socket cannot be made.
        RuntimeError: The thread cannot be started.
    """

    def __init__(self, engine: RuntimeEngine, find_query: FindQuery) -> None:
        self._engine = engine
        self._find_query = find_query
        self._loop_thread = threading.get_ident()
        self._is_closed = False
        self._service: Service | None = None
        # Containers may share a network and number their processes alike.
        name = f"{os.getpid()}-{os.urandom(4).hex()}"
        sockets = named_sockets(QUERY_SOCKETS)
        self._listener, self._forget = sockets.listen(name)
        close_in_forks(self._listener, socket.socket.close)
        self._place = sockets.place(name)
        self._works = threading.Lock()
        self._works.acquire()
        try:
            # threading.Thread waits until the thread runs, which takes milliseconds
            # where many processes run.
            start_new_thread(self._wait, ())
        except BaseException:
            self._listener.close()
            self._forget()
            raise

    def close(self) -> None:
        """Closes it, and the connections of its clients."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(OSError):  # on Linux this wakes a thread in accept
            self._listener.shutdown(socket.SHUT_RDWR)
        self._wake()
        self._works.acquire(timeout=_PATIENCE)  # the thread's last act is to release it
        self._listener.close()
        self._forget()

    def _wait(self) -> None:
        """Serves clients; the server's thread runs this."""
        try:
            while not self._is_closed:
                self._let_in()
        finally:
            self._works.release()

    def _let_in(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:  # it is being closed, or descriptors have run out
            if not self._is_closed:
                time.sleep(_PAUSE)
            return
        try:
            if not self._is_closed:
                self._serve(client)
        except (OSError, ImportError):  # descriptors have run out, even for imports
            time.sleep(_PAUSE)
        finally:
            client.close()

    def _serve(self, client: socket.socket) -> None:
        if self._service is None:
            from actorlib._queries.service import Service  # noqa: PLC0415  # few need it

            self._service = Service(
                self._engine,
                self._find_query,
                self._listener,
                self._loop_thread,
                wake=self._wake,
                is_over=lambda: self._is_closed,
            )
        self._service.serve(client)

    def _wake(self) -> None:
        """Wakes the thread by a connection; from any thread."""
        with (
            suppress(OSError),  # its queue of connections is full, so it is awake
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock,
        ):
            sock.setblocking(False)  # noqa: FBT003  # the socket API
            sock.connect(self._place)
