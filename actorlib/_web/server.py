"""Listens at the address of the page, and serves it in a thread of its own.

The thread sleeps until a client connects. It serves even while the loop of the program
is blocked, and leaves the signals and the logging of the program alone.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, final

from actorlib._base.log import warn
from actorlib._loops.fork_copies import close_in_forks
from actorlib._web.address import WebAddress

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._web.watch import Ask

_log = logging.getLogger("actorlib")
_NEEDED = ("starlette", "uvicorn")
_BACKLOG = 64
_EVERYWHERE = ("0.0.0.0", "::")
_PATIENCE = 5.0
"""Seconds for which ``close`` waits for the thread."""


def check_installed(who: str) -> None:
    """Makes sure that the packages for the page are installed.

    The message names the option or command that needs them.

    Raises:
        ImportError: They are not.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"{who} needs {' and '.join(missing)}, which this Python "
            f"({sys.executable}) does not have: pip install 'actorlib[web]'"
        )


@final
class PageServer:
    """Serves one page.

    It listens from its construction; connections wait until ``start``.

    Args:
        address: The host and port.
        who: The option or command that needs it, for messages.

    Attributes:
        place: Its address, without the token.
        url: The whole address.

    Raises:
        ImportError: The packages for the page are not installed.
        OSError: The address cannot be used.
    """

    def __init__(self, address: WebAddress, who: str) -> None:
        check_installed(who)
        self._address = address
        self._token = secrets.token_urlsafe()
        self._socket = _listen(address, who)
        close_in_forks(self._socket, socket.socket.close)
        host, port = self._socket.getsockname()[:2]
        if host in _EVERYWHERE:  # browsers cannot connect to this
            address = WebAddress(socket.gethostname(), port)
        else:
            address = address._replace(port=port)
        self.place = f"http://{address}/"
        self.url = f"{self.place}?token={self._token}"
        self._is_over = False
        self._has_ended = threading.Event()
        self._stop: Callable[[], object] | None = None
        self._thread: threading.Thread | None = None

    def start(self, ask: Ask) -> None:
        """Begins to serve; raises RuntimeError if the thread cannot be started."""
        self._thread = threading.Thread(
            target=self._run,
            args=(ask,),
            name="actorlib page",
            daemon=True,
        )
        self._thread.start()
        if not self._address.is_loopback:
            warn(
                "the page of this runtime listens on %s, beyond this machine: it is "
                "not encrypted, and everyone with its address can inspect the runtime "
                "and kill actors",
                self.place,
            )

    def close(self) -> None:
        """Ends it, and all connections."""
        self._is_over = True
        if self._stop is not None:
            with suppress(RuntimeError):  # its loop has ended
                self._stop()
        if self._thread is not None and self._has_ended.wait(_PATIENCE):
            self._thread.join()
        self._socket.close()

    def announce(self) -> None:
        """Logs its address without the token, and prints it with the token."""
        _log.info("the page of this runtime is at %s", self.place)
        with suppress(OSError, ValueError, AttributeError):  # there may be no stream
            sys.stderr.write(f"actorlib: the page of this runtime is at {self.url}\n")
            sys.stderr.flush()

    def wait(self) -> None:
        """Blocks until it has ended."""
        # Not by join: after Ctrl-C, join takes the thread for ended.
        self._has_ended.wait()

    def _run(self, ask: Ask) -> None:
        try:
            asyncio.run(self._serve(ask))
        finally:
            self._has_ended.set()

    async def _serve(self, ask: Ask) -> None:
        from actorlib._web.application import Application  # noqa: PLC0415  # few serve
        from actorlib._web.guard import Admission  # noqa: PLC0415  # as above
        from actorlib._web.uvicorn_server import QuietServer  # noqa: PLC0415  # as above
        from actorlib._web.watch import Watch  # noqa: PLC0415  # as above

        names = frozenset[str]()
        if not self._address.is_loopback:  # looking names up may take long
            names = frozenset({socket.gethostname(), socket.getfqdn()})
        admission = Admission(self._token, self._address, names)
        watch = Watch(ask)
        server = QuietServer(Application(ask, watch, admission).asgi)
        loop = asyncio.get_running_loop()

        def stop() -> None:
            watch.close()
            server.over.set()

        self._stop = lambda: loop.call_soon_threadsafe(stop)
        if not self._is_over:  # it was closed before there was a server
            await server.serve_on(self._socket)


def _listen(address: WebAddress, who: str) -> socket.socket:
    """Opens a listening socket.

    Raises:
        OSError: The address cannot be used; the message contains it.
    """
    try:
        places: list[Any] = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM
        )
        family, _, _, _, place = places[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            # Allows the port of a server that has just ended.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(place)
            sock.listen(_BACKLOG)
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        raise OSError(
            error.errno,
            f"{who} cannot listen on {address}: {error.strerror}. Port 0 takes a free "
            "one",
        ) from error
    return sock
