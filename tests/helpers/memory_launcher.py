"""Workers without processes: the real ones, each at the other end of a pipe in memory.

What decides and what serves are those of actorlib on both sides; only the kernel is
played, so a worker starts in a fraction of a millisecond. As a process it has a number
and variables of its own: ``os.getpid()`` and ``os.environ`` say them, ``os.kill()``
ends it as that signal does, ``os._exit()`` is its end, and nothing waits for its
threads.

What it is not: nothing else of it is its own. So directories, output, descriptors,
modules, the memory that processes share and the links between them, signal handlers,
and what is left of a process that is killed while it works are to be tested with
processes.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn, final

import pytest

from actorlib._core.engine import use_own_engine
from actorlib._inline import launcher as inline
from actorlib._inline.launcher import serve
from actorlib._loops.fork_copies import close_in_forks
from actorlib._loops.loop_thread import new_loop
from actorlib._processes.launcher import Launcher, ProcessExit, WorkerProcess
from actorlib._wire.blocking_channel import BlockingChannel
from actorlib._worker.__main__ import exit_code_of
from actorlib._worker.startup import ExecutorThreads, read_start
from helpers.jumping_loop import JumpingLoop, leave_alone

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence

    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._worker.startup import Start

FIRST_PID = 1 << 24
"""No process has such a number: the kernel's end at 2**22."""
_PATIENCE = 1.0
"""Seconds that a thread of an ended worker is waited for, if the user's code has it."""
_HARMLESS = {0, signal.SIGURG, signal.SIGUSR1, signal.SIGUSR2}
_pids = itertools.count(FIRST_PID)
_living: dict[int, MemoryWorker] = {}
_unwinding: list[MemoryWorker] = []
_here: ContextVar[MemoryWorker | None] = ContextVar("worker", default=None)
_getpid, _kill, _exit = os.getpid, os.kill, os._exit  # what is played


class Killed(BaseException):
    """Unwinds a thread whose process would be no more."""


@final
class MemoryWorker(WorkerProcess):
    """A worker of threads.

    Args:
        name: What debuggers call it.
        loop: The owner's loop.

    Attributes:
        start: What it was told first, once it was.
        environ: Its variables.
    """

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._pid = next(_pids)
        self._exited: asyncio.Future[ProcessExit] = loop.create_future()
        self._near, self._theirs = socket.socketpair()
        for end in (self._near, self._theirs):
            close_in_forks(end, socket.socket.close)
        self.start: Start | None = None
        self.environ = dict(os.environ)
        self._loop = loop
        self._threads = ExecutorThreads()
        self._how: ProcessExit | None = None
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        _living[self.pid] = self
        self._thread.start()

    # WorkerProcess.

    @property
    def sock(self) -> socket.socket:
        """See WorkerProcess."""
        return self._near

    @property
    def pid(self) -> int:
        """See WorkerProcess."""
        return self._pid

    @property
    def delay(self) -> str:
        """See WorkerProcess."""
        return ""

    @property
    def exited(self) -> asyncio.Future[ProcessExit]:
        """See WorkerProcess."""
        return self._exited

    def kill(self) -> None:
        """Ends it at once."""
        self.end(ProcessExit(signal=signal.SIGKILL))

    def identify(self, pid: int) -> None:
        """Nothing: it is known from the start."""

    def rename(self, name: str | Callable[[], str]) -> None:
        """Nothing: what it prints stands for itself."""

    def keep_output(self, keep: Callable[[str, str, int, list[bytes]], None]) -> None:
        """Nothing: it has no output of its own."""

    def show(self, text: str) -> None:
        """Prints it, as what it prints is printed."""
        sys.stderr.write(f"{text}\n")

    # For the test, and for what plays the kernel.

    def end(self, how: ProcessExit) -> None:
        """Ends it as a process ends, from any thread; harmless if it has ended."""
        if self._how is not None:
            return
        self._how = how
        self.call_cells = [*(self.call_cells or ())]  # its threads go on for a moment
        with suppress(OSError):
            self._theirs.shutdown(socket.SHUT_RDWR)
        with suppress(RuntimeError):  # the owner's loop is closed
            self._loop.call_soon_threadsafe(self._over)

    def threads(self) -> list[threading.Thread]:
        """Its threads."""
        return [self._thread, *self._threads._threads]  # pyright: ignore[reportPrivateUsage]  # nobody else asks

    def close(self) -> None:
        """Closes its end of the pipe."""
        self._theirs.close()

    def _over(self) -> None:
        if _living.pop(self.pid, None) is not None:
            _unwinding.append(self)
        leave_alone(self.threads())
        if not self.exited.done():
            assert self._how is not None
            self.exited.set_result(self._how)

    # On its own thread.

    def _live(self) -> None:
        use_own_engine()
        _here.set(self)
        code = exit_code_of(self._serve)
        self.close()
        self.end(ProcessExit(code=code))

    def _serve(self) -> None:
        pipe = BlockingChannel(self._theirs)
        self.call_cells = pipe.memory.make_local_call_cells()
        told = read_start(pipe.receive()[0])
        self.start = told
        self.environ = _changed(self.environ, told.config.environment)
        self._threads = told.threads
        # There are no signals for it, and no directory of its own.
        config = replace(told.config, is_inline=True, directory=None)
        try:
            serve(replace(told, config=config), pipe, self._new_loop)
        except (OSError, Killed):
            if self._how is None:
                raise

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        if isinstance(self._loop, JumpingLoop):
            return JumpingLoop(is_of_test=False)
        return new_loop()


