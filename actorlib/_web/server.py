"""Listens where the page is to be, and serves it in a thread of its own.

The thread sleeps until somebody comes. It serves while the loop of the program is
blocked, and has nothing to do with signals or with logging, which are the program's.
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
"""Seconds that whoever ends the page waits for its thread."""


def check_installed(who: str) -> None:
    """Makes sure that what serves the page is installed.

    Args:
        who: What needs it, for the message.

    Raises:
        ImportError: It is not.
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

    It listens at once, and what comes before ``start`` waits.

    Args:
        address: Where.
        who: What has asked for it, for messages.

    Attributes:
        place: Its address, without the token.
        url: The whole address.

    Raises:
        ImportError: What serves it is not installed.
        OSError: Nobody can listen there.
    """

    def __init__(self, address: WebAddress, who: str) -> None:
        check_installed(who)
        self._address = address
        self._token = secrets.token_urlsafe()
        self._socket = _listening(address, who)
        close_in_forks(self._socket, socket.socket.close)
        host, port = self._socket.getsockname()[:2]
        if host in _EVERYWHERE:  # no browser goes there
            shown = WebAddress(socket.gethostname(), port)
        else:
            shown = address._replace(port=port)
        self.place = f"http://{shown}/"
        self.url = f"{self.place}?token={self._token}"
        self._is_over = False
        self._has_ended = threading.Event()
        self._stop: Callable[[], object] | None = None
        self._thread: threading.Thread | None = None

    def start(self, ask: Ask) -> None:
        """Begins to serve.

        Args:
            ask: Asks the runtime.

        Raises:
            RuntimeError: There can be no thread.
        """
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
                "not encrypted, and whoever learns its address can look into the "
                "runtime and end actors",
                self.place,
            )

    def close(self) -> None:
        """Ends it; whoever watches is let go."""
        self._is_over = True
        if self._stop is not None:
            with suppress(RuntimeError):  # its loop has ended by itself
                self._stop()
        if self._thread is not None and self._has_ended.wait(_PATIENCE):
            self._thread.join()
        self._socket.close()

    def announce(self) -> None:
        """Says where it is: to the log without the token, which is for a terminal."""
        _log.info("the page of this runtime is at %s", self.place)
        with suppress(OSError, ValueError, AttributeError):  # there may be no stream
            sys.stderr.write(f"actorlib: the page of this runtime is at {self.url}\n")
            sys.stderr.flush()

    def wait(self) -> None:
        """Blocks until it has ended."""
        # Not by join, which takes a thread for ended once Ctrl-C has interrupted it.
        self._has_ended.wait()

    def _run(self, ask: Ask) -> None:
        try:
            asyncio.run(self._serve(ask))
        finally:
            self._has_ended.set()

    async def _serve(self, ask: Ask) -> None:
        from actorlib._web.application import Application  # noqa: PLC0415  # few serve
        from actorlib._web.guard import Admission  # noqa: PLC0415  # likewise
        from actorlib._web.uvicorn_server import QuietServer  # noqa: PLC0415  # likewise
        from actorlib._web.watch import Watch  # noqa: PLC0415  # likewise

        names = frozenset[str]()
        if not self._address.is_loopback:  # else nobody is asked for names
            names = frozenset({socket.gethostname(), socket.getfqdn()})
        admission = Admission(self._token, self._address, names)
        watch = Watch(ask)
        server = QuietServer(Application(ask, watch, admission).asgi)
        loop = asyncio.get_running_loop()

        def stop() -> None:
            watch.close()
            server.over.set()

        self._stop = lambda: loop.call_soon_threadsafe(stop)
        if not self._is_over:  # before there was anything to stop
            await server.serve_on(self._socket)


def _listening(address: WebAddress, who: str) -> socket.socket:
    """A socket that listens.

    Raises:
        OSError: There can be none, which it says with the address.
    """
    try:
        found: list[Any] = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM
        )
        family, _, _, _, place = found[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            # Where a server was a moment ago another may be at once.
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
