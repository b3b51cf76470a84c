"""Has uvicorn serve, without what it does to the program around it.

By itself it takes signals, wakes ten times a second to look whether it is to end, and
writes to loggers that the program's own uvicorn has too: addresses, and with them the
token, would be in its access log.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any, cast, final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

_LOG = logging.getLogger("uvicorn.error")
_ERRORS = logging.getLogger("actorlib.page")
_ERRORS.setLevel(logging.ERROR)
_MOST = 64
"""How many connections there may be at once."""
_SILENCE = 5
"""Seconds for which a connection may say nothing."""
_PATIENCE = 1
"""Seconds that answers under way are given at the end."""


class _GuardedProtocol(H11Protocol):
    """Serves one connection, which anybody on the machine may have opened.

    What makes no sense is not logged, and who says nothing, does not end what they say,
    or comes when there are many already, is sent away: the descriptors of the program
    are not theirs.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.access_log = False
        self.logger = _ERRORS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a connection, or not."""
        super().connection_made(transport)
        if len(self.connections) > _MOST:
            transport.abort()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def data_received(self, data: bytes) -> None:
        """Reads a piece of a request, which has to be whole as soon as if it were none.

        By itself uvicorn waits for the rest of one for ever.
        """
        timer = self.timeout_keep_alive_task
        # uvloop's handle has no ``when()`` if it is due at once.
        end = None if timer is None else getattr(timer, "when", self.loop.time)()
        super().data_received(data)
        cycle = cast("RequestResponseCycle | None", self.cycle)
        is_answering = cycle is not None and not cycle.response_complete
        if end is None or is_answering or self.timeout_keep_alive_task is not None:
            return
        self.timeout_keep_alive_task = self.loop.call_at(
            end, self.timeout_keep_alive_handler
        )


@final
class QuietServer(uvicorn.Server):
    """Serves until it is over.

    Args:
        application: What is served.

    Attributes:
        over: To be set on its loop, when it is to end.
    """

    def __init__(self, application: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http=_GuardedProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level=None,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_keep_alive=_SILENCE,
            )
        )
        self.over = asyncio.Event()

    async def serve_on(self, sock: socket.socket) -> None:
        """Serves on a socket that listens, and closes it at the end."""
        here = threading.get_ident()

        def is_others(record: logging.LogRecord) -> bool:
            return record.thread != here or record.levelno >= logging.WARNING

        _LOG.addFilter(is_others)
        try:
            await self.serve(sockets=[sock])
        finally:
            _LOG.removeFilter(is_others)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends all connections; uvicorn's own way sleeps meanwhile."""
        for server in self.servers:
            server.close()
        for sock in sockets or ():
            sock.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=_PATIENCE)
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # who has not read the end by now
        for _ in "ab":  # what ends a connection is called in the next turn
            await asyncio.sleep(0)

    async def main_loop(self) -> None:
        """Waits for the end."""
        await self.over.wait()
