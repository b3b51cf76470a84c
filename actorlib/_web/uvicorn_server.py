"""Has uvicorn serve, without what it does to the program around it.

By itself it takes signals, wakes ten times a second to look whether it is to end, and
writes to loggers that the program's own uvicorn has too: addresses, and with them the
token, would be in its access log.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any, final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

_LOG = logging.getLogger("uvicorn.error")
_MOST = 64
"""How many connections there may be at once."""
_PATIENCE = 1
"""Seconds that answers under way are given at the end."""


class _UnloggedProtocol(H11Protocol):
    """Serves one connection, and tells no log of it."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.access_log = False


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
                http=_UnloggedProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level=None,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                limit_concurrency=_MOST,
                timeout_graceful_shutdown=_PATIENCE,
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

    async def main_loop(self) -> None:
        """Waits for the end."""
        await self.over.wait()
