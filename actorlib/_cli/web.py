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


def serve(*, pid: int | None, host: str, port: int) -> None:
    """Prints the address of the page, and serves it until it is interrupted."""
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
