"""The threads that serve an actor beside its main one."""

from __future__ import annotations

import queue
import threading
from contextvars import copy_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.frames import Frame


class Crew:
    """Threads of one actor; they belong to it, also where several share a process.

    Nothing waits for them at the end of the process.
    """

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def __len__(self) -> int:
        return len(self._threads)

    def start(
        self, name: str, work: Callable[..., object], *args: object
    ) -> threading.Thread:
        """Starts a thread in a copy of the context that starts it.

        Args:
            name: What debuggers call it.
            work: What it runs.
            *args: For that.
        """
        thread = threading.Thread(
            target=copy_context().run, args=(work, *args), name=name, daemon=True
        )
        self._threads.append(thread)
        thread.start()
        return thread

    def join(self) -> None:
        """Waits until all of them have ended."""
        for thread in self._threads:
            thread.join()


class GroupThreads:
    """The threads of one concurrency group: made when they are needed, and kept.

    They run calls of no other group, so what belongs to a thread (a database
    connection, a ``threading.local``) is the group's own. Whoever gives them calls
    counts those (see Gate), so there are never more threads than may run at once; it
    does so from one thread or under one lock, as nothing here has one.

    Args:
        crew: Whose they are.
        name: What debuggers call them.
        serve: Runs a call; gives the next one that this thread is to run, if any.
    """

    def __init__(
        self, crew: Crew, name: str, serve: Callable[[Frame], Frame | None]
    ) -> None:
        self._crew = crew
        self._name = name
        self._serve = serve
        # Not that of the call which happens to need another thread.
        self._context = copy_context()
        self._jobs: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._made = 0
        self._idle = 0

    def give(self, frame: Frame) -> None:
        """Has one of them run a call, now."""
        if self._idle:
            self._idle -= 1
            self._jobs.put(frame)
            return
        self._made += 1
        name = f"{self._name}-{self._made}"
        self._context.run(self._crew.start, name, self._work, frame)

    def rested(self) -> None:
        """One of them has run a call and has no other; told before its place is free.

        It may not wait for the next one yet, but will.
        """
        self._idle += 1

    def end(self) -> None:
        """Ends them, each behind the call that it runs."""
        for _ in range(self._made):
            self._jobs.put(None)

    def _work(self, frame: Frame | None) -> None:
        while frame is not None:
            frame = self._serve(frame) or self._jobs.get()
