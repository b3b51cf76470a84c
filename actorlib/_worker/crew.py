"""The threads that serve an actor beside its main one."""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


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
