"""Opens a runtime's door, and sleeps behind it until somebody knocks.

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
from actorlib._door.addresses import DOORS
from actorlib._loops.fork_copies import close_in_forks

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._core.engine import RuntimeEngine
    from actorlib._door.queries import FindQuery
    from actorlib._door.service import Service

_PATIENCE = 2.0
"""Seconds that the end of a runtime waits for who serves; it sleeps, or is about to."""
_PAUSE = 0.05


def open_door(
    engine: RuntimeEngine, find_query: FindQuery
) -> Callable[[], None] | None:
    """Opens the door of a runtime; called by the thread of its loop.

    Args:
        engine: The runtime.
        find_query: Finds what answers a question.

    Returns:
        Closes it; None if it cannot be opened, of which the log tells: the runtime
        works without.
    """
    try:
        door = Door(engine, find_query)
    except (OSError, RuntimeError) as error:  # RuntimeError: no thread can be started
        warn("nobody can look into this runtime from outside: %s", error)
        return None
    return door.close


@final
class Door:
    """The door of one runtime.

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
        name, sockets = f"{os.getpid()}-{os.urandom(4).hex()}", named_sockets(DOORS)
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
        """Sleeps until somebody knocks, and serves then; runs in the door's thread."""
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
            from actorlib._door.service import Service  # noqa: PLC0415  # few are asked

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
