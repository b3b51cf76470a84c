"""Sends queries to a runtime from another thread of its own process.

The queries and the answers are those of the server, which need not be open.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, final

from actorlib._queries.protocol import OK, REFUSED, VERSION, Answer
from actorlib._queries.queries import begin_query
from actorlib._queries.service import LoopRequests
from actorlib.exceptions import RuntimeUnreachableError

if TYPE_CHECKING:
    from actorlib._core.engine import RuntimeEngine
    from actorlib._queries.queries import FindQuery
    from actorlib._queries.service import LoopRequest

_OVER = "this runtime has ended"


@final
class LocalClient:
    """Sends queries to the runtime of this process; made by the thread of its loop."""

    def __init__(self, engine: RuntimeEngine, find_query: FindQuery) -> None:
        self._engine = engine
        self._find_query = find_query
        self._loop_thread = threading.get_ident()
        self._answered = threading.Condition()
        self._requests = LoopRequests(engine.loop, self._wake)
        self._is_over = False

    def ask(self, verb: str, /, *, patience: float = 1.0, **options: Any) -> Answer:
        """Sends a query and waits for the answer; not for the thread of the loop.

        Like ``client.ask``; RuntimeUnreachableError means that the runtime has ended.
        """
        query = begin_query(self._find_query, self._engine, verb, options)
        if query.on_loop is None:
            return Answer(VERSION, OK, query.finish(None))
        try:
            request = self._requests.ask(query.on_loop, time.monotonic())
        except RuntimeError:
            raise RuntimeUnreachableError(_OVER) from None
        with self._answered:
            self._wait_for(request, patience)
            if request.has_begun and not request.is_done:
                self._requests.probe(request, time.monotonic())
                self._wait_for(request, query.takes)
        if request.is_done:
            if request.error is not None:
                reason = f"{type(request.error).__name__}: {request.error}"
                raise ValueError(reason) from request.error
            return Answer(VERSION, OK, query.finish(request.value))
        outcome, value = self._requests.explain_late(
            request, self._loop_thread, time.monotonic()
        )
        self._requests.leave(request)
        if self._is_over:
            raise RuntimeUnreachableError(_OVER)
        if outcome == REFUSED:
            raise ValueError(value)
        return Answer(VERSION, outcome, value)

    def _wait_for(self, request: LoopRequest, seconds: float) -> None:
        """Waits for an answer or the end; the caller holds the lock."""
        self._answered.wait_for(lambda: request.is_done or self._is_over, seconds)

    def close(self) -> None:
        """Ends all waits: the loop no longer answers."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        with self._answered:
            self._answered.notify_all()
