"""Runs the calls of a concurrency group on threads."""

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

    A thread is started when a call needs one, and kept. The threads run calls of no
    other group, so objects of a thread (a database connection, a ``threading.local``)
    belong to the group. The caller counts the calls (see Gate), so there are never more
    threads than calls that may run at once. It submits calls from one thread or under
    one lock, as this class has no lock.

    Args:
        serve: Runs a call; returns the next call for the same thread, if any.
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
        # Not the context of the call that needs another thread.
        self._context = copy_context()
        self._jobs: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._started: list[threading.Thread] = []
        self._idle = 0

    def submit(self, frame: Frame) -> None:
        """Runs a call on a thread now."""
        if self._idle:
            self._idle -= 1
            self._jobs.put(frame)
            return
        name = f"{self._name}-{len(self._started) + 1}"
        start = self._threads.start
        self._started.append(self._context.run(start, name, self._work, frame))

    def became_idle(self) -> None:
        """Counts a thread that has run a call and has no other one.

        The thread may not wait for the next call yet, but will. Call this before the
        place of the call is freed.
        """
        self._idle += 1

    def stop(self) -> None:
        """Ends each thread after the call that it runs."""
        for _ in self._started:
            self._jobs.put(None)

    def join(self) -> None:
        for thread in self._started:
            thread.join()

    def _work(self, frame: Frame | None) -> None:
        while frame is not None:
            frame = self._serve(frame) or self._jobs.get()
