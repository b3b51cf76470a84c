"""Asks a runtime from another thread of its own process, as others ask at its door.

There need be no door: what is asked and answered is the same (``queries``).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, final

from actorlib._door.protocol import OK, REFUSED, VERSION, Answer
from actorlib._door.queries import begin_query
from actorlib._door.service import LoopVisits
from actorlib.exceptions import RuntimeUnreachableError

if TYPE_CHECKING:
    from actorlib._core.engine import RuntimeEngine
    from actorlib._door.queries import FindQuery
    from actorlib._door.service import Visit

_OVER = "this runtime has ended"


@final
class InnerDoor:
    """Asks the runtime of this process; made by the thread of its loop.

    Args:
        engine: The runtime.
        find_query: Finds what answers a question.
    """

    def __init__(self, engine: RuntimeEngine, find_query: FindQuery) -> None:
        self._engine = engine
        self._find_query = find_query
        self._loop_thread = threading.get_ident()
        self._answered = threading.Condition()
        self._visits = LoopVisits(engine.loop, self._wake)
        self._is_over = False

    def ask(self, verb: str, /, *, patience: float = 1.0, **options: Any) -> Answer:
        """Asks, and waits for the answer; not for the thread of the loop.

        Args:
            verb: What is asked for.
            patience: Seconds that the loop may take.
            **options: How.

        Returns:
            The answer, whose outcome is ``OK`` or ``BLOCKED``.

        Raises:
            RuntimeUnreachableError: The runtime has ended.
            ValueError: It refuses, and says why.
        """
        asked = begin_query(self._find_query, self._engine, verb, options)
        if asked.on_loop is None:
            return Answer(VERSION, OK, asked.finish(None))
        try:
            visit = self._visits.ask(asked.on_loop, time.monotonic())
        except RuntimeError:
            raise RuntimeUnreachableError(_OVER) from None
        with self._answered:
            self._wait_for(visit, patience)
            if visit.has_begun and not visit.is_done:
                self._visits.probe(visit, time.monotonic())
                self._wait_for(visit, asked.takes)
        if visit.is_done:
            if visit.error is not None:
                said = f"{type(visit.error).__name__}: {visit.error}"
                raise ValueError(said) from visit.error
            return Answer(VERSION, OK, asked.finish(visit.value))
        outcome, value = self._visits.explain_late(
            visit, self._loop_thread, time.monotonic()
        )
        self._visits.leave(visit)
        if self._is_over:
            raise RuntimeUnreachableError(_OVER)
        if outcome == REFUSED:
            raise ValueError(value)
        return Answer(VERSION, outcome, value)

    def _wait_for(self, visit: Visit, seconds: float) -> None:
        """Waits for an answer, or the end; the lock is held."""
        self._answered.wait_for(lambda: visit.is_done or self._is_over, seconds)

    def close(self) -> None:
        """Lets those go who wait: the loop will not answer any more."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        with self._answered:
            self._answered.notify_all()
