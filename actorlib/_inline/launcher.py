"""Launches workers that are threads of this process.

Calls, values, errors, names, handles, shares, restarts and endings are those of the
local engine. Threads cannot have the following, so it is refused or differs:

* Environment variables and a working directory per actor (``runtime_env``) are refused
  where an actor is created. Devices are granted and their ids reported, but no
  visibility variables are set.
* ``cancel()`` does not interrupt a function that runs. The function is notified, and
  stops where it waits for something. ``max_calls`` ends a thread.
* A method that does not return cannot be ended. Its actor counts as dead, and its
  thread is left behind with a warning. ``atexit`` handlers run with the program's.
* Modules and their state are shared by all actors and the owner. A test may replace a
  function, and a program may come to rely on state that processes would not share.
* Printed text appears here unchanged.
* No actor has the main thread, so signal handlers cannot be set in an actor.
* A thread that the user's code starts uses the owner's engine, unless it runs in the
  context of its actor (``asyncio.to_thread``, ``contextvars.copy_context().run``).

A thread cannot be killed. It ends because its pipe ends. An actor that waits for a call
notices that at once, an ``async def`` method is cancelled, and a plain method notices
it when it returns. A thread that does not return is left behind, with a warning in the
log.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
import threading
from contextlib import ExitStack, suppress
from contextvars import Context
from typing import TYPE_CHECKING, final

from actorlib._core.engine import use_own_engine
from actorlib._loops.fork_copies import close_in_forks
from actorlib._loops.loop_thread import new_loop
from actorlib._processes.fd_limit import FdLimit
from actorlib._processes.launcher import ProcessExit
from actorlib._wire.blocking_channel import BlockingChannel
from actorlib._worker.__main__ import exit_code_of, serve_function_of
from actorlib._worker.executors import (
    async_executor,
    async_functions,
    serial_executor,
    task_executor,
    threaded_executor,
)
from actorlib._worker.executors.group_loops import close
from actorlib._worker.startup import ExecutorThreads, read_start
from actorlib.exceptions import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._worker.startup import Start

_log = logging.getLogger("actorlib")

# The executors are imported here, and not by the threads of the first actors. pytest
# rewrites the modules of its plugins when they are imported, and two threads that do
# this at once fail on Python 3.11: "AST constructor recursion depth mismatch".
_EXECUTORS = (
    *(async_executor, async_functions, serial_executor),
    *(task_executor, threaded_executor),
)

_DESCRIPTORS = 8
"""Descriptors of one actor at most: both ends of its pipe, and those of a uvloop."""


class InlineLauncher:
    """Starts actors in this process; see Launcher.

    A killed actor also gets the grace period of the runtime.
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
        """Does nothing: a thread needs no preparation; see Launcher."""

    def launch(self, name: str, *, has_devices: bool) -> InlineWorker:
        """Starts the thread of an actor; see Launcher.

        Raises:
            TemplateError: The system has no more threads.
        """
        del has_devices  # threads of one process share its devices
        self._fd_limit.raise_to((len(self._workers) + 1) * _DESCRIPTORS)
        worker = InlineWorker(
            f"{name} #{next(self._numbers)}",
            self._loop,
            self._grace,
            self._workers.discard,
        )
        try:
            worker.start()
        except RuntimeError as error:
            from actorlib._base.start_errors import explain_start_error  # noqa: PLC0415  # rarely needed

            worker.close()
            raise TemplateError(explain_start_error(error)) from error
        self._workers.add(worker)
        return worker

    def keep_open(self, descriptors: Sequence[int]) -> None:
        """Does nothing: the workers end with this process; see Launcher."""

    def show_output(self) -> None:
        """Does nothing: the output is the program's own; see Launcher."""

    def abandon(self) -> Callable[[], None]:
        """Closes the pipe of every thread, which ends it; see Launcher.

        In a fork, which has none of the threads, it closes the copies of the pipes.
        """
        for worker in self._workers:
            worker.close()
        return lambda: None

    async def aclose(self) -> None:
        """Ends every thread that can be ended; see Launcher."""
        workers = list(self._workers)
        for worker in workers:
            worker.kill()
        if workers:
            await asyncio.wait({worker.exited for worker in workers})
        self._fd_limit.restore()


@final
class InlineWorker:
    """Runs one worker on a thread; see WorkerProcess.

    Args:
        grace: Seconds to wait for the thread after ``kill``.
        on_gone: Called when the launcher no longer waits for the thread.
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
        self._thread.start()

    def kill(self) -> None:
        """Ends the pipe, and after a grace period the wait for the thread.

        It does nothing if the worker was killed or has ended.
        """
        if self._grace_timer is None and not self.exited.done():
            # A process would run no further calls, but the thread may.
            self.call_cells = [*(self.call_cells or ())]
            with suppress(OSError):  # the thread has closed its end
                self._worker_sock.shutdown(socket.SHUT_RDWR)
            # In two halves: after a pause of the whole process, which ends the first
            # half, the thread still has the second one.
            self._grace_timer = self._loop.call_later(self._grace / 2, self._wait_on)

    def close(self) -> None:
        self._worker_sock.close()
        self.sock.close()

    def identify(self, pid: int) -> None:
        """Does nothing: the process id is known."""

    def rename(self, name: str | Callable[[], str]) -> None:
        """Does nothing: its output has no prefix."""

    def keep_output(self, keep: Callable[[str, str, int, list[bytes]], None]) -> None:
        """Does nothing: its output is that of this process."""

    def show(self, text: str) -> None:
        """Does nothing: its log records are made in this process."""

    def _wait_on(self) -> None:
        if not self.exited.done():
            self._grace_timer = self._loop.call_later(self._grace / 2, self._abandon)

    def _on_thread_ended(self) -> None:
        self._thread.join()  # it is about to end
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

    # On its own thread.

    def _run(self) -> None:
        # Not in the thread's own context: from Python 3.14 on it lives as long as the
        # thread object, and holds the engine, which holds the actor's instance.
        code = Context().run(exit_code_of, self._serve)
        if self._grace_timer is None:
            self._code = code
        self._worker_sock.close()
        self._executor_threads.join()
        # The thread may have been left behind and the owner's loop closed.
        with suppress(RuntimeError):
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
                raise  # otherwise it was killed, and its error does not matter


def serve(
    start: Start,
    pipe: BlockingChannel,
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Runs a worker on this thread until it ends."""
    with ExitStack() as stack:

        def make_loop() -> asyncio.AbstractEventLoop:
            loop = new_loop()
            stack.callback(close, loop)
            return loop

        serve_function_of(start.config, make_loop)(start, pipe)
