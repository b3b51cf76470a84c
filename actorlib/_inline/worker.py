"""One actor in its owner's process: a worker's half of the pipe, served by a thread.

A thread cannot be killed. What ends it is the end of the pipe: it is seen at once by
one that waits for a call, by ``async def`` methods as a cancellation, and by a plain
method when it returns. One that does not is left behind, and the log says so.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, final

from actorlib._core.engine import take_slot
from actorlib._processes.launcher import ProcessExit
from actorlib._wire.blocking_channel import BlockingChannel
from actorlib._worker import (
    async_client,
    async_executor,
    serial_executor,
    task_executor,
    threaded_executor,
)
from actorlib._worker.__main__ import ended
from actorlib._worker.startup import ExecutorThreads, read_start

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actorlib._worker.startup import Start

_log = logging.getLogger("actorlib")


@final
class InlineWorker:
    """The thread of one actor; see WorkerProcess.

    Args:
        name: What debuggers call it.
        loop: The owner's loop.
        grace: Seconds that it is waited for once it was killed.
        gone: Called when it is waited for no more.
    """

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        grace: float,
        gone: Callable[[InlineWorker], None],
    ) -> None:
        self.pid = os.getpid()
        self.exited: asyncio.Future[ProcessExit] = loop.create_future()
        self.sock, self._theirs = socket.socketpair()
        self._loop = loop
        self._grace = grace
        self._gone = gone
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._crew = ExecutorThreads()
        self._code: int | None = None
        self._patience: asyncio.TimerHandle | None = None

    # On the owner's thread.

    def start(self) -> None:
        """Starts the thread, which waits for the first frame."""
        self._thread.start()

    def kill(self) -> None:
        """Ends the pipe, and after a grace the wait for the thread; harmless then."""
        if self._patience is None and not self.exited.done():
            with suppress(OSError):  # it has closed its end by itself
                self._theirs.shutdown(socket.SHUT_RDWR)
            self._patience = self._loop.call_later(self._grace, self._abandon)

    def forsake(self) -> None:
        """In a fork: closes its copies of the pipe, and leaves that to its parent."""
        self._theirs.close()
        self.sock.close()

    def identify(self, pid: int) -> None:
        """Nothing: it is known from the start."""

    def rename(self, name: str) -> None:
        """Nothing: what it prints stands for itself."""

    def log_tail(self) -> str:
        """Nothing: what it prints is printed by this process."""
        return ""

    def _ended(self) -> None:
        self._thread.join()  # it has nothing left to do
        if self._patience is not None:
            self._patience.cancel()
        self._is_over()

    def _abandon(self) -> None:
        if not self.exited.done():
            _log.warning(
                "%s was ended and does not return: a thread cannot be killed, so it is "
                "left behind and runs on. The local engine would end its process",
                self._thread.name,
            )
            self._is_over()

    def _is_over(self) -> None:
        if not self.exited.done():
            self.exited.set_result(ProcessExit(code=self._code, what="thread"))
            self._gone(self)

    # On its own.

    def _live(self) -> None:
        take_slot()
        code = ended(self._serve)
        if self._patience is None:
            self._code = code
        self._theirs.close()
        self._crew.join()
        with suppress(RuntimeError):  # left behind, it has outlived the owner's loop
            self._loop.call_soon_threadsafe(self._ended)

    def _serve(self) -> None:
        pipe = BlockingChannel(self._theirs)
        start = read_start(pipe.receive()[0])
        self._crew = start.crew
        try:
            serve(start, pipe, async_client.new_loop)
        except OSError:
            if self._patience is None:
                raise  # else it was killed, and what it had to say is not wanted


def serve(
    start: Start,
    pipe: BlockingChannel,
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Lives the life of a worker on this thread.

    Args:
        start: What it was told first.
        pipe: Its end of the pipe.
        new_loop: Makes the loop of an actor that needs one.

    Raises:
        BaseException: What ended it; EOFError if that was the owner's end.
    """
    if start.config.runs_functions:
        task_executor.serve(start, pipe)
        return
    if not start.config.is_async:
        (threaded_executor if start.config.limits else serial_executor).serve(
            start, pipe
        )
        return
    loop = new_loop()
    try:
        async_executor.serve(start, pipe, loop)
    finally:
        async_executor.close(loop)
