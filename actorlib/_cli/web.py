"""Serves the page of a runtime for a browser: ``actorlib top --web``."""

from __future__ import annotations

import sys
from functools import partial

from actorlib._features.runtime import explain_missing
from actorlib._queries.client import ask, the_runtime

_WHO = "actorlib top --web"

with explain_missing(_WHO):
    from actorlib._web.address import WebAddress
    from actorlib._web.server import PageServer, check_installed


def serve(*, pid: int | None = None, host: str = "127.0.0.1", port: int = 0) -> int:
    """Serves the page until it is interrupted, and prints its address.

    Args:
        pid: The process of the runtime, if there are several.
        host: The address to listen at. Default: this machine only.
        port: The port; 0 for a free one.

    Returns:
        The exit code, 0.

    Raises:
        RuntimeNotFoundError: There is no such runtime.
        RuntimeUnreachableError: It belongs to another user.
        ValueError: The packages for the page are not installed.
        OSError: The address cannot be used.
    """
    try:
        check_installed(_WHO)
    except ImportError as error:
        raise ValueError(str(error)) from None
    address = the_runtime(pid)
    server = PageServer(WebAddress(host, port), _WHO)
    try:
        server.start(partial(ask, address))
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        server.wait()
    finally:
        server.close()
    return 0
