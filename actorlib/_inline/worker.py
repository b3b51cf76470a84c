"""Runs one worker as a thread of its owner's process, at the other end of a pipe.

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
from contextvars import Context
from typing import TYPE_CHECKING, final

from actorlib._core.engine import use_own_engine
from actorlib._loops.loop_thread import new_loop
from actorlib._processes.launcher import ProcessExit
from actorlib._wire.blocking_channel import BlockingChannel
from actorlib._worker.__main__ import exit_code_of
from actorlib._worker.executors import (
    async_executor,
    serial_executor,
    task_executor,
    threaded_executor,
)
from actorlib._worker.executors.executor_threads import ExecutorThreads
from actorlib._worker.executors.group_loops import close
from actorlib._worker.startup import read_start

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actorlib._worker.startup import Start

_log = logging.getLogger("actorlib")


@final
class InlineWorker:
    """Runs one worker on a thread; see WorkerProcess.

    Args:
        name: The thread's, for debuggers.
        loop: The owner's loop.
        grace: Seconds that it is waited for once it was killed.
        on_gone: Called when it is waited for no more.
    """

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        grace: float,
        on_gone: Callable[[InlineWorker], None],
    ) -> None:
        self.pid = os.getpid()
        self.delay = ""
        self.call_cells: list[int] | None = None
        self.exited: asyncio.Future[ProcessExit] = loop.create_future()
        self.sock, self._worker_sock = socket.socketpair()
        self._loop = loop
        self._grace = grace
        self._on_gone = on_gone
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._executor_threads = ExecutorThreads()
        self._code: int | None = None
        self._grace_timer: asyncio.TimerHandle | None = None

    # On the owner's thread.

    def start(self) -> None:
        """Starts the thread, which waits for the first frame."""
        self._thread.start()

    def kill(self) -> None:
        """Ends the pipe, and after a grace the wait for the thread; harmless then."""
        if self._grace_timer is None and not self.exited.done():
            # What runs now is what a process would have run, whatever the thread does.
            self.call_cells = [*(self.call_cells or ())]
            with suppress(OSError):  # it has closed its end by itself
                self._worker_sock.shutdown(socket.SHUT_RDWR)
            self._grace_timer = self._loop.call_later(self._grace, self._abandon)

    def close(self) -> None:
        """Closes both ends of the pipe."""
        self._worker_sock.close()
        self.sock.close()

    def identify(self, pid: int) -> None:
        """Does nothing: it is known from the start."""

    def rename(self, name: str | Callable[[], str]) -> None:
        """Does nothing: its output has no prefix."""

    def keep_output(self, keep: Callable[[str, str, int, list[bytes]], None]) -> None:
        """Does nothing: what it prints is this process's own output."""

    def show(self, text: str) -> None:
        """Does nothing: nobody sends it what it has logged."""

    def _on_thread_ended(self) -> None:
        self._thread.join()  # it has nothing left to do
        if self._grace_timer is not None:
            self._grace_timer.cancel()
        self._finish()

    def _abandon(self) -> None:
        if not self.exited.done():
            _log.warning(
                "%s was ended and does not return: a thread cannot be killed, so it is "
                "left behind and runs on. The local engine would end its process",
                self._thread.name,
            )
            self._finish()

    def _finish(self) -> None:
        if not self.exited.done():
            self.exited.set_result(ProcessExit(code=self._code, what="thread"))
            self._on_gone(self)

    # On its own.

    def _run(self) -> None:
        # Not in the thread's own context: from Python 3.14 on that lives as long as the
        # thread's object, and holds the engine, which holds the actor's instance.
        code = Context().run(exit_code_of, self._serve)
        if self._grace_timer is None:
            self._code = code
        self._worker_sock.close()
        self._executor_threads.join()
        with suppress(RuntimeError):  # left behind, it has outlived the owner's loop
            self._loop.call_soon_threadsafe(self._on_thread_ended)

    def _serve(self) -> None:
        use_own_engine()
        pipe = BlockingChannel(self._worker_sock)
        self.call_cells = pipe.memory.make_local_call_cells()
        start = read_start(pipe.receive()[0])
        self._executor_threads = start.threads
        try:
            serve(start, pipe, new_loop)
        except OSError:
            if self._grace_timer is None:
                raise  # else it was killed, and what it had to say is not wanted


def serve(
    start: Start,
    pipe: BlockingChannel,
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Runs a worker on this thread until it ends.

    Args:
        start: What its START frame said.
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
        close(loop)