@final
class MemoryLauncher(Launcher):
    """Starts such workers.

    Args:
        loop: The owner's loop.
        options: How the runtime behaves.

    Attributes:
        workers: Those that were started, in order.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, options: RuntimeOptions
    ) -> None:
        del options
        self._environment: dict[str, str | None] = {}
        self.workers: list[MemoryWorker] = []
        self._loop = loop

    @property
    def environment(self) -> dict[str, str | None]:
        """See Launcher."""
        return self._environment

    async def start(self) -> None:
        """Nothing has to be made ready; see Launcher."""

    def launch(self, name: str, *, has_devices: bool) -> MemoryWorker:
        """Starts a worker; see Launcher."""
        del has_devices
        worker = MemoryWorker(name, self._loop)
        self.workers.append(worker)
        return worker

    def keep_open(self, descriptors: Sequence[int]) -> None:
        """Does nothing: the workers end with this process; see Launcher."""

    def show_output(self) -> None:
        """Does nothing: it is the program's own; see Launcher."""

    def abandon(self) -> Callable[[], None]:
        """Ends them all; see Launcher."""
        for worker in self.workers:
            worker.kill()
        return lambda: None

    async def aclose(self) -> None:
        """Ends them all, and waits for threads that can end; see Launcher."""
        for worker in self.workers:
            worker.kill()
        if self.workers:
            await asyncio.wait({worker.exited for worker in self.workers})
        await nothing_unwinds()


async def end_of_worker(pid: int) -> None:
    """Waits until a worker has ended.

    Raises:
        ProcessLookupError: It is no worker's number.
    """
    if pid < FIRST_PID:
        raise ProcessLookupError(pid)
    worker = _living.get(pid)
    if worker is not None:
        await asyncio.shield(worker.exited)


async def nothing_unwinds() -> None:
    """Waits for the threads of workers that have ended."""
    if _unwinding:
        gone, _unwinding[:] = list(_unwinding), []
        await asyncio.to_thread(_join, gone)


def _join(workers: list[MemoryWorker]) -> None:
    for worker in workers:
        for thread in worker.threads():
            thread.join(_PATIENCE)
        worker.close()


@contextmanager
def memory_workers() -> Generator[Callable[[], Awaitable[None]]]:
    """Has the engine ``inline`` start such workers, and plays the kernel for them.

    Yields:
        ``nothing_unwinds``.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inline, "InlineLauncher", MemoryLauncher)
        patch.setattr(os, "environ", _Environ(os.environ))
        patch.setattr(os, "getpid", _pid_here)
        patch.setattr(os, "kill", _kill_here)
        patch.setattr(os, "_exit", _exit_here)
        yield nothing_unwinds


@final
class _Environ(MutableMapping[str, str]):
    """``os.environ``: in a worker its own.

    Args:
        of_process: What it is elsewhere.
    """

    def __init__(self, of_process: MutableMapping[str, str]) -> None:
        self._of_process = of_process

    @property
    def _own(self) -> MutableMapping[str, str]:
        worker = _here.get()
        return self._of_process if worker is None else worker.environ

    def __getitem__(self, name: str) -> str:
        return self._own[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._own[name] = value

    def __delitem__(self, name: str) -> None:
        del self._own[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def copy(self) -> dict[str, str]:
        """A copy; see os.environ."""
        return dict(self._own)


def _changed(
    environ: Mapping[str, str], changes: Mapping[str, str | None]
) -> dict[str, str]:
    there = {**environ, **changes}
    return {name: value for name, value in there.items() if value is not None}


def _pid_here() -> int:
    worker = _here.get()
    return _getpid() if worker is None else worker.pid


def _kill_here(pid: int, number: int) -> None:
    if pid < FIRST_PID:
        own = (_getpid(), os.getppid())
        assert number == 0 or pid not in own, "this would end the tests"
        _kill(pid, number)
        return
    worker = _living.get(pid)
    if worker is None:
        raise ProcessLookupError(pid)
    if number in _HARMLESS:
        return
    worker.end(ProcessExit(signal=number))
    if worker is _here.get():
        raise Killed


def _exit_here(code: int) -> NoReturn:
    worker = _here.get()
    if worker is None:
        _exit(code)
    worker.end(ProcessExit(code=code))
    raise Killed
