"""The owner's side of the template: requests out, reports in.

The template does one thing after the other, so only a few forks are asked for ahead:
a kill never waits behind hundreds of them, and descriptors on their way stay few.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from actorlib._local.descriptors import Room, why
from actorlib._local.launcher import ProcessExit
from actorlib._local.process import LaunchedWorker
from actorlib._local.terminal import Terminal
from actorlib._wire.channel import Channel
from actorlib._wire.control import (
    FAREWELL,
    FORK,
    FORKED,
    HELLO,
    KILL,
    MARK,
    PRELOADING,
    REQUEST,
    mark_of_worker,
)
from actorlib.exceptions import TemplateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._local.log_style import LogStyle
    from actorlib._wire.frames import Frame

_AHEAD = 32
_START_LIMIT = 300.0
_PACKAGES = str(Path(__file__).parents[2])
_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from actorlib._worker.template import main; main()"
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
        self._room = Room()
        self._count = 0
        self._workers: dict[int, LaunchedWorker] = {}
        self._queue: deque[LaunchedWorker] = deque()
        self._in_flight = 0
        self._requests: deque[tuple[bytes, list[int]]] = deque()
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None
        self._channel: Channel | None = None
        self._hello: asyncio.Future[None] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._culprit = ""
        self._trouble = ""
        self._stage = "started"

    async def start(self) -> None:
        """Starts the template and waits until its preloads are imported.

        Raises:
            TemplateError: It did not start, or a preload could not be imported.
        """
        ours, theirs = socket.socketpair()
        self._sock = ours
        self._hello = self._loop.create_future()
        self._channel = Channel(self._loop, ours, self._report, self._lost)
        starting = self._loop.run_in_executor(None, self._popen, theirs.fileno())
        try:
            self._process = await asyncio.shield(starting)
        except OSError as error:
            self._channel.close()
            told = f"the template cannot be started: {why(error)}"
            raise TemplateError(told) from error
        except asyncio.CancelledError:
            # The thread cannot be stopped: what it starts has to be ended.
            await asyncio.wait([starting])
            if starting.exception() is None:
                self._process = starting.result()
            await self._shut()
            raise
        finally:
            theirs.close()
        try:
            async with asyncio.timeout(_START_LIMIT):
                await self._hello
        except TimeoutError as error:
            self._trouble = f"the template {self._stage} for over {_START_LIMIT:g} s"
            await self._shut()
            raise TemplateError(self._trouble) from error
        except BaseException as error:
            self._trouble = str(error)
            await self._shut()
            raise
        self._pump()

    def launch(self, name: str, *, has_devices: bool) -> LaunchedWorker:
        """Starts a worker; see Launcher."""
        if has_devices and self._culprit:
            raise TemplateError(
                f"{name} uses an accelerator, and the preload {self._culprit} has "
                "initialised one in the template: a fork of it could not use any. "
                "Take it out of init(preload=[...]), or use start_method='spawn'"
            )
        if self._channel is None:
            raise TemplateError(self._trouble or "the template is closed")
        self._room.make((len(self._workers) + 1) * _DESCRIPTORS)
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
            self._request(REQUEST.pack(KILL, 9, worker.number), [])

    def forsake(self) -> None:
        """In a fork: the template is its parent's; see Launcher."""
        if self._channel is not None:
            self._channel.forsake()
        self._process = None
        self._requests.clear()
        for worker in self._workers.values():
            worker.forsake()
        self._workers.clear()

    async def aclose(self) -> None:
        """Ends the template, and with it whatever is still there."""
        if self._restarting is not None and not self._restarting.done():
            self._restarting.cancel()
            await asyncio.wait([self._restarting])
        await self._shut()
        self._terminal.close()
        self._room.restore()

    async def _shut(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        process, self._process = self._process, None
        if process is not None:
            try:
                await asyncio.to_thread(process.wait, FAREWELL + 1.0)
            except subprocess.TimeoutExpired:
                process.kill()
                await asyncio.to_thread(process.wait)
        self._queue.clear()
        for worker in list(self._workers.values()):
            self._gone(worker, ProcessExit(signal=9, trouble=self._trouble))

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
        self._room.spare(process.pid)
        return process

    def _template_environment(self) -> dict[str, str]:
        return {**os.environ, MARK: mark_of_worker(self._mark, 0)}

    # Requests.

    def _pump(self) -> None:
        if self._hello is None or not self._hello.done():
            return
        while self._queue and self._in_flight < _AHEAD:
            worker = self._queue.popleft()
            try:
                descriptors = worker.open_output(self._terminal)
            except OSError as error:
                self._gone(worker, ProcessExit(trouble=why(error)))
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
            if descriptors:
                self._workers[REQUEST.unpack(record)[2]].close_theirs()

    def _send_more(self) -> None:
        self._loop.remove_writer(cast("socket.socket", self._sock).fileno())
        self._send_requests()

    # Reports.

    def _report(self, frames: list[Frame]) -> None:
        for frame in frames:
            if frame[0] == HELLO:
                self._greeted(*frame[1:])
            elif frame[0] == PRELOADING:
                self._stage = f"imported {frame[1]}"
            elif frame[0] == FORKED:
                self._forked(*frame[1:])
            else:
                _, number, status, peak = frame
                worker = self._workers.get(number)
                if worker is not None:
                    self._gone(worker, _exit_of(status, peak))

    def _greeted(self, error: str, culprit: str) -> None:
        hello = cast("asyncio.Future[None]", self._hello)
        self._culprit = culprit
        if error:
            hello.set_exception(
                TemplateError(f"a module of init(preload=...) failed:\n{error}")
            )
        else:
            hello.set_result(None)

    def _forked(self, number: int, pid: int, error: str) -> None:
        self._in_flight -= 1
        worker = self._workers[number]
        if pid:
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
            self._gone(
                worker, ProcessExit(trouble="the template process died, and it with it")
            )
        self._hello = None
        self._restarting = self._loop.create_task(self._restart())

    async def _restart(self) -> None:
        process = self._process
        if process is not None:
            await asyncio.to_thread(process.wait)
        with suppress(TemplateError):  # told to whoever waits, and to whoever comes
            await self.start()


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
