"""Runs uvicorn without its effects on the program.

By default it handles signals, wakes ten times a second to check for its end, and writes
to loggers that the program's own uvicorn shares: its access log would contain addresses
with the token.
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
"""The most connections."""
_SILENCE = 5
"""Seconds for which a connection may be silent."""
_PATIENCE = 1
"""Seconds for unfinished answers at the end."""


class _GuardedProtocol(H11Protocol):
    """Serves one connection, from any user of the machine.

    Invalid requests are not logged. Silent connections, incomplete requests and
    connections beyond the limit are closed, to save the descriptors of the program.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.access_log = False
        self.logger = _ERRORS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts or closes the connection."""
        super().connection_made(transport)
        if len(self.connections) > _MOST:
            transport.abort()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def data_received(self, data: bytes) -> None:
        """Reads a piece of a request, which has to be complete within ``_SILENCE``.

        uvicorn itself waits for the rest of a request without limit.
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
    """Serves an application until ``over`` is set, on its loop."""

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
        """Serves on a listening socket, and closes it at the end."""
        here = threading.get_ident()

        def is_others(record: logging.LogRecord) -> bool:
            return record.thread != here or record.levelno >= logging.WARNING

        _LOG.addFilter(is_others)
        try:
            await self.serve(sockets=[sock])
        finally:
            _LOG.removeFilter(is_others)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends all connections; uvicorn's own method sleeps meanwhile."""
        for server in self.servers:
            server.close()
        for sock in sockets or ():
            sock.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=_PATIENCE)
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # the client has not read the answer
        for _ in "ab":  # the callbacks of closed connections run in the next turn
            await asyncio.sleep(0)

    async def main_loop(self) -> None:
        """Waits for the end."""
        await self.over.wait()
