"""Launches workers that are threads of this process.

Calls, values, errors, names, handles, shares, restarts and endings are those of the
local engine, which starts them. What threads cannot have is refused, or is otherwise:

* Variables and a directory of its own (``runtime_env``) are refused where an actor is
  made. Masks are not set, though devices are given, and their ids told.
* A function that runs is not interrupted by ``cancel()``: it is told, and stops where
  it waits for something. ``max_calls`` ends a thread.
* A method that does not return cannot be ended. Its actor is dead all the same, and its
  thread is left behind with a warning. ``atexit`` handlers run with the program's.
* Modules and what they hold are shared by all actors and the owner: a test may replace
  a function, and a program may come to rely on what processes would not share.
* What is printed is printed here, as it is.
* No actor has the main thread: signal handlers cannot be set in one.
* A thread that the user's code starts asks as the owner would, unless it is given the
  context of its actor (``asyncio.to_thread``, ``contextvars.copy_context().run``).
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from actorlib._inline.worker import InlineWorker
from actorlib._loops.fork_copies import close_in_forks
from actorlib._processes.fd_limit import FdLimit

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._options.runtime_options import RuntimeOptions

_DESCRIPTORS = 8
"""Of one actor at the most: the two ends of its pipe, and those of uvloop's loop."""


class InlineLauncher:
    """Starts actors in this process; see Launcher.

    Args:
        loop: The owner's loop.
        options: How the runtime behaves; what a busy actor is given to end is also what
            it is given once it was killed.
    """

    environment: None = None

    def __init__(
        self, loop: asyncio.AbstractEventLoop, options: RuntimeOptions
    ) -> None:
        self._loop = loop
        self._grace = options.grace
        self._numbers = itertools.count(1)
        self._workers: set[InlineWorker] = set()
        self._fd_limit = FdLimit()
        close_in_forks(self, InlineLauncher.abandon)

    async def start(self) -> None:
        """Does nothing: there is nothing to make ready; see Launcher."""

    def launch(self, name: str, *, has_devices: bool) -> InlineWorker:
        """Starts the thread of an actor; see Launcher."""
        del has_devices  # nothing here could keep them from anybody
        self._fd_limit.raise_to((len(self._workers) + 1) * _DESCRIPTORS)
        worker = InlineWorker(
            f"{name} #{next(self._numbers)}",
            self._loop,
            self._grace,
            self._workers.discard,
        )
        self._workers.add(worker)
        worker.start()
        return worker

    def show_output(self) -> None:
        """Does nothing: it is the program's own; see Launcher."""

    def abandon(self) -> Callable[[], None]:
        """Has every thread end by itself, as its pipe does; see Launcher.

        In a fork, which has none of the threads: closes its copies of the pipes.
        """
        for worker in self._workers:
            worker.close()
        return lambda: None

    async def aclose(self) -> None:
        """Ends every thread that can be ended; see Launcher."""
        left = list(self._workers)
        for worker in left:
            worker.kill()
        if left:
            await asyncio.wait({worker.exited for worker in left})
        self._fd_limit.restore()
