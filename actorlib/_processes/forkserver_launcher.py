"""The owner's side of the template: requests out, reports in.

The template does one thing after the other, so only a few forks are asked for ahead:
a kill never waits behind hundreds of them, and descriptors on their way stay few.

Ends what is left of a runtime whose template was killed.

The kernel ends the workers with it, and the owner their process groups. What has left
those, or was forked so lately that nobody has said so, is known by its mark alone.

Room for descriptors: a thousand actors need more than a shell's usual 1 024.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from actorlib._processes.launcher import LaunchedWorker, ProcessExit
from actorlib._processes.worker_output import Terminal
from actorlib._wire.async_channel import AsyncChannel
from actorlib._wire.forkserver_protocol import (
    EXITED,
    FORK,
    FORKED,
    KILL,
    LEAVE_TIMEOUT,
    MARK_VARIABLE,
    MISSED,
    PRELOADED,
    PRELOADING,
    REQUEST,
    worker_mark,
)
from actorlib.exceptions import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actorlib._processes.worker_output import LogStyle
    from actorlib._wire.messages import Frame


_ROUNDS = 8
"""How often it is looked, as what is killed may have forked before."""


def kill_leftovers(runtime: str) -> None:
    """Kills every process that carries a runtime's mark, where the system shows them.

    Args:
        runtime: The mark; of a runtime without a template, or that one goes too.
    """
    start = f"{MARK_VARIABLE}={runtime}:".encode()
    for _ in range(_ROUNDS):
        found = [pid for pid in _processes() if _has_variable(pid, start)]
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _processes() -> list[int]:
    with suppress(OSError):
        names = [path.name for path in Path("/proc").iterdir()]
        return [int(name) for name in names if name.isdecimal()]
    return []


def _has_variable(pid: int, start: bytes) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it is gone, or somebody else's
        return False
    return any(variable.startswith(start) for variable in environment.split(b"\0"))


_SPARE = 256
_ENOUGH = 1 << 16


class FdLimit:
    """This process's soft limit of open files, raised while it is needed.

    Go and Node raise theirs at every start. The hard limit stays, and so do the limits
    of workers, which are those that this process was started with.
    """

    def __init__(self) -> None:
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._raised = self._soft

    def raise_to(self, count: int) -> None:
        """Raises the limit if it is too low.

        Args:
            count: How many descriptors will be open besides the program's own.
        """
        wanted = count + _SPARE
        if self._raised == resource.RLIM_INFINITY or wanted <= self._raised:
            return
        no_end = self._hard == resource.RLIM_INFINITY
        most = _ENOUGH if no_end else min(self._hard, _ENOUGH)
        raised = max(min(max(wanted, 2 * self._raised), most), self._raised)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, self._hard))
        self._raised = raised

    def restore_in(self, pid: int) -> None:
        """Gives a child, and whatever it starts, the limit there was before."""
        if sys.platform == "linux" and self._raised != self._soft:
            with contextlib.suppress(OSError):
                limits = (self._soft, self._hard)
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    def restore(self) -> None:
        """Lowers the limit to what it was, unless somebody else has changed it."""
        now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if now == self._raised != self._soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._soft, self._hard))
        self._raised = self._soft


def reason_of(error: Exception) -> str:
    """What an error says, and what can be done if descriptors have run out."""
    if not isinstance(error, OSError) or error.errno not in _OUT:
        return str(error)
    if error.errno == errno.ENFILE:
        return "this machine has as many files open as its kernel allows (fs.file-max)"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    more = "" if soft == hard else f", and may be raised to {hard}"
    return (
        "this process may open no more descriptors, of which each worker needs some: "
        f"its limit of open files is {soft}{more}. Raise it (ulimit -n), or run fewer "
        "workers at once"
    )


_OUT = frozenset({errno.EMFILE, errno.ENFILE})


_MAX_PREFORKED = 32
_STOPPED_CHECK_INTERVAL = 1.0
"""Seconds after which it is asked whether the template is stopped."""
_PAUSES = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0)
"""Seconds before each try to start the template anew."""
_START_LIMIT = 300.0
_PACKAGES = str(Path(__file__).parents[2])
_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from actorlib._worker.forkserver import main; main()"
)
# Four for its pipe, its side socket and its output, and for a moment around its fork
# the other ends of three.
_DESCRIPTORS = 7


class TemplateLauncher:
    """Starts workers as forks of a warm template.

    Args:
        loop: The owner's loop.
        preload: Modules that workers find imported.
        style: How what workers print appears here.

    Attributes:
        environment: What workers must set or forget; see Launcher.
    """

    method: ClassVar[str] = "fork"

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        preload: Sequence[str],
        style: LogStyle,
    ) -> None:
        self.environment: dict[str, str | None] = {}
        self._loop = loop
        self._preload = preload
        self._terminal = Terminal(loop, style)
        self._mark = os.urandom(8).hex()
        self._room = FdLimit()
        self._count = 0
        self._workers: dict[int, LaunchedWorker] = {}
        self._queue: deque[LaunchedWorker] = deque()
        self._dying: list[LaunchedWorker] = []
        self._in_flight = 0
        self._requests: deque[tuple[bytes, list[int]]] = deque()
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None
        self._channel: AsyncChannel | None = None
        self._hello: asyncio.Future[None] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._culprit = ""
        self._trouble = ""
        self._stage = "started"
        self._is_refused = False
        self._is_closed = False

    async def start(self) -> None:
        """Starts the template and waits until its preloads are imported.

        Raises:
            TemplateError: It did not start, or a preload could not be imported.
        """
        self._is_refused, self._stage = False, "started"
        try:
            await self._spawn()
            await self._greeted_by()
        except BaseException as error:
            self._trouble = str(error)
            await self._end()
            raise
        self._pump()

    async def _spawn(self) -> None:
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            told = f"the template cannot be started: {reason_of(error)}"
            raise TemplateError(told) from error
        self._sock = ours
        self._hello = self._loop.create_future()
        self._channel = AsyncChannel(self._loop, ours, self._report, self._lost)
        starting = self._loop.run_in_executor(None, self._popen, theirs.fileno())
        try:
            self._process = await asyncio.shield(starting)
        except OSError as error:
            told = f"the template cannot be started: {reason_of(error)}"
            raise TemplateError(told) from error
        except asyncio.CancelledError:
            # The thread cannot be stopped: what it starts has to be ended.
            await asyncio.wait([starting])
            if starting.exception() is None:
                self._process = starting.result()
            raise
        finally:
            theirs.close()

    async def _greeted_by(self) -> None:
        try:
            async with asyncio.timeout(_START_LIMIT):
                await cast("asyncio.Future[None]", self._hello)
        except TimeoutError as error:
            self._is_refused = True
            raise TemplateError(
                f"the template {self._stage} for over {_START_LIMIT:g} s"
            ) from error

    def launch(self, name: str, *, has_devices: bool) -> LaunchedWorker:
        """Starts a worker; see Launcher."""
        if has_devices and self._culprit:
            raise TemplateError(
                f"{name} uses an accelerator, and the preload {self._culprit} has "
                "initialised one in the template: a fork of it could not use any. "
                "Take it out of init(preload=[...]), or use start_method='spawn'"
            )
        if self._is_closed:
            raise TemplateError("the template is closed")
        self._room.raise_to((len(self._workers) + 1) * _DESCRIPTORS)
        self._count += 1
        worker = LaunchedWorker(self.kill, self._count, name, self._loop)
        self._workers[worker.number] = worker
        self._queue.append(worker)
        self._pump()
        return worker

    def kill(self, worker: LaunchedWorker) -> None:
        """Ends a worker's process group, or its start if it was still waiting."""
        if worker in self._queue:
            self._queue.remove(worker)
            self._gone(worker, ProcessExit(signal=9))
        elif worker.number in self._workers:
            if self._channel is not None:
                # At once, or it might answer until the template comes to it; whatever
                # it has started ends with its group.
                worker.end_process(cast("subprocess.Popen[bytes]", self._process).pid)
                self._request(REQUEST.pack(KILL, 9, worker.number), [])
            self._insist(worker)

    def _insist(self, worker: LaunchedWorker) -> None:
        """Ends a worker without the template if that is stopped; looks again later."""
        if worker.number not in self._workers:
            return
        if not self._is_stopped():
            worker.look_later(_STOPPED_CHECK_INTERVAL, self._insist)
        elif worker.child:
            parent = cast("subprocess.Popen[bytes]", self._process).pid
            worker.end_alone(parent, lambda: self._gone(worker, ProcessExit(signal=9)))
        else:
            self._recall(worker)
            self._gone(worker, ProcessExit(signal=9))

    def _is_stopped(self) -> bool:
        """Whether the template has got a signal that stops it, and none since."""
        if self._process is None or not hasattr(os, "waitid"):
            return False
        stopped = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self._process.pid, stopped) is not None
        except ChildProcessError:
            return False

    def _recall(self, worker: LaunchedWorker) -> None:
        """Takes back that a worker is to be forked, if that was not sent yet."""
        fork = REQUEST.pack(FORK, 0, worker.number)
        for request in [request for request in self._requests if request[0] == fork]:
            self._requests.remove(request)
            self._in_flight -= 1

    def forsake(self) -> None:
        """In a fork: the template is its parent's; see Launcher."""
        if self._channel is not None:
            self._channel.close_in_fork()
        self._process = None
        self._is_closed = True
        self._requests.clear()
        for worker in self._workers.values():
            worker.forsake()
        self._workers.clear()

    def abandon(self) -> Callable[[], None]:
        """Ends the template where the loop is closed; see Launcher."""
        process = self._process
        self.forsake()  # it ends all its workers when nobody speaks to it any more
        self._room.restore()
        return lambda: None if process is None else _wait_for(process)

    async def aclose(self) -> None:
        """Ends the template, and with it whatever is still there."""
        self._is_closed = True
        if self._restarting is not None and not self._restarting.done():
            self._restarting.cancel()
            await asyncio.wait([self._restarting])
        await self._end()
        self._queue.clear()
        for worker in list(self._workers.values()):
            self._gone(worker, ProcessExit(signal=9, trouble=self._trouble))
        self._terminal.close()
        self._room.restore()

    async def _end(self) -> None:
        """Ends the template; who waits for a process goes on waiting."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(_wait_for, process)
            if process.returncode:  # it was killed, and has not cleaned up
                await asyncio.to_thread(kill_leftovers, self._mark)

    def _popen(self, descriptor: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _BOOTSTRAP,
                json.dumps(sys.path),
                str(descriptor),
                str(os.getpid()),
                self._mark,
                self.method,
                *self._preload,
            ],
            pass_fds=[descriptor],
            env=self._template_environment(),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._room.restore_in(process.pid)
        return process

    def _template_environment(self) -> dict[str, str]:
        return {**os.environ, MARK_VARIABLE: worker_mark(self._mark, 0)}

    # Requests.

    def _pump(self) -> None:
        if self._channel is None:
            if self._queue and not self._is_closed:
                self._come_back()
            return
        if self._hello is None or not self._hello.done():
            return
        while self._queue and self._in_flight < _MAX_PREFORKED:
            worker = self._queue.popleft()
            try:
                descriptors = worker.open_output(self._terminal)
            except OSError as error:
                self._gone(worker, ProcessExit(trouble=reason_of(error)))
                continue
            self._in_flight += 1
            self._request(REQUEST.pack(FORK, 0, worker.number), descriptors)

    def _request(self, record: bytes, descriptors: list[int]) -> None:
        self._requests.append((record, descriptors))
        if len(self._requests) == 1:
            self._send_requests()

    def _send_requests(self) -> None:
        sock = cast("socket.socket", self._sock)
        while self._requests:
            record, descriptors = self._requests[0]
            try:
                socket.send_fds(sock, [record], descriptors)
            except BlockingIOError:
                self._loop.add_writer(sock.fileno(), self._send_more)
                return
            except OSError:
                self._requests.clear()  # it is gone: _lost() tells everybody
                return
            self._requests.popleft()
            worker = self._workers.get(REQUEST.unpack(record)[2])
            if descriptors and worker is not None:
                worker.close_theirs()

    def _send_more(self) -> None:
        self._loop.remove_writer(cast("socket.socket", self._sock).fileno())
        self._send_requests()

    # Reports.

    def _report(self, frames: list[Frame]) -> None:
        for frame in frames:
            if frame[0] == PRELOADED:
                self._greeted(*frame[1:])
            elif frame[0] == PRELOADING:
                self._stage = f"imported {frame[1]}"
            elif frame[0] == FORKED:
                self._forked(*frame[1:])
            elif (worker := self._workers.get(frame[1])) is None:
                continue  # it was ended while the template was stopped
            elif frame[0] == EXITED:
                self._gone(worker, _exit_of(*frame[2:]))
            else:
                assert frame[0] == MISSED
                trouble = "the process that it was to be had ended"
                self._gone(worker, ProcessExit(trouble=trouble, is_lost=True))

    def _greeted(self, error: str, culprit: str) -> None:
        hello = cast("asyncio.Future[None]", self._hello)
        self._culprit = culprit
        if error:
            self._is_refused = True
            hello.set_exception(
                TemplateError(f"a module of init(preload=...) failed:\n{error}")
            )
        else:
            hello.set_result(None)

    def _forked(self, number: int, pid: int, error: str) -> None:
        self._in_flight -= 1
        worker = self._workers.get(number)
        if worker is None:  # it was ended while the template was stopped
            self._request(REQUEST.pack(KILL, 9, number), [])
        elif pid:
            worker.began(pid)
        else:
            self._gone(worker, ProcessExit(trouble=error))
        self._pump()

    def _gone(self, worker: LaunchedWorker, how: ProcessExit) -> None:
        self._workers.pop(worker.number, None)
        worker.ended(how)

    def _lost(self, _: Exception | None) -> None:
        """The template is gone, and the kernel has killed every worker with it."""
        self._requests.clear()
        self._in_flight = 0
        hello = cast("asyncio.Future[None]", self._hello)
        if not hello.done():
            hello.set_exception(
                TemplateError(f"the template died while it {self._stage}")
            )
            hello.exception()  # whoever waits gets it; nobody may wait any more
            return
        waiting = set(self._queue)
        for worker in [w for w in self._workers.values() if w not in waiting]:
            worker.kill_group()
            self._dying.append(worker)
        self._hello = self._channel = None
        self._come_back()

    def _come_back(self) -> None:
        """Starts the template anew, if that is not under way."""
        if self._restarting is None or self._restarting.done():
            self._restarting = self._loop.create_task(self._restart())

    async def _bury(self) -> None:
        """Ends what is left of the old one, and tells of what was lost with it."""
        await self._end()
        dying, self._dying = self._dying, []
        for worker in dying:
            trouble = "the template process died, and it with it"
            self._gone(worker, ProcessExit(trouble=trouble, is_lost=True))

    async def _restart(self) -> None:
        """Starts it anew, with longer and longer waits while it dies.

        Who waits for a process waits for all of that. What cannot be imported now could
        not be the next time either, and is not tried again before somebody asks.
        """
        for pause in _PAUSES:
            await self._bury()
            await asyncio.sleep(pause)
            try:
                await self.start()
            except TemplateError:
                if self._is_refused:
                    break
            if self._channel is not None:
                return
        await self._bury()
        for worker in [*self._queue]:
            self._gone(worker, ProcessExit(trouble=self._trouble))
        self._queue.clear()


class SpawnLauncher(TemplateLauncher):
    """Starts workers as fresh interpreters: ``python -m actorlib._worker``.

    The template imports nothing for them and is there to watch over them: where no
    process can be told to die with its parent, only a parent that outlives the owner
    leaves nothing behind.
    """

    method = "spawn"

    def __init__(self, loop: asyncio.AbstractEventLoop, *, style: LogStyle) -> None:
        super().__init__(loop, preload=(), style=style)
        # A fresh interpreter has to find this package before it is told sys.path; the
        # user's own processes must not inherit that.
        self.environment = {"PYTHONPATH": os.environ.get("PYTHONPATH")}

    def _template_environment(self) -> dict[str, str]:
        kept = os.environ.get("PYTHONPATH")
        paths = [_PACKAGES, kept] if kept else [_PACKAGES]
        environment = super()._template_environment()
        return {**environment, "PYTHONPATH": os.pathsep.join(paths)}


def _exit_of(status: int, peak: int) -> ProcessExit:
    nbytes = peak * 1024 if sys.platform == "linux" else peak
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return ProcessExit(signal=-code, peak=nbytes)
    return ProcessExit(code=code, peak=nbytes)


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    """Waits for a template that is to end, and ends one that does not."""
    try:
        process.wait(LEAVE_TIMEOUT + 1.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
