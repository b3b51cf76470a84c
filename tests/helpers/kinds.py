"""The cells of the contract that a test is for; see ``contract/conftest.py``."""

from __future__ import annotations

import pytest


def kinds(*names: str) -> pytest.MarkDecorator:
    """Runs a test for some kinds of callees alone."""
    return pytest.mark.parametrize("callee", names, indirect=True)


CONTRACT = [
    pytest.mark.process,
    pytest.mark.usefixtures("runtime"),
    pytest.mark.asyncio(loop_scope="module"),
]
"""The marks of a file of the contract."""

ACTORS = kinds("plain", "threaded", "async", "group")
ALL_ACTORS = kinds("plain", "threaded", "async", "group", "mixed")
FEW_KINDS = kinds("function", "plain", "async")
TWO_KINDS = kinds("plain", "async")
PLAIN = kinds("plain")
ASYNC = kinds("async")
STREAMING = kinds("function", "plain", "threaded", "async", "group", "looped")
"""The kinds that differ in how they yield."""

OWN_ENGINES = pytest.mark.own_engines
"""Not on Ray: it is up to Ray there, or another test shows that it is the same."""
STREAMS = pytest.mark.streams
"""Not with Ray's client, which refuses streams."""
AWAITING = pytest.mark.awaiting_api
"""With the async API alone."""
BLOCKING = pytest.mark.blocking_api
"""With the blocking API alone."""
