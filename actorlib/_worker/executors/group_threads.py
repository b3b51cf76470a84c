"""Runs the calls of a concurrency group on threads.

A thread is started when a call needs one, and kept.
"""

from __future__ import annotations

import queue
from contextvars import copy_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from actorlib._wire.messages import Frame
    from actorlib._worker.startup import ExecutorThreads


class GroupThreads:
    """Runs the calls of one concurrency group on threads of its own.

    They run calls of no other group, so what belongs to a thread (a database
    connection, a ``threading.local``) is the group's own. Whoever submits calls
    counts them (see Gate), so there are never more threads than may run at once; it
    does so from one thread or under one lock, as nothing here has one.

    Args:
        threads: Those of the actor, which these are among.
        name: What debuggers call them.
        serve: Runs a call; gives the next one that this thread is to run, if any.
    """

    def __init__(
        self,
        threads: ExecutorThreads,
        name: str,
        serve: Callable[[Frame], Frame | None],
    ) -> None:
        self._threads = threads
        self._name = name
        self._serve = serve
        # Not that of the call which happens to need another thread.
        self._context = copy_context()
        self._jobs: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._started: list[threading.Thread] = []
        self._idle = 0

    def submit(self, frame: Frame) -> None:
        """Runs a call on one of them, now."""
        if self._idle:
            self._idle -= 1
            self._jobs.put(frame)
            return
        name = f"{self._name}-{len(self._started) + 1}"
        start = self._threads.start
        self._started.append(self._context.run(start, name, self._work, frame))

    def became_idle(self) -> None:
        """Counts one that has run a call and has no other.

        It may not wait for the next call yet, but will. Whoever calls this does so
        before the call's place among those that may run is free.
        """
        self._idle += 1

    def stop(self) -> None:
        """Ends them, each behind the call that it runs."""
        for _ in self._started:
            self._jobs.put(None)

    def join(self) -> None:
        """Waits until all of them have ended."""
        for thread in self._started:
            thread.join()

    def _work(self, frame: Frame | None) -> None:
        while frame is not None:
            frame = self._serve(frame) or self._jobs.get()
